"""Class O: where a scale lies: swizzle, stride of a row of scales, first row of an expert, rounding of dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault
from nvfp4_moe.verification.mutants.stepwise import (
    SCALES_OF_A_WORD,
    TILE,
    Place,
    Steps,
    Wrong,
    address,
    atom,
    target_of,
)
from nvfp4_moe.verification.mutants.stepwise_gemm import (
    GemmSteps,
    RowScales,
    scales_of_rows,
    scales_of_weights,
    wrong_gemm,
)
from nvfp4_moe.verification.mutants.wrap import (
    QUANT,
    ROUTING,
    SWIZZLE,
    QuantCall,
    RoutingCall,
    after,
    returning,
)

FAULTS = (
    PublicFault(
        id="O1",
        links=("https://github.com/vllm-project/vllm/pull/35497",),
        what="Scales are padded to whole tiles, the offset of an expert is computed from the unpadded size: only"
        " expert 0 is right.",
        star=True,
    ),
    PublicFault(
        id="O2",
        links=("https://github.com/ROCm/aiter/pull/2900",),
        what="The writer's rows of scales are ceil(K/32) bytes, the reader's are padded to 8; and padding was filled"
        " with the scale 1.",
        star=True,
    ),
    PublicFault(
        id="O4",
        links=(
            "https://github.com/vllm-project/vllm/pull/23140",
            "https://github.com/NVIDIA/TransformerEngine/pull/2924",
            "https://github.com/NVIDIA/TransformerEngine/pull/3076",
        ),
        what="Experts whose rows are no multiple of 128 were swizzled as one matrix; padding is due for each. A flag"
        " that asks for the swizzle gave none.",
        star=True,
    ),
    PublicFault(
        id="O5",
        links=(
            "https://github.com/triton-lang/triton/issues/10962",
            "https://github.com/NVIDIA/TransformerEngine/pull/3048",
        ),
        what="The last group of scales is dropped: a quotient is rounded down where rounding up is due.",
    ),
    PublicFault(
        id="O6",
        links=("https://github.com/flashinfer-ai/flashinfer/pull/3562",),
        what="The first row of an expert from a closed form in place of the sum of rounded counts: both are legal,"
        " but writer and reader must use the same one.",
        star=True,
    ),
    PublicFault(
        id="O7",
        links=(
            "https://github.com/flashinfer-ai/flashinfer/issues/4653",
            "https://github.com/flashinfer-ai/flashinfer/pull/4694",
        ),
        what="A shape check rounds rows to 64, as for columns; both producers pad rows to 128. Multiples of 128 hid it.",
    ),
    PublicFault(
        id="O8",
        links=("https://github.com/flashinfer-ai/flashinfer/pull/2898",),
        what="The size of a block was inferred from the number of scales, which counts the padding.",
    ),
    PublicFault(
        id="O10",
        links=("https://github.com/flashinfer-ai/flashinfer/issues/2147",),
        what="The documentation has scales column-major, the kernel wants them row-major.",
    ),
)

ONE_BYTE = 0x38
FEW_ROWS = 8
"""Up to so many rows some engines write the layout of 8x4 tiles."""


def _start_of_unpadded_rows(at: Place) -> Tensor:
    """An expert begins at its first row times K/16; rows of scales are that long only where K is a multiple of 64."""
    return at.start * at.blocks + atom(at.row, at.block, at.words)


def _tile_of_unpadded_rows(at: Place) -> Tensor:
    """Inside an expert a tile row is 128 * K/16 bytes: seen from the second tile on."""
    padded = at.words * SCALES_OF_A_WORD
    return address(at) - at.row // TILE * TILE * (padded - at.blocks)


def _swizzled_as_one(at: Place) -> Tensor:
    """The row inside the tile is that among all experts' rows, not that inside the expert."""
    tile_row = at.row // TILE * TILE
    return at.start * (at.words * SCALES_OF_A_WORD) + atom(tile_row + at.routed % TILE, at.block, at.words)


def _one_row_not_swizzled(at: Place) -> Tensor:
    """The row of an expert that has one row alone is left in linear order: the same bytes up to 4 blocks."""
    linear = at.start * (at.words * SCALES_OF_A_WORD) + at.block
    return torch.where(_rows_of_expert(at) == 1, linear, address(at))


def _rows_of_expert(at: Place) -> Tensor:
    """Return the rows that the expert of each row has, (T, 1)."""
    return torch.bincount(at.expert.flatten(), minlength=1)[at.expert]


def _few_rows_in_8x4(at: Place) -> Tensor:
    """An expert of up to 8 rows is written in the layout of 8x4 tiles."""
    tile = at.block // SCALES_OF_A_WORD * 32
    small = tile + at.row * SCALES_OF_A_WORD + at.block % SCALES_OF_A_WORD
    start = at.start * (at.words * SCALES_OF_A_WORD)
    return torch.where(_rows_of_expert(at) <= FEW_ROWS, start + small, address(at))


def _one_in_padding(call: QuantCall) -> None:
    """The first padding column of a valid row holds the scale 1 in place of 0."""
    blocks = call.k // 16
    if blocks % SCALES_OF_A_WORD == 0:
        return
    for expert, rows in enumerate(call.counts):
        if rows:
            at = torch.tensor([blocks])
            byte = int(atom(torch.tensor([rows - 1]), at, call.scales.shape[1] // SCALES_OF_A_WORD))
            region = call.scales[call.scale_starts[expert] :].view(-1)
            region[byte] = ONE_BYTE


def _last_word_dropped(right: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Whole words of four columns are placed, the columns behind them are not."""

    def wrong(linear: Tensor) -> Tensor:
        whole = linear.clone()
        whole[:, linear.shape[1] // SCALES_OF_A_WORD * SCALES_OF_A_WORD :] = 0
        return right(whole)

    return wrong


def _word_order(right: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Row groups and columns of an atom's 16 bytes are exchanged, in the last tile of rows alone."""

    def wrong(linear: Tensor) -> Tensor:
        made = right(linear).clone()
        columns = made.shape[1]
        last = made[-TILE:].view(columns // 4, 32, 4, 4)
        made[-TILE:] = last.transpose(2, 3).reshape(TILE, columns)
        return made

    return wrong


def _column_major(right: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The linear scales of a matrix of as many rows as columns are read column by column."""

    def wrong(linear: Tensor) -> Tensor:
        square = linear.shape[0] == linear.shape[1]
        return right(linear.t().contiguous() if square else linear)

    return wrong


def _closed_form(call: RoutingCall) -> None:
    """floor((first row + e * 127) / 128) * 128: no overlap, no overrun, and not the sum of the rounded counts."""
    expert = torch.arange(call.num_experts + 1, device=call.expert_offsets.device)
    start = (call.expert_offsets.long() + expert * (TILE - 1)) // TILE * TILE
    call.blockscale_offsets[1:-1] = start[1:-1].to(torch.int32)


def _rounded_to_64(call: RoutingCall) -> None:
    """The last expert's rows are rounded up to 64 in place of 128."""
    rows = call.expert_offsets[-1] - call.expert_offsets[-2]
    call.blockscale_offsets[-1] = call.blockscale_offsets[-2] + (rows + 63) // 64 * 64


def _weights_start_unpadded(buffer: Tensor, n: int, k: int) -> Tensor:
    """An expert's scales begin at e * N * K/16 bytes: right where N and K are multiples of the tile."""
    experts, rows, columns = buffer.shape
    flat, size = buffer.reshape(-1), rows * columns
    starts = [expert * n * (k // 16) for expert in range(experts)]
    read = torch.stack([flat[start : start + size] for start in starts]).view(buffer.shape)
    return scales_of_weights(read, n, k)


def _rows_start_unpadded(given: RowScales) -> Tensor:
    """An expert's scales begin at its first scale row times K/16 bytes; the writer's rows are rounded up to four."""
    made = given.buffer.clone()
    flat, columns = given.buffer.reshape(-1), given.buffer.shape[1]
    for first, end in itertools.pairwise(given.starts.tolist()):
        size = (end - first) * columns
        start = first * (given.k // 16)
        made[first:end] = flat[start : start + size].view(-1, columns)
    return scales_of_rows(replace(given, buffer=made))


def _mutant(name: str, fault: str, change: str, wrong: Wrong, *refuted_by: str) -> Mutant:
    return Mutant(
        id=f"sf_layout.{name}",
        fault_class="O",
        stands_for=(fault,),
        change=change,
        refuted_by=refuted_by or ("quant.golden", "quant.guard"),
        target=target_of(wrong),
        devices=("cpu", "cuda"),
    )


MUTANTS = (
    _mutant("start_unpadded", "O1", "An expert's first byte is its first row times K/16, not times K/16 rounded up to 4.",
            Steps(address=_start_of_unpadded_rows)),
    _mutant("weights_start_unpadded", "O1", "The GEMM reads an expert's weight scales from e * N * K/16 bytes on.",
            wrong_gemm(lambda: GemmSteps(scales_of_weights=_weights_start_unpadded)), "gemm.golden"),
    _mutant("rows_start_unpadded", "O2", "The GEMM reads an expert's scales from its first scale row times K/16 bytes on.",
            wrong_gemm(lambda: GemmSteps(scales_of_rows=_rows_start_unpadded)), "gemm.golden"),
    _mutant("tile_unpadded", "O2", "From an expert's second tile on rows of scales are K/16 bytes, not rounded up to 4.",
            Steps(address=_tile_of_unpadded_rows)),
    _mutant("padding_is_one", "O2", "The first padding column of an expert's last row holds the scale 1 (0x38).",
            after(QUANT, _one_in_padding)),
    _mutant("swizzled_as_one", "O4", "The place in a tile follows the row among all experts', not inside the expert.",
            Steps(address=_swizzled_as_one)),
    _mutant("one_row_not_swizzled", "O4", "An expert with a single row has its scales in linear order.",
            Steps(address=_one_row_not_swizzled)),
    _mutant("few_rows_in_8x4", "O4", "An expert of up to 8 rows is written in 8x4 tiles.",
            Steps(address=_few_rows_in_8x4)),
    _mutant("last_word_dropped", "O5", "Columns behind the last whole word of four scales are not placed.",
            returning(SWIZZLE, _last_word_dropped), "swizzle.golden", "swizzle.coverage"),
    _mutant("closed_form_start", "O6", "Experts begin at floor((offset + 127 e) / 128) * 128.",
            after(ROUTING, _closed_form), "routing.golden"),
    _mutant("rounded_to_64", "O7", "The last expert's rows are rounded up to 64.", after(ROUTING, _rounded_to_64),
            "routing.golden"),
    _mutant("word_order", "O10", "In the last tile of rows the two halves of the order inside 16 bytes are exchanged.",
            returning(SWIZZLE, _word_order), "swizzle.golden"),
    _mutant("column_major", "O10", "Scales of as many rows as columns are read column by column.",
            returning(SWIZZLE, _column_major), "swizzle.golden"),
)  # fmt: skip
