"""SiLU and the gated product before quantization: ``round(float32(silu(gate)) * up)``, rounded to the input type.

Arithmetic ``ieee``: silu(x) = x / (1 + e^-x) is the **real value rounded once** to float32; then one float32 product
with `up`; then one rounding to the dtype of the input. For 16-bit inputs silu is a table over all 65,536 bit
patterns, computed in float64: float64 carries 29 bits more than float32, and no input of either type lies close
enough to a float32 rounding boundary for an error of a few float64 ulp to matter (the tests check every input with
multiple-precision arithmetic). For float32 inputs the same float64 formula is applied to each element: the result is
the correctly rounded one except where the real value lies within about 2^-50 of a rounding boundary, relative to
the value - about one random input in 10^8 - and there it is a neighbouring float32.

Arithmetic ``hardware``: the table of a chip in place of the first step (16-bit inputs only).

Special values: silu(-Inf) is the limit -0.0, silu(+Inf) = +Inf, silu(+-0) = +-0; a large negative gate underflows to
-0.0 below about -109. Any NaN result (a NaN operand, Inf * 0) is the positive quiet NaN of the dtype, so that bytes
agree between machines whose NaN signs differ.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from nvfp4_moe.reference.arithmetic import Arithmetic, Operations, operations, subnormals_kept
from nvfp4_moe.reference.input_checks import check_input

BIT_PATTERNS = 2**16
"""Values of a 16-bit type."""


def silu_and_mul(
    gate_up: torch.Tensor, *, arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE
) -> torch.Tensor:
    """Return silu(gate) * up.

    Args:
        gate_up: bf16, f16 or f32 (..., 2K), the gate in the first half of the columns; K a multiple of 16.
        arithmetic: "ieee", "hardware", or operations.

    Returns:
        (..., K) in the dtype of the input.

    Raises:
        TypeError: wrong dtype, or float32 with arithmetic "hardware".
        ValueError: 2K no positive multiple of 32, or unknown arithmetic.
        MissingTableError: arithmetic "hardware" without a measured table.
    """
    check_input("gate_up", gate_up, dims=gate_up.dim(), gated=True)
    gate, up = gate_up.chunk(2, dim=-1)
    with subnormals_kept():
        product = silu(gate, arithmetic=arithmetic) * up.to(torch.float32)
        return torch.where(product.isnan(), torch.nan, product).to(gate_up.dtype)


def silu(gate: torch.Tensor, *, arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE) -> torch.Tensor:
    """Return SiLU of bf16, f16 or f32 `gate` as float32, same shape."""
    measured = operations(arithmetic).silu_table(gate.dtype)
    if gate.dtype == torch.float32:
        return _silu_rounded_once(gate)
    table = silu_table(gate.dtype) if measured is None else measured
    patterns = gate.contiguous().view(torch.int16).to(torch.int32) & (BIT_PATTERNS - 1)
    return table.to(gate.device)[patterns]


@lru_cache(maxsize=2)
def silu_table(dtype: torch.dtype) -> torch.Tensor:
    """Return the ``ieee`` SiLU of every input of a 16-bit float dtype: float32 (2^16,), entry i for the bits i."""
    patterns = torch.arange(BIT_PATTERNS, dtype=torch.int32).to(torch.int16)
    with subnormals_kept():
        return _silu_rounded_once(patterns.view(dtype).to(torch.float32))


def _silu_rounded_once(gate: torch.Tensor) -> torch.Tensor:
    """Return the real value of SiLU, computed in float64, rounded to float32."""
    wide = gate.to(torch.float64)
    values = (wide / (1 + torch.exp(-wide))).to(torch.float32)
    values = torch.where(gate == -torch.inf, -0.0, values)
    return torch.where(gate.isnan(), torch.nan, values)
