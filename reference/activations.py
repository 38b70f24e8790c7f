"""What stands between the two GEMMs of an expert, rounded to the row type before it is quantized.

| name | of (rows, 2n) or (rows, n) | gated |
|---|---|---|
| `silu` | silu(gate) * up, the gate in the first n columns (`silu.silu_and_mul`) | yes |
| `silu_no_mul` | silu(x): its correctly rounded float32 value (`silu.silu`), rounded once more | no |
| `relu2_no_mul` | max(x, 0)^2: the square in float32, rounded once | no |

The names are vLLM's. Only `silu`, which a quantizer computes on its way, depends on the arithmetic. NaN results are the
positive quiet NaN of the type; relu2 of NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import Arithmetic, Operations, keeps_subnormals
from nvfp4_moe.reference.silu import silu, silu_and_mul

Apply = Callable[[Tensor, Arithmetic | str | Operations], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A named activation."""

    name: str
    is_gated: bool
    """Whether the first GEMM makes gate and up."""
    apply: Apply
    """(input bf16 or f16, arithmetic) to the activated rows of the same type."""


@keeps_subnormals
def _silu_no_mul(rows: Tensor, arithmetic: Arithmetic | str | Operations) -> Tensor:
    del arithmetic
    return _rounded(silu(rows), rows.dtype)


@keeps_subnormals
def _relu2_no_mul(rows: Tensor, arithmetic: Arithmetic | str | Operations) -> Tensor:
    del arithmetic
    positive = rows.to(torch.float32).clamp(min=0.0)
    return _rounded(positive * positive, rows.dtype)


def _rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    return values.to(dtype).masked_fill_(values.isnan(), torch.nan)


ACTIVATIONS: dict[str, Activation] = {
    activation.name: activation
    for activation in (
        Activation(
            name="silu",
            is_gated=True,
            apply=lambda rows, arithmetic: silu_and_mul(rows, arithmetic=arithmetic),
        ),
        Activation(name="silu_no_mul", is_gated=False, apply=_silu_no_mul),
        Activation(name="relu2_no_mul", is_gated=False, apply=_relu2_no_mul),
    )
}
"""Every activation by its name."""


def activation_named(name: str) -> Activation:
    """Return an activation.

    Raises:
        ValueError: unknown name.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]
