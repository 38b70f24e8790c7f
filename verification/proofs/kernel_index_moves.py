"""Every index expression of the routing, the gather, the weighted un-permute and the scale layouts."""

from __future__ import annotations

from nvfp4_moe.verification.proofs.index_expression import IndexExpression
from nvfp4_moe.verification.proofs.kernel_ranges import (
    ADDRESSES,
    INT32_MAX,
    LARGEST_K,
    ROUTED_EXPERTS,
    ROWS,
    int32,
    int64,
    uint32,
)

HEADER = "include/nvfp4_moe/routing.h"
KERNEL = "csrc/routing_kernel.cuh"
PLAN = "csrc/routing.cu"
LOOPS = "csrc/host_loops.h"
ROWS_HEADER = "include/nvfp4_moe/rows.h"
ROWS_KERNEL = "csrc/rows.cu"
SWIZZLE = "include/nvfp4_moe/swizzle.h"
LAYOUTS = "include/nvfp4_moe/layouts.h"

_SLOTS = ROWS - 127
"""Slots of a call with one expert; each further expert takes 127 off, so that the padded rows stay within `ROWS`."""
_SHARED_EXPERTS = 1 << 16
"""More experts than shared memory of any device counts."""

ROUTING = (
    IndexExpression(
        name="segment",
        file=HEADER,
        text="worker * length",
        ranges={"worker": int64(0, INT32_MAX - 1), "length": int64(0, INT32_MAX + 32)},
    ),
    IndexExpression(
        name="segment_end",
        file=HEADER,
        text="first + length",
        ranges={"first": int64(0, _SLOTS), "length": int64(0, INT32_MAX + 32)},
    ),
    IndexExpression(
        name="segment_length",
        file=HEADER,
        text="round_up(ceil_div(slots, workers), kSegmentGrain)",
        ranges={"slots": int32(0, _SLOTS), "workers": int64(1, INT32_MAX)},
        largest={"workers": 1},
    ),
    IndexExpression(
        name="problem_sizes",
        file=HEADER,
        text="int64_t{3} * e + 2",
        ranges={"e": int32(0, ROUTED_EXPERTS - 1)},
    ),
    IndexExpression(
        name="last_offset",
        file=HEADER,
        text="offset + count",
        ranges={"offset": int32(0, _SLOTS), "count": int32(0, f"{_SLOTS} - offset")},
    ),
    IndexExpression(
        name="last_padded_offset",
        file=HEADER,
        text="padded_offset + static_cast<int32_t>(round_up(count, kTileRows))",
        ranges={"count": int32(0, _SLOTS), "padded_offset": int32(0, f"{ROWS} - round_up(count, kTileRows)")},
        largest={"count": 0},
    ),
    IndexExpression(
        name="host_counts",
        file=LOOPS,
        text="static_cast<size_t>(worker * call.experts + e)",
        ranges={
            "worker": int64(0, INT32_MAX - 1),
            "call.experts": int32(1, ROUTED_EXPERTS),
            "e": int32(0, "call.experts - 1"),
        },
    ),
    IndexExpression(
        name="warp_counts",
        file=KERNEL,
        text="warp * call.experts",
        ranges={"call.experts": int32(1, _SHARED_EXPERTS), "warp": int32(0, 15)},
    ),
    IndexExpression(
        name="warp_counts_summed",
        file=KERNEL,
        text="(first + i) * experts + e",
        ranges={
            "experts": int32(1, _SHARED_EXPERTS),
            "first": int32(0, 15),
            "i": int32(0, 7),
            "e": int32(0, "experts - 1"),
        },
    ),
    IndexExpression(
        name="worker",
        file=KERNEL,
        text="int64_t{blockIdx.x} * warps + warp",
        ranges={"blockIdx.x": uint32(0, 63), "warps": int32(1, 16), "warp": int32(0, "warps - 1")},
    ),
    IndexExpression(
        name="fetched_slot",
        file=KERNEL,
        text="slot + i * kWarp",
        ranges={"slot": int32(0, _SLOTS - 1), "i": int32(0, 3)},
    ),
    IndexExpression(
        name="fetched_step",
        file=KERNEL,
        text="slot + 4 * kWarp",
        written="slot += kAtOnce * kWarp",
        ranges={"slot": int32(0, _SLOTS - 1)},
    ),
    IndexExpression(
        name="staged_word",
        file=KERNEL,
        text="ranked.expert * 65536 + ranked.rank",
        written="ranked.expert << 16 | ranked.rank",
        ranges={"ranked.expert": int32(0, (1 << 15) - 1), "ranked.rank": int32(0, (1 << 15) - 1)},
    ),
    IndexExpression(
        name="outside_first",
        file=KERNEL,
        text="block * threads + static_cast<int32_t>(threadIdx.x)",
        ranges={"threads": int32(32, 512), "block": int32(0, 15), "threadIdx.x": uint32(0, "threads - 1")},
    ),
    IndexExpression(
        name="outside_slot",
        file=KERNEL,
        text="slot + int64_t{i} * stride",
        ranges={"slot": int32(0, _SLOTS - 1), "stride": int32(32, 8192), "i": int32(0, 7)},
    ),
    IndexExpression(
        name="outside_step",
        file=KERNEL,
        text="slot + kAtOnce * stride",
        written="slot += kAtOnce * stride",
        ranges={"slot": int32(0, _SLOTS - 1), "stride": int32(32, 8192)},
    ),
    IndexExpression(
        name="start",
        file=KERNEL,
        text="running.x + offset.x + count.before",
        ranges={
            "running.x": int32(0, _SLOTS),
            "offset.x": int32(0, f"{_SLOTS} - running.x"),
            "count.before": int32(0, f"{_SLOTS} - running.x - offset.x"),
        },
    ),
    IndexExpression(
        name="position",
        file=KERNEL,
        text="start + earlier + ranked.rank",
        written="starts[ranked.expert] + mine[ranked.expert] + ranked.rank",
        ranges={
            "start": int32(0, _SLOTS),
            "earlier": int32(0, f"{_SLOTS} - start"),
            "ranked.rank": int32(0, f"{_SLOTS} - start - earlier"),
        },
    ),
    IndexExpression(
        name="tail",
        file=KERNEL,
        text="routed_rows + int64_t{blockIdx.x} * threads + thread",
        ranges={
            "routed_rows": int32(0, _SLOTS),
            "blockIdx.x": uint32(0, 63),
            "threads": int32(32, 512),
            "thread": int32(0, "threads - 1"),
        },
    ),
    IndexExpression(
        name="shared_counts",
        file=PLAN,
        text="static_cast<size_t>(warps + 3) * static_cast<size_t>(experts) * 4",
        ranges={"warps": int32(1, 16), "experts": int32(1, ROUTED_EXPERTS)},
    ),
)

MOVES = (
    IndexExpression(
        name="gather_from",
        file=ROWS_HEADER,
        text="source * call.input_stride + at",
        ranges={
            "source": int64(0, INT32_MAX),
            "call.input_stride": int64(0, ADDRESSES),
            "call.row_bytes": int64(1, ADDRESSES),
            "at": int64(0, "call.row_bytes - 1"),
        },
        given=(f"source * call.input_stride <= {ADDRESSES}",),
        largest={"source": 1},
    ),
    IndexExpression(
        name="gather_to",
        file=ROWS_HEADER,
        text="row * call.row_bytes + at",
        ranges={
            "call.rows": int64(1, ADDRESSES),
            "call.row_bytes": int64(1, ADDRESSES),
            "row": int64(0, "call.rows - 1"),
            "at": int64(0, "call.row_bytes - 1"),
        },
        given=(f"call.rows * call.row_bytes <= {ADDRESSES}",),
        largest={"call.row_bytes": 1},
    ),
    IndexExpression(
        name="unpermute_slot",
        file=ROWS_HEADER,
        text="token * call.topk + j",
        ranges={
            "call.tokens": int64(1, ADDRESSES),
            "call.topk": int32(1, INT32_MAX),
            "token": int64(0, "call.tokens - 1"),
            "j": int32(0, "call.topk - 1"),
        },
        given=(f"call.tokens * call.topk <= {ADDRESSES}",),
        largest={"call.topk": 1},
    ),
    IndexExpression(
        name="unpermute_from",
        file=ROWS_HEADER,
        text="source * call.k + column",
        ranges={
            "call.source_rows": int64(1, ADDRESSES),
            "call.k": int64(1, ADDRESSES),
            "source": int64(0, "call.source_rows - 1"),
            "column": int64(0, "call.k - 1"),
        },
        given=(f"call.source_rows * call.k <= {ADDRESSES}",),
        largest={"call.k": 1},
    ),
    IndexExpression(
        name="unpermute_to",
        file=ROWS_KERNEL,
        text="token * call.k + column",
        ranges={
            "call.tokens": int64(1, ADDRESSES),
            "call.k": int64(1, ADDRESSES),
            "token": int64(0, "call.tokens - 1"),
            "column": int64(0, "call.k - 1"),
        },
        given=(f"call.tokens * call.k <= {ADDRESSES}",),
        largest={"call.k": 1},
    ),
    IndexExpression(
        name="unpermute_first_column",
        file=ROWS_KERNEL,
        text="8 * threadIdx.x",
        ranges={"threadIdx.x": uint32(0, 255)},
    ),
)

_MATRIX = {
    "call.blocks": int64(1, LARGEST_K),
    "call.rows": int64(1, ADDRESSES),
    "call.experts": int64(1, ADDRESSES),
}
_CELL = {
    "expert": int64(0, "call.experts - 1"),
    "row": int64(0, "call.rows - 1"),
    "block": int64(0, "call.blocks - 1"),
}
_WORDS = ("words", "ceil_div(call.blocks, kTileBlocks)")


def _swizzled(tile_rows: int, function: str) -> IndexExpression:
    slab = f"round_up(call.rows, {tile_rows}) * words * kTileBlocks"
    return IndexExpression(
        name=function,
        file=SWIZZLE,
        text=f"expert * slab + {function}(row, block, words)",
        written="expert * slab +\n         (call.tile_rows == kTileRows ? swizzled_128x4(row, block, words) : "
        "swizzled_8x4(row, block, words))",
        ranges=_MATRIX | {"padded_row": int64(0, f"round_up(call.rows, {tile_rows}) - 1")} | _CELL,
        given=(
            f"round_up(call.rows, {tile_rows}) * (ceil_div(call.blocks, 4) * 4) <= {ADDRESSES}",
            f"call.experts * (round_up(call.rows, {tile_rows}) * (ceil_div(call.blocks, 4) * 4)) <= {ADDRESSES}",
        ),
        assigned=(_WORDS, ("slab", slab)),
        largest={"call.blocks": 4, "call.rows": tile_rows, "call.experts": ADDRESSES // (4 * tile_rows)},
    )


LAYOUT = (
    _swizzled(128, "swizzled_128x4"),
    _swizzled(8, "swizzled_8x4"),
    IndexExpression(
        name="linear_byte",
        file=SWIZZLE,
        text="(expert * call.rows + row) * call.blocks + block",
        ranges=_MATRIX | _CELL,
        given=(
            f"call.rows * call.blocks <= {ADDRESSES}",
            f"call.experts * (call.rows * call.blocks) <= {ADDRESSES}",
        ),
        largest={"call.blocks": 1, "call.rows": 1},
    ),
    IndexExpression(
        name="block_of_a_word",
        file=SWIZZLE,
        text="word * kTileBlocks + i",
        ranges={"word": int64(0, LARGEST_K // 4 - 1), "i": int32(0, 3)},
    ),
    IndexExpression(
        name="rows_of_all_experts",
        file=ROWS_KERNEL,
        text="call.experts * padded_rows",
        ranges={"call.experts": int64(1, ADDRESSES), "padded_rows": int64(8, ADDRESSES)},
        given=(f"call.experts * padded_rows <= {ADDRESSES}",),
        largest={"call.experts": ADDRESSES // 128, "padded_rows": 128},
    ),
)
