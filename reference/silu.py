"""SiLU and the gated product before quantization: ``round(float32(silu(gate)) * up)``, rounded to the input type.

Arithmetic ``ieee``: silu(x) = x / (1 + e^-x) is the **real value rounded once** to float32; then one float32 product
with `up`; then one rounding to the dtype of the input. For 16-bit inputs silu is a table over all 65,536 bit
patterns, computed in float64, which carries 29 bits more than float32. What could go wrong is a real value so close to
the middle between two float32 numbers that the error of float64 decides. From |x| = 2^-12 on no input of either type
lies within 800 float64 ulp of a middle, so any reasonable exp gives the same table. Below, silu(x) = x/2 + x^2/4 -
x^4/48 + ... comes as close as 2^-75, and the series, whose first two terms are exact there, is used instead; the tests
compute every such input in multiple precision. Below 2^-125, where x/2 itself may be the middle between two float32
subnormals, x^2/4 puts the value above it for either sign of x: a tie is rounded up. For float32 inputs the same
formulas are applied to each element: the result is the correctly rounded one except where, from 2^-125 on, the real
value lies within a few float64 ulp of a middle - about one random input in 10^8 - and there it is a neighbouring
float32.

Arithmetic ``hardware``: the table of a chip in place of the first step (16-bit inputs only).

Special values: silu(-Inf) is the limit -0.0, silu(+Inf) = +Inf, silu(+-0) = +-0; a large negative gate underflows to
-0.0 below about -109. Any NaN result (a NaN operand, Inf * 0) is the positive quiet NaN of the dtype, so that bytes
agree between machines whose NaN signs differ.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from nvfp4_moe.reference.arithmetic import Arithmetic, Operations, keeps_subnormals, operations
from nvfp4_moe.reference.checks import check_input

BIT_PATTERNS = 2**16
"""Values of a 16-bit type."""
SERIES_BELOW = 2.0**-12
"""Magnitude from which the quotient is used; the fourth term of the series is 2^-68 of the value there."""
HALF_IS_SUBNORMAL_BELOW = 2.0**-125
"""Magnitude from which x/2 is a normal float32, and so exact."""
PIECE_ELEMENTS = 2**18
"""Elements of gate and up that are worked on at once, in float32 that stays in cache."""


@keeps_subnormals
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
    check_input("gate_up", gate_up, gated=True)
    ops = operations(arithmetic)
    width = gate_up.shape[-1]
    rows = gate_up.detach().reshape(-1, width)
    result = torch.empty((len(rows), width // 2), dtype=gate_up.dtype, device=gate_up.device)
    rows_of_piece = max(1, PIECE_ELEMENTS // width)
    for piece, out in zip(rows.split(rows_of_piece), result.split(rows_of_piece), strict=True):
        gate, up = piece.chunk(2, dim=-1)
        product = silu(gate, arithmetic=ops) * up.to(torch.float32)
        out.copy_(product)
        # Filled after the rounding: torch's vectorised conversion to bf16 has NaN bits of its own.
        out.masked_fill_(product.isnan(), torch.nan)
    return result.view(*gate_up.shape[:-1], width // 2)


@keeps_subnormals
def silu(gate: torch.Tensor, *, arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE) -> torch.Tensor:
    """Return SiLU of bf16, f16 or f32 `gate` as float32, same shape."""
    measured = operations(arithmetic).silu_table(gate.dtype)
    if gate.dtype == torch.float32:
        return _silu_rounded_once(gate)
    table = silu_table(gate.dtype) if measured is None else measured
    patterns = gate.contiguous().view(torch.int16).view(-1).to(torch.int32).bitwise_and_(BIT_PATTERNS - 1)
    return table.to(gate.device).index_select(0, patterns).view(gate.shape)


@lru_cache(maxsize=2)
@keeps_subnormals
def silu_table(dtype: torch.dtype) -> torch.Tensor:
    """Return the ``ieee`` SiLU of every input of a 16-bit float dtype: float32 (2^16,), entry i for the bits i."""
    patterns = torch.arange(BIT_PATTERNS, dtype=torch.int32).to(torch.int16)
    return _silu_rounded_once(patterns.view(dtype).to(torch.float32))


def _silu_rounded_once(gate: torch.Tensor) -> torch.Tensor:
    """Return the real value of SiLU of float32 `gate`, computed in float64, rounded to float32."""
    x = gate.to(torch.float64)
    series = x / 2 + x * x / 4 - x**4 / 48
    values = torch.where(x.abs() < SERIES_BELOW, series, x / (1 + torch.exp(-x)))
    # The next float64 stands for x/2 + x^2/4: above x/2, and below every other float32 and every other middle.
    above_half = torch.nextafter(x / 2, torch.full_like(x, torch.inf))
    values = torch.where(x.abs() < HALF_IS_SUBNORMAL_BELOW, above_half, values)
    values = torch.where(x == 0, x, values)
    values = torch.where(x == -torch.inf, -0.0, values)
    return torch.where(x.isnan(), torch.nan, values).to(torch.float32)
