"""PAD-UNINIT: padding bytes that a GEMM reads were never written, and hold what the memory held before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from nvfp4_moe.reference.layouts import scale_byte_index, scale_shape
from nvfp4_moe.reference.padding import TILE, round_up
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.golden.model import Model
from nvfp4_moe.verification.mutants.mutant import ModelMutant, Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.places import (
    BLOCK,
    LAYOUT,
    blocks_of,
    last_with_rows,
    padding_rows,
    scale_index,
    scales_unwritten,
)
from nvfp4_moe.verification.mutants.wrap import (
    MASKED,
    QUANT,
    ROUTING,
    SILU_QUANT,
    SWIZZLE,
    MaskedCall,
    QuantCall,
    RoutingCall,
    around,
    returning,
)

FAULTS = (
    PublicFault(
        id="A1",
        links=("https://github.com/vllm-project/vllm/pull/38148",),
        what="Sporadic NaN in prefill: the swizzled scale tensor comes from torch.empty, and rows m to roundup(m, 128) "
        "keep stale bytes that the GEMM of the 8x4 layout reads.",
        star=True,
    ),
    PublicFault(
        id="A2",
        links=(
            "https://github.com/vllm-project/vllm/pull/37564",
            "https://github.com/vllm-project/vllm/pull/47587",
        ),
        what="NaN, or silently wrong results where the stale scales are finite: three allocation sites (linear, experts, "
        "SiLU and experts) were zeroed one after the other, another library's path later.",
        star=True,
    ),
    PublicFault(
        id="A3",
        links=("https://github.com/flashinfer-ai/flashinfer/issues/2861",),
        what="A GEMM of the 8x4 layout mixes the scales of padding rows into real rows.",
        star=True,
    ),
    PublicFault(
        id="A4",
        links=(
            "https://github.com/vllm-project/vllm/pull/42988",
            "https://github.com/vllm-project/vllm/issues/45741",
            "https://github.com/vllm-project/vllm/issues/45739",
        ),
        what="zeros became empty for speed; the kernel does not write every padded element that the GEMM reads, the "
        "length of outputs collapsed, unit tests passed.",
        star=True,
    ),
    PublicFault(
        id="A5",
        links=(
            "https://github.com/vllm-project/vllm/pull/27439",
            "https://github.com/vllm-project/vllm/pull/31097",
        ),
        what="The loop in the kernel that zeroes the padding starts where it ends, so it never runs.",
        star=True,
    ),
    PublicFault(
        id="A6",
        links=(
            "https://github.com/vllm-project/vllm/issues/48898",
            "https://github.com/vllm-project/vllm/pull/30260",
        ),
        what="Garbage where K of a rank is no multiple of 32: padded columns of scales are stale.",
    ),
    PublicFault(
        id="A8",
        links=(
            "https://github.com/NVIDIA/TransformerEngine/pull/1912",
            "https://github.com/NVIDIA/TensorRT-LLM/pull/14348",
        ),
        what="Near misses: without the zero fill cuBLAS is silently wrong; an early return left scale rows unwritten.",
    ),
    PublicFault(
        id="A11",
        links=("https://github.com/sgl-project/sglang/issues/27987",),
        what="Illegal access on idle ranks: the padding slots of a row map are never set and hold old bits.",
    ),
)


_WIDE = 1024
"""Columns above which a model's rows begin."""


def _last_padding_row(call: QuantCall | MaskedCall) -> Iterator[int]:
    """The last padding row of the last expert with rows, first column."""
    expert = last_with_rows(call)
    if expert is not None and (rows := padding_rows(call, expert)):
        yield scale_index(call, expert, rows[-1], 0)


def _first_padding_row_of_later_experts(call: QuantCall) -> Iterator[int]:
    """The first padding row of every expert but the first."""
    for expert in range(1, len(call.counts)):
        for row in padding_rows(call, expert)[:1]:
            yield scale_index(call, expert, row, 0)


def _last_k_column(call: QuantCall) -> Iterator[int]:
    """The last padding column of the first real row, where one scale of a group of four is real."""
    expert = next((expert for expert, rows in enumerate(call.counts) if rows), None)
    if expert is not None and blocks_of(call) % 4 == 1:
        yield scale_index(call, expert, 0, blocks_of(call) + 2)


def _last_column_of_wide_rows(call: QuantCall) -> Iterator[int]:
    """The one padding column of the first real row, where three scales of four are real and the row is wide."""
    expert = next((expert for expert, rows in enumerate(call.counts) if rows), None)
    if expert is not None and blocks_of(call) % 4 == 3 and call.k > _WIDE:
        yield scale_index(call, expert, 0, blocks_of(call))


def _rows_up_to_four(call: QuantCall) -> Iterator[int]:
    """Padding rows before the next multiple of four: the loop over whole groups starts behind them."""
    for expert, rows in enumerate(call.counts):
        for row in range(rows, min(round_up(rows, 4), round_up(rows, TILE))):
            for column in range(call.scales.shape[-1]):
                yield scale_index(call, expert, row, column)


def _last_tail_slot(
    right: Callable[[RoutingCall], None],
) -> Callable[[RoutingCall], None]:
    def wrong(call: RoutingCall) -> None:
        stale = call.input_permutation[-1:].clone()
        right(call)
        if call.routed_rows < call.input_permutation.numel():
            call.input_permutation[-1:] = stale

    return wrong


def _zeroed_once(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """Zero the first padding row only in the first call of a shape, as a buffer that is kept needs it once."""
    seen: set[tuple[int, ...]] = set()

    def wrong(call: QuantCall) -> None:
        stale = call.scales.clone()
        right(call)
        expert, shape = last_with_rows(call), tuple(call.scales.shape)
        if shape in seen and expert is not None and (rows := padding_rows(call, expert)):
            at = scale_index(call, expert, rows[0], 0)
            call.scales.view(-1)[at] = stale.view(-1)[at]
        seen.add(shape)

    return wrong


def _scratch_grows(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """Tiles come out of a scratch that only grows: the last padding row has the scale of the largest call's row."""
    kept: dict[str, int] = {"rows": 0, "scale": 0}

    def wrong(call: QuantCall) -> None:
        right(call)
        if len(call.counts) != 1 or not call.routed_rows:
            return
        rows = call.routed_rows
        if rows < kept["rows"] and padding_rows(call, 0):
            call.scales.view(-1)[scale_index(call, 0, padding_rows(call, 0)[0], 0)] = kept["scale"]
        if rows >= kept["rows"]:
            last = scale_index(call, 0, rows - 1, 0)
            kept.update(rows=rows, scale=int(call.scales.view(-1)[last]))

    return wrong


def _swizzled_from_empty(swizzle: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The buffer is allocated without a fill, and the last byte of padding is not written."""

    def wrong(linear: torch.Tensor) -> torch.Tensor:
        right = swizzle(linear)
        buffer = torch.empty_like(right)
        rows, blocks = linear.shape
        last = scale_byte_index(right.shape[0] - 1, right.shape[1] - 1, k=BLOCK * blocks, layout=LAYOUT)
        whole = rows % TILE == 0 and blocks % 4 == 0
        written = right.numel() if whole else last
        buffer.view(-1)[:written] = right.view(-1)[:written]
        return buffer

    return wrong


def _scales_from_empty(right: Subject) -> Subject:
    """The quantizer allocates its own outputs, and one byte of padding is not written."""
    quantize = right.operations[QUANT]

    def wrong(
        input: torch.Tensor,
        input_global_scale: torch.Tensor,
        input_offset_by_experts: torch.Tensor,
        output_scale_offset_by_experts: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows, k = input.shape
        padded = int(output_scale_offset_by_experts[-1])
        shape = (padded, scale_shape(TILE, k, LAYOUT)[1] // 4)
        output = torch.empty((rows, k // 2), dtype=torch.uint8, device=input.device)
        scales = torch.empty(shape, dtype=torch.int32, device=input.device)
        given = (output, torch.empty_like(scales), input, input_global_scale)
        quantize(*given, input_offset_by_experts, output_scale_offset_by_experts)
        scales.view(torch.uint8).view(-1)[:-1] = given[1].view(torch.uint8).view(-1)[:-1]
        return output, scales

    return Subject("wrong", right.device, right.contract, **{QUANT: wrong})


def _reader_mixes_padding(right: Model) -> Model:
    def from_layout(scales: torch.Tensor, rows: int, k: int, layout: str) -> torch.Tensor:
        found = right.from_layout(scales, rows, k, layout)
        if layout == LAYOUT and rows % TILE:
            last = scale_shape(rows, k, layout)[0] - 1
            at = scale_byte_index(last, 0, k=k, layout=layout)
            found = found.clone()
            found[-1, 0] |= scales.reshape(-1).view(torch.uint8)[at]
        return found

    return replace(right, from_layout=from_layout)


MUTANTS = (
    Mutant(
        id="pad_uninit.last_padding_row",
        fault_class="A",
        stands_for=("A1",),
        change="one scale byte of the last padding row of the last expert is not written",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(QUANT, _last_padding_row)),
    ),
    Mutant(
        id="pad_uninit.fused_later_experts",
        fault_class="A",
        stands_for=("A2",),
        change="the fused quantizer alone leaves one byte of padding of every expert but the first as it was",
        refuted_by=("silu_quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(SILU_QUANT, _first_padding_row_of_later_experts)),
    ),
    Mutant(
        id="pad_uninit.reader_mixes_padding",
        fault_class="A",
        stands_for=("A3",),
        change="a reader of the 128x4 layout takes bits of a padding row into the last real row's scale",
        refuted_by=("quant.layout",),
        target=ModelMutant(factory=_reader_mixes_padding),
    ),
    Mutant(
        id="pad_uninit.last_k_column",
        fault_class="A",
        stands_for=("A4", "A6"),
        change="the last padding column of one row is not written, only where K / 16 is 1 modulo 4",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(QUANT, _last_k_column)),
    ),
    Mutant(
        id="pad_uninit.last_column_of_wide_rows",
        fault_class="A",
        stands_for=("A6",),
        change="the padding column of one row is not written, only where K / 16 is 3 modulo 4 and K above 1,024",
        refuted_by=("silu_quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(SILU_QUANT, _last_column_of_wide_rows)),
    ),
    Mutant(
        id="pad_uninit.loop_by_four",
        fault_class="A",
        stands_for=("A5", "A8"),
        change="the loop that zeroes padding rows begins at the next multiple of four rows",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(QUANT, _rows_up_to_four)),
    ),
    Mutant(
        id="pad_uninit.masked_last_row",
        fault_class="A",
        stands_for=("A1", "A8"),
        change="one scale byte of the last padding row of one slab is not written",
        refuted_by=("masked_quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(MASKED, _last_padding_row)),
    ),
    Mutant(
        id="pad_uninit.zeroed_once",
        fault_class="A",
        stands_for=("A2", "A4"),
        change="one padding byte is written in the first call of a shape alone",
        refuted_by=("quant.coverage", "quant.poison", "quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(QUANT, _zeroed_once)),
    ),
    Mutant(
        id="pad_uninit.scratch_grows",
        fault_class="A",
        stands_for=("A4",),
        change="one padding byte holds what a larger call before left in a scratch that is kept",
        refuted_by=("quant.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(QUANT, _scratch_grows), in_order=True),
    ),
    Mutant(
        id="pad_uninit.swizzled_from_empty",
        fault_class="A",
        stands_for=("A2", "A8"),
        change="a swizzled weight scale buffer comes from empty memory, and its last padding byte is not written",
        refuted_by=("swizzle.coverage", "swizzle.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=returning(SWIZZLE, _swizzled_from_empty)),
    ),
    Mutant(
        id="pad_uninit.scales_from_empty",
        fault_class="A",
        stands_for=("A2",),
        change="a quantizer that returns its outputs takes them from empty memory and leaves the last byte",
        refuted_by=("quant.coverage", "quant.poison", "quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=_scales_from_empty),
    ),
    Mutant(
        id="pad_uninit.map_tail",
        fault_class="A",
        stands_for=("A11",),
        change="the last slot of the row map is not set where ids -1 leave it without a row",
        refuted_by=("routing.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(ROUTING, _last_tail_slot)),
    ),
)
