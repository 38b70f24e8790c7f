"""Obligations about the swizzled layouts, for every number of rows and scale columns.

Scale (row, block) of a tensor with R rows and C scale blocks per row lies at byte

    128x4:  ((row/128)*N + block/4)*512 + (row%32)*16 + ((row%128)/32)*4 + block%4
    8x4:    ((row/8)*N + block/4)*32 + (row%8)*4 + block%4            N = ceil(C/4)

In one query the product (row/128)*N with symbolic N makes provers give up, so the argument is cut into lemmas: rows
and blocks split into a tile's coordinates and a place inside the tile; places and tile numbers are each injective
and bounded; and tile*bytes + place is so where both are.
"""

from __future__ import annotations

from dataclasses import dataclass

from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.terms import Term, conj, eq, implies, integers, is_ceil, within

TILE_COLUMNS = 4
"""Scale blocks across one tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swizzle:
    """A layout of tiles; a tile's rows are `groups` times `group_rows`, the group index next to the column."""

    name: str
    groups: int
    group_rows: int

    @property
    def tile_rows(self) -> int:
        return self.groups * self.group_rows

    @property
    def tile_bytes(self) -> int:
        return self.tile_rows * TILE_COLUMNS

    def tile(self, row: Term, block: Term, column_tiles: Term | int) -> Term:
        """Return the number of the tile that holds (row, block)."""
        return (row // self.tile_rows) * column_tiles + block // TILE_COLUMNS

    def place(self, row: Term, block: Term) -> Term:
        """Return the byte inside the tile."""
        in_group = (row % self.group_rows) * (self.groups * TILE_COLUMNS)
        if self.groups == 1:
            return in_group + block % TILE_COLUMNS
        group = (row % self.tile_rows) // self.group_rows
        return in_group + group * TILE_COLUMNS + block % TILE_COLUMNS

    def byte(self, row: Term, block: Term, column_tiles: Term | int) -> Term:
        """Return the byte of (row, block) in the buffer."""
        return self.tile(row, block, column_tiles) * self.tile_bytes + self.place(row, block)


SWIZZLES = (
    Swizzle(name="128x4", groups=4, group_rows=32),
    Swizzle(name="8x4", groups=1, group_rows=8),
)

ROW, BLOCK, OTHER_ROW, OTHER_BLOCK = integers("row block other_row other_block")
ROWS, BLOCKS, ROW_TILES, COLUMN_TILES = integers("rows blocks row_tiles column_tiles")
TILE_ROW, TILE_COLUMN, OTHER_TILE_ROW, OTHER_TILE_COLUMN = integers(
    "tile_row tile_column other_tile_row other_tile_column"
)
TILE_NUMBER, OTHER_TILE_NUMBER, PLACE, OTHER_PLACE = integers(
    "tile_number other_tile_number place other_place"
)


def injective() -> list[Obligation]:
    """Two different (row, block) never share a byte."""
    tile_number = Obligation(
        claim_id="swizzle.injective",
        name="tile_number",
        statement="Tile numbers m*N + j with 0 <= j < N are equal only for equal m and j, for every N.",
        given=(
            within(0, TILE_COLUMN, COLUMN_TILES),
            within(0, OTHER_TILE_COLUMN, COLUMN_TILES),
            eq(TILE_ROW * COLUMN_TILES + TILE_COLUMN, OTHER_TILE_ROW * COLUMN_TILES + OTHER_TILE_COLUMN),
        ),
        goal=conj(eq(TILE_ROW, OTHER_TILE_ROW), eq(TILE_COLUMN, OTHER_TILE_COLUMN)),
        wrong=(eq(TILE_ROW, 0), TILE_COLUMN < OTHER_TILE_COLUMN),
    )
    return [tile_number, *(lemma for swizzle in SWIZZLES for lemma in _injective(swizzle))]


def _injective(swizzle: Swizzle) -> list[Obligation]:
    place, other_place = swizzle.place(ROW, BLOCK), swizzle.place(OTHER_ROW, OTHER_BLOCK)
    same_in_tile = conj(
        eq(ROW % swizzle.tile_rows, OTHER_ROW % swizzle.tile_rows),
        eq(BLOCK % TILE_COLUMNS, OTHER_BLOCK % TILE_COLUMNS),
    )
    same_tile = conj(
        eq(ROW // swizzle.tile_rows, OTHER_ROW // swizzle.tile_rows),
        eq(BLOCK // TILE_COLUMNS, OTHER_BLOCK // TILE_COLUMNS),
    )
    size = swizzle.tile_bytes
    return [
        Obligation(
            claim_id="swizzle.injective",
            name=f"{swizzle.name}_place",
            statement=f"{swizzle.name}: equal bytes inside a tile mean equal row and block inside it.",
            given=(ROW >= 0, BLOCK >= 0, OTHER_ROW >= 0, OTHER_BLOCK >= 0, eq(place, other_place)),
            goal=same_in_tile,
            wrong=(same_tile, conj(same_in_tile, eq(ROW, OTHER_ROW))),
            logic="QF_LIA",
        ),
        Obligation(
            claim_id="swizzle.injective",
            name=f"{swizzle.name}_split",
            statement=f"{swizzle.name}: equal bytes tile*{size} + place mean equal tile and equal place.",
            given=(
                within(0, PLACE, size),
                within(0, OTHER_PLACE, size),
                eq(TILE_NUMBER * size + PLACE, OTHER_TILE_NUMBER * size + OTHER_PLACE),
            ),
            goal=conj(eq(TILE_NUMBER, OTHER_TILE_NUMBER), eq(PLACE, OTHER_PLACE)),
            wrong=(eq(TILE_NUMBER, 0), PLACE < OTHER_PLACE),
            logic="QF_LIA",
        ),
        Obligation(
            claim_id="swizzle.injective",
            name=f"{swizzle.name}_join",
            statement=f"{swizzle.name}: equal tile and equal row and block inside it mean equal row and block.",
            given=(ROW >= 0, BLOCK >= 0, OTHER_ROW >= 0, OTHER_BLOCK >= 0, same_tile, same_in_tile),
            goal=conj(eq(ROW, OTHER_ROW), eq(BLOCK, OTHER_BLOCK)),
            wrong=(eq(ROW, 0), eq(ROW, BLOCK)),
            logic="QF_LIA",
        ),
    ]


def in_bounds() -> list[Obligation]:
    """Every scale lies inside ceil(R/tile rows) * ceil(C/4) tiles, and an expert's scales inside its own rows."""
    return [_column_bound(), _tile_number_bound(), *(x for s in SWIZZLES for x in _in_bounds(s))]


def _column_bound() -> Obligation:
    return Obligation(
        claim_id="swizzle.in_bounds",
        name="tile_column",
        statement="A block below C lies in one of ceil(C/4) tile columns.",
        given=(within(0, BLOCK, BLOCKS), is_ceil(COLUMN_TILES, BLOCKS, TILE_COLUMNS)),
        goal=within(0, BLOCK // TILE_COLUMNS, COLUMN_TILES),
        wrong=(BLOCK // TILE_COLUMNS < COLUMN_TILES - 1, BLOCK // TILE_COLUMNS > 0),
        logic="QF_LIA",
    )


def _tile_number_bound() -> Obligation:
    number = TILE_ROW * COLUMN_TILES + TILE_COLUMN
    return Obligation(
        claim_id="swizzle.in_bounds",
        name="tile_number",
        statement="Tile m*N + j with m < M and j < N is one of M*N tiles.",
        given=(within(0, TILE_ROW, ROW_TILES), within(0, TILE_COLUMN, COLUMN_TILES)),
        goal=within(0, number, ROW_TILES * COLUMN_TILES),
        wrong=(number < ROW_TILES * COLUMN_TILES - 1, number < (ROW_TILES - 1) * COLUMN_TILES),
    )


def _in_bounds(swizzle: Swizzle) -> list[Obligation]:
    size = swizzle.tile_bytes
    place = swizzle.place(ROW, BLOCK)
    tiles, first_tile = integers("tiles first_tile")
    byte = TILE_NUMBER * size + PLACE
    return [
        Obligation(
            claim_id="swizzle.in_bounds",
            name=f"{swizzle.name}_tile_row",
            statement=f"{swizzle.name}: a row below R lies in one of ceil(R/{swizzle.tile_rows}) tile rows.",
            given=(within(0, ROW, ROWS), is_ceil(ROW_TILES, ROWS, swizzle.tile_rows)),
            goal=within(0, ROW // swizzle.tile_rows, ROW_TILES),
            wrong=(ROW // swizzle.tile_rows < ROW_TILES - 1, ROW // swizzle.tile_rows > 0),
            logic="QF_LIA",
        ),
        Obligation(
            claim_id="swizzle.in_bounds",
            name=f"{swizzle.name}_place",
            statement=f"{swizzle.name}: the place inside a tile is one of {size} bytes.",
            given=(ROW >= 0, BLOCK >= 0),
            goal=within(0, place, size),
            wrong=(within(0, place, size - 1), within(1, place, size)),
            logic="QF_LIA",
        ),
        Obligation(
            claim_id="swizzle.in_bounds",
            name=f"{swizzle.name}_byte",
            statement=f"{swizzle.name}: a place in one of `tiles` tiles is one of {size}*tiles bytes.",
            given=(within(0, TILE_NUMBER, tiles), within(0, PLACE, size)),
            goal=within(0, byte, tiles * size),
            wrong=(byte < (tiles - 1) * size, byte < tiles * size - 1),
            logic="QF_LIA",
        ),
        Obligation(
            claim_id="swizzle.in_bounds",
            name=f"{swizzle.name}_expert",
            statement=f"{swizzle.name}: behind an expert's first tile, its bytes stay inside its own tiles, so that "
            "disjoint regions of rows are disjoint regions of bytes.",
            given=(within(0, TILE_NUMBER, tiles), within(0, PLACE, size), first_tile >= 0),
            goal=within(first_tile * size, first_tile * size + byte, (first_tile + tiles) * size),
            wrong=(
                first_tile * size + byte < tiles * size,
                implies(first_tile >= 1, first_tile * size < byte),
            ),
            logic="QF_LIA",
        ),
    ]
