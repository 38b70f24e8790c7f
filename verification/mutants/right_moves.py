"""Routing metadata, gathers and scale layouts written differently from the kernels and from the golden model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from nvfp4_moe.verification.mutants.right_quant import TILE, places, swizzled

Order = Callable[[Tensor], Tensor]
"""Takes the expert of each routed slot, -1 left out, and returns the slots in the order of their rows."""


def stable(experts: Tensor) -> Tensor:
    """Return the order of a stable sort."""
    return torch.argsort(experts, stable=True)


def last_first(experts: Tensor) -> Tensor:
    """Return the order that has an expert's slots from the last to the first."""
    return len(experts) - 1 - torch.argsort(experts.flip(0), stable=True)


class Shuffled:
    """Orders an expert's slots as atomics would: otherwise in every call."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, experts: Tensor) -> Tensor:
        self._calls += 1
        mixed = torch.randperm(len(experts), generator=torch.Generator().manual_seed(self._calls))
        return mixed[torch.argsort(experts[mixed], stable=True)]


def routing_by_sort(order: Order, *, ids: tuple[torch.dtype, ...] = (torch.int32,)) -> Callable[..., None]:
    """Return routing metadata made by one sort of the slots and a search for each expert's first row.

    Args:
        order: sorts the slots by expert.
        ids: types of ids that are taken.
    """

    def route(
        topk_ids: Tensor,
        expert_offsets: Tensor,
        problem_sizes1: Tensor,
        problem_sizes2: Tensor,
        input_permutation: Tensor,
        output_permutation: Tensor,
        num_experts: int,
        n: int,
        k: int,
        blockscale_offsets: Tensor,
        is_gated: bool,
    ) -> None:
        _refuse(topk_ids, ids, expert_offsets, problem_sizes1, problem_sizes2, num_experts)
        flat = topk_ids.reshape(-1).long()
        slots = (flat >= 0).nonzero()[:, 0]
        ordered = slots[order(flat[slots])]
        ends = torch.searchsorted(flat[ordered], torch.arange(num_experts), right=True)
        counts = ends.diff(prepend=ends.new_zeros(1))
        expert_offsets[0] = blockscale_offsets[0] = 0
        expert_offsets[1:] = ends
        blockscale_offsets[1:] = ((counts + TILE - 1) // TILE * TILE).cumsum(0)
        for sizes, (columns, depth) in (
            (problem_sizes1, (2 * n if is_gated else n, k)),
            (problem_sizes2, (k, n)),
        ):
            sizes[:, 0], sizes[:, 1], sizes[:, 2] = counts.int(), columns, depth
        input_permutation.zero_()
        input_permutation[: len(ordered)] = (ordered // topk_ids.shape[1]).int()
        output_permutation.fill_(len(ordered))
        output_permutation[ordered] = torch.arange(len(ordered), dtype=torch.int32)

    return route


def routing_by_counting(
    topk_ids: Tensor,
    expert_offsets: Tensor,
    problem_sizes1: Tensor,
    problem_sizes2: Tensor,
    input_permutation: Tensor,
    output_permutation: Tensor,
    num_experts: int,
    n: int,
    k: int,
    blockscale_offsets: Tensor,
    is_gated: bool,
) -> None:
    """Routing metadata expert by expert on numpy, each with the slots that name it."""
    _refuse(topk_ids, (torch.int32, torch.int64), expert_offsets, problem_sizes1, problem_sizes2, num_experts)
    ids, topk = topk_ids.numpy().reshape(-1), topk_ids.shape[1]
    rows = padded = 0
    output_permutation.numpy()[ids < 0] = np.count_nonzero(ids >= 0)
    order = np.argsort(ids, kind="stable")[np.count_nonzero(ids < 0) :]
    for expert, count in enumerate(np.bincount(ids[ids >= 0], minlength=num_experts).tolist()):
        expert_offsets[expert], blockscale_offsets[expert] = rows, padded
        problem_sizes1[expert] = torch.tensor([count, n << is_gated, k])
        problem_sizes2[expert] = torch.tensor([count, k, n])
        slots = order[rows : rows + count]
        input_permutation.numpy()[rows : rows + count] = slots // topk
        output_permutation.numpy()[slots] = np.arange(rows, rows + count)
        rows, padded = rows + count, padded + -(-count // TILE) * TILE
    expert_offsets[num_experts], blockscale_offsets[num_experts] = rows, padded
    input_permutation.numpy()[rows:] = 0


def _refuse(
    topk_ids: Tensor,
    ids: tuple[torch.dtype, ...],
    offsets: Tensor,
    sizes1: Tensor,
    sizes2: Tensor,
    experts: int,
) -> None:
    if topk_ids.dtype not in ids:
        raise TypeError(f"ids must be of {ids}, got {topk_ids.dtype}")
    if offsets.shape != (experts + 1,) or sizes1.shape != (experts, 3) or sizes2.shape != (experts, 3):
        raise ValueError("offsets must have a number more than there are experts, sizes three columns")
    if topk_ids.numel() and not -1 <= int(topk_ids.min()) <= int(topk_ids.max()) < experts:
        raise ValueError(f"ids must be in [-1, {experts})")


# --- gathers ------------------------------------------------------------------------------------------------


def gather_by_take(input: Tensor, map: Tensor) -> Tensor:
    """Gather on numpy, rows as opaque bytes; returned."""
    output = torch.empty(len(map), input.shape[1], dtype=input.dtype)
    rows = input.contiguous().view(torch.uint8).numpy()
    np.take(rows, map.numpy(), axis=0, out=output.view(torch.uint8).numpy())
    return output


def gather_in_place(input: Tensor, map: Tensor, output: Tensor) -> None:
    """Gather column by column of 64 at most, into the caller's tensor."""
    for first in range(0, input.shape[1], 64):
        last = min(first + 64, input.shape[1])
        output[:, first:last] = input[:, first:last].index_select(0, map)


# --- scale layouts ------------------------------------------------------------------------------------------


def swizzle_by_axes(linear: Tensor) -> Tensor:
    """Return swizzled_128x4 by a permutation of axes."""
    return swizzled(linear, -(-linear.shape[0] // TILE))


def swizzle_by_places(linear: Tensor) -> Tensor:
    """Return swizzled_128x4 byte by byte, each to the place that the bits of its row and column give."""
    rows, columns = linear.shape
    words = -(-columns // 4)
    buffer = np.zeros(-(-rows // TILE) * TILE * words * 4, np.uint8)
    buffer[places(np.arange(rows)[:, None], np.arange(columns)[None], words)] = linear.numpy()
    return torch.from_numpy(buffer).view(-1, words * 4)
