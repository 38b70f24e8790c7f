"""The batched placement rules against the scalar definition, over every small count vector."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.padding import PLACEMENTS, expert_starts, round_up
from nvfp4_moe.verification.exhaustive import compositions
from nvfp4_moe.verification.placements import LIMITS, last_ends, placement_starts
from nvfp4_moe.verification.worst_case import last_end


@pytest.mark.parametrize("tile", [1, 2, 3, 128])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_starts_and_ends_are_the_definition(placement: str, tile: int) -> None:
    for experts in (1, 2, 3, 4):
        for total in (0, 1, 2, 5, 9):
            counts = compositions(total, experts)
            starts = placement_starts(counts, placement=placement, tile=tile)
            rows = counts.tolist()
            assert starts.tolist() == [expert_starts(row, placement=placement, tile=tile) for row in rows]
            ends = last_ends(counts, starts, tile=tile).tolist()
            assert ends == [last_end(row, placement=placement, tile=tile) for row in rows]


@pytest.mark.parametrize("tile", [2, 5, 128])
@pytest.mark.parametrize("experts", [1, 3, 8])
@pytest.mark.parametrize("routed", [0, 1, 7, 129, 1000])
def test_limits_are_the_closed_forms(routed: int, experts: int, tile: int) -> None:
    assert LIMITS["packed"](routed, experts, tile) == tile * min(
        routed, (routed + (tile - 1) * experts) // tile
    )
    assert LIMITS["align_up"](routed, experts, tile) == round_up(routed + (tile - 1) * experts, tile)
    assert LIMITS["tile_index"](routed, experts, tile) == tile * (-(-routed // tile) + experts - 1)


def test_unknown_placement_is_refused() -> None:
    with pytest.raises(ValueError, match="placement must be one of packed"):
        placement_starts(torch.zeros(1, 1), placement="loose", tile=4)
