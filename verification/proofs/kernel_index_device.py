"""Every index expression that the GPU's quantizers add to the shared bodies: two kernels, and the geometry of a launch."""

from __future__ import annotations

from nvfp4_moe.verification.proofs.c_expression import INT32
from nvfp4_moe.verification.proofs.index_expression import IndexExpression
from nvfp4_moe.verification.proofs.kernel_ranges import (
    FEW_ROWS,
    INT32_MAX,
    MASKED_EXPERTS,
    ROWS,
    WORDS,
    K,
    any_of,
    int32,
    int64,
    uint32,
)

RING = "csrc/quantize_kernel.cuh"
FEW = "csrc/few_rows_kernel.cuh"
LAUNCH = "csrc/quantize_launch.cuh"

_THREAD = {"blockDim.x": uint32(32, 256), "threadIdx.x": uint32(0, "blockDim.x - 1")}
_GROUPS = {"blockDim.y": uint32(1, 8), "threadIdx.y": uint32(0, "blockDim.y - 1")}

RING_KERNEL = (
    IndexExpression(
        name="ring_block",
        file=RING,
        text="static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x)",
        ranges={"blockIdx.y": uint32(0, WORDS * 4 // 256 - 1), **_THREAD},
    ),
    IndexExpression(
        name="ring_warp",
        file=RING,
        text="static_cast<int32_t>(threadIdx.y * blockDim.x + threadIdx.x)",
        ranges=_GROUPS | _THREAD,
    ),
    IndexExpression(
        name="ring_words",
        file=RING,
        text="(call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks)",
        ranges={"call.k": K},
    ),
    IndexExpression(
        name="ring_slab",
        file=RING,
        text="static_cast<int32_t>(blockIdx.z) * rows",
        ranges={
            "call.experts": int32(1, MASKED_EXPERTS),
            "rows": int32(0, ROWS),
            "blockIdx.z": uint32(0, "call.experts - 1"),
        },
        given=(f"call.experts * rows <= {ROWS}",),
        largest={"rows": ROWS // MASKED_EXPERTS},
    ),
    IndexExpression(
        name="ring_first_row",
        file=RING,
        text="static_cast<int32_t>((blockIdx.x * blockDim.y + threadIdx.y) * split.rows_each)",
        ranges={
            **_GROUPS,
            "split.rows_each": int32(1, 8),
            "rows": int64(1, ROWS),
            "blockIdx.x": uint32(0, ROWS - 1),
        },
        given=("blockIdx.x * (blockDim.y * split.rows_each) <= rows - 1",),
        largest={"blockIdx.x": (ROWS - 1) // 64},
    ),
    IndexExpression(
        name="ring_row",
        file=RING,
        text="slab + first",
        ranges={"slab": int32(0, ROWS), "first": int32(0, f"{ROWS} - slab + 63")},
    ),
    IndexExpression(
        name="ring_end",
        file=RING,
        text="slab + min(first + split.rows_each, rows)",
        ranges={
            "rows": int32(1, ROWS),
            "slab": int32(0, f"{ROWS} - rows"),
            "first": int32(0, "rows + 63"),
            "split.rows_each": int32(1, 8),
        },
    ),
    IndexExpression(
        name="ring_row_ahead",
        file=RING,
        text="row + kAhead",
        ranges={"row": int32(0, ROWS - 1), "kAhead": int32(2, 2)},
    ),
    IndexExpression(
        name="ring_input_row",
        file=RING,
        text="source * (int64_t{call.input_stride} * 2)",
        ranges={"source": int64(0, INT32_MAX), "call.input_stride": int32(0, INT32_MAX)},
    ),
    IndexExpression(
        name="ring_input_block",
        file=RING,
        text="first_block * kBlockSize",
        ranges={"first_block": int32(0, WORDS * 4 + WORDS)},
    ),
    IndexExpression(
        name="ring_pieces",
        file=RING,
        text="2 * (blocks - first_block)",
        ranges={"blocks": int32(1, WORDS * 4), "first_block": int32(0, WORDS * 4 + WORDS)},
        largest={"first_block": 0},
        below_zero=True,
    ),
    IndexExpression(
        name="ring_packed_byte",
        file=RING,
        text="int64_t{row} * (call.k / 2) + block * (kBlockSize / 2)",
        ranges={"call.k": K, "row": int32(0, ROWS), "block": int32(0, "call.k / 16 - 1")},
    ),
    IndexExpression(
        name="ring_row_in_expert",
        file=RING,
        text="row - expert.owner.first_row",
        ranges={"row": int32(0, ROWS), "expert.owner.first_row": int32(0, "row")},
        largest={"expert.owner.first_row": 0},
    ),
    IndexExpression(
        name="ring_scale_row",
        file=RING,
        text="row_byte_128x4(static_cast<uint32_t>(row_in_expert), static_cast<uint32_t>(words))",
        ranges={"words": int32(1, WORDS), "row_in_expert": int32(0, ROWS)},
    ),
    IndexExpression(
        name="ring_scale_word",
        file=RING,
        text="block / kTileBlocks * (kTileRows * kTileBlocks) + 4 * place",
        ranges={"block": uint32(0, WORDS * 4 + WORDS), "place": uint32(0, 3)},
    ),
    IndexExpression(
        name="ring_padding_pieces",
        file=RING,
        text="(call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks) * lanes",
        ranges={"call.k": K, "lanes": int32(0, 32)},
    ),
    IndexExpression(
        name="ring_padding_first",
        file=RING,
        text="static_cast<int32_t>(blockIdx.y) * threads + thread",
        ranges={
            "threads": int32(32, 256),
            "blockIdx.y": uint32(0, WORDS * 4 // 256 - 1),
            "thread": int32(0, "threads - 1"),
        },
    ),
    IndexExpression(
        name="ring_padding_step",
        file=RING,
        text="piece + splits * threads",
        written="piece += splits * threads",
        ranges={
            "splits": int32(1, WORDS * 4 // 256),
            "threads": int32(32, 256),
            "piece": int32(0, WORDS * 32 - 1),
        },
    ),
    IndexExpression(
        name="ring_padding_expert",
        file=RING,
        text="static_cast<int32_t>(blockIdx.x) - split.row_blocks",
        ranges={"blockIdx.x": uint32(0, INT32_MAX - 1), "split.row_blocks": int32(1, ROWS)},
        largest={"split.row_blocks": 1},
        below_zero=True,
    ),
    IndexExpression(
        name="ring_shared_vectors",
        file=RING,
        text="2 * (call.experts + 1) + i",
        ranges={"call.experts": int32(1, 2048), "i": int32(0, "call.experts - 1")},
    ),
    IndexExpression(
        name="ring_shared_offsets",
        file=RING,
        text="call.experts + 1 + i",
        ranges={"call.experts": int32(1, 2048), "i": int32(0, "call.experts")},
    ),
)

FEW_ROWS_KERNEL = (
    IndexExpression(
        name="few_input",
        file=FEW,
        text="source * int64_t{call.input_stride} + block * kBlockSize",
        ranges={
            "source": int64(0, INT32_MAX),
            "call.input_stride": int32(0, INT32_MAX),
            "block": int32(0, 511),
        },
    ),
    IndexExpression(
        name="few_expert_step",
        file=FEW,
        text="e + static_cast<int32_t>(blockDim.x)",
        written="e += static_cast<int32_t>(blockDim.x)",
        ranges={
            "call.experts": int32(1, ROWS),
            "e": int32(0, "call.experts - 1"),
            "blockDim.x": uint32(32, 512),
        },
    ),
    IndexExpression(
        name="few_padding_tile_row",
        file=FEW,
        text="int64_t{rows.scale_row} + owned - owned % kTileRows",
        ranges={"rows.scale_row": int32(0, INT32_MAX), "owned": int32(1, ROWS)},
    ),
    IndexExpression(
        name="few_padding_tile",
        file=FEW,
        text="tile_row * (words * kTileBlocks)",
        ranges={"tile_row": int64(0, INT32_MAX + ROWS), "words": int32(1, 128)},
    ),
    IndexExpression(
        name="few_padding_first",
        file=FEW,
        text="(row - rows.first_row) * warps + warp",
        ranges={
            "row": int32(0, FEW_ROWS - 1),
            "rows.first_row": int32(0, "row"),
            "warps": int32(1, 16),
            "warp": int32(0, "warps - 1"),
        },
        largest={"rows.first_row": 0},
    ),
    IndexExpression(
        name="few_padding_step",
        file=FEW,
        text="word + owned * warps",
        written="word += owned * warps",
        ranges={"word": int32(0, 127), "owned": int32(1, FEW_ROWS), "warps": int32(1, 16)},
    ),
    IndexExpression(
        name="few_scale_row",
        file=FEW,
        text="region_byte(owner, words) + "
        "row_byte_128x4(static_cast<uint32_t>(in_expert), static_cast<uint32_t>(words))",
        ranges={
            "owner.scale_row": int64(0, INT32_MAX),
            "words": int32(1, 128),
            "in_expert": int32(0, FEW_ROWS - 1),
        },
    ),
    IndexExpression(
        name="few_packed_byte",
        file=FEW,
        text="int64_t{row} * (call.k / 2) + block * (kBlockSize / 2)",
        ranges={
            "call.k": int32(16, 8192),
            "row": int32(0, FEW_ROWS - 1),
            "block": int32(0, "call.k / 16 - 1"),
        },
    ),
)

GEOMETRY = (
    IndexExpression(
        name="rows_in_flight",
        file=LAUNCH,
        text="rows * splits * slabs",
        ranges={
            "rows": int64(0, ROWS),
            "splits": int64(1, WORDS * 4 // 256),
            "slabs": int64(1, MASKED_EXPERTS),
        },
    ),
    IndexExpression(
        name="grid_x",
        file=LAUNCH,
        text="static_cast<uint32_t>(row_blocks + padding_blocks)",
        ranges={"row_blocks": int64(0, ROWS), "padding_blocks": int64(0, ROWS)},
    ),
    IndexExpression(
        name="grid_y",
        file=LAUNCH,
        text="ceil_div(padded_blocks, kMostThreads)",
        ranges={"call.k": int64(16, K.most)},
        assigned=(("padded_blocks", "scale_words(call.k) * kTileBlocks"),),
        limit=65_535,
    ),
    IndexExpression(
        name="shared_vectors_bytes",
        file=LAUNCH,
        text="4 * (3 * int64_t{call.experts} + 2)",
        ranges={"call.experts": any_of(INT32)},
        below_zero=True,
    ),
    IndexExpression(
        name="few_rows_threads",
        file=LAUNCH,
        text="round_up(scale_words(call.k) * kTileBlocks, 32)",
        ranges={"call.k": int32(16, 8192)},
        limit=512,
    ),
)
