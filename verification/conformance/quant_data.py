"""Inputs of a quantizer case, its true outputs, and what each output byte is: data for the judgement, made twice.

The inputs that a subject gets and those that the golden model gets are made separately from the case, so that a
subject that changes its inputs cannot change what is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.expert_layouts import experts_from_layout, experts_to_layout
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.padding import TILE, ceil_div, round_up
from nvfp4_moe.verification.conformance.admissible import admissible, exact_interval, silu_interval
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.values import make_global_scales, make_values

SWIZZLED = "swizzled_128x4"
FUSED = "silu_and_mul_scaled_fp4_experts_quant"


class Kind(IntEnum):
    """What a byte of the scale buffer is."""

    ROW_PADDING = 0
    """A row that rounds an expert up to the tile."""
    VALID = 1
    K_PADDING = 2
    """A column past the last block, in a row that an expert owns."""
    BEYOND = 3
    """At or after row S: nothing may touch it."""


@dataclass(frozen=True, eq=False)
class QuantInputs:
    """The tensors that a quantizer reads, on the CPU."""

    input: torch.Tensor
    """(rows, K) or (rows, 2K), bf16 or f16; rows at and after T are zero here and poisoned by the harness."""
    global_scale: torch.Tensor
    """f32 (E,), encode direction."""
    expert_offsets: torch.Tensor
    blockscale_offsets: torch.Tensor
    """int32 (E+1,) both."""

    @property
    def routed_rows(self) -> int:
        return int(self.expert_offsets[-1])

    @property
    def padded_rows(self) -> int:
        return int(self.blockscale_offsets[-1])


def make_inputs(case: QuantCase) -> QuantInputs:
    """Return the inputs of a case."""
    counts = torch.tensor(case.tokens_per_expert, dtype=torch.int32)
    padded = (counts + (TILE - 1)) // TILE * TILE
    zero = torch.zeros(1, dtype=torch.int32)
    routed = int(counts.sum())
    columns = case.k * (2 if case.operation == FUSED else 1)
    values = torch.zeros(case.rows, columns, dtype=torch.bfloat16 if case.dtype == "bf16" else torch.float16)
    values[:routed] = make_values(
        case.values, seed=case.seed, index=case.index, rows=routed, columns=columns, dtype=case.dtype
    )
    if case.operation == FUSED:
        values[:, : case.k] = _spread_gate(values[:, : case.k])
    return QuantInputs(
        input=values,
        global_scale=make_global_scales(
            case.global_scales, seed=case.seed, index=case.index, experts=len(counts)
        ),
        expert_offsets=torch.cat([zero, counts.cumsum(0, dtype=torch.int32)]),
        blockscale_offsets=torch.cat([zero, padded.cumsum(0, dtype=torch.int32)]),
    )


def _spread_gate(gate: torch.Tensor) -> torch.Tensor:
    """Move every other finite gate value up by 2^5, into the range where SiLU bends; exact in both types."""
    moved = gate.clone()
    moved[:, 1::2] = torch.where(gate[:, 1::2].abs() < 1024, gate[:, 1::2] * 32, gate[:, 1::2])
    return moved


def true_outputs(case: QuantCase, contract: Contract, ops: Operations) -> tuple[torch.Tensor, torch.Tensor]:
    """Return packed uint8 (rows, K/2) and scales uint8 (scale rows, 4*ceil(K/64)) of the golden model."""
    inputs = make_inputs(case)
    quantize = silu_and_mul_quantize_experts if case.operation == FUSED else quantize_experts
    true = quantize(
        inputs.input,
        inputs.global_scale,
        inputs.expert_offsets,
        blockscale_offsets=inputs.blockscale_offsets,
        layout=SWIZZLED,
        scale_rows=inputs.padded_rows + case.extra_scale_rows,
        recipe=contract.recipe,
        arithmetic=ops,
    )
    return true.packed, true.block_scale


def admissible_bytes(
    case: QuantCase, packed: torch.Tensor, scales: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which bytes of a subject's outputs documented errors can reach; padding never is.

    Args:
        case: of the outputs.
        packed: uint8 (rows, K/2).
        scales: uint8 (scale rows, 4*ceil(K/64)), swizzled.

    Returns:
        bool tensors of the same shapes.
    """
    inputs = make_inputs(case)
    routed = inputs.routed_rows
    values = inputs.input[:routed]
    fused = case.operation == FUSED
    gate, up = values.chunk(2, dim=-1)
    signs = values.signbit() if not fused else gate.signbit() ^ up.signbit()
    counts = inputs.expert_offsets.diff()
    linear = experts_from_layout(
        scales, inputs.expert_offsets, inputs.blockscale_offsets, k=case.k, layout=SWIZZLED
    )
    packed_ok, scales_ok = admissible(
        packed[:routed],
        linear[:routed],
        magnitudes=silu_interval(values) if fused else exact_interval(values),
        signs=signs,
        global_scale=torch.repeat_interleave(inputs.global_scale, counts)[:, None],
    )
    whole = torch.zeros(packed.shape, dtype=torch.bool)
    whole[:routed] = packed_ok
    swizzled = experts_to_layout(
        scales_ok.to(torch.uint8),
        inputs.expert_offsets,
        inputs.blockscale_offsets,
        layout=SWIZZLED,
        scale_rows=scales.shape[0],
    )
    return whole, swizzled.to(torch.bool)


def scale_kinds(case: QuantCase, inputs: QuantInputs) -> torch.Tensor:
    """Return uint8 (scale rows, 4*ceil(K/64)): the `Kind` of each byte of the swizzled buffer."""
    blocks = case.k // 16
    columns = round_up(blocks, 4)
    linear = torch.full((inputs.routed_rows, columns), int(Kind.K_PADDING), dtype=torch.uint8)
    linear[:, :blocks] = int(Kind.VALID)
    rows = inputs.padded_rows + case.extra_scale_rows
    kinds = experts_to_layout(
        linear, inputs.expert_offsets, inputs.blockscale_offsets, layout=SWIZZLED, scale_rows=rows
    )
    kinds[inputs.padded_rows :] = int(Kind.BEYOND)
    return kinds


def scale_position(case: QuantCase, inputs: QuantInputs, byte: int) -> tuple[int, int, int]:
    """Return (expert, row of the expert, scale column) of a byte of the swizzled buffer; expert -1 beyond S.

    The inverse of the 128x4 map: byte = ((row/128)*KT + col/4)*512 + (row%32)*16 + ((row%128)/32)*4 + col%4.
    """
    tiles = ceil_div(case.k, 64)
    tile, inner = divmod(byte, 512)
    row = tile // tiles * 128 + inner // 16 + inner % 16 // 4 * 32
    column = tile % tiles * 4 + inner % 4
    if row >= inputs.padded_rows:
        return -1, row - inputs.padded_rows, column
    expert = int(torch.searchsorted(inputs.blockscale_offsets, row, right=True)) - 1
    return expert, row - int(inputs.blockscale_offsets[expert]), column
