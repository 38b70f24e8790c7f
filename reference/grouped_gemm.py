"""Grouped NVFP4 GEMM: every expert's rows times its own weights, accumulated exactly.

For row r of expert e and column n, with a = code * SF of the row, b = code * SF of the weight (both exact):

    sum    = sum over k of a[r, k] * b[e, n, k]      exact, in units of 2^-20
    acc    = sum, rounded once to float32
    scaled = alpha[e] * acc                          one float32 product
    out    = scaled, rounded once to the output type

Why the sum can be exact: a code is a multiple of 2^-1 and at most 6, a scale a multiple of 2^-9 and at most 448, so an
operand is a multiple of 2^-10 and at most 2688, and a product a multiple of 2^-20 and at most 2688^2 < 2^23. The sum
over 1,024 columns stays below 2^53 units: float64 holds every partial sum of it exactly, whatever the order, with or
without fused multiply-adds. Such pieces are added as int64, which holds the sum of 2^19 columns.

`sums_in_order` is the same with float32 additions in one stated order: one accumulator, columns ascending from +0. The
products are exact in float32 (at most 12 significant bits), so a fused multiply-add gives the same bits.

A NaN scale byte makes its row, or its weight's column, NaN. Rows that no expert owns are zero in the result.

Source: vLLM `cutlass_fp4_group_mm` (nvfp4_blockwise_moe_kernel.cu) for operands, offsets and alpha; its scale strides
are unpadded, here they are those of the padded layout, in writer and reader alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import keeps_subnormals
from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, unpack
from nvfp4_moe.reference.checks import check_offsets
from nvfp4_moe.reference.expert_layouts import experts_from_layout
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.layouts import from_layout

UNIT_BITS = 20
"""Products are multiples of 2^-20: twice the ten fraction bits of an operand."""
UNIT = 2.0**-UNIT_BITS
PIECE_COLUMNS = 1024
"""Columns over which every partial sum stays below 2^53 units."""
OUTPUT_DTYPES = (torch.bfloat16, torch.float16)
LAYOUT = "swizzled_128x4"


@dataclass(frozen=True, kw_only=True, eq=False)
class Operands:
    """The exact values that a grouped GEMM multiplies, and whose rows are whose."""

    a: Tensor
    """float64 (T, K): routed rows, in expert order."""
    b: Tensor
    """float64 (E, N, K)."""
    alphas: Tensor
    """float32 (E,)."""
    expert_offsets: tuple[int, ...]
    """E + 1 prefix sums of the routed rows."""

    @cached_property
    def alpha_of_row(self) -> Tensor:
        """float32 (T, 1)."""
        counts = torch.tensor(self.expert_offsets, device=self.alphas.device).diff()
        return torch.repeat_interleave(self.alphas, counts)[:, None]

    @cached_property
    def units(self) -> Tensor:
        """The exact sums in units of 2^-20: int64 (T, N); 0 where the sum is NaN."""
        return self._per_expert(_exact_units, torch.int64)

    @cached_property
    def is_nan(self) -> Tensor:
        """bool (T, N): a scale of the row or of the column is NaN."""
        return self._per_expert(_any_nan, torch.bool)

    @cached_property
    def magnitude(self) -> Tensor:
        """The sums of |a * b|, what error bounds scale with: float64 (T, N), correct to 2^-52 of itself."""
        return self._per_expert(lambda a, b: _finite(a).abs() @ _finite(b).abs().T, torch.float64)

    @cached_property
    def values(self) -> Tensor:
        """alpha * sum in float64 (T, N): two roundings of float64, NaN where the sum is."""
        exact = self.units.to(torch.float64) * UNIT * self.alpha_of_row.to(torch.float64)
        return exact.masked_fill(self.is_nan, torch.nan)

    def _per_expert(self, of: OfOperands, dtype: torch.dtype) -> Tensor:
        result = torch.zeros((len(self.a), self.b.shape[1]), dtype=dtype, device=self.a.device)
        for expert, (first, end) in enumerate(
            zip(self.expert_offsets[:-1], self.expert_offsets[1:], strict=True)
        ):
            if end > first:
                result[first:end] = of(self.a[first:end], self.b[expert])
        return result


OfOperands = Callable[[Tensor, Tensor], Tensor]
"""(rows, K) and (N, K) to (rows, N)."""


def read_operands(
    a: Tensor,
    b: Tensor,
    a_blockscale: Tensor,
    b_blockscale: Tensor,
    alphas: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
) -> Operands:
    """Return what the GEMM multiplies, read from the buffers as the protocol lays them out.

    Args:
        a: uint8 (rows, K/2), rows in expert order; those at or after expert_offsets[E] are not read.
        b: uint8 (E, N, K/2).
        a_blockscale: uint8 or float8_e4m3fn (scale rows, 4 * ceil(K/64)), swizzled_128x4.
        b_blockscale: uint8 or float8_e4m3fn (E, round_up(N, 128), 4 * ceil(K/64)), swizzled_128x4.
        alphas: float32 (E,).
        expert_offsets: int32 or int64 (E + 1,), prefix sums of the routed rows.
        blockscale_offsets: int32 or int64 (E + 1,), first scale row of each expert.

    Raises:
        TypeError: another dtype.
        ValueError: shapes that do not belong together, K no multiple of 16, offsets that do not fit the rows.
    """
    for name, codes, dims in (("a", a, 2), ("b", b, 3)):
        if codes.dtype != torch.uint8:
            raise TypeError(f"{name} must be uint8, got {codes.dtype}")
        if codes.dim() != dims:
            raise ValueError(f"{name} must have {dims} dimensions, got shape {tuple(codes.shape)}")
    experts, n, half_k = b.shape
    if a.shape[1] != half_k or half_k == 0 or 2 * half_k % NVFP4.block_size:
        raise ValueError(
            f"a and b must be packed rows of one K, a multiple of {NVFP4.block_size}, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if alphas.dtype != torch.float32 or tuple(alphas.shape) != (experts,):
        raise ValueError(f"alphas must be float32 ({experts},), got {alphas.dtype} {tuple(alphas.shape)}")
    offsets = check_offsets("expert_offsets", expert_offsets)
    if len(offsets) != experts + 1:
        raise ValueError(f"expert_offsets must have E + 1 = {experts + 1} entries, got {len(offsets)}")
    if offsets[-1] > len(a):
        raise ValueError(f"expert_offsets own {offsets[-1]} rows, a has {len(a)}")
    k = 2 * half_k
    a_scale = experts_from_layout(a_blockscale, expert_offsets, blockscale_offsets, k=k, layout=LAYOUT)
    b_scale = from_layout(b_blockscale, n, k, LAYOUT)
    return Operands(
        a=exact_operand(a[: offsets[-1]], a_scale),
        b=exact_operand(b, b_scale),
        alphas=alphas,
        expert_offsets=tuple(offsets),
    )


def exact_operand(packed: Tensor, block_scale: Tensor) -> Tensor:
    """Return code * SF as float64 (..., K) for packed (..., K/2) and linear block_scale (..., K/16), both uint8."""
    codes = decode_e2m1(unpack(packed))
    blocks = codes.view(*block_scale.shape, NVFP4.block_size)
    scaled: Tensor = blocks * decode_ue4m3(block_scale).unsqueeze(-1)
    return scaled.view(codes.shape).to(torch.float64)


@keeps_subnormals
def grouped_gemm(operands: Operands, *, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return `out` of the module's formula, (T, N) of `dtype`.

    Raises:
        TypeError: neither bfloat16 nor float16.
    """
    accumulated = operands.units.to(torch.float32) * UNIT
    return _finish(operands, accumulated.masked_fill(operands.is_nan, torch.nan), dtype)


@keeps_subnormals
def grouped_gemm_in_order(operands: Operands, *, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return (T, N) of `dtype` with `sums_in_order` in place of the exact sum."""
    return _finish(operands, operands._per_expert(sums_in_order, torch.float32), dtype)


def sums_in_order(a: Tensor, b: Tensor) -> Tensor:
    """Return float32 (M, N): products of a (M, K) and b (N, K) added one by one, columns ascending from +0."""
    left, right = a.to(torch.float32), b.to(torch.float32)
    total = torch.zeros((len(left), len(right)), dtype=torch.float32, device=left.device)
    for column in range(left.shape[1]):
        total += left[:, column, None] * right[None, :, column]
    return total


def _finish(operands: Operands, accumulated: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype not in OUTPUT_DTYPES:
        raise TypeError(f"the output must be {' or '.join(map(str, OUTPUT_DTYPES))}, got {dtype}")
    scaled = operands.alpha_of_row * accumulated
    # Filled after the rounding: torch's vectorised conversion to bf16 has NaN bits of its own.
    return scaled.to(dtype).masked_fill_(scaled.isnan(), torch.nan)


def _exact_units(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros((len(a), len(b)), dtype=torch.int64, device=a.device)
    for left, right in zip(
        _finite(a).split(PIECE_COLUMNS, 1), _finite(b).split(PIECE_COLUMNS, 1), strict=True
    ):
        total += (left @ right.T * 2.0**UNIT_BITS).to(torch.int64)
    return total


def _finite(operand: Tensor) -> Tensor:
    return operand.nan_to_num(0.0)


def _any_nan(a: Tensor, b: Tensor) -> Tensor:
    return a.isnan().any(1)[:, None] | b.isnan().any(1)[None, :]
