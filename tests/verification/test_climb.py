"""The search reaches every formula's worst case where it is attained, and finds the bounds that are too small."""

from __future__ import annotations

import pytest

from nvfp4_moe.reference.padding import Sizing, exact_any_rows, exact_distinct_rows
from nvfp4_moe.verification import witness
from nvfp4_moe.verification.climb import climb, climb_bounds
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.result import Verdict


def sizing(tokens: int, topk: int, experts: int, tile: int = 128) -> Sizing:
    return Sizing(tokens=tokens, topk=topk, num_experts=experts, num_global_experts=experts, tile=tile)


@pytest.mark.parametrize("experts", [1, 2, 8, 24])
@pytest.mark.parametrize("extra", [0, 1, 3])
@pytest.mark.parametrize("bound", ["proposed", "loose", "exact_any"])
def test_reaches_one_where_the_bound_is_attained(bound: str, experts: int, extra: int) -> None:
    """T = E + j * A: `T + (A-1)*E` is then attained."""
    found = climb(parse_bound(bound), sizing(experts + extra * 128, 1, experts))
    assert found.use == 1.0
    assert sum(found.tokens_per_expert) == experts + extra * 128
    assert witness.replay(found.witness().to_json()).reproduces


@pytest.mark.parametrize("tile", [2, 5, 128])
@pytest.mark.parametrize(("tokens", "topk", "experts"), [(3, 2, 7), (50, 2, 5), (130, 3, 4), (7, 1, 9)])
def test_reaches_the_exact_worst_case_and_never_more(tokens: int, topk: int, experts: int, tile: int) -> None:
    sizes = sizing(tokens, topk, experts, tile)
    assert climb(parse_bound("proposed"), sizes).end == exact_any_rows(tokens * topk, experts, tile=tile)
    found = climb(parse_bound("exact_distinct"), sizes)
    assert found.end == exact_distinct_rows(tokens, topk, experts, tile=tile)
    assert max(found.tokens_per_expert) <= tokens


def test_the_walk_is_a_function_of_the_seed() -> None:
    bound, sizes = parse_bound("torchao"), sizing(300, 1, 6)
    assert climb(bound, sizes, seed=1) == climb(bound, sizes, seed=1)
    assert climb(bound, sizes, seed=1).tokens_per_expert != climb(bound, sizes, seed=2).tokens_per_expert


def test_no_steps_are_the_starts() -> None:
    found = climb(parse_bound("torchao"), sizing(300, 1, 6), steps=0, starts=5)
    assert (found.routings, sum(found.tokens_per_expert)) == (5, 300)
    assert found.use < climb(parse_bound("torchao"), sizing(300, 1, 6)).use < 1.0


@pytest.mark.parametrize("bound", ["proposed", "quack", "flashinfer_cutlass"])
def test_right_bounds_hold_and_are_attained(bound: str) -> None:
    told: list[int] = []
    outcomes = dict(climb_bounds([parse_bound(bound)], told.append, lambda: False))
    assert outcomes["padding.bound"].verdict is Verdict.HELD
    assert outcomes["padding.attained"].verdict is Verdict.HELD
    assert outcomes["padding.bound"].cases == sum(told) > 0
    assert "highest use 1.000000" in outcomes["padding.bound"].detail


@pytest.mark.parametrize(
    "bound",
    [
        "max_num_batched_tokens*topk + 126*num_experts",
        "max_num_batched_tokens*topk",
        "max_num_batched_tokens*topk + 127*(num_experts - 1)",
        "max_num_batched_tokens*topk + 127*min(num_experts, 15)",
    ],
)
def test_bounds_that_are_too_small_are_refuted(bound: str) -> None:
    told = dict(climb_bounds([parse_bound(bound)], lambda routings: None, lambda: False))["padding.bound"]
    assert told.verdict is Verdict.REFUTED
    assert witness.replay(told.witness or {}).reproduces


def test_a_loose_bound_is_not_called_attained() -> None:
    told = dict(climb_bounds([parse_bound("torchao")], lambda routings: None, lambda: False))
    assert told["padding.attained"].verdict is Verdict.UNDECIDED
    assert told["padding.bound"].verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("experts", "tile"),
    [(1 << 20, 128), (8193, 1), (2, 1 << 40), (8192, 1 << 20)],
)
def test_sizes_that_no_search_could_hold_are_left_out(experts: int, tile: int) -> None:
    for bound in ("proposed", "exact_distinct"):
        told = climb_bounds(
            [parse_bound(bound)], lambda routings: None, lambda: False, tile=tile, experts=(experts,)
        )
        assert {outcome.verdict for _, outcome in told} <= {Verdict.SKIPPED, Verdict.HELD, Verdict.UNDECIDED}


def test_large_models_are_climbed_with_fewer_moves() -> None:
    told: list[int] = []
    climb_bounds([parse_bound("torchao")], told.append, lambda: False, experts=(2048,))
    assert 0 < sum(told) <= 4 * 8 * 257


def test_a_guard_that_lets_nothing_through_and_an_early_stop_are_skipped() -> None:
    guarded = climb_bounds([parse_bound("0")], lambda routings: None, lambda: False)
    stopped = climb_bounds([parse_bound("proposed")], lambda routings: None, lambda: True)
    assert {outcome.verdict for _, outcome in guarded + stopped} == {Verdict.SKIPPED}
