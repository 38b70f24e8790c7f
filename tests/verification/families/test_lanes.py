"""Packed lanes against plain integers."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.verification import counter
from nvfp4_moe.verification.families.lanes import (
    LARGEST_COUNT,
    LARGEST_TILE,
    Lanes,
    packed_sums,
    splat,
    tile_lanes,
    unpack_sums,
    words_for,
)


def lanes_of(counts: torch.Tensor) -> Lanes:
    batch, experts = counts.shape
    wide = torch.zeros(batch, 4 * words_for(experts), dtype=torch.int16)
    wide[:, :experts] = counts
    return Lanes(wide.view(torch.int64), experts, int(counts.max()))


def random_counts(most: int, experts: int) -> torch.Tensor:
    raw = counter.words(0, f"lanes {most} {experts}", 0, 20 * experts).view(20, experts)
    return torch.cat([counter.below(raw, most + 1), torch.full((1, experts), most)])


def sums(lanes: Lanes) -> list[int]:
    packed = torch.empty(lanes.words.shape[0], dtype=torch.int64)
    packed_sums(lanes, packed)
    return unpack_sums(packed, most_in_lane=lanes.most_in_lane).tolist()


@pytest.mark.parametrize("experts", [1, 3, 4, 5, 16, 60, 256, 257, 1024])
@pytest.mark.parametrize("most", [1, 255, 1023, 4095, LARGEST_COUNT])
@pytest.mark.parametrize("tile", [1, 2, 3, 100, 128, LARGEST_TILE])
def test_sums_and_tiles(experts: int, most: int, tile: int) -> None:
    counts = random_counts(most, experts)
    lanes = lanes_of(counts)
    assert torch.equal(lanes.counts(), counts)
    assert sums(lanes) == counts.sum(1).tolist()
    tiles, unit = tile_lanes(lanes, torch.empty(lanes.words.numel(), dtype=torch.int64), tile=tile)
    assert unit in (1, tile)
    assert torch.equal(tiles.counts() * unit, -(-counts // tile) * tile)
    assert int(tiles.counts().max()) <= tiles.most
    assert [total * unit for total in sums(tiles)] == (-(-counts // tile) * tile).sum(1).tolist()


@pytest.mark.parametrize(("most", "tile", "unit"), [(15, 128, 1), (LARGEST_COUNT, 128, 128), (15, 100, 100)])
def test_tiles_stay_rows_where_their_sums_fit(most: int, tile: int, unit: int) -> None:
    lanes = lanes_of(random_counts(most, 256))
    assert tile_lanes(lanes, torch.empty(lanes.words.numel(), dtype=torch.int64), tile=tile)[1] == unit


def test_a_stated_lane_total_is_used() -> None:
    counts = torch.zeros(1, 256, dtype=torch.int64)
    counts[0, 7] = LARGEST_COUNT
    lanes = lanes_of(counts)
    stated = Lanes(lanes.words, 256, LARGEST_COUNT, lane_total=LARGEST_COUNT)
    assert lanes.most_in_lane > 65_535 >= stated.most_in_lane
    assert sums(stated) == sums(lanes) == [LARGEST_COUNT]


def test_counts_that_do_not_fit_are_refused() -> None:
    lanes = Lanes(torch.zeros(1, 1, dtype=torch.int64), 4, 32_000)
    with pytest.raises(ValueError, match="do not fit lanes"):
        tile_lanes(lanes, torch.zeros(1, dtype=torch.int64), tile=1024)


def test_dead_lanes_are_cleared() -> None:
    lanes = Lanes(torch.full((2, 2), -1), 5, 65_535)
    lanes.clear_dead_lanes()
    assert lanes.by_expert().tolist() == [[-1] * 5 + [0] * 3] * 2


def test_splat() -> None:
    assert splat(0x00FF) == 0x00FF_00FF_00FF_00FF
    assert splat(0xFFFF) == -1
