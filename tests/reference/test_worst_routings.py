"""Witness routings of the registry's formulas against brute force over all count vectors."""

from __future__ import annotations

import itertools

import pytest

from nvfp4_moe.reference.padding import FORMULAS, Formula, Sizing, expert_starts
from nvfp4_moe.reference.worst_routings import worst_tokens_per_expert


def brute_force_end(formula: Formula, sizing: Sizing) -> int:
    """The largest end over all counts that tokens can send to the local experts, skipped slots included."""
    slots = sizing.tokens * sizing.topk
    largest = slots
    if formula.ids == "distinct":
        slots, largest = sizing.tokens * min(sizing.topk, sizing.num_experts), sizing.tokens
    return max(
        expert_starts(counts, placement=formula.placement, tile=sizing.tile)[-1]
        for counts in itertools.product(range(largest + 1), repeat=sizing.num_experts)
        if sum(counts) <= slots
    )


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=lambda formula: formula.name)
def test_no_routing_of_the_domain_ends_later(formula: Formula) -> None:
    for tokens, topk, experts, tile in itertools.product(range(6), (1, 2), (1, 2, 3), (1, 2, 3, 4)):
        sizing = Sizing(
            tokens=tokens, topk=topk, num_experts=experts, num_global_experts=experts + 1, tile=tile
        )
        counts = worst_tokens_per_expert(formula, sizing)
        assert len(counts) == experts
        assert min(counts) >= 0
        assert sum(counts) <= tokens * topk
        if formula.ids == "distinct":
            assert max(counts) <= tokens
        end = expert_starts(counts, placement=formula.placement, tile=tile)[-1]
        assert end == brute_force_end(formula, sizing)


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=lambda formula: formula.name)
def test_real_sizes(formula: Formula) -> None:
    """DeepSeek-R1, a full batch and a decode step: every uncapped formula holds its witness."""
    for tokens in (8192, 1):
        sizing = Sizing(tokens=tokens, topk=8, num_experts=256, num_global_experts=256)
        counts = worst_tokens_per_expert(formula, sizing)
        assert sum(counts) == tokens * 8
        assert expert_starts(counts, placement=formula.placement)[-1] <= formula.rows(sizing)
