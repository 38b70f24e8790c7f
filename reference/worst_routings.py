"""The routing that needs most of a buffer, for every sizing formula: under its own placement, for its own ids.

Which counts end last, for T routed rows on E experts with tile A (brute force over all count vectors agrees):

- `packed`: one row on every expert, the rest in whole tiles (`padding.worst_tokens_per_expert_any`,
  `..._distinct`);
- `align_up`: the last expert begins at R(T - c + (E-1)(A-1)) with c its own rows, so R(T - c + ...) + R(c) is
  largest for the smallest c of at least 1;
- `tile_index`: A * ((T - c) // A + E - 1) + R(c) is largest for c = T.
"""

from __future__ import annotations

from nvfp4_moe.reference.padding import (
    Formula,
    Sizing,
    worst_tokens_per_expert_any,
    worst_tokens_per_expert_distinct,
)


def worst_tokens_per_expert(formula: Formula, sizing: Sizing) -> list[int]:
    """Return the counts (num_experts,) whose last region ends last among all routings that the formula covers.

    A formula is safe for `sizing` exactly if `expert_starts(counts, placement=formula.placement, ...)[-1]` of
    these counts is at most `formula.rows(sizing)`, and tight if it is equal.
    """
    distinct = formula.ids == "distinct"
    slots = min(sizing.topk, sizing.num_experts) if distinct else sizing.topk
    routed_rows, most = sizing.tokens * slots, sizing.tokens if distinct else sizing.tokens * slots
    if formula.placement == "packed" and distinct:
        return worst_tokens_per_expert_distinct(
            sizing.tokens, sizing.topk, sizing.num_experts, tile=sizing.tile
        )
    if formula.placement == "packed":
        return worst_tokens_per_expert_any(routed_rows, sizing.num_experts, tile=sizing.tile)
    others = sizing.num_experts - 1
    if formula.placement == "align_up":
        last = max(min(1, routed_rows), routed_rows - others * most)
    else:
        last = min(routed_rows, most)
    return [*_poured(routed_rows - last, others, most), last]


def _poured(rows: int, experts: int, most: int) -> list[int]:
    """Return counts of at most `most` rows: experts filled one after the other."""
    return [min(most, max(0, rows - expert * most)) for expert in range(experts)]
