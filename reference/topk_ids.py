"""The router's choice, `topk_ids` (M, topk): its checks, expert-parallel mapping, and ids made from counts.

An id is an expert in [0, E), or -1 for a slot that is skipped everywhere: padding tokens, and experts of
another rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nvfp4_moe.reference.checks import check_index_dtype, check_index_vector, fits_int32
from nvfp4_moe.reference.padding import check_size

SKIPPED_ID = -1
"""The id of a slot that is routed nowhere."""


def check_topk_ids(topk_ids: Tensor, num_experts: int) -> None:
    """Refuse ids that the routing operations do not take. Reads one scalar on the host where all is well.

    Raises:
        TypeError: not an int32 or int64 tensor.
        ValueError: not (tokens, topk) with topk >= 1, or an id outside [-1, num_experts): the text names the
            first one's token, slot and value.
    """
    fits_int32("num_experts", check_size("num_experts", num_experts, at_least=1))
    check_index_dtype("topk_ids", topk_ids)
    if topk_ids.ndim != 2 or topk_ids.shape[1] == 0:
        raise ValueError(f"topk_ids must be (tokens, topk) with topk >= 1, got {tuple(topk_ids.shape)}")
    outside = (topk_ids < SKIPPED_ID) | (topk_ids >= num_experts)
    if outside.any():
        token, slot = outside.nonzero()[0].tolist()
        raise ValueError(
            f"topk_ids[{token}, {slot}] = {int(topk_ids[token, slot])} is outside [{SKIPPED_ID}, {num_experts})"
        )


def expert_map(num_global_experts: int, *, rank: int, expert_parallel_size: int) -> Tensor:
    """Return, for each global expert, its local index on `rank`, or -1 where another rank holds it.

    Experts are dealt out in runs; the first `num_global_experts % expert_parallel_size` ranks hold one more
    (vLLM's linear placement). Other placements are other maps: `local_topk_ids` takes any.

    Returns:
        int32 (num_global_experts,).

    Raises:
        TypeError, ValueError: a size below 1, more ranks than experts, or no such rank.
    """
    check_size("num_global_experts", num_global_experts, at_least=1)
    check_size("expert_parallel_size", expert_parallel_size, at_least=1)
    check_size("rank", rank, at_least=0)
    if expert_parallel_size > num_global_experts:
        raise ValueError(
            f"expert_parallel_size ({expert_parallel_size}) must be at most num_global_experts ({num_global_experts})"
        )
    if rank >= expert_parallel_size:
        raise ValueError(f"rank must be in [0, {expert_parallel_size}), got {rank}")
    share, longer = divmod(num_global_experts, expert_parallel_size)
    first = rank * share + min(rank, longer)
    held = share + (rank < longer)
    local = torch.full((num_global_experts,), SKIPPED_ID, dtype=torch.int32)
    local[first : first + held] = torch.arange(held, dtype=torch.int32)
    return local


def local_topk_ids(topk_ids: Tensor, expert_map: Tensor) -> Tensor:
    """Return the ids as one rank sees them: local indices, -1 for the experts of other ranks.

    Args:
        topk_ids: int32 or int64 (M, topk), global ids; -1 stays -1.
        expert_map: int32 or int64 (num_global_experts,), local index or -1.

    Returns:
        (M, topk) in the dtype of `topk_ids`.

    Raises:
        TypeError, ValueError: as `check_topk_ids`; a map of another dtype or shape, or an entry below -1.
    """
    check_index_vector("expert_map", expert_map)
    check_topk_ids(topk_ids, len(expert_map))
    if int(expert_map.min()) < SKIPPED_ID:
        raise ValueError(f"expert_map must hold local indices or {SKIPPED_ID}, got {int(expert_map.min())}")
    # A last entry for id -1, which indexing from the end finds.
    with_skipped = torch.cat([expert_map, expert_map.new_tensor([SKIPPED_ID])]).to(topk_ids.device)
    return with_skipped[topk_ids.to(torch.int64)].to(topk_ids.dtype)


def topk_ids_from_counts(
    tokens_per_expert: Sequence[int] | Tensor, *, tokens: int, topk: int, ids: str = "any"
) -> Tensor:
    """Return a routing in which expert e receives tokens_per_expert[e] rows.

    The rows of all experts, in expert order, are dealt to the tokens cyclically: row p goes to token p %
    tokens, slot p // tokens. The rows of one expert are consecutive, so they reach different tokens exactly
    where the expert has at most `tokens` of them: ids are distinct inside every token whenever the counts
    allow it. Slots left over are -1.

    Args:
        tokens_per_expert: rows of each expert, not negative.
        tokens: M.
        topk: slots of a token.
        ids: "any", or "distinct" to refuse counts that force a token to name an expert twice.

    Returns:
        int32 (tokens, topk).

    Raises:
        TypeError, ValueError: a negative size, more rows than slots, an unknown `ids`, or, for "distinct", an
            expert with more rows than there are tokens.
    """
    check_size("tokens", tokens, at_least=0)
    check_size("topk", topk, at_least=1)
    if ids not in ("any", "distinct"):
        raise ValueError(f'ids must be "any" or "distinct", got {ids!r}')
    counts: list[int] = (
        tokens_per_expert.tolist() if isinstance(tokens_per_expert, Tensor) else [*tokens_per_expert]
    )
    for expert, count in enumerate(counts):
        check_size(f"tokens_per_expert[{expert}]", count, at_least=0)
        if ids == "distinct" and count > tokens:
            raise ValueError(
                f"expert {expert} has {count} rows, {tokens} tokens with distinct ids give at most {tokens}"
            )
    rows = sum(counts)
    if rows > tokens * topk:
        raise ValueError(f"{rows} rows do not fit {tokens} tokens x {topk} slots")
    dealt = torch.full((topk * tokens,), SKIPPED_ID, dtype=torch.int32)
    experts = torch.arange(len(counts), dtype=torch.int32)
    dealt[:rows] = experts.repeat_interleave(torch.tensor(counts, dtype=torch.int64), output_size=rows)
    return dealt.view(topk, tokens).t().contiguous()
