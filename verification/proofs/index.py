"""Obligations about 32-bit index arithmetic: it cannot wrap below a stated size, and the first size where it does.

A swizzled buffer of fewer than 2^31 bytes has at most 2^31 / (bytes of a tile) tiles: 2^22 for 128x4. Below that no
intermediate value of the byte index leaves [0, 2^31), for every shape (integers), and the index computed on signed
32-bit vectors equals the one computed on 64 bits: for any shape in three lemmas (parts, tile number, byte), and for
usual column counts also in one query, without lemmas.

With N tile columns the first tile row in which some index wraps is ceil((2^22 - (N-1)) / N): `first_wrapping_row`.
The same holds for element indices row*K + column, with 2^31 in place of 2^22.
"""

# ruff: noqa: SIM300 - inequalities are written as the proof reads; the capitals are variables of the formulas

from __future__ import annotations

from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.swizzle import (
    PLACE,
    SWIZZLES,
    TILE_COLUMNS,
    TILE_NUMBER,
    Swizzle,
)
from nvfp4_moe.verification.proofs.terms import (
    conj,
    eq,
    implies,
    integers,
    is_ceil,
    vectors,
    widen,
    within,
)

WORD = 32
"""Bits of the index type."""
END: int = 2 ** (WORD - 1)
"""One past the largest index."""

USUAL_BLOCKS = (8, 128, 448, 1024)
"""Scale blocks per row (K = 128, 2,048, 7,168, 16,384) for the whole index in one bit-vector query, level 1."""
MORE_BLOCKS = (1, 5, 90, 180, 256, 320, 384, 1000)
"""The same at level 2: one block, a ragged tile, widths of more models and a count that provers find hard."""


def most_tiles(swizzle: Swizzle) -> int:
    """Return the most tiles that 32-bit byte indices can address."""
    return END // swizzle.tile_bytes


def first_wrapping_row(swizzle: Swizzle, blocks: int) -> int:
    """Return the first row with a byte index of 2^31 or more in a buffer of `blocks` scale blocks per row."""
    columns = -(-blocks // TILE_COLUMNS)
    first_tile_row: int = max(0, -(-(most_tiles(swizzle) - (columns - 1)) // columns))
    return first_tile_row * swizzle.tile_rows


def no_wrap() -> list[Obligation]:
    """32-bit index arithmetic is free of wrap up to `most_tiles`, and wraps at `first_wrapping_row`."""
    lemmas = [*_any_limit(), *(_byte(s) for s in SWIZZLES), *(x for s in SWIZZLES for x in _any_columns(s))]
    whole = [x for blocks in (*USUAL_BLOCKS, *MORE_BLOCKS) for x in _vectors(SWIZZLES[0], blocks)]
    return [*lemmas, *whole]


def _byte(swizzle: Swizzle) -> Obligation:
    size, limit = swizzle.tile_bytes, most_tiles(swizzle)
    byte = TILE_NUMBER * size + PLACE
    return Obligation(
        claim_id="index.no_wrap",
        name=f"{swizzle.name}_byte",
        statement=f"{swizzle.name}: tile*{size} + place is below 2^31 exactly where tile is below {limit}.",
        given=(TILE_NUMBER >= 0, within(0, PLACE, size)),
        goal=conj(
            implies(TILE_NUMBER < limit, conj(TILE_NUMBER * size < END, byte < END)),
            implies(byte < END, TILE_NUMBER < limit),
        ),
        wrong=(implies(TILE_NUMBER <= limit, byte < END), implies(byte < END, TILE_NUMBER < limit - 1)),
        logic="QF_LIA",
    )


def _any_limit() -> list[Obligation]:
    """Numbers m*N + j against any limit: tiles of a layout against `most_tiles`, elements against 2^31."""
    columns, row, column, rows, first, limit = integers("columns row column rows first_row limit")
    number, last_column = row * columns + column, columns - 1
    definition = (columns >= 1, is_ceil(first, limit - last_column, columns))
    return [
        Obligation(
            claim_id="index.no_wrap",
            name="number",
            statement="In M rows of N columns with M*N <= limit, m*N and m*N + j stay below the limit "
            "(m*N + j < M*N by swizzle.in_bounds.tile_number).",
            given=(
                within(0, row, rows),
                within(0, column, columns),
                number < rows * columns,
                rows * columns <= limit,
            ),
            goal=conj(within(0, row * columns, limit), within(0, number, limit)),
            wrong=(within(0, number, limit - 1),),
        ),
        Obligation(
            claim_id="index.no_wrap",
            name="first_row_not_before",
            statement="No number m*N + j, j < N, in a row before ceil((limit - (N-1)) / N) reaches the limit.",
            given=(*definition, row < first, within(0, column, columns)),
            goal=number < limit,
            wrong=(number < limit - 1,),
        ),
        Obligation(
            claim_id="index.no_wrap",
            name="first_row_reached",
            statement="The last column of that row does, so it is the first row that wraps.",
            given=definition,
            goal=first * columns + last_column >= limit,
            wrong=(
                first * columns + last_column > limit,
                (first - 1) * columns + last_column >= limit,
            ),
        ),
    ]


def _vectors(swizzle: Swizzle, blocks: int) -> list[Obligation]:
    row, block = vectors("row block", width=WORD)
    columns = -(-blocks // TILE_COLUMNS)
    narrow = swizzle.byte(row, block, columns)
    wide = swizzle.byte(widen(row, by=WORD), widen(block, by=WORD), columns)
    first = first_wrapping_row(swizzle, blocks)
    return [
        Obligation(
            claim_id="index.no_wrap",
            name=f"{swizzle.name}_bits_{blocks}",
            statement=f"{swizzle.name}, {blocks} blocks per row, 32-bit vectors: below row {first} the index equals "
            "the 64-bit one.",
            given=(within(0, row, first), within(0, block, blocks)),
            goal=conj(eq(widen(narrow, by=WORD), wide), narrow >= 0),
            wrong=(narrow < END - swizzle.tile_bytes * 2 * columns, narrow >= 1),
            logic="QF_BV",
            level=1 if blocks in USUAL_BLOCKS else 2,
        ),
        Obligation(
            claim_id="index.no_wrap",
            name=f"{swizzle.name}_bits_{blocks}_wraps",
            statement=f"{swizzle.name}, {blocks} blocks per row: in row {first} it wraps to a negative number.",
            given=(eq(row, first), eq(block, blocks - 1)),
            goal=narrow < 0,
            wrong=(narrow >= 0, eq(widen(narrow, by=WORD), wide)),
            logic="QF_BV",
        ),
    ]


def _any_columns(swizzle: Swizzle) -> list[Obligation]:
    row, block, columns = vectors("row block columns", width=WORD)
    tile_row, tile_column, tile, place = vectors("tile_row tile_column tile place", width=WORD)
    row64, block64, columns64, tile_row64, tile_column64, tile64, place64 = (
        widen(x, by=WORD) for x in (row, block, columns, tile_row, tile_column, tile, place)
    )
    size, limit = swizzle.tile_bytes, most_tiles(swizzle)
    true_tile = tile_row64 * columns64 + tile_column64
    return [
        Obligation(
            claim_id="index.no_wrap",
            name=f"{swizzle.name}_bits_parts",
            statement=f"{swizzle.name}, 32-bit vectors: tile row, tile column and place equal the 64-bit ones.",
            given=(row >= 0, block >= 0),
            goal=conj(
                eq(widen(row // swizzle.tile_rows, by=WORD), row64 // swizzle.tile_rows),
                eq(widen(block // TILE_COLUMNS, by=WORD), block64 // TILE_COLUMNS),
                eq(widen(swizzle.place(row, block), by=WORD), swizzle.place(row64, block64)),
            ),
            wrong=(eq(widen(swizzle.place(row, block), by=WORD), swizzle.place(block64, row64)),),
            logic="QF_BV",
        ),
        Obligation(
            claim_id="index.no_wrap",
            name=f"{swizzle.name}_bits_tile",
            statement=f"{swizzle.name}, any number of tile columns, 32-bit vectors: where the true tile number "
            f"m*N + j (64 bits) is below {limit}, the 32-bit one equals it.",
            given=(tile_row >= 0, tile_column >= 0, columns >= 0, true_tile < limit),
            goal=eq(widen(tile_row * columns + tile_column, by=WORD), true_tile),
            wrong=(true_tile < limit - 1,),
            logic="QF_BV",
        ),
        Obligation(
            claim_id="index.no_wrap",
            name=f"{swizzle.name}_bits_byte",
            statement=f"{swizzle.name}, 32-bit vectors: for a tile below {limit}, tile*{size} + place equals the "
            "64-bit one.",
            given=(within(0, tile, limit), within(0, place, size)),
            goal=conj(
                eq(widen(tile * size + place, by=WORD), tile64 * size + place64), tile * size + place >= 0
            ),
            wrong=(tile * size + place < END - 1, tile * size + place >= 1),
            logic="QF_BV",
        ),
    ]
