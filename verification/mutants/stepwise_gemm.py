"""A grouped GEMM whose parts can be replaced one at a time, like the quantizer in `stepwise`.

`GemmSteps()` is right: it is the golden model's exact GEMM, on any device. A variant replaces one part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import keeps_subnormals
from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, unpack
from nvfp4_moe.reference.expert_layouts import experts_from_layout
from nvfp4_moe.reference.grouped_gemm import UNIT, Operands
from nvfp4_moe.reference.layouts import from_layout
from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.mutants.mutant import SubjectMutant
from nvfp4_moe.verification.mutants.wrap import GEMM, GemmCall

BLOCK = 16
LAYOUT = "swizzled_128x4"
NAMES = tuple(field.name for field in fields(GemmCall))
"""Arguments in the order of the protocol."""


@dataclass(frozen=True, eq=False)
class RowScales:
    """What the scales of the rows are read from."""

    buffer: Tensor
    """uint8 (scale rows, 4*ceil(K/64))."""
    ends: Tensor
    """(E + 1,) prefix sums of the rows."""
    starts: Tensor
    """(E + 1,) first scale row of each expert, and the end of the last one's."""
    k: int


def scales_of_rows(given: RowScales) -> Tensor:
    """Return the linear scales (T, K/16)."""
    return experts_from_layout(given.buffer, given.ends, given.starts, k=given.k, layout=LAYOUT)


def scales_of_weights(buffer: Tensor, n: int, k: int) -> Tensor:
    """Return the linear scales (E, N, K/16) of a buffer (E, padded N, 4*ceil(K/64))."""
    return from_layout(buffer, n, k, LAYOUT)


def alpha_of_row(alphas: Tensor, ends: Tensor) -> Tensor:
    """Return the factor of each row, (T,)."""
    return torch.repeat_interleave(alphas, ends.long().diff())


def sums(operands: Operands) -> Tensor:
    """Return the exact sums, each rounded once to float32, (T, N)."""
    rounded = operands.units.to(torch.float32) * UNIT
    return rounded.masked_fill(operands.is_nan, torch.nan)


def finish(accumulated: Tensor, alpha: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the output (T, N) for float32 sums and the factors (T, 1)."""
    scaled = alpha * accumulated
    return scaled.to(dtype).masked_fill_(scaled.isnan(), torch.nan)


@dataclass(frozen=True, kw_only=True)
class GemmSteps:
    """The parts of a grouped GEMM."""

    unpack: Callable[[Tensor], Tensor] = unpack
    """Of the weights' codes."""
    codes: Callable[[Tensor], Tensor] = decode_e2m1
    scales: Callable[[Tensor], Tensor] = decode_ue4m3
    scales_of_rows: Callable[[RowScales], Tensor] = scales_of_rows
    scales_of_weights: Callable[[Tensor, int, int], Tensor] = scales_of_weights
    sums: Callable[[Operands], Tensor] = sums
    alpha_of_row: Callable[[Tensor, Tensor], Tensor] = alpha_of_row
    finish: Callable[[Tensor, Tensor, torch.dtype], Tensor] = finish

    def operand(self, codes: Tensor, scales: Tensor) -> Tensor:
        """Return code * SF as float64 (..., K) for codes (..., K) and linear scale bytes (..., K/16)."""
        factors = self.scales(scales).to(torch.float64).repeat_interleave(BLOCK, dim=-1)
        return self.codes(codes).to(torch.float64) * factors


def gemm(steps: GemmSteps, right: Callable[..., None]) -> Callable[..., None]:
    """Return the operation `cutlass_fp4_moe_mm` made of steps; what is outside the domain the right one refuses."""

    @keeps_subnormals
    def operation(*arguments: Tensor) -> None:
        right(*arguments)
        call = GemmCall(**dict(zip(NAMES, arguments, strict=True)))
        k, n, routed = 2 * call.a.shape[1], call.b.shape[1], call.routed_rows
        counts = call.problem_sizes[:, 0].long()
        ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        padded = torch.div(counts + (TILE - 1), TILE, rounding_mode="floor") * TILE
        starts = torch.cat([padded.new_zeros(1), padded.cumsum(0)])
        rows = RowScales(call.a_blockscale.view(torch.uint8), ends, starts, k)
        weights = steps.scales_of_weights(call.b_blockscale.view(torch.uint8), n, k)
        operands = Operands(
            a=steps.operand(unpack(call.a[:routed]), steps.scales_of_rows(rows)),
            b=steps.operand(steps.unpack(call.b), weights),
            alphas=call.alphas,
            expert_offsets=tuple(ends.tolist()),
        )
        alpha = steps.alpha_of_row(call.alphas, ends).unsqueeze(1)
        call.out[:routed] = steps.finish(steps.sums(operands), alpha, call.out.dtype)

    return operation


def wrong_gemm(make: Callable[[], GemmSteps], *, in_order: bool = False) -> SubjectMutant:
    """Return the target of a variant with the steps that `make` gives, anew in each process."""

    def factory(right: Subject) -> Subject:
        only = {GEMM: gemm(make(), right.operations[GEMM])}
        return Subject("stepwise GEMM", right.device, right.contract, **only)

    return SubjectMutant(factory=factory, base="reference", in_order=in_order)
