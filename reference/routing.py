"""Routing metadata of a grouped MoE GEMM: where each row goes, each expert's rows, where its scales begin.

From `topk_ids` (M, topk) and E experts on this rank; c_e is the number of ids equal to e, T = sum c_e,
i = token * topk + slot numbers the slots:

    tokens_per_expert[e]   = c_e
    expert_offsets[e]      = c_0 + ... + c_{e-1};             expert_offsets[E] = T
    blockscale_offsets[e]  = R(c_0) + ... + R(c_{e-1});       R(c) = c rounded up to the tile
    problem_sizes1[e]      = (c_e, n1, k), n1 = 2n if gated else n      first GEMM: M, N, K
    problem_sizes2[e]      = (c_e, k, n)                               second GEMM
    output_permutation[i]  = the row of slot i: expert_offsets[e] + how many slots before i also chose e
    input_permutation[row] = token of the slot that has this row

Rows of one expert are in token order (stable), so the result is a function of the ids alone. Id -1 is counted
nowhere: its output_permutation is expert_offsets[E], a row that no expert owns, and the last M * topk - T
entries of input_permutation are 0.

Every output is int32; sizes that int32 cannot hold are refused, never wrapped.

Source: vLLM `get_cutlass_moe_mm_data` (csrc/.../cutlass/moe/moe_data.cu), whose row order inside an expert is
not deterministic and whose tail of the input permutation is not written.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nvfp4_moe.reference.checks import fits_int32
from nvfp4_moe.reference.expert_layouts import packed_blockscale_offsets
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.padding import TILE, check_size
from nvfp4_moe.reference.topk_ids import check_topk_ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routing:
    """Routing metadata, int32, on the device of the ids. The module states each value."""

    tokens_per_expert: Tensor
    """(E,) routed rows of each expert."""
    expert_offsets: Tensor
    """(E + 1,) prefix sums of the routed rows; the last entry is T."""
    blockscale_offsets: Tensor
    """(E + 1,) first scale row of each expert; the last entry is S, the rows that the GEMM reads."""
    problem_sizes1: Tensor
    """(E, 3) M, N, K of the first GEMM."""
    problem_sizes2: Tensor
    """(E, 3) M, N, K of the second GEMM."""
    input_permutation: Tensor
    """(M * topk,) token of each routed row, then zeros."""
    output_permutation: Tensor
    """(M * topk,) routed row of each slot; T where the slot was skipped."""

    @property
    def routed_rows(self) -> int:
        """T, read from the device."""
        return int(self.expert_offsets[-1])

    @property
    def padded_rows(self) -> int:
        """S, read from the device."""
        return int(self.blockscale_offsets[-1])


def route(
    topk_ids: Tensor, num_experts: int, *, n: int, k: int, is_gated: bool = True, tile: int = TILE
) -> Routing:
    """Return the routing metadata of a batch. Reads a few scalars on the host for its checks.

    Args:
        topk_ids: int32 or int64 (M, topk), experts in [0, num_experts) or -1; M may be 0.
        num_experts: experts on this rank.
        n: intermediate size of an expert on this rank (columns of its gate, and of its up projection).
        k: hidden size, a multiple of the block size (16).
        is_gated: whether the first GEMM makes gate and up (2n columns) or one projection (n columns).
        tile: rows of a scale tile.

    Raises:
        TypeError: ids that are not an int32 or int64 tensor, a size that is not an int, or an is_gated that is no bool.
        ValueError: ids of another shape or outside [-1, num_experts) (the first is named), a size below 1, a k
            that is no multiple of 16, or an output that int32 cannot hold.
    """
    check_topk_ids(topk_ids, num_experts)
    check_size("n", n, at_least=1)
    if not isinstance(is_gated, bool):
        raise TypeError(f"is_gated must be True or False, got {is_gated!r}")
    first_gemm_n = fits_int32("columns of the first GEMM", 2 * n if is_gated else n)
    hidden = fits_int32("k", _check_hidden(k))
    check_size("tile", tile, at_least=1)
    slots = fits_int32("tokens * topk", topk_ids.numel())
    tokens_per_expert, expert_offsets = _count(topk_ids, num_experts)
    input_permutation, output_permutation = _permutations(
        topk_ids, num_experts, int(expert_offsets[-1]), slots
    )
    return Routing(
        tokens_per_expert=tokens_per_expert,
        expert_offsets=expert_offsets,
        blockscale_offsets=packed_blockscale_offsets(expert_offsets, tile=tile),
        problem_sizes1=_problem_sizes(tokens_per_expert, first_gemm_n, hidden),
        problem_sizes2=_problem_sizes(tokens_per_expert, hidden, n),
        input_permutation=input_permutation,
        output_permutation=output_permutation,
    )


def _check_hidden(k: int) -> int:
    """Return k if whole blocks fill a row of it; the first GEMM reads rows of k that were quantized in blocks."""
    if check_size("k", k, at_least=1) % NVFP4.block_size:
        raise ValueError(f"k must be a multiple of {NVFP4.block_size}, got {k}")
    return k


def _count(topk_ids: Tensor, num_experts: int) -> tuple[Tensor, Tensor]:
    """Return tokens_per_expert (E,) and expert_offsets (E + 1,)."""
    # Counted one up, so that the skipped ids are the entry 0 and the rest are prefix-summed in place.
    counts = torch.bincount(topk_ids.reshape(-1) + 1, minlength=num_experts + 1)
    counts[0] = 0
    return counts[1:].to(torch.int32), counts.cumsum(0).to(torch.int32)


def _permutations(topk_ids: Tensor, num_experts: int, routed_rows: int, slots: int) -> tuple[Tensor, Tensor]:
    """Return input_permutation and output_permutation, both (M * topk,)."""
    ids = topk_ids.reshape(-1)
    skipped_last = torch.where(ids < 0, num_experts, ids)
    slot_of_row = torch.sort(skipped_last, stable=True).indices[
        :routed_rows
    ]  # a slot's number ascends with its token
    input_permutation = ids.new_zeros(slots, dtype=torch.int32)
    input_permutation[:routed_rows] = (slot_of_row // topk_ids.shape[1]).to(torch.int32)
    output_permutation = torch.full_like(input_permutation, routed_rows)
    output_permutation[slot_of_row] = torch.arange(routed_rows, dtype=torch.int32, device=ids.device)
    return input_permutation, output_permutation


def _problem_sizes(tokens_per_expert: Tensor, n: int, k: int) -> Tensor:
    """Return (E, 3) rows (c_e, n, k)."""
    sizes = tokens_per_expert.new_empty((len(tokens_per_expert), 3))
    sizes[:, 0], sizes[:, 1], sizes[:, 2] = tokens_per_expert, n, k
    return sizes
