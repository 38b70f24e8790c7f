"""Obligations about where the row bound is met, and that it does not fall as sizes grow.

Symbols and definitions as in `padding`. The routing that attains the exact form gives one row to every expert and
the rest to one of them: [1 + T - E, 1, ..., 1], or T ones where T < E.
"""

# ruff: noqa: SIM300 - inequalities are written as the proof reads; the capitals are variables of the formulas

from __future__ import annotations

from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.padding import (
    COUNT,
    COUNT_TILES,
    EXPERTS,
    REACH,
    ROUTED,
    SIZES,
    TILE,
    TILES,
    TOKEN_TILES,
    TOKENS,
    exact_any,
    exact_distinct,
    reach_of,
)
from nvfp4_moe.verification.proofs.terms import (
    Term,
    conj,
    eq,
    implies,
    integers,
    is_ceil,
    is_floor,
    minimum,
)


def _attained(name: str, statement: str, given: tuple[Term, ...], goal: Term, *wrong: Term) -> Obligation:
    return Obligation(
        claim_id="padding.attained", name=name, statement=statement, given=given, goal=goal, wrong=wrong
    )


def attained() -> list[Obligation]:
    """The routing [1 + T - E, 1, ..., 1] (T ones if T < E) needs exactly `exact_any` rows."""
    ones, first_tiles = integers("ones first_tiles")
    reach = reach_of(REACH, ROUTED, EXPERTS)
    divides = conj(ROUTED >= EXPERTS, eq(ROUTED - EXPERTS, TILE * (minimum(ROUTED, REACH) - EXPERTS)))
    meets = eq(exact_any(ROUTED, REACH), ROUTED + (TILE - 1) * EXPERTS)
    quotient = integers("quotient")[0]
    return [
        _attained(
            "ones",
            "An expert with one row opens one tile: j such experts hold j rows and j tiles, one more j + 1.",
            (TILE >= 1, eq(ones, TILES), is_ceil(COUNT_TILES, COUNT, TILE), eq(COUNT, 1)),
            eq(ones + COUNT, TILES + COUNT_TILES),
            eq(ones + COUNT, TILES),
        ),
        _attained(
            "many_rows",
            "T >= E: the expert with 1 + T - E rows opens 1 + floor((T-E)/A) tiles; with E - 1 tiles of the others "
            "that is E + floor((T-E)/A), the exact form by padding.bound.two_forms.",
            (*SIZES, ROUTED >= EXPERTS, is_ceil(first_tiles, ROUTED - EXPERTS + 1, TILE)),
            is_floor(first_tiles - 1, ROUTED - EXPERTS, TILE),
            is_floor(first_tiles, ROUTED - EXPERTS, TILE),
            is_floor(first_tiles - 2, ROUTED - EXPERTS, TILE),
        ),
        _attained(
            "few_rows",
            "T < E: T experts with one row each attain the exact form.",
            (*SIZES, ROUTED < EXPERTS, reach),
            eq(TILE * ROUTED, exact_any(ROUTED, REACH)),
            eq(TILE * ROUTED, exact_any(ROUTED, REACH - EXPERTS)),
        ),
        _attained(
            "proposed_if",
            "T + (A-1)*E is attained where T >= E and A divides T-E.",
            (*SIZES, ROUTED >= EXPERTS, reach, eq(ROUTED - EXPERTS, TILE * quotient)),
            meets,
            eq(exact_any(ROUTED, REACH), ROUTED + (TILE - 1) * EXPERTS + 1),
        ),
        _attained(
            "proposed_only_if",
            "For A >= 2 it is attained nowhere else.",
            (*SIZES, TILE >= 2, reach, meets),
            divides,
            conj(divides, ROUTED > EXPERTS),
        ),
    ]


def _monotone(name: str, statement: str, given: tuple[Term, ...], goal: Term, *wrong: Term) -> Obligation:
    return Obligation(
        claim_id="padding.monotone", name=name, statement=statement, given=given, goal=goal, wrong=wrong
    )


def monotone() -> list[Obligation]:
    """Neither exact form falls when rows, tokens or experts are added: a buffer sized for the most fits less."""
    more_routed, more_experts, more_reach = integers("more_routed more_experts more_reach")
    more_tokens, more_token_tiles = integers("more_tokens more_token_tiles")
    reach = reach_of(REACH, ROUTED, EXPERTS)
    in_rows = (*SIZES, more_routed >= ROUTED, reach, reach_of(more_reach, more_routed, EXPERTS))
    in_experts = (*SIZES, more_experts >= EXPERTS, reach, reach_of(more_reach, ROUTED, more_experts))
    low, high = exact_any(ROUTED, REACH), exact_any(more_routed, more_reach)
    return [
        _monotone(
            "reach_in_rows",
            "floor((T + (A-1)*E) / A) does not fall in T.",
            in_rows,
            REACH <= more_reach,
            implies(ROUTED < more_routed, REACH < more_reach),
        ),
        _monotone(
            "reach_in_experts",
            "floor((T + (A-1)*E) / A) does not fall in E.",
            in_experts,
            REACH <= more_reach,
            implies(EXPERTS < more_experts, REACH < more_reach),
        ),
        _monotone(
            "any",
            "So exact_any falls neither in T nor in E.",
            (TILE >= 1, ROUTED <= more_routed, REACH <= more_reach),
            low <= high,
            low < high,
        ),
        _monotone(
            "token_tiles",
            "ceil(M/A) does not fall in M.",
            (
                TILE >= 1,
                TOKENS >= 0,
                more_tokens >= TOKENS,
                is_ceil(TOKEN_TILES, TOKENS, TILE),
                is_ceil(more_token_tiles, more_tokens, TILE),
            ),
            TOKEN_TILES <= more_token_tiles,
            implies(TOKENS < more_tokens, TOKEN_TILES < more_token_tiles),
        ),
        _monotone(
            "distinct",
            "So exact_distinct falls in none of T, M and E.",
            (
                TILE >= 1,
                EXPERTS >= 0,
                TOKEN_TILES >= 0,
                ROUTED <= more_routed,
                REACH <= more_reach,
                EXPERTS <= more_experts,
                TOKEN_TILES <= more_token_tiles,
            ),
            exact_distinct(ROUTED, EXPERTS, REACH, TOKEN_TILES)
            <= exact_distinct(more_routed, more_experts, more_reach, more_token_tiles),
            exact_distinct(ROUTED, EXPERTS, REACH, TOKEN_TILES)
            < exact_distinct(more_routed, more_experts, more_reach, more_token_tiles),
        ),
    ]
