"""The strategies draw what they say, and hypothesis shrinks to the smallest counterexample."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from nvfp4_moe.reference.padding import FORMULAS, Sizing, padded_rows
from nvfp4_moe.reference.routing import route
from nvfp4_moe.verification import strategies
from nvfp4_moe.verification.exhaustive import broken_claims

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEARCH = settings(max_examples=2000, deadline=None, database=None, derandomize=True)


@pytest.mark.parametrize(
    ("bound", "smallest"),
    [
        (lambda rows, experts: rows + 126 * experts, [1]),
        (lambda rows, experts: rows, [1]),
        (lambda rows, experts: rows + 127 * (experts - 1), [1]),
        (lambda rows, experts: rows + 127 * min(experts, 2), [1, 1, 1]),
        (lambda rows, experts: max(rows + 126 * experts, 128), [1, 1]),
    ],
    ids=["126", "no padding", "one expert short", "at most two experts", "126 above a tile"],
)
def test_wrong_bounds_shrink_to_the_smallest_witness(bound: object, smallest: list[int]) -> None:
    assert callable(bound)
    found = find(
        strategies.counts(),
        lambda counts: padded_rows(counts) > bound(sum(counts), len(counts)),
        settings=SEARCH,
    )
    assert found == smallest


def test_shrinks_to_the_smallest_ids() -> None:
    ids, experts = find(
        strategies.topk_ids(),
        lambda case: padded_rows(torch.bincount(case[0][case[0] >= 0]).tolist()) > 0,
        settings=SEARCH,
    )
    assert (ids.tolist(), experts) == ([[0]], 1)


def test_shrinks_to_a_repeated_id_and_to_a_dropped_one() -> None:
    repeated, _ = find(strategies.topk_ids(), lambda case: _repeats(case[0]), settings=SEARCH)
    assert repeated.tolist() == [[0, 0]]
    dropped, _ = find(strategies.topk_ids(), lambda case: bool((case[0] == -1).any()), settings=SEARCH)
    assert dropped.tolist() == [[-1]]


def _repeats(ids: torch.Tensor) -> bool:
    return any(len({*row} - {-1}) < sum(value >= 0 for value in row) for row in ids.tolist())


@QUICK
@given(strategies.counts(most_experts=5, most_rows=300))
def test_counts_are_in_range(counts: list[int]) -> None:
    assert 1 <= len(counts) <= 5
    assert all(0 <= count <= 300 for count in counts)
    worst = Sizing(tokens=sum(counts), topk=1, num_experts=len(counts), num_global_experts=len(counts))
    assert padded_rows(counts) <= FORMULAS["exact_any"].rows(worst)


@QUICK
@given(st.data(), st.booleans(), st.booleans())
def test_ids_are_in_range_and_route(data: st.DataObject, distinct: bool, dropped: bool) -> None:
    ids, experts = data.draw(strategies.topk_ids(distinct=distinct, dropped=dropped))
    assert ids.dtype == torch.int32
    assert ids.ndim == 2
    assert bool(((ids >= (-1 if dropped else 0)) & (ids < experts)).all())
    assert not (distinct and _repeats(ids))
    routing = route(ids, experts, n=16, k=32, tile=4)
    assert broken_claims(ids, routing, num_experts=experts, n=16, k=32, is_gated=True, tile=4) == {}


@QUICK
@given(strategies.sizings(most_tokens=10, most_topk=3, most_experts=9, tiles=st.sampled_from((2, 128))))
def test_sizings_are_in_range(sizing: Sizing) -> None:
    assert 0 <= sizing.tokens <= 10
    assert 1 <= sizing.topk <= 3
    assert 1 <= sizing.num_experts == sizing.num_global_experts <= 9
    assert sizing.tile in (2, 128)


def test_boundary_counts_are_found() -> None:
    """Rare under a uniform draw from 0..1024: the strategy draws next to multiples of the tile."""
    for wanted in (127, 128, 129, 1023):
        assert find(strategies.counts(), lambda counts, wanted=wanted: wanted in counts, settings=SEARCH)
