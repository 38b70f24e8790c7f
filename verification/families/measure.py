"""What the padding checks need of a batch of routings: T, S, the largest count, the last expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nvfp4_moe.verification.families.family import CountsFamily, Draw, Family, Setting
from nvfp4_moe.verification.families.lanes import (
    CHUNK_WORDS,
    Workspace,
    packed_sums,
    tile_lanes,
    unpack_sums,
    words_for,
)

_CHUNK_SCORES = 1 << 18
"""Scores that a family of ids makes at a time, over all its cases: tokens * experts or tokens * topk each."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One batch of count vectors, int64 (B,) each."""

    routed: torch.Tensor
    """T, the sum of the counts."""
    padded: torch.Tensor
    """S, the sum of the counts rounded up to the tile."""
    largest: torch.Tensor | None = None
    """The largest count: the fewest tokens that can route so with distinct ids."""
    last: torch.Tensor | None = None
    """The last expert that has rows, 0 if none has; closed-form placements end with its region."""
    last_rows: torch.Tensor | None = None
    """That expert's rows."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of the costlier measures to take."""

    largest: bool = False
    last: bool = False


EVERYTHING = Wanted(largest=True, last=True)


def measure_counts(counts: torch.Tensor, *, tile: int) -> Measured:
    """Return what counts (B, E) of any integer type measure, everything included."""
    counts = counts.long()
    last = _last_used(counts)
    return Measured(
        routed=counts.sum(1),
        padded=(counts + torch.remainder(-counts, tile)).sum(1),
        largest=counts.amax(1),
        last=last,
        last_rows=counts.gather(1, last[:, None])[:, 0],
    )


def measure_family(
    family: Family,
    seed: int,
    setting: Setting,
    start: int,
    count: int,
    *,
    space: Workspace,
    wanted: Wanted = EVERYTHING,
) -> Measured:
    """Make the cases start .. start+count-1 of a family and return what they measure.

    Args:
        family, seed, setting: what to draw.
        start, count: the indices; at least one case.
        space: buffers, reused from chunk to chunk and call to call.
        wanted: what to measure beside T and S (families of ids measure everything).
    """
    if isinstance(family, CountsFamily):
        return _measure_lanes(family, seed, setting, start, count, space=space, wanted=wanted)
    each = setting.tokens * max(setting.num_experts, setting.topk)
    chunk = max(_CHUNK_SCORES // max(each, 1), 1)
    return _joined(
        [
            measure_counts(
                family.counts(seed, at, min(chunk, start + count - at), setting), tile=setting.tile
            )
            for at in range(start, start + count, chunk)
        ]
    )


def _measure_lanes(
    family: CountsFamily,
    seed: int,
    setting: Setting,
    start: int,
    count: int,
    *,
    space: Workspace,
    wanted: Wanted,
) -> Measured:
    """As `measure_family`, chunk by chunk in the workspace; sums stay packed until the batch is whole."""
    chunk = max(CHUNK_WORDS // words_for(setting.num_experts), 1)
    routed, tiles, largest, last, last_rows = torch.zeros(5, count, dtype=torch.int64)
    limits, unit = (0, 0), 1
    for at in range(0, count, chunk):
        cases = slice(at, min(at + chunk, count))
        lanes = family.lanes(Draw(seed, family.name, setting, start + at, cases.stop - at), space)
        packed_sums(lanes, routed[cases])
        by_expert = lanes.by_expert()
        if wanted.largest:
            largest[cases] = by_expert.amax(1)
        if wanted.last:
            last[cases] = _last_used(by_expert)
            last_rows[cases] = by_expert.gather(1, last[cases, None])[:, 0].long()
        in_tiles, unit = tile_lanes(lanes, space.spare, tile=setting.tile)
        packed_sums(in_tiles, tiles[cases])
        limits = lanes.most_in_lane, in_tiles.most_in_lane
    return Measured(
        routed=unpack_sums(routed, most_in_lane=limits[0]),
        padded=unpack_sums(tiles, most_in_lane=limits[1]) * unit,
        largest=largest if wanted.largest else None,
        last=last if wanted.last else None,
        last_rows=last_rows if wanted.last else None,
    )


def _last_used(counts: torch.Tensor) -> torch.Tensor:
    """Return the index of the last non-zero count of each row, 0 if there is none: int64 (B,)."""
    experts = torch.arange(counts.shape[1], dtype=torch.int32)
    return ((counts != 0) * experts).amax(1).long()


def _joined(parts: Sequence[Measured]) -> Measured:
    """Return the batches of `measure_counts` as one."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*((p.routed, p.padded, p.largest, p.last, p.last_rows) for p in parts), strict=True)
    return Measured(*(torch.cat([part for part in column if part is not None]) for column in columns))
