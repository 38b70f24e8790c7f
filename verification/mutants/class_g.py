"""TAIL-OOB: the tail of a vector or a tile is read or written past the valid extent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.places import memory_around, read_outside, write_outside
from nvfp4_moe.verification.mutants.wrap import (
    MASKED,
    QUANT,
    SHUFFLE,
    SILU_QUANT,
    SWIZZLE,
    MaskedCall,
    QuantCall,
    after,
    around,
    flip,
    returning,
)

FAULTS = (
    PublicFault(
        id="G1",
        links=("https://github.com/vllm-project/vllm/pull/40351",),
        what="Expert offsets are read in vectors of four past their end where E is no multiple of 4 or 16; 40 experts "
        "were tested and passed by luck of the allocator.",
        star=True,
    ),
    PublicFault(
        id="G2",
        links=("https://github.com/NVIDIA/TensorRT-LLM/pull/17951",),
        what="The last thread block loads one int behind the route map and never uses it: it faults only where the "
        "allocation ends with its page.",
        star=True,
    ),
    PublicFault(
        id="G4",
        links=("https://github.com/vllm-project/vllm/issues/47769",),
        what="A repack of scales crashes for a width that is no multiple of its tile, and the traceback points "
        "elsewhere.",
    ),
    PublicFault(
        id="G5",
        links=("https://github.com/ModelTC/LightLLM/pull/1369",),
        what="Experts are taken modulo their number in place of a mask: with 5 experts in blocks of 4, experts 0 to 2 are "
        "worked on twice.",
    ),
)

_VECTOR_BYTES = 16
_INT_BYTES = 4
_FOUR = 4
"""Ints of a vector, experts of a block."""


def _offsets_by_four(call: QuantCall) -> None:
    """Read the offsets one vector further than they go, where their number fills whole vectors."""
    size = _INT_BYTES * call.expert_offsets.numel()
    if size % _VECTOR_BYTES == 0:
        read_outside(call.expert_offsets, size, _VECTOR_BYTES)


def _counts_by_four(call: MaskedCall) -> None:
    size = _INT_BYTES * call.masked_m.numel()
    if size % _VECTOR_BYTES == 0:
        read_outside(call.masked_m, size, _VECTOR_BYTES)


def _global_scales_by_four(call: QuantCall) -> None:
    scales = call.input_global_scale
    if scales.numel() % _FOUR == 0 and scales.is_contiguous():
        read_outside(scales, _INT_BYTES * scales.numel(), _VECTOR_BYTES)


def _row_behind_the_last(call: QuantCall) -> None:
    """Load the first vector of the row behind the last, as a prefetch does."""
    rows, width = call.input.shape
    if rows == call.routed_rows and rows and call.input.is_contiguous():
        read_outside(call.input, rows * width * call.input.element_size(), 2 * _VECTOR_BYTES)


def _next_offset(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """Count the int behind the offsets among them: where it is below T, the last row belongs to an expert E."""

    def wrong(call: QuantCall) -> None:
        stale = call.output.clone()
        right(call)
        whole, first = memory_around(call.expert_offsets)
        behind = first + _INT_BYTES * call.expert_offsets.numel()
        rows = call.routed_rows
        if not rows or len(call.counts) % _FOUR == 0 or behind + _INT_BYTES > whole.numel():
            return
        if int(whole[behind : behind + _INT_BYTES].view(torch.int32)) < rows:
            call.output[rows - 1] = stale[rows - 1]

    return wrong


def _one_behind_the_map(
    shuffle: Callable[..., torch.Tensor],
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Load one int behind the map, where it fills whole vectors, and do not use it."""

    def wrong(input: torch.Tensor, map: torch.Tensor) -> torch.Tensor:
        if map.numel() % _FOUR == 0 and map.numel():
            read_outside(map, map.numel() * map.element_size(), _INT_BYTES)
        return shuffle(input, map)

    return wrong


def _whole_vectors_of_scales(
    swizzle: Callable[..., torch.Tensor],
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Read the last row of scales in whole words of four, past its end."""

    def wrong(linear: torch.Tensor) -> torch.Tensor:
        size = linear.numel()
        if linear.is_contiguous() and size and linear.shape[-1] % 4:
            read_outside(linear, size, _VECTOR_BYTES)
        return swizzle(linear)

    return wrong


def _whole_words_of_codes(call: QuantCall) -> None:
    """Write the last row of codes in vectors of 16 bytes, where K / 2 is not a whole number of them."""
    rows, width = call.output.shape
    if rows == call.routed_rows and rows and width % _VECTOR_BYTES and call.output.is_contiguous():
        write_outside(call.output, rows * width, 0)


def _vectors_from_eight(call: QuantCall) -> None:
    """Lose the first byte of the codes where they begin in the middle of a vector: it was rounded down to its start."""
    if call.routed_rows and call.output.data_ptr() % _VECTOR_BYTES == _VECTOR_BYTES // 2:
        flip(call.output, 0, 0)


def _experts_modulo(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """Expert 0 is quantized again with the scale of the last one, in the idle lane of the last block of four."""

    def wrong(call: QuantCall) -> None:
        scales = call.input_global_scale
        if len(call.counts) % _FOUR and len(call.counts) > _FOUR and call.counts[-1]:
            scales = scales.clone()
            scales[0] = scales[-1]
        right(replace(call, input_global_scale=scales))

    return wrong


MUTANTS = (
    Mutant(
        id="tail_oob.offsets_by_four",
        fault_class="G",
        stands_for=("G1",),
        change="the offsets are read one vector of four further than they go, only where E + 1 is a multiple of four",
        refuted_by=("quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(QUANT, _offsets_by_four), dies=True),
    ),
    Mutant(
        id="tail_oob.masked_counts_by_four",
        fault_class="G",
        stands_for=("G1",),
        change="masked_m is read one vector of four further than it goes, only where E is a multiple of four",
        refuted_by=("masked_quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(MASKED, _counts_by_four), dies=True),
    ),
    Mutant(
        id="tail_oob.global_scales_by_four",
        fault_class="G",
        stands_for=("G1",),
        change="the global scales are read one vector further than they go, only where E is a multiple of four",
        refuted_by=("silu_quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(SILU_QUANT, _global_scales_by_four), dies=True),
    ),
    Mutant(
        id="tail_oob.row_behind_the_last",
        fault_class="G",
        stands_for=("G2",),
        change="the first bytes of the row behind the last are loaded and not used",
        refuted_by=("quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(QUANT, _row_behind_the_last), dies=True),
    ),
    Mutant(
        id="tail_oob.offset_behind_the_last",
        fault_class="G",
        stands_for=("G1",),
        change="the last row belongs to nobody where the int behind the offsets is below T, only where E is no "
        "multiple of four",
        refuted_by=("silu_quant.poison", "silu_quant.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(SILU_QUANT, _next_offset)),
    ),
    Mutant(
        id="tail_oob.one_behind_the_map",
        fault_class="G",
        stands_for=("G2",),
        change="one int behind the row map is loaded and not used, only where the map has a multiple of four "
        "entries",
        refuted_by=("shuffle.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=returning(SHUFFLE, _one_behind_the_map), dies=True),
    ),
    Mutant(
        id="tail_oob.scales_by_vectors",
        fault_class="G",
        stands_for=("G4",),
        change="16 bytes behind the row-major scales are loaded and not used, only where a row is no whole number of "
        "words",
        refuted_by=("swizzle.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=returning(SWIZZLE, _whole_vectors_of_scales), dies=True),
    ),
    Mutant(
        id="tail_oob.codes_by_vectors",
        fault_class="G",
        stands_for=("G4",),
        change="a byte behind the last row of codes is written, only where K is no multiple of 32",
        refuted_by=("quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(QUANT, _whole_words_of_codes)),
    ),
    Mutant(
        id="tail_oob.vectors_from_eight",
        fault_class="G",
        stands_for=("G4",),
        change="the first byte of the codes is wrong, only where they begin 8 bytes off a vector of 16",
        refuted_by=("quant.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(QUANT, _vectors_from_eight)),
    ),
    Mutant(
        id="tail_oob.experts_modulo",
        fault_class="G",
        stands_for=("G5",),
        change="expert 0 is worked on again with the last expert's scale, only where E is above four and no multiple of "
        "four",
        refuted_by=("quant.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(QUANT, _experts_modulo)),
    ),
)
