"""Worst last ends of every placement and id domain against all count vectors of small sizes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from nvfp4_moe.reference.padding import PLACEMENTS
from nvfp4_moe.verification.worst_case import (
    IDS,
    MOST_EXPERTS,
    ids_of_counts,
    last_end,
    routed_rows,
    worst_end,
    worst_tokens_per_expert,
)


def all_counts(
    tokens: int, topk: int, num_experts: int, *, ids: str, dropped: bool
) -> Iterator[tuple[int, ...]]:
    """Yield every count vector that `tokens` tokens can route; `dropped`: also those with some ids -1."""
    most = tokens * topk if ids == "any" else tokens
    total = routed_rows(tokens, topk, num_experts, ids=ids)
    for counts in product(range(most + 1), repeat=num_experts):
        if sum(counts) == total or (dropped and sum(counts) < total):
            yield counts


def ends_by_hand(counts: tuple[int, ...], *, tile: int, placement: str) -> list[int]:
    """Return the end of every region that holds a row, by the placement's definition."""
    ends = []
    packed = offset = 0
    for expert, count in enumerate(counts):
        padded = (count + tile - 1) // tile * tile
        start = {
            "packed": packed,
            "align_up": (offset + expert * (tile - 1) + tile - 1) // tile * tile,
            "align_down": (offset + expert * (tile - 1)) // tile * tile,
            "tile_index": tile * (offset // tile + expert),
        }[placement]
        if count:
            ends.append(start + padded)
        packed += padded
        offset += count
    return ends


SMALL = [
    (tokens, topk, experts)
    for tokens in range(6)
    for topk in range(1, 4)
    for experts in range(1, 5)
    if tokens * topk <= 9
]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("tile", [2, 3, 4])
def test_exact_over_all_count_vectors(tile: int, ids: str, placement: str) -> None:
    for tokens, topk, experts in SMALL:
        true = max(
            max(ends_by_hand(counts, tile=tile, placement=placement), default=0)
            for counts in all_counts(tokens, topk, experts, ids=ids, dropped=True)
        )
        where = f"{tokens} tokens, topk {topk}, {experts} experts"
        assert worst_end(tokens, topk, experts, tile=tile, ids=ids, placement=placement) == true, where


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("tile", [2, 4, 128])
def test_counts_attain_it_and_are_possible(tile: int, ids: str, placement: str) -> None:
    sizes = [*SMALL, (33, 7, 5), (127, 2, 3), (128, 2, 2), (129, 8, 16), (1000, 22, 384), (300, 9, 8)]
    for tokens, topk, experts in sizes:
        counts = worst_tokens_per_expert(tokens, topk, experts, tile=tile, ids=ids, placement=placement)
        where = f"{tokens} tokens, topk {topk}, {experts} experts: {counts}"
        assert len(counts) == experts, where
        assert sum(counts) == routed_rows(tokens, topk, experts, ids=ids), where
        assert ids == "any" or max(counts) <= tokens, where
        needed = max(ends_by_hand(tuple(counts), tile=tile, placement=placement), default=0)
        assert needed == worst_end(tokens, topk, experts, tile=tile, ids=ids, placement=placement), where
        assert last_end(counts, tile=tile, placement=placement) == needed, where


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("ids", IDS)
def test_never_falls_as_tokens_grow(ids: str, placement: str) -> None:
    for topk, experts in product((1, 2, 3, 8), (1, 2, 3, 7, 8, 60)):
        ends = [worst_end(m, topk, experts, tile=4, ids=ids, placement=placement) for m in range(60)]
        assert ends == sorted(ends)


def test_an_empty_last_region_counts_for_nothing() -> None:
    assert last_end([1, 0, 0], tile=128, placement="tile_index") == 128
    assert last_end([0, 0], tile=128, placement="align_up") == 0


@pytest.mark.parametrize(("tokens", "topk", "experts"), SMALL)
@pytest.mark.parametrize("ids", IDS)
def test_ids_of_counts(ids: str, tokens: int, topk: int, experts: int) -> None:
    for counts in all_counts(tokens, topk, experts, ids=ids, dropped=True):
        topk_ids = ids_of_counts(counts, tokens, topk)
        assert [len(row) for row in topk_ids] == [topk] * tokens
        flat = [expert for row in topk_ids for expert in row]
        assert [flat.count(expert) for expert in range(experts)] == list(counts)
        assert flat.count(-1) == tokens * topk - sum(counts)
        if max(counts) <= tokens:
            named = [[expert for expert in row if expert >= 0] for row in topk_ids]
            assert all(len(set(row)) == len(row) for row in named)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="ids must be one of any, distinct, got 'all'"):
        worst_end(1, 1, 1, ids="all")
    with pytest.raises(
        ValueError, match="placement must be one of packed, align_up, align_down, tile_index, got 'flat'"
    ):
        worst_end(1, 1, 1, placement="flat")
    with pytest.raises(ValueError, match="3 routed rows do not fit 1 tokens with topk 2"):
        ids_of_counts([3], 1, 2)
    with pytest.raises(ValueError, match="num_experts must be at most 1,048,576"):
        worst_tokens_per_expert(1, 1, MOST_EXPERTS + 1)
