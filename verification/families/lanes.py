"""Count vectors as packed 16-bit lanes: four counts to a 64-bit word.

A batch of B count vectors over E experts is an int64 tensor (B, W), W = ceil(E / 4): expert e is bits
16*(e % 4) .. +15 of word e // 4, lanes at or past E are zero. On a little-endian machine the same memory viewed as
int16 is (B, 4*W), expert by expert. One 64-bit operation then works on four counts, and a batch whose words stay in
the cache is made and summed at a few nanoseconds a word.

Every lane must hold a count small enough that adding `tile - 1` does not carry into the next lane: `tile_lanes`
checks it, and `LARGEST_COUNT` and `LARGEST_TILE` are safe together.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch

from nvfp4_moe.verification import counter

LANES = 4
"""Counts in one word."""
LANE_BITS = 16
HALF_LANE_BITS = LANE_BITS // 2
_ONES = 0x0001_0001_0001_0001
_LANE_MASK = (1 << LANE_BITS) - 1
_EVEN_LANES = 0x0000_FFFF_0000_FFFF
_HALF_BITS, _HALF_MASK = 32, (1 << 32) - 1
CHUNK_WORDS = 1 << 16
"""Words made at a time: two int64 buffers of this size stay in the second-level cache."""
LARGEST_COUNT, LARGEST_TILE = 1 << 14, 1 << 12
"""Counts and tiles up to these fit a lane together, also when it is read as int16."""

if sys.byteorder != "little":
    raise ImportError("count lanes are viewed as int16 in place, which needs a little-endian machine")


def splat(value: int) -> int:
    """Return the word with `value` in each lane, as an int64."""
    return counter.signed(value * _ONES)


def words_for(num_experts: int) -> int:
    """Return W, the words of one count vector."""
    return -(-num_experts // LANES)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Two int64 buffers that a loop over chunks works in."""

    raw: torch.Tensor
    spare: torch.Tensor

    @staticmethod
    def allocate(words: int = CHUNK_WORDS) -> Workspace:
        """Return buffers of `words` words each."""
        return Workspace(torch.empty(words, dtype=torch.int64), torch.empty(words, dtype=torch.int64))


@dataclass(frozen=True, slots=True)
class Lanes:
    """A batch of count vectors in packed form; `words` may be a view of a workspace, good until its next use."""

    words: torch.Tensor
    """int64 (B, W)."""
    num_experts: int
    most: int
    """No count is larger."""
    lane_total: int | None = None
    """No sum of one lane over a vector's words is larger, where the family knows better than `most` times the words."""

    @property
    def most_in_lane(self) -> int:
        """Return a limit on the sum of one lane over a vector's words."""
        limit = self.most * words_for(self.num_experts)
        return limit if self.lane_total is None else min(limit, self.lane_total)

    def counts(self) -> torch.Tensor:
        """Return the counts as int64 (B, E), a copy."""
        return self.by_expert()[:, : self.num_experts].long()

    def by_expert(self) -> torch.Tensor:
        """Return the int16 (B, 4*W) view of the same memory."""
        return self.words.view(torch.int16)

    def clear_dead_lanes(self) -> None:
        """Zero the lanes at and past E, in place."""
        live = self.num_experts % LANES
        if live:
            self.words[:, -1].bitwise_and_((1 << (LANE_BITS * live)) - 1)


def tile_lanes(lanes: Lanes, spare: torch.Tensor, *, tile: int) -> tuple[Lanes, int]:
    """Return what each count needs, as lanes in `spare` (at least as many words), and their unit in rows.

    The lanes hold ceil(c / A) tiles, unit A; where A is a power of two and the sums fit, they are left in rows, unit 1,
    which spares a shift.

    Raises:
        ValueError: a count plus the tile does not fit a lane.
    """
    if lanes.most + tile - 1 >= 1 << (LANE_BITS - 1):
        raise ValueError(f"counts up to {lanes.most} with tile {tile} do not fit lanes of {LANE_BITS} bits")
    tiles = spare[: lanes.words.numel()].view_as(lanes.words)
    torch.add(lanes.words, splat(tile - 1), out=tiles)
    most = (lanes.most + tile - 1) // tile
    if tile & (tile - 1):
        tiles.view(torch.int16).floor_divide_(tile)
        return Lanes(tiles, lanes.num_experts, most, lanes.lane_total), tile
    total = None if lanes.lane_total is None else lanes.lane_total + lanes.words.shape[1] * (tile - 1)
    in_rows = Lanes(tiles, lanes.num_experts, most * tile, total)
    if in_rows.most_in_lane <= _LANE_MASK:
        tiles.bitwise_and_(splat(_LANE_MASK & -tile))
        return in_rows, 1
    shift = tile.bit_length() - 1
    tiles.bitwise_right_shift_(shift).bitwise_and_(splat(_LANE_MASK >> shift))
    return Lanes(tiles, lanes.num_experts, most, lanes.lane_total), tile


def packed_sums(lanes: Lanes, out: torch.Tensor) -> None:
    """Write the sum of each row's words to `out` (B,): sums of lanes side by side, for `unpack_sums`.

    Whole words are added where no lane can overflow; else as many of them as cannot, and then lanes are widened to 32 bits.
    """
    words = lanes.words
    if lanes.most_in_lane > _LANE_MASK:
        batch, each = words.shape
        group = next(g for g in range(each, 0, -1) if each % g == 0 and g * lanes.most <= _LANE_MASK)
        words = words.view(batch, group, each // group).sum(1)
        words = (words & _EVEN_LANES).add_((words >> LANE_BITS).bitwise_and_(_EVEN_LANES))
    torch.sum(words, 1, out=out)


def unpack_sums(packed: torch.Tensor, *, most_in_lane: int) -> torch.Tensor:
    """Return the sums over all lanes, int64, of what `packed_sums` wrote for lanes with this limit."""
    step, mask = (LANE_BITS, _LANE_MASK) if most_in_lane <= _LANE_MASK else (_HALF_BITS, _HALF_MASK)
    total = packed & mask
    for at in range(step, 64, step):
        total += (packed >> at).bitwise_and_(mask)
    return total
