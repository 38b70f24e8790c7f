"""LAUNCH-CAP: a limit of grid, threads or experts is exceeded, its error is not seen, and items are never visited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from nvfp4_moe.reference.padding import TILE, Sizing
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.mutants.mutant import BoundMutant, Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.places import blocks_of, rows_unwritten, scale_index, scales_unwritten
from nvfp4_moe.verification.mutants.wrap import (
    MASKED,
    QUANT,
    ROUTING,
    SILU_QUANT,
    MaskedCall,
    QuantCall,
    RoutingCall,
    around,
)

FAULTS = (
    PublicFault(
        id="F1",
        links=("https://github.com/FlashML-org/FreeToken/issues/186",),
        what="tokens * topk above 65,535 fails: a flat index is on grid.z, and none of 19 launches looks at its error, "
        "which is blamed on later calls.",
        star=True,
    ),
    PublicFault(
        id="F2",
        links=("https://github.com/vllm-project/vllm/pull/43599",),
        what="The tokens of a chunk come from a row bound turned round; with another rounding than the bound's own the "
        "grid is a few blocks too large.",
        star=True,
    ),
    PublicFault(
        id="F3",
        links=("https://github.com/NVIDIA/TensorRT-LLM/pull/16933",),
        what="Blocks of rows on grid.y, above 65,535 of them.",
    ),
    PublicFault(
        id="F4",
        links=("https://github.com/kekzl/imp/pull/2056",),
        what="Experts from 256 on are never selected: one thread for each in a block of 256; all shipped models had "
        "fewer.",
        star=True,
    ),
    PublicFault(
        id="F5",
        links=("https://github.com/mirage-project/mirage/pull/764",),
        what="Rows behind the first 16 keep zeros: they were dealt out to one thread block only.",
    ),
)

_GRID_LIMIT = 65_535
"""Blocks of the second and third dimension of a grid."""
_CHUNK_TILES = 64
_BLOCK_THREADS = 256
_WARP = 32
_MOST_THREADS = 1024
_ONE_BLOCK_ROWS = 16


def _behind_the_grid(call: QuantCall) -> Iterator[int]:
    """The last row, where there are more than the grid's third dimension holds."""
    if call.routed_rows > _GRID_LIMIT:
        yield call.routed_rows - 1


def _behind_whole_chunks(call: QuantCall) -> Iterator[int]:
    """The first scale of each tile behind the last whole chunk of 64 tiles, where there is a whole one."""
    tiles = [(expert, row) for expert, rows in enumerate(call.counts) for row in range(0, rows, TILE)]
    if len(tiles) > _CHUNK_TILES:
        for expert, row in tiles[len(tiles) // _CHUNK_TILES * _CHUNK_TILES :]:
            yield scale_index(call, expert, row, 0)


def _behind_one_block(call: QuantCall) -> Iterator[int]:
    """Row 16 of a call for one expert."""
    if len(call.counts) == 1 and call.routed_rows > _ONE_BLOCK_ROWS:
        yield _ONE_BLOCK_ROWS


def _behind_the_threads(call: MaskedCall) -> Iterator[int]:
    """The first scale of expert 256, which has no thread."""
    if len(call.counts) > _BLOCK_THREADS and call.counts[_BLOCK_THREADS]:
        yield scale_index(call, _BLOCK_THREADS, 0, 0)


def _behind_the_threads_of_a_row(call: QuantCall) -> Iterator[int]:
    """The scale of block 1,024 of the first row, which has no thread."""
    expert = next((expert for expert, rows in enumerate(call.counts) if rows), None)
    if expert is not None and blocks_of(call) > _MOST_THREADS:
        yield scale_index(call, expert, 0, _MOST_THREADS)


def _wide_rows_of_many_experts(call: QuantCall) -> Iterator[int]:
    """The last row of the last expert, where both the experts and the columns are many."""
    if len(call.counts) > _CHUNK_TILES and call.k > _MOST_THREADS and call.routed_rows:
        yield call.routed_rows - 1


def _fourth_tile(call: QuantCall) -> Iterator[int]:
    """The first row of the fourth tile of an expert, where K is a multiple of 32."""
    for first, rows in zip(call.offsets, call.counts, strict=False):
        if rows > 3 * TILE and call.k % 32 == 0:
            yield first + 3 * TILE


def _second_tile_of_a_slab(call: MaskedCall) -> Iterator[int]:
    """The scale of the first row of the second tile, where a row is wider than a warp has blocks."""
    for expert, rows in enumerate(call.counts):
        if rows > TILE and blocks_of(call) > _WARP:
            yield scale_index(call, expert, TILE, 0)


def _beyond_one_scan(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The padding of the last expert is not in the scan, where there are more experts than threads."""

    def wrong(call: RoutingCall) -> None:
        right(call)
        if call.num_experts > _MOST_THREADS:
            call.blockscale_offsets[-1] = call.blockscale_offsets[-2]

    return wrong


def _no_thread_for_expert(
    right: Callable[[RoutingCall], None],
) -> Callable[[RoutingCall], None]:
    """Drop the ids of expert 256, as if they were -1."""

    def wrong(call: RoutingCall) -> None:
        seen = torch.where(call.topk_ids == _BLOCK_THREADS, -1, call.topk_ids).to(call.topk_ids.dtype)
        right(replace(call, topk_ids=seen))

    return wrong


def _slots_of_many_experts(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Leave the last slot as it was, where both the slots and the experts are many."""

    def wrong(call: RoutingCall) -> None:
        stale = call.output_permutation[-1:].clone()
        right(call)
        if call.num_experts > _MOST_THREADS and call.topk_ids.numel() > _MOST_THREADS * _WARP:
            call.output_permutation[-1:] = stale

    return wrong


def _slots_on_the_grid(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Leave the last slot of the permutation as it was, where there are more than the grid holds."""

    def wrong(call: RoutingCall) -> None:
        stale = call.output_permutation[-1:].clone()
        right(call)
        if call.topk_ids.numel() > _GRID_LIMIT:
            call.output_permutation[-1:] = stale

    return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk(Bound):
    """A grid of `_GRID_LIMIT` tiles, and chunks of as many tokens as a turned-round bound lets through."""

    def most_tokens(self, sizing: Sizing, rows: int) -> int:
        """Turn floor((T + (A-1)*E) / A) <= limit round, one row too far: A*limit - (A-1)*(E-1) is exact."""
        routed = rows - (sizing.tile - 1) * (sizing.num_experts - 1) + 1
        return max(routed // sizing.topk, 0)


def _tiles_of_grid(sizing: Sizing) -> int:
    return _GRID_LIMIT * sizing.tile


MUTANTS = (
    Mutant(
        id="launch_cap.last_row_of_the_grid",
        fault_class="F",
        stands_for=("F1", "F3"),
        change="the last row is not visited, only above 65,535 rows",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=rows_unwritten(QUANT, _behind_the_grid)),
    ),
    Mutant(
        id="launch_cap.last_slot_of_the_grid",
        fault_class="F",
        stands_for=("F1",),
        change="the last slot has no place in the permutation, only above 65,535 slots",
        refuted_by=("routing.coverage", "routing.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(ROUTING, _slots_on_the_grid)),
    ),
    Mutant(
        id="launch_cap.many_slots_many_experts",
        fault_class="F",
        stands_for=("F1", "F4"),
        change="the last slot has no place, only above 1,024 experts and 32,768 slots",
        refuted_by=("routing.coverage", "routing.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(ROUTING, _slots_of_many_experts)),
    ),
    Mutant(
        id="launch_cap.turned_round_bound",
        fault_class="F",
        stands_for=("F2",),
        change="the tokens of a chunk come from the bound turned round, one row too far",
        refuted_by=("padding.bound",),
        target=BoundMutant(
            bound=_Chunk(name="tiles of a grid", rule="65535 * A", rows=_tiles_of_grid, capped=True)
        ),
    ),
    Mutant(
        id="launch_cap.chunks_by_floor",
        fault_class="F",
        stands_for=("F2",),
        change="tiles behind the last whole chunk of 64 have their first scale unwritten",
        refuted_by=("silu_quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(SILU_QUANT, _behind_whole_chunks)),
    ),
    Mutant(
        id="launch_cap.expert_256",
        fault_class="F",
        stands_for=("F4",),
        change="ids of expert 256 are dropped: a block has 256 threads",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(ROUTING, _no_thread_for_expert)),
    ),
    Mutant(
        id="launch_cap.masked_expert_256",
        fault_class="F",
        stands_for=("F4",),
        change="the first scale of expert 256 is not written in the masked form",
        refuted_by=("masked_quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(MASKED, _behind_the_threads)),
    ),
    Mutant(
        id="launch_cap.block_1024",
        fault_class="F",
        stands_for=("F1",),
        change="the scale of block 1,024 of one row is not written: a row has 1,024 threads",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(QUANT, _behind_the_threads_of_a_row)),
    ),
    Mutant(
        id="launch_cap.wide_rows_of_many_experts",
        fault_class="F",
        stands_for=("F4",),
        change="the last row is not visited, only above 64 experts with K above 1,024",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=rows_unwritten(QUANT, _wide_rows_of_many_experts)),
    ),
    Mutant(
        id="launch_cap.fourth_tile",
        fault_class="F",
        stands_for=("F5",),
        change="the first row of an expert's fourth tile is not visited, only where K is a multiple of 32",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=rows_unwritten(QUANT, _fourth_tile)),
    ),
    Mutant(
        id="launch_cap.masked_second_tile",
        fault_class="F",
        stands_for=("F5",),
        change="one scale of a slab's second tile is not written, only where a row has more than 32 blocks",
        refuted_by=("masked_quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=scales_unwritten(MASKED, _second_tile_of_a_slab)),
    ),
    Mutant(
        id="launch_cap.scan_of_1024",
        fault_class="F",
        stands_for=("F4",),
        change="the scale rows of the last expert are not counted, only above 1,024 experts",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(ROUTING, _beyond_one_scan)),
    ),
    Mutant(
        id="launch_cap.row_16",
        fault_class="F",
        stands_for=("F5",),
        change="row 16 is not visited, only in a call for one expert",
        refuted_by=("quant.coverage",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=rows_unwritten(QUANT, _behind_one_block)),
    ),
)
