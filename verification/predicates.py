"""What must hold of a routing and of its padded regions, each stated as a predicate of its own.

The predicates characterise what is right (differences, remainders, orders, sorted sets); none computes the right
answer the way `reference` or a kernel does and compares. All take tensors on any device and return one bool, or one
for each item of a batch where the first dimensions are a batch.

Symbols: c_e rows of expert e, A the tile, R(x) = x rounded up to A, T routed rows, S padded rows. Region e is
the scale rows [start_e, start_e + R(c_e)).
"""

from __future__ import annotations

from typing import Protocol

import torch


class RoutingTensors(Protocol):
    """The seven tensors that describe a routing (`reference.routing.Routing`, or a subject's outputs)."""

    @property
    def tokens_per_expert(self) -> torch.Tensor: ...
    @property
    def expert_offsets(self) -> torch.Tensor: ...
    @property
    def blockscale_offsets(self) -> torch.Tensor: ...
    @property
    def problem_sizes1(self) -> torch.Tensor: ...
    @property
    def problem_sizes2(self) -> torch.Tensor: ...
    @property
    def input_permutation(self) -> torch.Tensor: ...
    @property
    def output_permutation(self) -> torch.Tensor: ...


# --- padded regions: counts (..., E), starts (..., E), results (...,) -----------------------------------------


def region_rows(counts: torch.Tensor, *, tile: int) -> torch.Tensor:
    """Return R(c_e), the rows of each region, by adding what is missing to a multiple of the tile."""
    return counts + torch.remainder(-counts, tile)


def starts_aligned(starts: torch.Tensor, *, tile: int) -> torch.Tensor:
    """Tell whether every start is a non-negative multiple of the tile."""
    return ((starts >= 0) & (torch.remainder(starts, tile) == 0)).all(-1)


def regions_disjoint(starts: torch.Tensor, counts: torch.Tensor, *, tile: int) -> torch.Tensor:
    """Tell whether no two non-empty regions share a scale row, in whatever order the regions lie."""
    ends = starts + region_rows(counts, tile=tile)
    beyond = torch.iinfo(starts.dtype).max
    empty = counts == 0
    sorted_starts, by_start = starts.masked_fill(empty, beyond).sort(dim=-1)
    sorted_ends = ends.masked_fill(empty, beyond).gather(-1, by_start)
    return (sorted_ends[..., :-1] <= sorted_starts[..., 1:]).all(-1)


def regions_inside(
    starts: torch.Tensor, counts: torch.Tensor, rows: torch.Tensor | int, *, tile: int
) -> torch.Tensor:
    """Tell whether every non-empty region lies in a buffer of `rows` scale rows (an int or one for each item)."""
    limit = torch.as_tensor(rows, device=starts.device).unsqueeze(-1)
    inside = (starts >= 0) & (starts + region_rows(counts, tile=tile) <= limit)
    return (inside | (counts == 0)).all(-1)


def rows_fit(starts: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Tell whether the rows of every expert that has some end before the next start: starts (..., E+1)."""
    fits = starts[..., :-1] + counts <= starts[..., 1:]
    return (fits | (counts == 0)).all(-1)


def scale_rows_of_rows(
    expert_offsets: torch.Tensor, starts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scale row and the expert of each routed row, as a kernel finds them: (T,) each.

    Row r belongs to the last expert whose offset is at most r; its scale row is start_e + (r - offset_e).

    Args:
        expert_offsets: (E+1,) prefix sums of the rows.
        starts: (E,) or (E+1,) first scale row of each region.
    """
    rows = torch.arange(int(expert_offsets[-1]), device=expert_offsets.device)
    experts = torch.searchsorted(expert_offsets[:-1].contiguous(), rows, right=True) - 1
    return starts[experts] + (rows - expert_offsets[experts]), experts


def rows_covered(
    expert_offsets: torch.Tensor, starts: torch.Tensor, counts: torch.Tensor, rows: int, *, tile: int
) -> bool:
    """Tell whether each routed row has its own scale row, in its expert's region and inside a buffer of `rows`.

    One routing: expert_offsets (E+1,), starts (E,) or (E+1,), counts (E,).
    """
    scale_rows, experts = scale_rows_of_rows(expert_offsets, starts)
    if scale_rows.numel() != int(counts.sum()):
        return False
    own = (scale_rows >= starts[experts]) & (
        scale_rows < starts[experts] + region_rows(counts, tile=tile)[experts]
    )
    ascending = scale_rows.sort().values
    unique = bool((ascending[1:] > ascending[:-1]).all())
    return unique and bool((own & (scale_rows >= 0) & (scale_rows < rows)).all())


# --- routings: topk_ids (M, k), one routing ------------------------------------------------------------------


def counts_right(topk_ids: torch.Tensor, tokens_per_expert: torch.Tensor) -> bool:
    """Tell whether expert e occurs tokens_per_expert[e] times and no other id than -1 is left over.

    The sorted ids, -1 first, must change exactly where the running total of the counts says.
    """
    ids = topk_ids.flatten().sort().values
    kept = ids[ids != -1]
    if kept.numel() != int(tokens_per_expert.sum()) or bool((tokens_per_expert < 0).any()):
        return False
    experts = torch.arange(tokens_per_expert.numel(), device=ids.device, dtype=ids.dtype)
    return torch.equal(kept, experts.repeat_interleave(tokens_per_expert.long()))


def offsets_right(offsets: torch.Tensor, counts: torch.Tensor) -> bool:
    """Tell whether `offsets` (E+1,) starts at 0 and rises by the counts."""
    return int(offsets[0]) == 0 and torch.equal(offsets[1:] - offsets[:-1], counts.to(offsets.dtype))


def blockscale_offsets_right(offsets: torch.Tensor, counts: torch.Tensor, *, tile: int) -> bool:
    """Tell whether `offsets` (E+1,) starts at 0, holds multiples of the tile, and rises by less than a tile
    more than the counts."""
    padding = offsets[1:] - offsets[:-1] - counts
    return (
        int(offsets[0]) == 0
        and bool((torch.remainder(offsets, tile) == 0).all())
        and bool(((padding >= 0) & (padding < tile)).all())
    )


def permutation_right(topk_ids: torch.Tensor, routing: RoutingTensors) -> bool:
    """Tell whether the kept slots map one to one onto rows 0..T-1, each into its expert's rows, and whether
    input_permutation names each row's token."""
    topk = topk_ids.shape[1]
    slots, rows, experts = _kept(topk_ids, routing.output_permutation)
    offsets = routing.expert_offsets.long()
    if rows.numel() != int(offsets[-1]) or routing.input_permutation.numel() != topk_ids.numel():
        return False
    if not torch.equal(rows.sort().values, torch.arange(rows.numel(), device=rows.device)):
        return False
    in_expert = (rows >= offsets[experts]) & (rows < offsets[experts + 1])
    tokens = slots.div(topk, rounding_mode="floor")
    return bool(in_expert.all()) and torch.equal(routing.input_permutation.long()[rows], tokens)


def stable(topk_ids: torch.Tensor, routing: RoutingTensors) -> bool:
    """Tell whether neighbouring rows of one expert come from ascending slots (rows outside [0, T) fail)."""
    slots, rows, experts = _kept(topk_ids, routing.output_permutation)
    if rows.numel() == 0:
        return True
    if int(rows.min()) < 0 or int(rows.max()) >= rows.numel():
        return False
    slot_of_row = torch.full_like(rows, -1).scatter_(0, rows, slots)
    expert_of_row = torch.full_like(rows, -1).scatter_(0, rows, experts)
    same_expert = expert_of_row[1:] == expert_of_row[:-1]
    return bool((slot_of_row >= 0).all()) and bool(
        (~same_expert | (slot_of_row[1:] > slot_of_row[:-1])).all()
    )


def dropped_right(topk_ids: torch.Tensor, routing: RoutingTensors) -> bool:
    """Tell whether each slot with id -1 points at row T and input_permutation is 0 from row T on."""
    routed = int(routing.expert_offsets[-1])
    dropped = routing.output_permutation[topk_ids.flatten() == -1]
    return bool((dropped == routed).all()) and bool((routing.input_permutation[routed:] == 0).all())


def problem_sizes_right(
    problem_sizes: torch.Tensor, counts: torch.Tensor, *, columns: int, depth: int
) -> bool:
    """Tell whether `problem_sizes` (E, 3) holds (rows, columns, depth) for each expert."""
    return (
        problem_sizes.shape == (counts.numel(), 3)
        and torch.equal(problem_sizes[:, 0], counts.to(problem_sizes.dtype))
        and bool((problem_sizes[:, 1] == columns).all())
        and bool((problem_sizes[:, 2] == depth).all())
    )


def broken_routing_claims(
    topk_ids: torch.Tensor, routing: RoutingTensors, *, n: int, k: int, is_gated: bool, tile: int
) -> dict[str, list[str]]:
    """Return the routing claims that do not hold, each with the predicates that broke it.

    Args:
        topk_ids: (M, k) ids in [-1, E).
        routing: what the implementation made of it.
        n, k: GEMM sizes as given to it: columns of one half of the first GEMM, and its depth.
        is_gated: the first GEMM has 2n columns.
        tile: rows of a scale tile.
    """
    counts = routing.tokens_per_expert
    first_columns = 2 * n if is_gated else n
    holds = {
        "routing.counts": {
            "counts_right": counts_right(topk_ids, counts),
            "problem_sizes1": problem_sizes_right(
                routing.problem_sizes1, counts, columns=first_columns, depth=k
            ),
            "problem_sizes2": problem_sizes_right(routing.problem_sizes2, counts, columns=k, depth=n),
        },
        "routing.offsets": {
            "offsets_right": offsets_right(routing.expert_offsets, counts),
            "blockscale_offsets_right": blockscale_offsets_right(
                routing.blockscale_offsets, counts, tile=tile
            ),
        },
        "routing.permutation": {
            "permutation_right": permutation_right(topk_ids, routing),
            "stable": stable(topk_ids, routing),
            "dropped_right": dropped_right(topk_ids, routing),
        },
    }
    broken = {claim: [name for name, held in parts.items() if not held] for claim, parts in holds.items()}
    return {claim: names for claim, names in broken.items() if names}


def _kept(
    topk_ids: torch.Tensor, output_permutation: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots whose id is not -1, with the row that each is mapped to and its expert: int64 (T,) each."""
    ids = topk_ids.flatten()
    slots = (ids != -1).nonzero().flatten()
    return slots, output_permutation[slots].long(), ids[slots].long()
