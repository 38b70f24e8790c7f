"""Padding formulas against brute force: the worst end over all count vectors, for every formula of the registry."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import pytest

from nvfp4_moe.reference.padding import (
    FORMULAS,
    PLACEMENTS,
    TILE,
    Formula,
    Sizing,
    ceil_div,
    exact_any_rows,
    exact_distinct_rows,
    expert_starts,
    padded_rows,
    round_up,
    worst_tokens_per_expert_any,
    worst_tokens_per_expert_distinct,
)

TILES = (2, 3, 4, 5)


def count_vectors(total: int, experts: int) -> Iterator[tuple[int, ...]]:
    """All count vectors of `experts` experts with the given sum."""
    for bars in itertools.combinations(range(total + experts - 1), experts - 1):
        edges = (-1, *bars, total + experts - 1)
        yield tuple(right - left - 1 for left, right in itertools.pairwise(edges))


@functools.cache
def region_ends(total: int, experts: int, tile: int, placement: str) -> dict[int, int]:
    """The largest end of the last region over all count vectors of one sum, for each largest count in them."""
    worst: dict[int, int] = {}
    for counts in count_vectors(total, experts):
        end = expert_starts(counts, placement=placement, tile=tile)[-1]
        largest = max(counts)
        worst[largest] = max(worst.get(largest, 0), end)
    return worst


def worst_end(
    total: int, experts: int, tile: int, *, placement: str = "packed", largest_count: int | None = None
) -> int:
    """The largest end over all count vectors of one sum, each count at most `largest_count` if that is given."""
    ends = region_ends(total, experts, tile, placement)
    return max(end for largest, end in ends.items() if largest_count is None or largest <= largest_count)


def test_count_vectors_are_all_of_them() -> None:
    vectors = list(count_vectors(4, 3))
    assert len(vectors) == len(set(vectors)) == math.comb(6, 2)
    assert all(sum(counts) == 4 and len(counts) == 3 and min(counts) >= 0 for counts in vectors)


# --- rounding -----------------------------------------------------------------------------------------------------


def test_rounding_is_exact_beyond_the_range_of_float64() -> None:
    for value, divisor in itertools.product((0, 1, 127, 128, 129, 10**18 - 1, 10**18), (1, 2, 3, 128)):
        quotient = ceil_div(value, divisor)
        assert divisor * (quotient - 1) < value <= divisor * quotient
        assert round_up(value, divisor) == divisor * quotient


def test_padded_rows_sums_the_rounded_counts() -> None:
    assert padded_rows([]) == 0
    assert padded_rows([0, 1, 128, 129]) == 0 + 128 + 128 + 256
    assert padded_rows([0, 1, 128, 129], tile=1) == 258


# --- exact worst cases -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", TILES)
def test_exact_any_is_the_brute_force_worst_case_and_its_witness_attains_it(tile: int) -> None:
    for rows, experts in itertools.product(range(18), range(1, 6)):
        exact = exact_any_rows(rows, experts, tile=tile)
        assert exact == worst_end(rows, experts, tile)
        witness = worst_tokens_per_expert_any(rows, experts, tile=tile)
        assert (sum(witness), len(witness), min(witness) >= 0) == (rows, experts, True)
        assert padded_rows(witness, tile=tile) == exact
        occupied = min(rows, experts)  # the two closed forms of the literature are one
        assert exact == tile * (occupied + (rows - occupied) // tile)


@pytest.mark.parametrize("tile", TILES)
def test_exact_distinct_is_the_brute_force_worst_case_and_its_witness_attains_it(tile: int) -> None:
    for tokens, topk, experts in itertools.product(range(8), range(1, 5), range(1, 6)):
        rows = tokens * min(topk, experts)
        if rows > 17:
            continue
        exact = exact_distinct_rows(tokens, topk, experts, tile=tile)
        assert exact == worst_end(rows, experts, tile, largest_count=tokens)
        witness = worst_tokens_per_expert_distinct(tokens, topk, experts, tile=tile)
        assert (sum(witness), len(witness)) == (rows, experts)
        assert all(0 <= count <= tokens for count in witness)
        assert padded_rows(witness, tile=tile) == exact


@pytest.mark.parametrize("tile", [2, 3])
def test_distinct_ids_themselves_reach_and_never_pass_the_expert_parallel_worst_case(tile: int) -> None:
    """All choices of distinct global ids, seen by the rank that holds the first `local` experts."""
    for tokens, topk, experts in (
        (1, 2, 4),
        (2, 1, 3),
        (2, 2, 4),
        (3, 2, 3),
        (4, 2, 3),
        (2, 3, 4),
        (5, 1, 2),
    ):
        choices = list(itertools.combinations(range(experts), topk))
        for local in range(1, experts + 1):
            worst = 0
            for batch in itertools.combinations_with_replacement(choices, tokens):
                ids = list(itertools.chain(*batch))
                worst = max(worst, padded_rows([ids.count(expert) for expert in range(local)], tile=tile))
            assert worst == exact_distinct_rows(tokens, topk, local, tile=tile)


@pytest.mark.parametrize("tile", [4, TILE])
def test_larger_witnesses_attain_their_formulas(tile: int) -> None:
    sizes = (1, 2, 3, tile - 1, tile, tile + 1, 2 * tile + 1, 1000)
    for tokens, topk, experts in itertools.product(sizes, (1, 2, 8), (1, 2, 5, 8, 60, 256)):
        counts = worst_tokens_per_expert_any(tokens * topk, experts, tile=tile)
        assert sum(counts) == tokens * topk
        assert padded_rows(counts, tile=tile) == exact_any_rows(tokens * topk, experts, tile=tile)
        counts = worst_tokens_per_expert_distinct(tokens, topk, experts, tile=tile)
        assert sum(counts) == tokens * min(topk, experts)
        assert max(counts) <= tokens
        assert padded_rows(counts, tile=tile) == exact_distinct_rows(tokens, topk, experts, tile=tile)


@pytest.mark.parametrize("tile", TILES)
def test_worst_cases_do_not_fall_as_rows_or_experts_grow(tile: int) -> None:
    for rows, experts in itertools.product(range(40), range(1, 12)):
        exact = exact_any_rows(rows, experts, tile=tile)
        assert exact <= exact_any_rows(rows + 1, experts, tile=tile)
        assert exact <= exact_any_rows(rows, experts + 1, tile=tile)


# --- placements --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_regions_are_whole_tiles_in_order_and_apart(placement: str, tile: int) -> None:
    for rows, experts in itertools.product(range(11), range(1, 5)):
        for counts in count_vectors(rows, experts):
            starts = expert_starts(counts, placement=placement, tile=tile)
            assert len(starts) == experts + 1
            end = 0
            for start, count in zip(starts, counts, strict=False):
                assert start % tile == 0
                assert start >= end
                end = start + round_up(count, tile)
            assert starts[-1] == end


def test_starts_by_hand() -> None:
    counts = [3, 0, 130, 1]
    assert expert_starts(counts) == [0, 128, 128, 384, 512]
    assert expert_starts(counts, placement="align_up") == [0, 256, 384, 640, 768]
    assert expert_starts(counts, placement="align_down") == [
        0,
        128,
        256,
        512,
        640,
    ]  # (3 + 127) // 128 = 1, ...
    assert expert_starts(counts, placement="tile_index") == [0, 128, 256, 512, 640]
    assert expert_starts([]) == [0]


def test_align_down_of_the_counts_that_were_said_to_break_it() -> None:
    """FlashInfer pull request 3562: [4, 4] and [1, 7] with rows aligned to 4."""
    assert expert_starts([4, 4], placement="align_down", tile=4) == [0, 4, 8]
    assert expert_starts([1, 7], placement="align_down", tile=4) == [0, 4, 12]
    assert expert_starts([4, 4, 4], placement="align_down", tile=4) == [0, 4, 12, 16]


def test_align_up_and_tile_index_are_the_published_closed_forms() -> None:
    """R(off + e * 127), and the shape-only 128 * (off // 128 + e)."""
    counts = [3, 0, 130, 1, 127, 0, 5]
    offsets = [0, *itertools.accumulate(counts)]
    for expert, start in enumerate(expert_starts(counts, placement="align_up")[:-1]):
        assert start == -(-(offsets[expert] + 127 * expert) // 128) * 128
    for expert, start in enumerate(expert_starts(counts, placement="tile_index")[:-1]):
        assert start == 128 * (offsets[expert] // 128 + expert)


def test_an_unknown_placement_is_refused() -> None:
    with pytest.raises(ValueError, match="one of packed, align_up, align_down, tile_index, got 'dense'"):
        expert_starts([1], placement="dense")


# --- the registry ----------------------------------------------------------------------------------------------------


UNCAPPED = [formula for formula in FORMULAS.values() if not formula.capped]


def worst_in_domain(formula: Formula, sizing: Sizing, rows: int) -> int:
    """The largest end of `rows` routed rows placed as the formula assumes, over the routings it is meant to cover."""
    experts = sizing.num_experts
    distinct = formula.ids == "distinct"
    assert not distinct or rows <= sizing.tokens * experts
    largest = sizing.tokens if distinct else None
    return worst_end(rows, experts, sizing.tile, placement=formula.placement, largest_count=largest)


def most_rows(formula: Formula, sizing: Sizing) -> int:
    """The most rows that tokens can send to the local experts."""
    slots = min(sizing.topk, sizing.num_experts) if formula.ids == "distinct" else sizing.topk
    return sizing.tokens * slots


def small_sizings(tile: int) -> Iterator[Sizing]:
    for tokens, topk, local, remote in itertools.product(range(8), range(1, 4), range(1, 5), (0, 1, 4)):
        if tokens * topk <= 14 and topk <= local + remote:
            yield Sizing(
                tokens=tokens, topk=topk, num_experts=local, num_global_experts=local + remote, tile=tile
            )


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("formula", UNCAPPED, ids=lambda formula: formula.name)
def test_no_routing_of_its_domain_passes_a_formula(formula: Formula, tile: int) -> None:
    """Under the formula's own placement and guard; ids of other ranks are dropped, so any smaller sum occurs too."""
    for sizing in small_sizings(tile):
        assert formula.guard_routed_rows(sizing) == sizing.routed_rows
        for rows in range(most_rows(formula, sizing) + 1):
            assert worst_in_domain(formula, sizing, rows) <= formula.rows(sizing), (sizing, rows)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("name", ["exact_any", "exact_distinct", "trtllm_cutedsl", "quack"])
def test_formulas_that_a_routing_fills_at_every_size(name: str, tile: int) -> None:
    formula = FORMULAS[name]
    for sizing in small_sizings(tile):
        assert worst_in_domain(formula, sizing, most_rows(formula, sizing)) == formula.rows(sizing)


@pytest.mark.parametrize("tile", TILES)
def test_align_up_is_filled_whenever_the_last_expert_can_have_a_single_row(tile: int) -> None:
    formula = FORMULAS["flashinfer_cutlass"]
    for sizing in small_sizings(tile):
        rows = most_rows(formula, sizing)
        if 1 <= rows <= sizing.tokens * (sizing.num_experts - 1) + 1:
            assert worst_in_domain(formula, sizing, rows) == formula.rows(sizing)


@pytest.mark.parametrize("tile", TILES)
def test_without_expert_parallelism_trtllm_gen_sizes_exactly(tile: int) -> None:
    for sizing in small_sizings(tile):
        exact = exact_any_rows(sizing.routed_rows, sizing.num_global_experts, tile=tile)
        assert FORMULAS["flashinfer_trtllm"].rows(sizing) == exact


@pytest.mark.parametrize("tile", TILES)
def test_how_far_the_loose_formulas_lie_above_the_exact_one(tile: int) -> None:
    for sizing in small_sizings(tile):
        rows, experts = sizing.routed_rows, sizing.num_experts
        exact = exact_any_rows(rows, experts, tile=tile)
        loose, proposed = FORMULAS["loose"].rows(sizing), FORMULAS["proposed"].rows(sizing)
        assert loose == exact if rows <= experts else exact <= loose < exact + tile
        assert (proposed == exact) == (rows >= experts and (rows - experts) % tile == 0)
        assert FORMULAS["torchao"].rows(sizing) > exact
        assert FORMULAS["trtllm_old"].rows(sizing) >= proposed


@pytest.mark.parametrize(("name", "rows"), [("exact_distinct", 2), ("flashinfer_cutlass", 4)])
def test_repeated_ids_pass_the_formulas_that_assume_distinct_ones(name: str, rows: int) -> None:
    formula = FORMULAS[name]
    assert formula.ids == "distinct"
    sizing = Sizing(tokens=2, topk=3, num_experts=1, num_global_experts=4, tile=2)
    assert formula.rows(sizing) == rows
    assert worst_end(6, 1, 2, placement=formula.placement) == 6 > rows


@pytest.mark.parametrize("placement", ["align_up", "tile_index"])
def test_the_packed_worst_case_does_not_cover_closed_form_placements(placement: str) -> None:
    """Empty experts move the closed forms on: [0, 0, 2] needs one tile packed, three elsewhere."""
    assert exact_any_rows(2, 3, tile=4) == 8
    assert expert_starts([0, 0, 2], tile=4)[-1] == 4
    assert expert_starts([0, 0, 2], placement=placement, tile=4)[-1] == 12
