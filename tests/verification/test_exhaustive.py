"""The exhaustive search finds what it must, and tries what it says."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import comb
from typing import Any

import pytest
import torch

from nvfp4_moe.reference.padding import PLACEMENTS
from nvfp4_moe.reference.routing import Routing, route
from nvfp4_moe.verification import exhaustive, witness
from nvfp4_moe.verification.exhaustive import compositions, exhaust_padding, exhaust_routing
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.result import Outcome, Verdict

WRONG = "max_num_batched_tokens*topk + 126*num_experts"


def never() -> bool:
    return False


@cache
def padding() -> tuple[list[tuple[str, Outcome]], int]:
    """One search for the proposed bound, a wrong one and one of another placement, and the vectors it counted."""
    told: list[int] = []
    bounds = [parse_bound(name) for name in ("proposed", "quack", "flashinfer_cutlass")]
    return exhaust_padding(bounds, told.append, never), sum(told)


def test_every_composition_once() -> None:
    for total, parts in product(range(8), range(1, 5)):
        vectors = [tuple(row) for row in compositions(total, parts).tolist()]
        assert len(set(vectors)) == len(vectors) == comb(total + parts - 1, parts - 1)
        assert all(sum(vector) == total and min(vector) >= 0 for vector in vectors)


def test_right_formulas_are_exhausted() -> None:
    outcomes, _ = padding()
    assert {outcome.verdict for claim, outcome in outcomes} == {Verdict.EXHAUSTED}
    assert {claim for claim, _ in outcomes} == set(exhaustive.PADDING_CLAIMS)


def test_exact_formulas_are_attained_everywhere() -> None:
    details = [outcome.detail for claim, outcome in padding()[0] if claim == "padding.attained"]
    for name in ("exact_any", "exact_distinct"):
        (detail,) = [detail for detail in details if detail.startswith(f"{name}:")]
        attained, configurations = (
            int(word.replace(",", "")) for word in detail.split() if word[0].isdigit()
        )
        assert attained == configurations > 800


def test_attained_witnesses_replay() -> None:
    for claim, outcome in padding()[0]:
        if claim == "padding.attained":
            assert witness.replay(outcome.witness or {}).reproduces


def test_all_vectors_are_counted() -> None:
    small = 4 * sum(comb(total + parts - 1, parts - 1) for total in range(18) for parts in range(1, 6))
    near_tile = sum(9**parts for parts in range(1, 5))
    outcomes, told = padding()
    assert told == small + near_tile
    assert dict(outcomes)["padding.disjoint"].cases == len(PLACEMENTS) * told


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "MOST_ROWS", 5)
    monkeypatch.setattr(exhaustive, "MOST_EXPERTS", 3)
    monkeypatch.setattr(exhaustive, "_NEAR_TILE_EXPERTS", (1, 2))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("bound", "counts", "tile"),
    [
        (WRONG, [1], 128),
        ("max_num_batched_tokens*topk", [1], 2),
        ("max_num_batched_tokens*topk + (tile-1)*(num_experts-1)", [1], 2),
        ("max_num_batched_tokens*topk + (tile-1)*min(num_experts, 2)", [1, 1, 1], 2),
        ("max_num_batched_tokens*topk + tile*num_experts - max_num_batched_tokens % 5", [3], 2),
    ],
)
def test_wrong_bounds_are_refuted_by_the_smallest(bound: str, counts: list[int], tile: int) -> None:
    told = dict(exhaust_padding([parse_bound(bound)], lambda cases: None, never))["padding.bound"]
    assert told.verdict is Verdict.REFUTED
    found = dict(told.witness or {})
    assert (found["tokens_per_expert"], found["tile"]) == (counts, tile)
    assert witness.replay(found).reproduces


@pytest.mark.usefixtures("small")
def test_an_inexact_worst_case_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`loose` passes for exact: it holds, but is not attained everywhere."""
    formulas = exhaustive.FORMULAS | {"exact_any": exhaustive.FORMULAS["loose"]}
    monkeypatch.setattr(exhaustive, "FORMULAS", formulas)
    monkeypatch.setattr(exhaustive, "_EXACT", ("loose", "exact_distinct"))
    outcomes = exhaust_padding([], lambda cases: None, never)
    refuted = [outcome.detail for claim, outcome in outcomes if outcome.verdict is Verdict.REFUTED]
    assert len(refuted) == 1
    assert refuted[0].startswith("loose: attained in")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("shift", "claim"),
    [(1, "padding.placement"), (-2, "padding.disjoint")],
)
def test_wrong_placements_are_refuted(monkeypatch: pytest.MonkeyPatch, shift: int, claim: str) -> None:
    right = exhaustive.placement_starts

    def shifted(counts: torch.Tensor, *, placement: str, tile: int) -> torch.Tensor:
        starts = right(counts, placement=placement, tile=tile)
        return torch.where(starts > 0, starts + shift, starts)

    monkeypatch.setattr(exhaustive, "placement_starts", shifted)
    told = dict(exhaust_padding([], lambda cases: None, never))[claim]
    assert told.verdict is Verdict.REFUTED
    assert (told.witness or {})["kind"] == "placement"


@pytest.mark.usefixtures("small")
def test_a_falling_worst_case_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "exact_any_rows", lambda rows, experts, *, tile: rows % 7)
    told = dict(exhaust_padding([], lambda cases: None, never))["padding.monotone"]
    assert told.verdict is Verdict.REFUTED


@pytest.mark.usefixtures("small")
def test_stopping_is_undecided() -> None:
    told = dict(exhaust_padding([], lambda cases: None, lambda: True))
    assert told["padding.disjoint"].verdict is Verdict.UNDECIDED
    assert (
        dict(exhaust_routing(lambda cases: None, lambda: True))["routing.counts"].verdict is Verdict.UNDECIDED
    )


def test_routing_is_exhausted() -> None:
    told: list[int] = []
    outcomes = exhaust_routing(told.append, never)
    assert {outcome.verdict for _, outcome in outcomes} == {Verdict.EXHAUSTED}
    assert {outcome.cases for _, outcome in outcomes} == {sum(told)} == {1294}


def test_a_wrong_routing_is_refuted_by_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Token order is lost only when a later slot comes first: two tokens on one expert."""

    def backwards(topk_ids: torch.Tensor, num_experts: int, **sizes: Any) -> Routing:
        routing = route(topk_ids.flip(0), num_experts, **sizes)
        rows = routing.output_permutation.view(topk_ids.shape).flip(0).flatten()
        tokens = routing.input_permutation.clone()
        tokens[: routing.routed_rows] = topk_ids.shape[0] - 1 - tokens[: routing.routed_rows]
        return Routing(
            **{
                name: getattr(routing, name)
                for name in ("tokens_per_expert", "expert_offsets", "blockscale_offsets")
            },
            problem_sizes1=routing.problem_sizes1,
            problem_sizes2=routing.problem_sizes2,
            input_permutation=tokens,
            output_permutation=rows,
        )

    monkeypatch.setattr(exhaustive, "_IDS_SIZES", ((1, 2, 2), (2, 1, 3), (2, 2, 2)))
    outcomes = dict(exhaust_routing(lambda cases: None, never, route=backwards))
    assert outcomes["routing.permutation"].verdict is Verdict.REFUTED
    assert (outcomes["routing.permutation"].witness or {})["topk_ids"] == [[0], [0]]
    assert outcomes["routing.counts"].verdict is Verdict.EXHAUSTED
