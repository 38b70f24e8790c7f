"""Every index expression of the grouped GEMM: the shared header, the host twin, preparation and Hopper's kernel.

Offsets inside a stage of shared memory are compile-time constants plus places in a tile, and are left out; so is the
Blackwell form, whose indices are CUTLASS's.
"""

from __future__ import annotations

from nvfp4_moe.verification.proofs.index_expression import IndexExpression
from nvfp4_moe.verification.proofs.kernel_ranges import (
    ADDRESSES,
    INT32_MAX,
    LARGEST_K,
    ROWS,
    WORDS,
    K,
    int32,
    int64,
    uint32,
)

HEADER = "include/nvfp4_moe/gemm.h"
HOST = "csrc/gemm_host.h"
PREPARE = "csrc/gemm_prepare.cuh"
KERNEL = "csrc/gemm_kernel.cuh"

_GEMM_ROWS = INT32_MAX - 128
"""Routed rows, at most."""
_EXPERTS = int32(1, ROWS)
_N = int32(8, LARGEST_K)
_PIECES = LARGEST_K // 32
"""Pieces of 32 codes in a row, at most."""

GEMM = (
    IndexExpression(
        name="gemm_problem_size",
        file=HEADER,
        text="int64_t{3} * expert",
        ranges={"expert": int32(0, ROWS - 1)},
    ),
    IndexExpression(
        name="gemm_last_row",
        file=HEADER,
        text="int64_t{rows.first} + rows.count",
        ranges={"rows.first": int32(0, INT32_MAX), "rows.count": int32(0, INT32_MAX)},
    ),
    IndexExpression(
        name="gemm_last_scale_row",
        file=HEADER,
        text="rows.scale_row + round_up(rows.count, kTileRows)",
        ranges={"rows.scale_row": int32(0, INT32_MAX), "rows.count": int32(0, INT32_MAX)},
    ),
    IndexExpression(
        name="gemm_row_scale_byte",
        file=HEADER,
        text="rows.scale_row * (words * kTileBlocks) + swizzled_128x4(row_of_expert, block, words)",
        ranges={
            "call.k": K,
            "rows.scale_row": int32(0, INT32_MAX),
            "row_of_expert": int32(0, _GEMM_ROWS),
            "block": int32(0, "call.k / 16 - 1"),
        },
        assigned=(("words", "scale_words(call.k)"),),
    ),
    IndexExpression(
        name="gemm_weight_scale_byte",
        file=HEADER,
        text="expert * slab + swizzled_128x4(column, block, scale_words(call.k))",
        written="expert * b_scale_slab(call.n, call.k) + swizzled_128x4(column, block, scale_words(call.k))",
        ranges={
            "call.k": K,
            "call.n": _N,
            "expert": int32(0, ROWS - 1),
            "column": int32(0, "call.n - 1"),
            "block": int32(0, "call.k / 16 - 1"),
        },
        assigned=(("slab", "round_up(int64_t{call.n}, kTileRows) * scale_words(call.k) * kTileBlocks"),),
        given=(f"expert * (round_up(call.n, 128) * (scale_words(call.k) * 4)) <= {ADDRESSES}",),
        largest={"expert": 2},
    ),
    IndexExpression(
        name="gemm_middle",
        file=HEADER,
        text="first + (last - first) / 2",
        ranges={"call.experts": _EXPERTS, "last": int32(0, "call.experts"), "first": int32(0, "last")},
    ),
    IndexExpression(
        name="gemm_code",
        file=HOST,
        text="row * row_bytes + column / 2",
        ranges={
            "row_bytes": int64(8, LARGEST_K // 2),
            "row": int64(0, ADDRESSES),
            "column": int32(0, "row_bytes * 2 - 1"),
        },
        given=(f"row * row_bytes <= {ADDRESSES}",),
        largest={"row": ADDRESSES // (LARGEST_K // 2)},
    ),
    IndexExpression(
        name="gemm_weight_row",
        file=HOST,
        text="int64_t{expert} * call.n + first + lane",
        ranges={
            "call.n": _N,
            "expert": int32(0, ROWS - 1),
            "first": int32(0, "call.n - 8"),
            "lane": int32(0, 7),
        },
    ),
    IndexExpression(
        name="gemm_out",
        file=HOST,
        text="(int64_t{rows.first} + row) * call.n + first",
        ranges={
            "call.n": _N,
            "rows.first": int32(0, _GEMM_ROWS),
            "row": int32(0, f"{_GEMM_ROWS} - rows.first"),
            "first": int32(0, "call.n - 8"),
        },
    ),
    IndexExpression(
        name="gemm_piece",
        file=PREPARE,
        text="piece * kLaneK",
        ranges={"piece": int32(0, _PIECES + 255), "kLaneK": int32(32, 32)},
    ),
    IndexExpression(
        name="gemm_prepared_codes",
        file=PREPARE,
        text="row * int64_t{call.k / 2} + column / 2",
        ranges={"call.k": K, "row": int32(0, _GEMM_ROWS), "column": int32(0, "call.k - 1")},
    ),
    IndexExpression(
        name="gemm_prepared_row",
        file=PREPARE,
        text="row * int64_t{steps} * kStepK + piece / 4 * kStepK",
        ranges={
            "steps": int32(1, LARGEST_K // 128),
            "kStepK": int32(128, 128),
            "row": int32(0, _GEMM_ROWS),
            "piece": int32(0, _PIECES + 255),
        },
    ),
    IndexExpression(
        name="gemm_expert_step",
        file=PREPARE,
        text="begin + kPrepareThreads",
        written="begin += kPrepareThreads",
        ranges={
            "call.experts": _EXPERTS,
            "begin": int32(0, "call.experts - 1"),
            "kPrepareThreads": int32(256, 256),
        },
    ),
    IndexExpression(
        name="gemm_expert",
        file=PREPARE,
        text="begin + static_cast<int32_t>(threadIdx.x)",
        ranges={
            "call.experts": _EXPERTS,
            "begin": int32(0, "call.experts - 1"),
            "threadIdx.x": uint32(0, 255),
        },
    ),
    IndexExpression(
        name="gemm_plain_codes",
        file=PREPARE,
        text="row * int64_t{call.k / 2} + block * (kBlockSize / 2)",
        ranges={"call.k": K, "row": int32(0, _GEMM_ROWS), "block": int32(0, "call.k / 16 - 1")},
    ),
    IndexExpression(
        name="gemm_plain_row",
        file=PREPARE,
        text="row * int64_t{call.k} + block * kBlockSize",
        ranges={"call.k": K, "row": int32(0, _GEMM_ROWS), "block": int32(0, "call.k / 16 - 1")},
    ),
    IndexExpression(
        name="gemm_dequantized_row",
        file=PREPARE,
        text="row * call.k + block * kBlockSize",
        ranges={"call.k": K, "row": int64(0, ADDRESSES), "block": int32(0, "call.k / 16 - 1")},
        given=(f"row * call.k <= {ADDRESSES}",),
        largest={"row": ADDRESSES // LARGEST_K},
    ),
    IndexExpression(
        name="gemm_unit_row",
        file=KERNEL,
        text="rows.first + first",
        ranges={"rows.first": int32(0, _GEMM_ROWS), "first": int32(0, f"{_GEMM_ROWS} - rows.first")},
    ),
    IndexExpression(
        name="gemm_copied_scales",
        file=KERNEL,
        text="slab + column * (words * kTileBlocks) + int64_t{2 * step} * kAtomBytes",
        ranges={
            "slab": int64(0, ADDRESSES),
            "words": int64(1, WORDS),
            "column": int32(0, LARGEST_K + 512),
            "step": int32(0, LARGEST_K // 128 - 1),
            "kAtomBytes": int32(512, 512),
        },
    ),
    IndexExpression(
        name="gemm_copied_row",
        file=KERNEL,
        text="unit.first_row + row",
        ranges={
            "unit.first_row": int32(0, _GEMM_ROWS - 1),
            "row": int32(0, f"{_GEMM_ROWS} + 7 - unit.first_row"),
        },
    ),
    IndexExpression(
        name="gemm_stored",
        file=KERNEL,
        text="int64_t{unit.first_row} * given.call.n + column",
        ranges={
            "given.call.n": _N,
            "unit.first_row": int32(0, _GEMM_ROWS - 1),
            "column": int32(0, "given.call.n - 1"),
        },
    ),
    IndexExpression(
        name="gemm_units",
        file=KERNEL,
        text="int64_t{tiles} * given.column_tiles",
        written="int64_t{given.tile_ends[given.call.experts - 1]} * given.column_tiles",
        ranges={"tiles": int32(0, INT32_MAX), "given.column_tiles": int32(1, LARGEST_K // 128)},
    ),
)
