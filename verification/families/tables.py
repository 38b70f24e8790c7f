"""Fixed-point tables that router-like families look up: sigmoid and Zipf weights, the same on every machine.

The sigmoid comes from `decimal`, whose exp is correctly rounded and defined to the last digit, not from the
platform's libm; the rounding to an integer is exact.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache

import torch

SIGMOID_BITS = 10
"""Bits of the logit that indexes the sigmoid table."""
_SIGMOID_ONE = 1 << 16
_LOGIT_LIMIT = 8
_ZIPF_ONE = 1 << 20
_CONTEXT = Context(prec=30, rounding=ROUND_HALF_EVEN)


@lru_cache(maxsize=1)
def sigmoid() -> torch.Tensor:
    """Return round(2^16 / (1 + exp(-x))) for 2^10 logits x in steps of 1/64 from -8 up: int64 (1024,)."""
    entries = 1 << SIGMOID_BITS
    values = []
    for index in range(entries):
        logit = _CONTEXT.divide(Decimal(_LOGIT_LIMIT * (2 * index - entries)), Decimal(entries))
        one_plus = _CONTEXT.add(Decimal(1), _CONTEXT.exp(-logit))
        values.append(
            int(_CONTEXT.divide(Decimal(_SIGMOID_ONE), one_plus).to_integral_value(ROUND_HALF_EVEN))
        )
    return torch.tensor(values)


@lru_cache(maxsize=32)
def zipf_cumulative(num_experts: int) -> torch.Tensor:
    """Return the running sums of floor(2^20 / rank) for ranks 1..E (at least 1 each): int64 (E,).

    Exponent 1; the total stays below 2^31 for up to 2^16 experts.
    """
    ranks = torch.arange(1, num_experts + 1)
    return torch.div(_ZIPF_ONE, ranks, rounding_mode="floor").cumsum(0)
