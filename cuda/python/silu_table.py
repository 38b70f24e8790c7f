"""SiLU of every 16-bit input, rounded once: the table that arithmetic `ieee` of the fused kernels reads.

Entry i is the real number x / (1 + exp(-x)), x the input with bits i, rounded to float32 (nearest, ties to even;
subnormals kept). NaN gives NaN; the limits are silu(+Inf) = +Inf and silu(-Inf) = -0.

The value is computed in float64, whose result is off by less than 2^-50 of itself. Where that leaves the rounding to
float32 in doubt, the input is computed again with 60 decimal digits.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache

import torch

DOUBT = 2.0**-46
"""Relative distance within which float64 is not trusted to fall on the right side of a rounding boundary."""
DIGITS = 60


@cache
def silu_table(dtype: torch.dtype) -> torch.Tensor:
    """Return float32 (65536,) on the CPU.

    Raises:
        TypeError: neither bfloat16 nor float16.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"a SiLU table is over bfloat16 or float16 inputs, got {dtype}")
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).to(torch.float64)
    x = torch.roll(x, -(2**15))  # entry i has the bits i
    value = x / (1.0 + torch.exp(-x))
    value = torch.where(torch.isneginf(x), -0.0, value)
    table = value.to(torch.float32)
    low = (value * (1.0 - DOUBT)).to(torch.float32)
    high = (value * (1.0 + DOUBT)).to(torch.float32)
    for i in torch.nonzero((low != high) & torch.isfinite(x)).flatten().tolist():
        table[i] = _silu_exactly(float(x[i]))
    return table


def _silu_exactly(x: float) -> float:
    """Return the float32 nearest to the real value for one finite x."""
    with localcontext() as context:
        context.prec = DIGITS
        exact = Decimal(x) / (1 + (-Decimal(x)).exp())
        nearest = torch.tensor(float(exact), dtype=torch.float32)
        candidates = [nearest, *(torch.nextafter(nearest, torch.tensor(to)) for to in (-math.inf, math.inf))]
        # Ties cannot occur: SiLU of a non-zero rational is irrational.
        return float(min(candidates, key=lambda candidate: abs(Decimal(float(candidate)) - exact)))
