"""Obligations about where experts are placed: regions do not overlap, hold their rows and end inside the buffer.

Expert e has c rows, before it `offset` rows are routed, and its region is [start, start + R(c)) with start = A * slot:

- packed: slot = tiles of the experts before it (prefix sums of R(c));
- align_up: slot = ceil((offset + e*(A-1)) / A) (FlashInfer and TensorRT-LLM CUTLASS);
- align_down: slot = floor((offset + e*(A-1)) / A);
- tile_index: slot = floor(offset / A) + e (quack).

For each placement the next expert starts at or after the end of this one; starts then never fall, so that every
later expert starts at or after it too (`later`, by induction), which is disjointness of all pairs.
"""

# ruff: noqa: SIM300 - inequalities are written as the proof reads; the capitals are variables of the formulas

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.padding import TILE, exact_any, invariant, reach_of
from nvfp4_moe.verification.proofs.terms import Term, conj, integers, is_ceil, is_floor

OFFSET, EXPERT, COUNT, COUNT_TILES = integers("offset expert count count_tiles")
ROUTED, EXPERTS = integers("routed experts")
SLOT, NEXT_SLOT, LATER_SLOT = integers("slot next_slot later_slot")
LAST = integers("last")[0]
"""Tiles of the buffer, as the formula that belongs to the placement gives them."""

ONE_EXPERT = (
    TILE >= 1,
    EXPERT >= 0,
    OFFSET >= 0,
    COUNT >= 0,
    is_ceil(COUNT_TILES, COUNT, TILE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A rule for slots and the buffer that goes with it."""

    name: str
    slot: Callable[[Term, Term, Term], Term]
    """(slot, expert, offset) -> definition of the slot."""
    buffer: Callable[[Term, Term, Term], Term]
    """(last, experts, routed) -> definition of `last`, the tiles of the buffer."""
    rows: str
    """The buffer's rows in words."""


def _shifted(expert: Term, offset: Term) -> Term:
    return offset + expert * (TILE - 1)


def _tile_index(slot: Term, expert: Term, offset: Term) -> Term:
    return is_floor(slot - expert, offset, TILE)


CLOSED_FORMS = (
    Placement(
        name="align_up",
        slot=lambda slot, expert, offset: is_ceil(slot, _shifted(expert, offset), TILE),
        buffer=lambda last, experts, routed: is_ceil(last, _shifted(experts, routed), TILE),
        rows="R(T + (A-1)*E)",
    ),
    Placement(
        name="align_down",
        slot=lambda slot, expert, offset: is_floor(slot, _shifted(expert, offset), TILE),
        buffer=lambda last, experts, routed: is_floor(last, _shifted(experts, routed), TILE),
        rows="A*floor((T + (A-1)*E) / A)",
    ),
    Placement(
        name="tile_index",
        slot=_tile_index,
        buffer=lambda last, experts, routed: is_ceil(last - experts + 1, routed, TILE),
        rows="A*(ceil(T/A) + E - 1)",
    ),
)


def disjoint() -> list[Obligation]:
    """No two experts' regions overlap, under every placement."""
    packed = Obligation(
        claim_id="padding.disjoint",
        name="packed_next",
        statement="packed: the next expert starts at the end of this one, by definition, and not before its start.",
        given=(TILE >= 1, COUNT >= 0, is_ceil(COUNT_TILES, COUNT, TILE)),
        goal=conj(TILE * SLOT + TILE * COUNT_TILES <= TILE * (SLOT + COUNT_TILES), COUNT_TILES >= 0),
        wrong=(COUNT_TILES >= 1, TILE * SLOT + TILE * COUNT_TILES < TILE * (SLOT + COUNT_TILES)),
    )
    closed = [
        Obligation(
            claim_id="padding.disjoint",
            name=f"{placement.name}_next",
            statement=f"{placement.name}: the next expert's slot is at least this one's plus its tiles.",
            given=(
                *ONE_EXPERT,
                placement.slot(SLOT, EXPERT, OFFSET),
                placement.slot(NEXT_SLOT, EXPERT + 1, OFFSET + COUNT),
            ),
            goal=SLOT + COUNT_TILES <= NEXT_SLOT,
            wrong=(SLOT + COUNT_TILES < NEXT_SLOT,),
        )
        for placement in CLOSED_FORMS
    ]
    later = Obligation(
        claim_id="padding.disjoint",
        name="later",
        statement="If an expert starts at or after the end of expert e, so does the one behind it.",
        given=(COUNT_TILES >= 0, SLOT <= LATER_SLOT, LATER_SLOT + COUNT_TILES <= NEXT_SLOT),
        goal=SLOT <= NEXT_SLOT,
        wrong=(SLOT < NEXT_SLOT,),
        logic="QF_LIA",
    )
    return [packed, *closed, later]


def coverage() -> list[Obligation]:
    """Every row lies in its expert's region, which has no tile too many."""
    row = integers("row")[0]
    tiles = integers("tiles")[0]
    region = Obligation(
        claim_id="padding.coverage",
        name="rows_in_region",
        statement="Row i < c of an expert lies in [start, start + R(c)), and an expert without rows has no region.",
        given=(TILE >= 1, COUNT >= 0, is_ceil(COUNT_TILES, COUNT, TILE), row >= 0, row < COUNT),
        goal=conj(TILE * SLOT <= TILE * SLOT + row, TILE * SLOT + row < TILE * (SLOT + COUNT_TILES)),
        wrong=(
            TILE * SLOT + row < TILE * (SLOT + COUNT_TILES - 1),
            TILE * SLOT + row + 1 < TILE * (SLOT + COUNT_TILES),
        ),
    )
    least = Obligation(
        claim_id="padding.coverage",
        name="region_is_least",
        statement="No smaller whole number of tiles holds the rows, so an expert without rows has an empty region.",
        given=(TILE >= 1, COUNT >= 0, is_ceil(COUNT_TILES, COUNT, TILE), tiles >= 0, COUNT <= TILE * tiles),
        goal=COUNT_TILES <= tiles,
        wrong=(COUNT_TILES < tiles,),
    )
    return [region, least]


def ends() -> list[Obligation]:
    """The last region ends inside the buffer that the placement's formula allocates.

    Earlier regions end before it, by `disjoint`. Starts are whole tiles by construction (start = A * slot).
    """
    tiles, reach = integers("tiles reach")
    packed = Obligation(
        claim_id="padding.placement",
        name="packed_last_end",
        statement="packed: the regions end at S, which is at most the exact form.",
        given=(
            TILE >= 1,
            ROUTED >= 0,
            EXPERTS >= 0,
            invariant(EXPERTS, ROUTED, tiles),
            reach_of(reach, ROUTED, EXPERTS),
        ),
        goal=TILE * tiles <= exact_any(ROUTED, reach),
        wrong=(TILE * (tiles + 1) <= exact_any(ROUTED, reach), TILE * tiles <= ROUTED),
    )
    closed = [
        Obligation(
            claim_id="padding.placement",
            name=f"{placement.name}_last_end",
            statement=f"{placement.name}: the last of E regions ends within {placement.rows} rows.",
            given=(
                *ONE_EXPERT,
                placement.slot(SLOT, EXPERT, OFFSET),
                placement.buffer(LAST, EXPERT + 1, OFFSET + COUNT),
            ),
            goal=SLOT + COUNT_TILES <= LAST,
            wrong=(
                SLOT + COUNT_TILES < LAST,
                TILE * (SLOT + COUNT_TILES) <= OFFSET + COUNT + (TILE - 1) * EXPERT,
            ),
        )
        for placement in CLOSED_FORMS
    ]
    return [packed, *closed]
