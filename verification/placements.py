"""Where placement rules put the experts' regions, for batches of count vectors.

The rules are those of `reference.padding.PLACEMENTS`, whose `expert_starts` is the definition for one vector; a test
holds the two together. `LIMITS` has, for each rule, the formula that its last region must end by.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from nvfp4_moe.reference.padding import FORMULAS, PLACEMENTS, Sizing, exact_any_rows


def _limit(formula: str) -> Callable[[int, int, int], int]:
    """Return the rows of a registered formula as a function of T, experts and tile (one id a token, any ids)."""

    def rows(routed: int, experts: int, tile: int) -> int:
        sizing = Sizing(tokens=routed, topk=1, num_experts=experts, num_global_experts=experts, tile=tile)
        return FORMULAS[formula].rows(sizing)

    return rows


LIMITS: dict[str, Callable[[int, int, int], int]] = {
    "packed": lambda routed, experts, tile: exact_any_rows(routed, experts, tile=tile),
    "align_up": _limit("flashinfer_cutlass"),
    "align_down": lambda routed, experts, tile: (routed + (tile - 1) * experts) // tile * tile,
    "tile_index": _limit("quack"),
}
"""For each placement the rows by which the last region ends, a function of (T, experts, tile)."""


def placement_starts(counts: torch.Tensor, *, placement: str, tile: int) -> torch.Tensor:
    """Return the first scale row of each region and the end of the last: int64 (B, E+1) for counts (B, E).

    Raises:
        ValueError: unknown placement.
    """
    if placement not in PLACEMENTS:
        raise ValueError(f"placement must be one of {', '.join(PLACEMENTS)}, got {placement!r}")
    counts = counts.long()
    padded = counts + torch.remainder(-counts, tile)
    if placement == "packed":
        return torch.nn.functional.pad(padded.cumsum(1), (1, 0))
    offsets = counts.cumsum(1) - counts
    starts = closed_form_starts(offsets, torch.arange(counts.shape[1]), placement=placement, tile=tile)
    return torch.cat([starts, (starts + padded)[:, -1:]], dim=1)


def closed_form_starts(
    offsets: torch.Tensor, experts: torch.Tensor, *, placement: str, tile: int
) -> torch.Tensor:
    """Return the starts of regions from the unpadded offsets and the numbers of their experts."""
    if placement == "align_up":
        wanted = offsets + experts * (tile - 1)
        return wanted + torch.remainder(-wanted, tile)
    if placement == "align_down":
        wanted = offsets + experts * (tile - 1)
        return wanted - torch.remainder(wanted, tile)
    return tile * (torch.div(offsets, tile, rounding_mode="floor") + experts)


def last_ends(counts: torch.Tensor, starts: torch.Tensor, *, tile: int) -> torch.Tensor:
    """Return the end of the last region that holds a row, int64 (B,): what a buffer must have.

    Args:
        counts: (B, E).
        starts: (B, E) or (B, E+1) starts of the regions.
    """
    ends = starts[:, : counts.shape[1]] + counts + torch.remainder(-counts, tile)
    return ends.masked_fill(counts == 0, 0).amax(1)
