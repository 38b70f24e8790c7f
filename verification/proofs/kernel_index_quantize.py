"""Every index expression of the quantizers' bodies in quantize.h, which the host twin and the GPU share.

The owner of a row is what `clipped_owner` returns: its rows lie in the call's, its scale row is an entry of int32
offsets, or a multiple of the tile in the masked form.
"""

from __future__ import annotations

from nvfp4_moe.verification.proofs.c_expression import INT32
from nvfp4_moe.verification.proofs.index_expression import IndexExpression
from nvfp4_moe.verification.proofs.kernel_ranges import (
    ADDRESSES,
    BLOCK_TEXT,
    INT32_MAX,
    ROWS,
    WORDS,
    K,
    int32,
    int64,
)

HEADER = "include/nvfp4_moe/quantize.h"

_SCALE_ROW = int64(0, 128 * INT32_MAX)
"""Ragged: an int32 entry; masked: below E * round_up(M, 128) with E * M below 2^31."""
_MASKED = {"call.experts": int32(1, INT32_MAX - 1), "call.rows_per_expert": int64(0, INT32_MAX)}
_MASKED_ROWS = (f"call.experts * call.rows_per_expert <= {ROWS}",)
_MASKED_CORNER = {"call.experts": 1, "call.rows_per_expert": ROWS, "expert": 0}

OWNERS = (
    IndexExpression(
        name="scale_rows_left",
        file=HEADER,
        text="call.scale_rows - scale_row",
        ranges={"call.scale_rows": int64(0, ADDRESSES), "scale_row": int64(INT32.least, 128 * INT32_MAX)},
        largest={"scale_row": INT32.least},
        below_zero=True,
    ),
    IndexExpression(
        name="rows_that_fit",
        file=HEADER,
        text="left / kTileRows * kTileRows",
        ranges={"left": int64(0, ADDRESSES)},
    ),
    IndexExpression(
        name="rows_of_an_owner",
        file=HEADER,
        text="end - first",
        ranges={"end": int32(0, ROWS), "first": int32(0, "end")},
        largest={"first": 0},
    ),
    IndexExpression(
        name="clipped_end",
        file=HEADER,
        text="static_cast<int32_t>(first + fitting)",
        ranges={"end": int32(0, ROWS), "first": int32(0, "end"), "fitting": int64(0, "end - first")},
    ),
    IndexExpression(
        name="masked_first_row",
        file=HEADER,
        text="static_cast<int32_t>(expert * call.rows_per_expert)",
        ranges=_MASKED | {"expert": int32(0, "call.experts - 1")},
        given=_MASKED_ROWS,
        largest=_MASKED_CORNER,
    ),
    IndexExpression(
        name="masked_last_row",
        file=HEADER,
        text="first + owned",
        ranges={"first": int32(0, ROWS), "owned": int32(0, f"{ROWS} - first")},
    ),
    IndexExpression(
        name="masked_next_row",
        file=HEADER,
        text="static_cast<int32_t>(first + call.rows_per_expert)",
        ranges={"first": int32(0, ROWS), "call.rows_per_expert": int64(0, f"{ROWS} - first")},
    ),
    IndexExpression(
        name="masked_scale_row",
        file=HEADER,
        text="expert * round_up(call.rows_per_expert, kTileRows)",
        ranges=_MASKED | {"expert": int32(0, "call.experts - 1")},
        given=_MASKED_ROWS,
        largest={"call.experts": ROWS, "call.rows_per_expert": 1},
    ),
    IndexExpression(
        name="region_byte",
        file=HEADER,
        text="owner.scale_row * (words * kTileBlocks)",
        ranges={"owner.scale_row": _SCALE_ROW, "words": int64(1, WORDS)},
    ),
    IndexExpression(
        name="search_of_an_expert",
        file="include/nvfp4_moe/layouts.h",
        text="first + (last - first) / 2",
        ranges={"experts": int32(1, ROWS), "last": int32(0, "experts + 1"), "first": int32(0, "last")},
    ),
)

BODIES = (
    IndexExpression(
        name="input_row",
        file=HEADER,
        text="source * int64_t{call.input_stride}",
        ranges={"source": int64(0, INT32_MAX), "call.input_stride": int32(0, INT32_MAX)},
    ),
    IndexExpression(
        name="input_block",
        file=HEADER,
        text="block * kBlockSize",
        ranges={"call.k": K, "block": int64(0, "call.k / 16 - 1")},
    ),
    IndexExpression(
        name="input_block_of_up",
        file=HEADER,
        text="call.k + block * kBlockSize",
        ranges={"call.k": K, "block": int64(0, "call.k / 16 - 1")},
    ),
    IndexExpression(
        name="packed_byte",
        file=HEADER,
        text="row * (call.k / 2) + block * (kBlockSize / 2)",
        ranges={"call.k": K, "row": int64(0, ROWS), "block": int64(0, "call.k / 16 - 1")},
    ),
    IndexExpression(
        name="scale_byte",
        file=HEADER,
        text="row_scale_byte(owner, static_cast<int32_t>(row), words) + block_byte_128x4(block)",
        ranges={
            "call.k": K,
            "owner.scale_row": _SCALE_ROW,
            "row": int64(0, ROWS),
            "owner.first_row": int32(0, "row"),
            "block": int64(0, BLOCK_TEXT),
        },
        assigned=(("words", "scale_words(call.k)"),),
        largest={"owner.first_row": 0},
    ),
    IndexExpression(
        name="padding_tile_row",
        file=HEADER,
        text="owner.scale_row + owned - owned % kTileRows",
        ranges={"owner.scale_row": _SCALE_ROW, "owned": int32(0, ROWS)},
    ),
    IndexExpression(
        name="padding_tile",
        file=HEADER,
        text="tile_row * (scale_words(call.k) * kTileBlocks)",
        ranges={"call.k": K, "tile_row": int64(0, 128 * INT32_MAX + ROWS)},
    ),
    IndexExpression(
        name="padding_piece",
        file=HEADER,
        text="place.tile_byte + int64_t{word} * (kTileRows * kTileBlocks) + lane * kPieceBytes",
        ranges={
            "place.tile_byte": int64(0, ADDRESSES),
            "word": int32(0, WORDS - 1),
            "lane": int32(0, 31),
        },
    ),
    IndexExpression(
        name="row_of_the_next_piece",
        file=HEADER,
        text="row + kTileLanes",
        ranges={"row": int32(0, ROWS)},
    ),
    IndexExpression(
        name="padding_beside_a_row",
        file=HEADER,
        text="kPieceBytes + kTileBlocks * word",
        ranges={"word": int32(0, 3)},
    ),
)
