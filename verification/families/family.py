"""What a family of routings is: a name, and the routing of every index.

A routing of a family is a function of (seed, family, setting, index) alone. Families that start from count vectors
(`CountsFamily`) are made of packed lanes and are fast; families that start from ids (`IdsFamily`) route tokens the way
a router does. Both can be asked for either form: ids are dealt out from counts, counts are counted from ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.padding import TILE, check_size
from nvfp4_moe.verification import counter
from nvfp4_moe.verification.families.lanes import (
    HALF_LANE_BITS,
    LARGEST_TILE,
    Lanes,
    Workspace,
    splat,
    words_for,
)

MOST_EXPERTS = 1 << 13
"""A setting with more experts is refused: scores for every token and expert would not fit the memory meant for them."""
_MOST_TOTAL_BITS = 20
"""Counts are drawn so that a vector's total stays below 2^20: tables over T stay small."""
_MOST_COUNT_BITS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The sizes that a family draws for.

    Raises (on construction): TypeError or ValueError for a size that is no legal integer.
    """

    num_experts: int
    """Experts on this rank."""
    tokens: int
    """M. Families of ids route exactly this many; families of counts scale to it."""
    topk: int = 1
    tile: int = TILE

    def __post_init__(self) -> None:
        check_size("tokens", self.tokens, at_least=0)
        for name in ("num_experts", "topk", "tile"):
            check_size(name, getattr(self, name), at_least=1)
        if self.num_experts > MOST_EXPERTS:
            raise ValueError(f"num_experts must be at most {MOST_EXPERTS}, got {self.num_experts}")

    @property
    def count_bits(self) -> int:
        """Return b such that counts below 2^b have a mean near tokens * topk / num_experts, within limits."""
        wanted = (2 * self.tokens * self.topk // self.num_experts).bit_length()
        room = _MOST_TOTAL_BITS - (self.num_experts - 1).bit_length()
        return max(1, min(wanted, room, _MOST_COUNT_BITS))


@dataclass(frozen=True, slots=True)
class Draw:
    """A range of indices of one family in one setting: the words that its cases are made of."""

    seed: int
    family: str
    setting: Setting
    start: int
    count: int

    def words(self, purpose: str, each: int) -> torch.Tensor:
        """Return int64 (count, each): `each` words for every case, from a stream of their own."""
        total = self.count * each
        raw = counter.words(self.seed, self._stream(purpose), self.start * each, total)
        return raw.view(self.count, each)

    def lane_words(self, space: Workspace) -> torch.Tensor:
        """Return int64 (count, W) in the workspace: raw lanes for every case."""
        each = words_for(self.setting.num_experts)
        total = self.count * each
        raw = counter.words(
            self.seed,
            self._stream("lanes"),
            self.start * each,
            total,
            out=space.raw[:total],
            scratch=space.spare[:total],
        )
        return raw.view(self.count, each)

    def lane_fields(self, space: Workspace, field: int) -> torch.Tensor:
        """Return int64 (count, W) in the workspace: lanes whose bits in `field` (16 bits) are random, all others 0.

        A field that spans at most half a lane takes half the words: the two halves of each raw lane are two lanes.
        """
        lowest = (field & -field).bit_length() - 1
        each = words_for(self.setting.num_experts)
        if field.bit_length() - lowest > HALF_LANE_BITS or each == 1:
            return self.lane_words(space).bitwise_and_(splat(field))
        half = -(-each // 2)
        raw = counter.words(
            self.seed,
            self._stream("half lanes"),
            self.start * half,
            self.count * half,
            out=space.spare[: self.count * half],
            scratch=space.raw[: self.count * half],
        ).view(self.count, half)
        words = space.raw[: self.count * each].view(self.count, each)
        for part, at in ((words[:, :half], 0), (words[:, half:], HALF_LANE_BITS)):
            source = raw[:, : part.shape[1]]
            if at > lowest:
                torch.bitwise_right_shift(source, at - lowest, out=part)
                part.bitwise_and_(splat(field))
            elif at < lowest:
                torch.bitwise_left_shift(source, lowest - at, out=part)
                part.bitwise_and_(splat(field))
            else:
                torch.bitwise_and(source, splat(field), out=part)
        return words

    def zero_lanes(self, space: Workspace) -> torch.Tensor:
        """Return int64 (count, W) zeros in the workspace."""
        each = words_for(self.setting.num_experts)
        return space.raw[: self.count * each].zero_().view(self.count, each)

    def _stream(self, purpose: str) -> str:
        s = self.setting
        return f"{self.family}/{purpose}/E{s.num_experts}/M{s.tokens}/k{s.topk}/A{s.tile}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsFamily:
    """Routings that start as count vectors. Ids inside a token may repeat."""

    name: str
    description: str
    draw_lanes: Callable[[Draw, Workspace], Lanes]
    """Returns the draw's count vectors in the workspace; dead lanes need not be cleared."""
    ids: str = "any"
    fast: bool = True

    def lanes(self, draw: Draw, space: Workspace) -> Lanes:
        """Return the count vectors of a draw, in the workspace."""
        lanes = self.draw_lanes(draw, space)
        lanes.clear_dead_lanes()
        return lanes

    def counts(self, seed: int, start: int, count: int, setting: Setting) -> torch.Tensor:
        """Return counts int64 (count, E) of the cases start .. start+count-1."""
        space = Workspace.allocate(max(count * words_for(setting.num_experts), 1))
        return self.lanes(Draw(seed, self.name, setting, start, count), space).counts()

    def topk_ids(self, seed: int, index: int, setting: Setting) -> torch.Tensor:
        """Return topk_ids int32 (tokens, topk) of one case: its rows dealt out in a random order.

        The number of tokens follows from the counts; slots of the last token left over are -1.
        """
        counts = self.counts(seed, index, 1, setting)[0]
        slots = -(-int(counts.sum()) // setting.topk) * setting.topk
        ids = torch.full((slots,), -1)
        experts = torch.arange(setting.num_experts).repeat_interleave(counts)
        ids[: experts.numel()] = experts
        deal = Draw(seed, self.name, setting, 0, 1).words(f"deal/{index}", slots)[0]
        return ids[counter.order(deal)].view(-1, setting.topk).int()

    def supports(self, setting: Setting) -> bool:
        """Tell whether the family has routings for these sizes: any."""
        return setting.tile <= LARGEST_TILE


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsFamily:
    """Routings that start as ids, token by token."""

    name: str
    description: str
    draw_ids: Callable[[Draw], torch.Tensor]
    """Returns int64 (count, tokens, topk), ids in [-1, E)."""
    ids: str = "any"
    """"distinct": the ids of a token differ (-1 aside)."""
    fast: bool = False

    def counts(self, seed: int, start: int, count: int, setting: Setting) -> torch.Tensor:
        """Return counts int64 (count, E) of the cases start .. start+count-1."""
        ids = self.draw_ids(Draw(seed, self.name, setting, start, count)).view(count, -1)
        counts = torch.zeros(count, setting.num_experts + 1, dtype=torch.int64)
        counts.scatter_add_(1, ids + 1, torch.ones((), dtype=torch.int64).expand_as(ids))
        return counts[:, 1:]

    def topk_ids(self, seed: int, index: int, setting: Setting) -> torch.Tensor:
        """Return topk_ids int32 (tokens, topk) of one case."""
        return self.draw_ids(Draw(seed, self.name, setting, index, 1))[0].int()

    def supports(self, setting: Setting) -> bool:
        """Tell whether the family has routings for these sizes (distinct ids need topk <= experts)."""
        return self.ids == "any" or setting.topk <= setting.num_experts


Family = CountsFamily | IdsFamily
