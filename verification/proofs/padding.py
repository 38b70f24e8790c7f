"""Obligations about row counts: the bound, its attainment, its growth; any tile, any sizes, unbounded integers.

Symbols as in `reference.padding`: A = tile, T routed rows, E experts, c rows of one expert, M tokens, k = topk. S is
A times the tiles of all experts, so the induction counts tiles: after the first e experts U rows are routed and B
tiles opened, and each expert adds c rows and q = ceil(c/A) tiles. The invariant is

    A*B <= U + (A-1)*e   and   B <= U        (and B <= e*ceil(M/A) where each c <= M).

Base and step give it for every e; the conclusions take e = E, U = T. A sum over experts thus never appears in a
formula, and no division does: quotients are given by their defining inequalities.
"""

# ruff: noqa: SIM300 - inequalities are written as the proof reads; the capitals are variables of the formulas

from __future__ import annotations

from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.terms import (
    INT,
    Term,
    conj,
    eq,
    integers,
    is_ceil,
    is_floor,
    literal,
    minimum,
)

TILE, ROUTED, EXPERTS, TILES = integers("tile routed experts tiles")
TOKENS, TOPK = integers("tokens topk")
COUNT, COUNT_TILES = integers("count count_tiles")
REACH = integers("reach")[0]
"""floor((T + (A-1)*E) / A): the tiles that T rows can open over E experts if T is no limit."""
TOKEN_TILES = integers("token_tiles")[0]
"""ceil(M/A): the tiles of an expert that gets every token."""

SIZES = (TILE >= 1, ROUTED >= 0, EXPERTS >= 0)


def invariant(experts: Term | int, routed: Term | int, tiles: Term | int) -> Term:
    """Return "A*B <= U + (A-1)*e and B <= U"."""
    e, u, b = (x if isinstance(x, Term) else literal(x, INT) for x in (experts, routed, tiles))
    return conj(TILE * b <= u + (TILE - 1) * e, b <= u)


def reach_of(reach: Term, routed: Term, experts: Term) -> Term:
    """Return the definition of `reach` = floor((T + (A-1)*E) / A)."""
    return is_floor(reach, routed + (TILE - 1) * experts, TILE)


def exact_any(routed: Term, reach: Term) -> Term:
    """Return A * min(T, floor((T + (A-1)*E) / A)), the floor given as `reach`."""
    return TILE * minimum(routed, reach)


def exact_distinct(routed: Term, experts: Term, reach: Term, token_tiles: Term) -> Term:
    """Return A * min(T, E*ceil(M/A), floor((T + (A-1)*E) / A)), the quotients given."""
    return TILE * minimum(minimum(routed, reach), experts * token_tiles)


def _bound(name: str, statement: str, given: tuple[Term, ...], goal: Term, *wrong: Term) -> Obligation:
    return Obligation(
        claim_id="padding.bound", name=name, statement=statement, given=given, goal=goal, wrong=wrong
    )


def bound() -> list[Obligation]:
    """S <= exact_any <= loose, and S <= proposed when T <= max_num_batched_tokens * topk."""
    count = (COUNT >= 0, is_ceil(COUNT_TILES, COUNT, TILE))
    so_far = (*SIZES, invariant(EXPERTS, ROUTED, TILES))
    reach = reach_of(REACH, ROUTED, EXPERTS)
    rows = TILE * TILES
    fewer = minimum(ROUTED, EXPERTS)
    many = (*SIZES, ROUTED >= EXPERTS)
    allowed = TOKENS * TOPK
    return [
        _bound(
            "base",
            "No expert: no row, no tile; the invariant A*B <= U + (A-1)*e and B <= U holds.",
            (TILE >= 1,),
            invariant(0, 0, 0),
            invariant(0, 0, 1),
        ),
        _bound(
            "step",
            "One more expert with c rows and ceil(c/A) tiles keeps the invariant.",
            (*so_far, *count),
            invariant(EXPERTS + 1, ROUTED + COUNT, TILES + COUNT_TILES),
            TILE * (TILES + COUNT_TILES) <= ROUTED + COUNT + (TILE - 1) * EXPERTS,
            TILE * (TILES + COUNT_TILES) <= ROUTED + COUNT + (TILE - 2) * (EXPERTS + 1),
            TILES + COUNT_TILES < ROUTED + COUNT,
        ),
        _bound(
            "exact_any",
            "The invariant over all experts gives S <= A * min(T, floor((T + (A-1)*E) / A)).",
            (*so_far, reach),
            rows <= exact_any(ROUTED, REACH),
            rows <= exact_any(ROUTED, REACH - 1),
            rows < exact_any(ROUTED, REACH),
        ),
        _bound(
            "loose",
            "The exact form is at most T + (A-1)*min(T, E).",
            (*SIZES, reach),
            exact_any(ROUTED, REACH) <= ROUTED + (TILE - 1) * fewer,
            exact_any(ROUTED, REACH) <= ROUTED + (TILE - 1) * (fewer - 1),
            exact_any(ROUTED, REACH) <= ROUTED + (TILE - 2) * fewer,
        ),
        _bound(
            "loose_gap",
            "The loose form is less than one tile above the exact one.",
            (*SIZES, reach),
            ROUTED + (TILE - 1) * fewer < exact_any(ROUTED, REACH) + TILE,
            ROUTED + (TILE - 1) * fewer < exact_any(ROUTED, REACH) + TILE - 1,
        ),
        _bound(
            "proposed",
            "With T <= max_num_batched_tokens * topk, S <= max_num_batched_tokens * topk + (A-1)*E.",
            (*so_far, TOKENS >= 0, TOPK >= 0, allowed >= ROUTED),
            rows <= allowed + (TILE - 1) * EXPERTS,
            rows <= allowed + (TILE - 2) * EXPERTS,
            rows <= allowed + (TILE - 1) * (EXPERTS - 1),
            rows <= allowed,
        ),
        _bound(
            "proposed_128",
            "The same for the tile of 128 rows: S <= max_num_batched_tokens * topk + 127*E.",
            (*so_far, eq(TILE, 128), TOKENS >= 0, TOPK >= 0, allowed >= ROUTED),
            rows <= allowed + EXPERTS * 127,
            rows <= allowed + EXPERTS * 126,
            rows <= allowed + (EXPERTS - 1) * 127,
        ),
        _bound(
            "two_forms_floor",
            "T >= E: E + floor((T-E)/A) satisfies the definition of floor((T + (A-1)*E) / A).",
            (*many, is_floor(TILES, ROUTED - EXPERTS, TILE)),
            reach_of(EXPERTS + TILES, ROUTED, EXPERTS),
            reach_of(EXPERTS + TILES + 1, ROUTED, EXPERTS),
        ),
        _bound(
            "floor_is_unique",
            "Of two numbers that satisfy the definition of floor(n/A) neither is larger, so they are equal.",
            (TILE >= 1, is_floor(TILES, COUNT, TILE), is_floor(COUNT_TILES, COUNT, TILE)),
            TILES <= COUNT_TILES,
            TILES < COUNT_TILES,
        ),
        _bound(
            "two_forms_minimum",
            "T >= E: E + floor((T-E)/A) is at most T, so A * (f + floor((T-f)/A)), f = min(T, E), is the exact form.",
            (*many, is_floor(TILES, ROUTED - EXPERTS, TILE)),
            EXPERTS + TILES <= ROUTED,
            EXPERTS + TILES < ROUTED,
        ),
        _bound(
            "two_forms_few_rows",
            "T < E: so it is, as T is the smaller.",
            (*SIZES, ROUTED < EXPERTS, reach),
            eq(ROUTED, minimum(ROUTED, REACH)),
            eq(EXPERTS, minimum(ROUTED, REACH)),
        ),
    ]


def _distinct(name: str, statement: str, given: tuple[Term, ...], goal: Term, *wrong: Term) -> Obligation:
    return Obligation(
        claim_id="padding.bound",
        name=f"distinct_{name}",
        statement=statement,
        given=given,
        goal=goal,
        wrong=wrong,
    )


def bound_distinct() -> list[Obligation]:
    """S <= exact_distinct when no token names an expert twice; with L local experts also T <= M*min(k, L)."""
    chosen, most = integers("chosen most")
    token = (TOKENS >= 0, is_ceil(TOKEN_TILES, TOKENS, TILE))
    return [
        _distinct(
            "one_expert",
            "An expert with c <= M rows opens at most ceil(M/A) tiles.",
            (TILE >= 1, COUNT >= 0, COUNT <= TOKENS, is_ceil(COUNT_TILES, COUNT, TILE), *token),
            COUNT_TILES <= TOKEN_TILES,
            COUNT_TILES < TOKEN_TILES,
        ),
        _distinct(
            "step",
            "So B <= e*ceil(M/A) is kept by one more expert.",
            (EXPERTS >= 0, TILES <= EXPERTS * TOKEN_TILES, COUNT_TILES <= TOKEN_TILES),
            TILES + COUNT_TILES <= (EXPERTS + 1) * TOKEN_TILES,
            TILES + COUNT_TILES <= EXPERTS * TOKEN_TILES,
        ),
        _distinct(
            "exact",
            "With the invariant, S <= A * min(T, E*ceil(M/A), floor((T + (A-1)*E) / A)).",
            (
                *SIZES,
                *token,
                invariant(EXPERTS, ROUTED, TILES),
                TILES <= EXPERTS * TOKEN_TILES,
                reach_of(REACH, ROUTED, EXPERTS),
            ),
            TILE * TILES <= exact_distinct(ROUTED, EXPERTS, REACH, TOKEN_TILES),
            TILE * TILES <= exact_distinct(ROUTED, EXPERTS - 1, REACH, TOKEN_TILES),
            TILE * TILES <= exact_distinct(ROUTED, EXPERTS, REACH, TOKEN_TILES - 1),
        ),
        _distinct(
            "expert_parallel_rows",
            "One more token reaches at most min(k, L) of L local experts, so T <= M*min(k, L) is kept.",
            (
                TOKENS >= 0,
                eq(most, minimum(TOPK, EXPERTS)),
                ROUTED <= TOKENS * most,
                chosen <= TOPK,
                chosen <= EXPERTS,
            ),
            ROUTED + chosen <= (TOKENS + 1) * most,
            ROUTED + chosen <= TOKENS * most,
            ROUTED + chosen < (TOKENS + 1) * most,
        ),
    ]
