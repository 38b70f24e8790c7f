"""Families that start as count vectors: uniform counts, adversarial remainders, collapse, exact attainment.

All are made of raw words by masks, shifts and small products on packed lanes. The padding of a count depends on its
remainder modulo the tile alone, so these families choose remainders; the quotients only set the scale.
"""

from __future__ import annotations

import torch

from nvfp4_moe.verification import counter
from nvfp4_moe.verification.families.family import CountsFamily, Draw, Setting
from nvfp4_moe.verification.families.lanes import (
    LANE_BITS,
    LARGEST_COUNT,
    Lanes,
    Workspace,
    splat,
)

_MOST_HOT = 4
"""Experts that a collapsed routing uses, at most."""


def _uniform(draw: Draw, space: Workspace) -> Lanes:
    most = (1 << draw.setting.count_bits) - 1
    return Lanes(draw.lane_fields(space, most), draw.setting.num_experts, most)


def _empty(draw: Draw, space: Workspace) -> Lanes:
    """Two bits of each lane decide whether its expert has rows at all; the count's own bits lie below them."""
    most = (1 << draw.setting.count_bits) - 1
    words = draw.lane_words(space)
    used = torch.bitwise_right_shift(words, LANE_BITS - 1, out=space.spare[: words.numel()].view_as(words))
    used.bitwise_and_(words >> (LANE_BITS - 2)).bitwise_and_(splat(1)).mul_(most)
    return Lanes(words.bitwise_and_(used), draw.setting.num_experts, most)


def _whole_tiles(draw: Draw, space: Workspace, *, more: int, steps_bits: int = 0) -> tuple[torch.Tensor, int]:
    """Return lanes of a multiple of the tile plus `more` plus steps in [0, 2^steps_bits), and the largest possible."""
    tile = draw.setting.tile
    steps = (1 << steps_bits) - 1
    quotient_bits = max(draw.setting.count_bits - tile.bit_length() + 1, 1)
    while ((1 << quotient_bits) - 1) * tile + more + steps > LARGEST_COUNT - tile:
        quotient_bits -= 1
    quotients = (1 << quotient_bits) - 1
    shift = tile.bit_length() - 1
    if tile == 1 << shift and steps < tile:  # quotient and step are then bit fields of the count
        words = draw.lane_fields(space, quotients << shift | steps)
    else:
        words = draw.lane_words(space)
        step = words >> (LANE_BITS - steps_bits) if steps_bits else torch.zeros_like(words)
        words.bitwise_and_(splat(quotients)).mul_(tile).add_(step.bitwise_and_(splat(steps)))
    if more:
        words.add_(splat(more))
    return words, quotients * tile + more + steps


def _remainder_zero(draw: Draw, space: Workspace) -> Lanes:
    words, most = _whole_tiles(draw, space, more=0)
    return Lanes(words, draw.setting.num_experts, most)


def _remainder_one(draw: Draw, space: Workspace) -> Lanes:
    words, most = _whole_tiles(draw, space, more=1)
    return Lanes(words, draw.setting.num_experts, most)


def _remainder_near(draw: Draw, space: Workspace) -> Lanes:
    """A multiple of the tile, A - 1 more, and a step of 0 to 3: remainders A-1, 0, 1 and 2."""
    words, most = _whole_tiles(draw, space, more=draw.setting.tile - 1, steps_bits=2)
    return Lanes(words, draw.setting.num_experts, most)


def _attaining(draw: Draw, space: Workspace) -> Lanes:
    """Whole tiles plus one row on every expert, and up to A - 1 rows more on one: the exact worst case for its T."""
    experts, tile = draw.setting.num_experts, draw.setting.tile
    words, most = _whole_tiles(draw, space, more=1)
    lanes = Lanes(words, experts, most + tile, lane_total=most * words.shape[1] + tile)
    head = draw.words("spread", 1)
    more, expert = counter.below(head, tile, half=0), counter.below(head, experts)
    lanes.by_expert().scatter_add_(1, expert, more.short())
    return lanes


def _attaining_few(draw: Draw, space: Workspace) -> Lanes:
    """At most one row on each expert: every routed row opens a tile."""
    return Lanes(draw.lane_fields(space, 1), draw.setting.num_experts, 1)


def _collapse(draw: Draw, space: Workspace) -> Lanes:
    """One to four hot experts have all rows."""
    setting = draw.setting
    most = min(max(2 * setting.tokens * setting.topk // _MOST_HOT, 1), LARGEST_COUNT // _MOST_HOT)
    head = draw.words("hot", _MOST_HOT + 1)
    hot = counter.below(head[:, :1], _MOST_HOT) + 1
    rows = counter.below(head[:, 1:], most + 1, half=0)
    rows.masked_fill_(torch.arange(_MOST_HOT) >= hot, 0)
    experts = counter.below(head[:, 1:], setting.num_experts)
    lanes = Lanes(draw.zero_lanes(space), setting.num_experts, most * _MOST_HOT, lane_total=most * _MOST_HOT)
    lanes.by_expert().scatter_add_(1, experts, rows.short())
    return lanes


def boundary_totals(setting: Setting) -> list[int]:
    """Return the totals T next to which formulas change: 0, 1, multiples of the tile, the expert count, their sums."""
    experts, tile = setting.num_experts, setting.tile
    corners = {0, 1, tile, 2 * tile, experts, experts + tile, experts * tile, (experts - 1) * tile}
    corners |= {setting.tokens * setting.topk, experts + (tile - 1) * experts}
    totals = {corner + step for corner in corners for step in (-1, 0, 1)}
    return sorted(total for total in totals if 0 <= total <= LARGEST_COUNT)


def _boundary(draw: Draw, space: Workspace) -> Lanes:
    """A boundary total, half the time with one row on as many experts as it reaches; the rest on two hot experts."""
    setting = draw.setting
    totals = torch.tensor(boundary_totals(setting))
    head = draw.words("boundary", 3)
    which = counter.below(head[:, 0], totals.numel())
    spread = counter.bits(head[:, 0], 1)
    occupied = totals.clamp(max=setting.num_experts)
    words = draw.zero_lanes(space)
    patterns = _first_experts(torch.cat([torch.zeros_like(occupied), occupied]), words.shape[1])
    torch.index_select(patterns, 0, which + spread * totals.numel(), out=words)
    rest = totals[which] - spread * occupied[which]
    part = counter.below(head[:, 1], rest + 1, half=0)
    lanes = Lanes(words, setting.num_experts, LARGEST_COUNT, lane_total=LARGEST_COUNT)
    experts = counter.below(head[:, 1:], setting.num_experts)
    lanes.by_expert().scatter_add_(1, experts, torch.stack([part, rest - part], dim=1).short())
    return lanes


def _first_experts(occupied: torch.Tensor, words: int) -> torch.Tensor:
    """Return int64 (n, words): one row on each of the first `occupied` (n,) experts."""
    lanes = torch.arange(4 * words) < occupied[:, None]
    return lanes.short().view(torch.int64)


COUNTED = (
    CountsFamily(
        name="uniform",
        description="every count uniform below a power of two",
        draw_lanes=_uniform,
    ),
    CountsFamily(
        name="remainder_one",
        description="every count one above a multiple of the tile: the most padding",
        draw_lanes=_remainder_one,
    ),
    CountsFamily(
        name="remainder_zero",
        description="every count a multiple of the tile: no padding",
        draw_lanes=_remainder_zero,
    ),
    CountsFamily(
        name="remainder_near",
        description="every count A-1, A, A+1 or A+2 above a multiple of the tile A",
        draw_lanes=_remainder_near,
    ),
    CountsFamily(
        name="collapse",
        description="all rows on one to four hot experts",
        draw_lanes=_collapse,
    ),
    CountsFamily(
        name="attaining",
        description="the exact worst case for its T, at least one row on every expert",
        draw_lanes=_attaining,
    ),
    CountsFamily(
        name="attaining_few",
        description="the exact worst case for its T, at most one row on an expert",
        draw_lanes=_attaining_few,
    ),
    CountsFamily(
        name="empty",
        description="three experts in four have no rows, the others a uniform count",
        draw_lanes=_empty,
    ),
    CountsFamily(
        name="boundary",
        description="T next to 0, 1, multiples of the tile, the expert count: spread thin or on two experts",
        draw_lanes=_boundary,
    ),
)
"""The families that start as counts."""
