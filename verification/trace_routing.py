"""A pass of a router trace, routed on each rank, and what must hold of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nvfp4_moe.reference.padding import PLACEMENTS, Sizing, check_size, local_experts, round_up
from nvfp4_moe.reference.routing import Routing, route
from nvfp4_moe.reference.topk_ids import expert_map, local_topk_ids
from nvfp4_moe.verification.predicates import broken_routing_claims, regions_disjoint, rows_covered
from nvfp4_moe.verification.trace_model import MAX_PADDED_ROWS, MAX_RANKS, Ids, Step
from nvfp4_moe.verification.trace_report import Place

ROUTING_CLAIMS = (
    "padding.disjoint",
    "padding.coverage",
    "routing.counts",
    "routing.offsets",
    "routing.permutation",
)
"""Claims that every pass is checked for, besides the bound."""
_N, _K = 32, 64  # sizes of the two GEMMs; a trace does not say them, and nothing checked here depends on them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routed:
    """A pass as one rank sees it, routed."""

    place: Place
    topk_ids: torch.Tensor
    """(tokens, topk) int32, local ids, -1 for other ranks' experts."""
    routing: Routing
    num_experts: int
    num_global_experts: int
    tile: int
    repeats: int
    """Tokens that name an expert of this rank twice."""
    ends: dict[str, int]
    """End of the last region that holds a row, by placement."""

    @property
    def counts(self) -> torch.Tensor:
        """Return tokens_per_expert as int64."""
        return self.routing.tokens_per_expert.long()

    def sizing(self, tokens: int) -> Sizing:
        """Return what a formula is told for a buffer of `tokens` tokens."""
        return Sizing(
            tokens=tokens,
            topk=int(self.topk_ids.shape[1]),
            num_experts=self.num_experts,
            num_global_experts=self.num_global_experts,
            tile=self.tile,
        )


def check_trace_sizes(num_experts: int, *, tile: int, expert_parallel_size: int = 1) -> None:
    """Refuse sizes for which a pass of a trace cannot be routed on every rank.

    Raises:
        TypeError, ValueError: a size that is not legal, more ranks than experts or than `MAX_RANKS`, or experts of
            the fullest rank x tile above `MAX_PADDED_ROWS`.
    """
    check_size("tile", tile, at_least=1)
    experts = local_experts(num_experts, expert_parallel_size)
    if expert_parallel_size > MAX_RANKS:
        raise ValueError(
            f"expert_parallel_size must be at most {MAX_RANKS:,} for a trace, got {expert_parallel_size}"
        )
    if experts * tile > MAX_PADDED_ROWS:
        raise ValueError(
            f"tile must be at most {MAX_PADDED_ROWS // experts:,} for a trace with {experts:,} experts on a rank, got {tile}"
        )


class Ranks:
    """The ranks of an expert-parallel group: which of a pass's ids each of them sees."""

    def __init__(self, num_experts: int, expert_parallel_size: int) -> None:
        self.num_experts = num_experts
        self.maps = [
            expert_map(num_experts, rank=rank, expert_parallel_size=expert_parallel_size)
            for rank in range(expert_parallel_size)
        ]

    def of(self, step: Step, tile: int) -> Iterator[Routed]:
        """Route the pass on every rank."""
        for rank, local in enumerate(self.maps):
            ids = torch.from_numpy(step.topk_ids)
            if len(self.maps) > 1:
                ids = local_topk_ids(ids, local)
            num_experts = int((local >= 0).sum())
            yield route_ids(
                ids,
                num_experts,
                num_global_experts=self.num_experts,
                tile=tile,
                place=Place.of(step, rank=rank),
            )


def route_ids(
    topk_ids: torch.Tensor,
    num_experts: int,
    *,
    tile: int,
    num_global_experts: int | None = None,
    place: Place | None = None,
) -> Routed:
    """Route (tokens, topk) int32 ids of one rank and say what is asked of its routing."""
    routing = route(topk_ids, num_experts, n=_N, k=_K, tile=tile)
    return Routed(
        place=place or Place(layer=0, index=0, first_token=0, tokens=int(topk_ids.shape[0])),
        topk_ids=topk_ids,
        routing=routing,
        num_experts=num_experts,
        num_global_experts=num_global_experts or num_experts,
        tile=tile,
        repeats=tokens_with_repeats(topk_ids.numpy()),
        ends=last_ends(routing.tokens_per_expert.numpy().astype(np.int64), tile=tile),
    )


def tokens_with_repeats(topk_ids: Ids) -> int:
    """Return how many tokens of (tokens, topk) name an expert twice; -1 names none."""
    ids = np.sort(topk_ids, axis=1)
    return int(((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any(axis=1).sum())


def last_ends(counts: NDArray[np.int64], *, tile: int) -> dict[str, int]:
    """Return the end of the last region that holds a row, for each of `PLACEMENTS`, from counts (E,).

    Regions lie in the order of the experts, so it is that of the last expert with a row.
    """
    occupied = np.flatnonzero(counts)
    if not len(occupied):
        return dict.fromkeys(PLACEMENTS, 0)
    last = int(occupied[-1])
    before, region = int(counts[:last].sum()), round_up(int(counts[last]), tile)
    return {
        "packed": int((-(-counts // tile)).sum()) * tile,
        "align_up": round_up(before + last * (tile - 1), tile) + region,
        "align_down": (before + last * (tile - 1)) // tile * tile + region,
        "tile_index": tile * (before // tile + last) + region,
    }


def broken_claims(routed: Routed) -> dict[str, list[str]]:
    """Return the claims of `ROUTING_CLAIMS` that a routing breaks, each with the predicates that say so."""
    routing, tile = routed.routing, routed.tile
    broken = dict(broken_routing_claims(routed.topk_ids, routing, n=_N, k=_K, is_gated=True, tile=tile))
    starts, counts = routing.blockscale_offsets.long(), routed.counts
    if not bool(regions_disjoint(starts[:-1], counts, tile=tile)):
        broken["padding.disjoint"] = ["regions_disjoint"]
    if not rows_covered(routing.expert_offsets.long(), starts, counts, routing.padded_rows, tile=tile):
        broken["padding.coverage"] = ["rows_covered"]
    return broken
