"""The routing that needs the most scale rows, for each placement of the experts and each domain of ids.

`reference.padding` states the worst case of the packed placement. Where a kernel places expert e by a closed form,
the rows that must exist end at its own last region:

- align_up: region e starts at R(off_e + e*(A-1)); with c rows on the last of E experts the end is
  R(T - c + (E-1)*(A-1)) + R(c). Any c = 1 mod A gives R(T + (A-1)*E), and no c gives more.
- align_down: region e starts at A*((off_e + e*(A-1)) // A); the end is A*((T - c + (E-1)*(A-1)) // A) + R(c), largest
  for c = 1: R(T + (E-1)*(A-1)).
- tile_index: region e starts at A*(off_e // A + e); the end is A*((T-c) // A + E - 1) + R(c), largest for c = 1:
  A*(ceil(T/A) + E - 1).

One row on the last expert is impossible where the routing leaves no choice: one expert alone has all T rows, and with
distinct ids and topk >= E every expert has M rows. An empty last region holds nothing, so it counts for no rows.
`tests/verification/test_worst_case.py` compares all of it with every count vector of small sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvfp4_moe.reference.padding import (
    PLACEMENTS,
    TILE,
    exact_any_rows,
    exact_distinct_rows,
    expert_starts,
    round_up,
    worst_tokens_per_expert_any,
    worst_tokens_per_expert_distinct,
)

IDS = ("any", "distinct")
"""Domains of routings: a token may name an expert twice, or not."""

MOST_EXPERTS = 1 << 20
"""Count vectors are lists of this many integers at most."""


def check_ids(ids: str) -> str:
    """Return `ids` if it is one of `IDS`, else raise ValueError."""
    if ids not in IDS:
        raise ValueError(f"ids must be one of {', '.join(IDS)}, got {ids!r}")
    return ids


def routed_rows(tokens: int, topk: int, num_experts: int, *, ids: str = "any") -> int:
    """Return the most rows that `tokens` tokens can route to the `num_experts` experts of this rank."""
    return tokens * (topk if check_ids(ids) == "any" else min(topk, num_experts))


def worst_end(
    tokens: int, topk: int, num_experts: int, *, tile: int = TILE, ids: str = "any", placement: str = "packed"
) -> int:
    """Return the largest last end of the experts' regions, in rows, over all routings of `tokens` tokens.

    It does not fall as `tokens` grows.

    Raises:
        ValueError: unknown `ids` or `placement`.
    """
    _check_placement(placement)
    total = routed_rows(tokens, topk, num_experts, ids=ids)
    if placement == "packed":
        if ids == "any":
            return exact_any_rows(total, num_experts, tile=tile)
        return exact_distinct_rows(tokens, topk, num_experts, tile=tile)
    if total == 0:
        return 0
    last = _rows_of_last(tokens, topk, num_experts, ids=ids)
    before = total - last
    if placement == "align_up":
        start = round_up(before + (num_experts - 1) * (tile - 1), tile)
    elif placement == "align_down":
        start = (before + (num_experts - 1) * (tile - 1)) // tile * tile
    else:
        start = tile * (before // tile + num_experts - 1)
    return start + round_up(last, tile)


def worst_tokens_per_expert(
    tokens: int, topk: int, num_experts: int, *, tile: int = TILE, ids: str = "any", placement: str = "packed"
) -> list[int]:
    """Return counts (num_experts,) of a routing that attains `worst_end`.

    Raises:
        ValueError: unknown `ids` or `placement`, or more than `MOST_EXPERTS` experts.
    """
    _check_placement(placement)
    if num_experts > MOST_EXPERTS:
        raise ValueError(
            f"num_experts must be at most {MOST_EXPERTS:,} to write out a routing, got {num_experts}"
        )
    total = routed_rows(tokens, topk, num_experts, ids=ids)
    if placement == "packed":
        if ids == "any":
            return worst_tokens_per_expert_any(total, num_experts, tile=tile)
        return worst_tokens_per_expert_distinct(tokens, topk, num_experts, tile=tile)
    if total == 0:
        return [0] * num_experts
    last = _rows_of_last(tokens, topk, num_experts, ids=ids)
    most = total if ids == "any" else tokens
    left = total - last
    counts = []
    for _ in range(num_experts - 1):
        counts.append(min(left, most))
        left -= counts[-1]
    return [*counts, last]


def last_end(tokens_per_expert: Sequence[int], *, tile: int = TILE, placement: str = "packed") -> int:
    """Return the row after the last one that some expert's region holds: what a buffer must have, by summing."""
    starts = expert_starts(tokens_per_expert, placement=placement, tile=tile)
    ends = (
        start + round_up(count, tile)
        for start, count in zip(starts, tokens_per_expert, strict=False)
        if count
    )
    return max(ends, default=0)


def ids_of_counts(tokens_per_expert: Sequence[int], tokens: int, topk: int) -> list[list[int]]:
    """Return topk_ids (tokens, topk) with these counts; ids left over are -1 (dropped).

    The rows of one expert go to tokens one after the other, so ids inside a token are distinct wherever no count
    exceeds `tokens`.

    Raises:
        ValueError: more rows than tokens * topk.
    """
    total = sum(tokens_per_expert)
    if total > tokens * topk:
        raise ValueError(f"{total} routed rows do not fit {tokens} tokens with topk {topk}")
    ids = [[-1] * topk for _ in range(tokens)]
    position = 0
    for expert, count in enumerate(tokens_per_expert):
        for _ in range(count):
            ids[position % tokens][position // tokens] = expert
            position += 1
    return ids


def _rows_of_last(tokens: int, topk: int, num_experts: int, *, ids: str) -> int:
    """Return the rows on the last expert in the worst routing of a closed-form placement, at least one row routed."""
    if ids == "distinct" and topk >= num_experts:
        return tokens
    return tokens * topk if num_experts == 1 else 1


def _check_placement(placement: str) -> None:
    if placement not in PLACEMENTS:
        raise ValueError(f"placement must be one of {', '.join(PLACEMENTS)}, got {placement!r}")
