"""PAD-LEAK: rows that are masked, padded or nobody's change real rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.reference.quantize import Quantized
from nvfp4_moe.verification.golden.model import Model
from nvfp4_moe.verification.mutants.mutant import ModelMutant, Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.places import BLOCK, scale_index
from nvfp4_moe.verification.mutants.wrap import (
    MASKED,
    QUANT,
    SILU_MASKED,
    MaskedCall,
    QuantCall,
    around,
)

FAULTS = (
    PublicFault(
        id="B1",
        links=(
            "https://github.com/vllm-project/vllm/pull/39743",
            "https://github.com/flashinfer-ai/flashinfer/issues/3057",
        ),
        what="NaN or garbage behind masked_m changes the scales of real rows: a reduction over a warp includes lanes "
        "that hold padding rows.",
        star=True,
    ),
    PublicFault(
        id="B3",
        links=("https://github.com/vllm-project/vllm/pull/38436",),
        what="Unused slots of a captured graph hold NaN that reaches real tokens through the 128-row tile they share.",
    ),
)

WARP = 32
"""Rows that share a reduction in the kernels that had the fault."""


def _with_neighbour(row: torch.Tensor, neighbour: torch.Tensor) -> torch.Tensor:
    """Return a row whose first element is as large as the largest of the neighbour's first block, NaN ignored."""
    leak = neighbour[:BLOCK].float().abs().nan_to_num(0.0, posinf=0.0).amax()
    changed = row.clone()
    if leak > row[:BLOCK].float().abs().nan_to_num(0.0).amax():
        changed[0] = leak.to(row.dtype)
    return changed


def _masked_leak(
    last: Callable[[MaskedCall, int], bool],
) -> Callable[[Callable[[MaskedCall], None]], Callable[[MaskedCall], None]]:
    """The scale of the last real row of some experts' first block is that of it and the row behind it together."""

    def make(right: Callable[[MaskedCall], None]) -> Callable[[MaskedCall], None]:
        def wrong(call: MaskedCall) -> None:
            right(call)
            slab_rows = call.input.shape[1]
            leaky = [
                (expert, rows)
                for expert, rows in enumerate(call.counts)
                if 0 < rows < slab_rows and last(call, expert)
            ]
            if not leaky:
                return
            given = call.input.clone()
            for expert, rows in leaky:
                given[expert, rows - 1] = _with_neighbour(given[expert, rows - 1], given[expert, rows])
            scratch = replace(
                call,
                input=given,
                output=torch.empty_like(call.output),
                output_scale=torch.empty_like(call.output_scale),
            )
            right(scratch)
            for expert, rows in leaky:
                at = scale_index(call, expert, rows - 1, 0)
                call.scales.view(-1)[at] = scratch.scales.view(-1)[at]

        return wrong

    return make


def _inside_a_warp(call: MaskedCall, expert: int) -> bool:
    return call.counts[expert] % WARP != 0


def _second_tile(call: MaskedCall, expert: int) -> bool:
    return call.counts[expert] > TILE and call.counts[expert] % WARP != 0


def _orphans_leak(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The last row's first scale sees the first row that no expert owns."""

    def wrong(call: QuantCall) -> None:
        right(call)
        rows = call.routed_rows
        if not 0 < rows < call.input.shape[0]:
            return
        given = call.input.clone()
        given[rows - 1] = _with_neighbour(given[rows - 1], given[rows])
        scratch = replace(
            call,
            input=given,
            output=torch.empty_like(call.output),
            output_scale=torch.empty_like(call.output_scale),
        )
        right(scratch)
        expert = max(expert for expert, count in enumerate(call.counts) if count)
        at = scale_index(call, expert, call.counts[expert] - 1, 0)
        call.scales.view(-1)[at] = scratch.scales.view(-1)[at]

    return wrong


def _gap_leaks(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The first scale of the first row sees what lies between its end and the next row, in a strided view."""

    def wrong(call: QuantCall) -> None:
        right(call)
        rows, width = call.input.shape
        gap = int(call.input.stride(0)) - width
        if not call.offsets[-1] or rows < 2 or gap <= 0 or call.input.stride(1) != 1:
            return
        behind = call.input.as_strided((gap,), (1,), int(call.input.storage_offset()) + width)
        given = call.input.clone()
        given[0] = _with_neighbour(given[0], behind)
        scratch = replace(
            call,
            input=given,
            output=torch.empty_like(call.output),
            output_scale=torch.empty_like(call.output_scale),
        )
        right(scratch)
        expert = next(expert for expert, count in enumerate(call.counts) if count)
        at = scale_index(call, expert, 0, 0)
        call.scales.view(-1)[at] = scratch.scales.view(-1)[at]

    return wrong


def _model_counts_one_more(right: Model) -> Model:
    def quantize_masked(
        input: torch.Tensor, scales: torch.Tensor, masked_m: torch.Tensor, **options: Any
    ) -> Quantized:
        found = right.quantize_masked(input, scales, masked_m, **options)
        more = right.quantize_masked(input, scales, (masked_m + 1).clamp(max=input.shape[1]), **options)
        full = masked_m > WARP
        packed = torch.where(full[:, None, None], more.packed, found.packed)
        return replace(found, packed=packed)

    return replace(right, quantize_masked=quantize_masked)


MUTANTS = (
    Mutant(
        id="pad_leak.masked_scale",
        fault_class="B",
        stands_for=("B1",),
        change="one scale of a slab's last real row takes in the largest finite number of the row behind it, where "
        "both are in one warp",
        refuted_by=("masked_quant.poison", "masked_quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(MASKED, _masked_leak(_inside_a_warp))),
    ),
    Mutant(
        id="pad_leak.masked_second_tile",
        fault_class="B",
        stands_for=("B1",),
        change="one scale of a slab's last real row takes in the row behind it, only for experts of more than one tile",
        refuted_by=("masked_quant.poison", "masked_quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(MASKED, _masked_leak(_second_tile))),
    ),
    Mutant(
        id="pad_leak.fused_masked_scale",
        fault_class="B",
        stands_for=("B1",),
        change="the fused masked quantizer's scale of a slab's last real row takes in the gate of the row behind it",
        refuted_by=("silu_masked_quant.poison", "silu_masked_quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(SILU_MASKED, _masked_leak(_inside_a_warp))),
    ),
    Mutant(
        id="pad_leak.orphan_row",
        fault_class="B",
        stands_for=("B3",),
        change="one scale of the last routed row takes in the first row that no expert owns",
        refuted_by=("quant.poison", "quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(QUANT, _orphans_leak)),
    ),
    Mutant(
        id="pad_leak.gap_between_rows",
        fault_class="B",
        stands_for=("B3",),
        change="one scale of the first row takes in the columns behind it, only in a view whose rows lie apart",
        refuted_by=("quant.poison", "quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(QUANT, _gap_leaks)),
    ),
    Mutant(
        id="pad_leak.model_masks_one_late",
        fault_class="B",
        stands_for=("B1", "B3"),
        change="the golden model quantizes one row behind masked_m, only for experts of more than 32 rows",
        refuted_by=("quant.golden",),
        target=ModelMutant(factory=_model_counts_one_more),
    ),
)
