"""Each predicate accepts what is right and rejects every way it can be wrong that we could think of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from nvfp4_moe.reference.routing import Routing, route
from nvfp4_moe.verification import predicates

TILE = 4
IDS = torch.tensor([[2, 0], [-1, 2], [0, 0], [3, -1], [2, 3]], dtype=torch.int32)
EXPERTS = 5


def routing() -> Routing:
    return route(IDS, EXPERTS, n=8, k=16, is_gated=True, tile=TILE)


def broken(given: Routing) -> dict[str, list[str]]:
    return predicates.broken_routing_claims(IDS, given, n=8, k=16, is_gated=True, tile=TILE)


def changed(name: str, index: object, value: int) -> Routing:
    tensor = getattr(routing(), name).clone()
    tensor[index] = value
    return replace(routing(), **{name: tensor})


def swapped(name: str, first: int, second: int) -> Routing:
    tensor = getattr(routing(), name).clone()
    tensor[[first, second]] = tensor[[second, first]]
    return replace(routing(), **{name: tensor})


def test_right_routing_breaks_nothing() -> None:
    assert broken(routing()) == {}


# IDS by slot: 2 0 -1 2 0 0 3 -1 2 3; counts 3 0 3 2 0; rows 3 0 8 4 1 2 6 8 5 7.
MUTANTS: list[tuple[str, Callable[[], Routing], str, str]] = [
    ("a count too many", lambda: changed("tokens_per_expert", 1, 1), "routing.counts", "counts_right"),
    ("a count moved", lambda: swapped("tokens_per_expert", 0, 1), "routing.counts", "counts_right"),
    ("a negative count", lambda: changed("tokens_per_expert", 4, -1), "routing.counts", "counts_right"),
    ("rows of GEMM 1", lambda: changed("problem_sizes1", (0, 0), 9), "routing.counts", "problem_sizes1"),
    ("columns of GEMM 1", lambda: changed("problem_sizes1", (0, 1), 8), "routing.counts", "problem_sizes1"),
    ("depth of GEMM 2", lambda: changed("problem_sizes2", (4, 2), 16), "routing.counts", "problem_sizes2"),
    ("an offset off", lambda: changed("expert_offsets", 2, 4), "routing.offsets", "offsets_right"),
    ("offsets from 1", lambda: changed("expert_offsets", 0, 1), "routing.offsets", "offsets_right"),
    (
        "scale rows not padded",
        lambda: replace(routing(), blockscale_offsets=routing().expert_offsets),
        "routing.offsets",
        "blockscale_offsets_right",
    ),
    (
        "an empty expert given a tile",
        lambda: replace(routing(), blockscale_offsets=torch.tensor([0, 4, 8, 12, 16, 16])),
        "routing.offsets",
        "blockscale_offsets_right",
    ),
    (
        "two slots on a row",
        lambda: changed("output_permutation", 4, 0),
        "routing.permutation",
        "permutation_right",
    ),
    (
        "a row of another expert",
        lambda: swapped("output_permutation", 0, 1),
        "routing.permutation",
        "permutation_right",
    ),
    (
        "the wrong token",
        lambda: changed("input_permutation", 0, 4),
        "routing.permutation",
        "permutation_right",
    ),
    (
        "rows of an expert exchanged",
        lambda: swapped("output_permutation", 4, 5),
        "routing.permutation",
        "stable",
    ),
    (
        "a dropped slot on a row",
        lambda: changed("output_permutation", 2, 0),
        "routing.permutation",
        "dropped_right",
    ),
    (
        "a tail left unwritten",
        lambda: changed("input_permutation", 9, 3),
        "routing.permutation",
        "dropped_right",
    ),
]


@pytest.mark.parametrize(
    ("mutant", "claim", "predicate"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS]
)
def test_mutants_are_named(mutant: Callable[[], Routing], claim: str, predicate: str) -> None:
    assert predicate in broken(mutant())[claim]


def test_problem_sizes_without_a_gate() -> None:
    ungated = route(IDS, EXPERTS, n=8, k=16, is_gated=False, tile=TILE)
    assert predicates.broken_routing_claims(IDS, ungated, n=8, k=16, is_gated=False, tile=TILE) == {}
    assert "routing.counts" in predicates.broken_routing_claims(
        IDS, ungated, n=8, k=16, is_gated=True, tile=TILE
    )


@pytest.mark.parametrize("shape", [(0, 1), (3, 2)])
def test_routings_without_rows_hold(shape: tuple[int, int]) -> None:
    ids = torch.full(shape, -1, dtype=torch.int32)
    given = route(ids, 2, n=8, k=16, tile=TILE)
    assert predicates.broken_routing_claims(ids, given, n=8, k=16, is_gated=True, tile=TILE) == {}
    offsets, starts = given.expert_offsets.long(), given.blockscale_offsets.long()
    assert predicates.rows_covered(offsets, starts, given.tokens_per_expert.long(), 0, tile=TILE)


COUNTS = torch.tensor([[3, 0, 5], [4, 1, 0], [0, 0, 0]])
STARTS = torch.tensor([[0, 4, 4, 12], [0, 4, 8, 8], [0, 0, 0, 0]])


def test_region_rows_rounds_up() -> None:
    assert predicates.region_rows(torch.arange(10), tile=4).tolist() == [0, 4, 4, 4, 4, 8, 8, 8, 8, 12]


def test_right_regions_hold() -> None:
    assert predicates.regions_disjoint(STARTS[:, :-1], COUNTS, tile=TILE).tolist() == [True] * 3
    assert predicates.regions_inside(STARTS[:, :-1], COUNTS, STARTS[:, -1], tile=TILE).tolist() == [True] * 3
    assert predicates.starts_aligned(STARTS, tile=TILE).tolist() == [True] * 3
    assert predicates.rows_fit(STARTS, COUNTS).tolist() == [True] * 3


def test_overlap_is_found_in_any_order() -> None:
    counts = torch.tensor([[5, 4], [5, 4], [5, 0], [4, 5]])
    starts = torch.tensor([[0, 4], [8, 0], [0, 4], [4, 0]])
    assert predicates.regions_disjoint(starts, counts, tile=TILE).tolist() == [False, True, True, False]


def test_a_region_past_the_buffer_is_found_and_an_empty_one_is_not() -> None:
    assert predicates.regions_inside(STARTS[:, :-1], COUNTS, 11, tile=TILE).tolist() == [False, True, True]
    assert predicates.regions_inside(torch.tensor([-4]), torch.tensor([1]), 100, tile=TILE).item() is False
    assert predicates.regions_inside(torch.tensor([99]), torch.tensor([0]), 4, tile=TILE).item() is True


def test_unaligned_and_negative_starts_are_found() -> None:
    starts = torch.tensor([[0, 4], [0, 5], [-4, 0]])
    assert predicates.starts_aligned(starts, tile=TILE).tolist() == [True, False, False]


def test_rows_that_run_into_the_next_region_are_found() -> None:
    assert predicates.rows_fit(torch.tensor([[0, 4, 8]]), torch.tensor([[5, 1]])).tolist() == [False]
    assert predicates.rows_fit(torch.tensor([[0, 4, 4]]), torch.tensor([[4, 1]])).tolist() == [False]


@pytest.mark.parametrize(
    ("offsets", "starts", "rows", "holds"),
    [
        ([0, 3, 3, 8], [0, 4, 4, 12], 12, True),
        ([0, 3, 3, 8], [0, 4, 4, 12], 8, False),  # the last row is outside a buffer of 8
        ([0, 3, 3, 8], [0, 4, 0, 12], 12, False),  # experts 0 and 2 share rows
        ([0, 3, 3, 8], [0, 2, 2, 12], 12, False),  # row 2 is in expert 0's region and in expert 2's
        ([0, 3, 3, 7], [0, 4, 4, 12], 12, False),  # a row that the counts know is not routed
        (
            [0, 0, 0, 8],
            [0, 4, 4, 12],
            12,
            True,
        ),  # every row of its own, though of the wrong expert: offsets' claim
    ],
)
def test_rows_covered(offsets: list[int], starts: list[int], rows: int, holds: bool) -> None:
    counts = torch.tensor([3, 0, 5])
    assert (
        predicates.rows_covered(torch.tensor(offsets), torch.tensor(starts), counts, rows, tile=TILE) is holds
    )


def test_scale_rows_are_those_of_a_loop() -> None:
    counts, starts = [3, 0, 5, 0, 1], [0, 4, 4, 12, 12]
    offsets = torch.tensor([0, 3, 3, 8, 8, 9])
    wanted = [(starts[e] + i, e) for e, count in enumerate(counts) for i in range(count)]
    rows, experts = predicates.scale_rows_of_rows(offsets, torch.tensor(starts))
    assert list(zip(rows.tolist(), experts.tolist(), strict=True)) == wanted
