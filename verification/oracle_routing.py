"""The second oracle for routing metadata: Python lists filled by loops, slot by slot.

Meaning of each list as in vLLM's `get_cutlass_moe_mm_data`, with rows of an expert in token order and the id -1 defined:
it counts for no expert, its slot points at row T, and the tail of the input permutation is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nvfp4_moe.verification.oracle_layout import packed_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRouting:
    """Routing metadata as lists."""

    tokens_per_expert: list[int]
    expert_offsets: list[int]
    blockscale_offsets: list[int]
    problem_sizes1: list[list[int]]
    problem_sizes2: list[list[int]]
    input_permutation: list[int]
    output_permutation: list[int]


def route(
    topk_ids: Sequence[Sequence[int]],
    num_experts: int,
    *,
    n: int,
    k: int,
    is_gated: bool = True,
    tile: int = 128,
) -> OracleRouting:
    """Return the metadata of ids (M, topk), each -1 or below `num_experts`."""
    tokens_of: list[list[int]] = [[] for _ in range(num_experts)]
    slots_of: list[list[int]] = [[] for _ in range(num_experts)]
    skipped: list[int] = []
    slot = 0
    for token, ids in enumerate(topk_ids):
        for expert in ids:
            if expert == -1:
                skipped.append(slot)
            else:
                tokens_of[expert].append(token)
                slots_of[expert].append(slot)
            slot += 1
    counts = [len(tokens) for tokens in tokens_of]
    input_permutation: list[int] = []
    output_permutation = [0] * slot
    expert_offsets = [0]
    for tokens, slots in zip(tokens_of, slots_of, strict=True):
        for token, its_slot in zip(tokens, slots, strict=True):
            output_permutation[its_slot] = len(input_permutation)
            input_permutation.append(token)
        expert_offsets.append(len(input_permutation))
    for its_slot in skipped:
        output_permutation[its_slot] = expert_offsets[-1]
        input_permutation.append(0)
    first_columns = 2 * n if is_gated else n
    return OracleRouting(
        tokens_per_expert=counts,
        expert_offsets=expert_offsets,
        blockscale_offsets=packed_starts(counts, tile=tile),
        problem_sizes1=[[count, first_columns, k] for count in counts],
        problem_sizes2=[[count, k, n] for count in counts],
        input_permutation=input_permutation,
        output_permutation=output_permutation,
    )
