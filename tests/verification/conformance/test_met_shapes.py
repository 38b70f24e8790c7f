"""Every pair of classes of a shape occurs among the cases of level 1: faults that need both are met."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, product

import pytest

from nvfp4_moe.verification.conformance import met_shapes
from nvfp4_moe.verification.conformance.cases import QuantCase, masked_cases, quant_cases

RAGGED = list(quant_cases("scaled_fp4_experts_quant", level=1, seed=0))
MASKED = list(masked_cases("scaled_fp4_masked_quant", seed=0))
TILE, WARP = 128, 32

Classify = Callable[[QuantCase], object]


def left_of_64(case: QuantCase) -> int:
    return case.k % 64


def width(case: QuantCase) -> str:
    return "narrow" if case.k <= 272 else "middle" if case.k <= 1024 else "wide"


def experts(case: QuantCase) -> str:
    number = len(case.tokens_per_expert)
    return next(
        name for name, most in (("few", 4), ("some", 64), ("many", 256), ("more", 10_000)) if number <= most
    )


def fullest(case: QuantCase) -> str:
    rows = max(case.tokens_per_expert)
    return next(
        name
        for name, most in (("none", 0), ("warp", WARP), ("tile", TILE), ("tiles", 3 * TILE), ("more", 10**9))
        if rows <= most
    )


def tall_ones(case: QuantCase) -> int:
    return min(2, sum(rows > TILE for rows in case.tokens_per_expert))


def dtype(case: QuantCase) -> str:
    return case.dtype


def first_is_empty(case: QuantCase) -> bool:
    return case.tokens_per_expert[0] == 0


PAIRS = (
    (left_of_64, width),
    (left_of_64, experts),
    (width, experts),
    (left_of_64, fullest),
    (tall_ones, experts),
    (tall_ones, left_of_64),
    (dtype, fullest),
    (dtype, experts),
    (dtype, left_of_64),
    (dtype, tall_ones),
)
TRIPLES = (
    (left_of_64, experts, dtype),
    (width, experts, dtype),
    (left_of_64, fullest, dtype),
    (width, experts, first_is_empty),
)
TOO_LARGE = {(2, "more")}
"""Two tall experts among more than 256 would be slabs of 3 M elements."""


@pytest.mark.parametrize("cases", [RAGGED, MASKED], ids=["ragged", "masked"])
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda f: f.__name__)
def test_every_pair_of_classes_occurs(cases: list[QuantCase], first: Classify, second: Classify) -> None:
    met = {(first(case), second(case)) for case in cases}
    wanted = set(product({one for one, _ in met}, {two for _, two in met}))
    assert wanted - met <= (TOO_LARGE if cases is MASKED else set())
    assert len(met) > 3


@pytest.mark.parametrize("cases", [RAGGED, MASKED], ids=["ragged", "masked"])
@pytest.mark.parametrize("classes", TRIPLES, ids=lambda fs: "-".join(f.__name__ for f in fs))
def test_triples_occur_wherever_all_their_pairs_do(
    cases: list[QuantCase], classes: tuple[Classify, Classify, Classify]
) -> None:
    met = {tuple(classify(case) for classify in classes) for case in cases}
    for triple in product(*({found[i] for found in met} for i in range(3))):
        pairs = [{(found[i], found[j]) for found in met} for i, j in combinations(range(3), 2)]
        if all(
            (triple[i], triple[j]) in pair
            for (i, j), pair in zip(combinations(range(3), 2), pairs, strict=True)
        ):
            assert triple in met


@pytest.mark.parametrize("shape", [partial(met_shapes.few_rows, first=1), met_shapes.crowded])
@pytest.mark.parametrize("number", [6, 8, 257])
def test_a_routing_has_that_many_experts_and_few_rows(
    shape: Callable[[int], tuple[int, ...]], number: int
) -> None:
    routing = shape(number)
    assert len(routing) == number
    assert sum(count > 0 for count in routing) == 3


def test_the_shapes_stay_cheap() -> None:
    """Seconds at level 1, on two cores."""
    for cases, most in ((RAGGED, 4_000_000), (MASKED, 12_000_000)):
        assert sum(case.elements for case in cases if case.group == "met") < most
