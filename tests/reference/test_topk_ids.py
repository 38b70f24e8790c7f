"""Checks of topk_ids, the expert-parallel view of them, and ids made from counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch

from nvfp4_moe.reference.padding import worst_tokens_per_expert_any, worst_tokens_per_expert_distinct
from nvfp4_moe.reference.topk_ids import check_topk_ids, expert_map, local_topk_ids, topk_ids_from_counts

# --- checks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_legal_ids_pass(dtype: torch.dtype) -> None:
    check_topk_ids(torch.tensor([[0, -1], [2, 2]], dtype=dtype), 3)
    check_topk_ids(torch.zeros(0, 2, dtype=dtype), 1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.uint32, torch.float32, torch.bool])
def test_ids_of_another_dtype_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=f"topk_ids must be an int32 or int64 tensor, got {dtype}"):
        check_topk_ids(torch.zeros(1, 1, dtype=dtype), 1)


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="got list"):
        check_topk_ids([[0]], 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4,), (2, 0), (1, 1, 1)])
def test_ids_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"topk_ids must be \(tokens, topk\) with topk >= 1, got"):
        check_topk_ids(torch.zeros(shape, dtype=torch.int32), 1)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("value", [-2, 3, 2**31 - 1, -(2**31)])
def test_the_first_id_outside_is_named(dtype: torch.dtype, value: int) -> None:
    ids = torch.zeros(3, 2, dtype=dtype)
    ids[1, 1] = value
    ids[2, 0] = 99
    with pytest.raises(ValueError, match=rf"topk_ids\[1, 1\] = {value} is outside \[-1, 3\)"):
        check_topk_ids(ids, 3)


def test_a_64_bit_id_is_not_wrapped_into_range() -> None:
    with pytest.raises(ValueError, match=r"topk_ids\[0, 0\] = 4294967296 is outside"):
        check_topk_ids(torch.tensor([[2**32]]), 3)


@pytest.mark.parametrize(
    ("num_experts", "error"), [(0, ValueError), (-1, ValueError), (2**31, ValueError), (1.0, TypeError)]
)
def test_an_expert_count_out_of_range_is_refused(num_experts: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"num_experts.*{num_experts}"):
        check_topk_ids(torch.zeros(1, 1, dtype=torch.int32), num_experts)


# --- expert parallelism ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_global_experts", [1, 2, 7, 8, 256])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
def test_every_expert_lies_on_exactly_one_rank(num_global_experts: int, size: int) -> None:
    if size > num_global_experts:
        with pytest.raises(ValueError, match=rf"expert_parallel_size \({size}\) must be at most"):
            expert_map(num_global_experts, rank=0, expert_parallel_size=size)
        return
    maps = [expert_map(num_global_experts, rank=r, expert_parallel_size=size).tolist() for r in range(size)]
    held = [[expert for expert, local in enumerate(local_of) if local >= 0] for local_of in maps]
    assert list(itertools.chain(*held)) == list(range(num_global_experts))
    assert max(map(len, held)) - min(map(len, held)) <= 1
    for local_of, experts in zip(maps, held, strict=True):
        assert [local_of[expert] for expert in experts] == list(range(len(experts)))


def test_the_first_ranks_hold_one_more() -> None:
    assert expert_map(5, rank=0, expert_parallel_size=2).tolist() == [0, 1, 2, -1, -1]
    assert expert_map(5, rank=1, expert_parallel_size=2).tolist() == [-1, -1, -1, 0, 1]


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_outside_the_group_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank.*{rank}"):
        expert_map(4, rank=rank, expert_parallel_size=2)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_local_ids_are_the_map_of_global_ids(dtype: torch.dtype) -> None:
    ids = torch.tensor([[0, 3, 4], [-1, 2, 2]], dtype=dtype)
    local = local_topk_ids(ids, expert_map(5, rank=1, expert_parallel_size=2))
    assert local.dtype == dtype
    assert local.tolist() == [[-1, 0, 1], [-1, -1, -1]]


def test_any_placement_is_a_map() -> None:
    round_robin = torch.tensor([0, -1, 1, -1])
    assert local_topk_ids(torch.tensor([[2, 1, 0]]), round_robin).tolist() == [[1, -1, 0]]


def test_global_ids_outside_the_map_are_refused() -> None:
    with pytest.raises(ValueError, match=r"topk_ids\[0, 1\] = 4 is outside \[-1, 4\)"):
        local_topk_ids(torch.tensor([[0, 4]]), torch.tensor([0, 1, -1, -1]))


def test_a_map_below_minus_one_or_of_another_kind_is_refused() -> None:
    ids = torch.tensor([[0]])
    with pytest.raises(ValueError, match="local indices or -1, got -2"):
        local_topk_ids(ids, torch.tensor([-2]))
    with pytest.raises(ValueError, match=r"expert_map must be a vector, got \(1, 1\)"):
        local_topk_ids(ids, torch.tensor([[0]]))
    with pytest.raises(TypeError, match="expert_map must be an int32 or int64 tensor"):
        local_topk_ids(ids, torch.tensor([0.0]))


# --- ids from counts -------------------------------------------------------------------------------------------------


def test_all_small_counts_are_met_and_distinct_where_they_can_be() -> None:
    """Every count vector of up to 3 experts that fits: exact counts, and a repeat only where an expert exceeds M."""
    tried = 0
    for tokens, topk, num_experts in itertools.product(range(4), range(1, 4), range(1, 4)):
        for counts in itertools.product(range(tokens * topk + 1), repeat=num_experts):
            if sum(counts) > tokens * topk:
                continue
            ids = topk_ids_from_counts(counts, tokens=tokens, topk=topk)
            assert ids.shape == (tokens, topk)
            seen = Counter(ids.flatten().tolist())
            assert [seen[expert] for expert in range(num_experts)] == [*counts]
            assert seen[-1] == tokens * topk - sum(counts)
            distinct = all(
                max(Counter(i for i in row if i >= 0).values(), default=1) == 1 for row in ids.tolist()
            )
            assert distinct == (max(counts) <= tokens)
            tried += 1
    sizes = itertools.product(range(4), range(1, 4), range(1, 4))
    assert tried == sum(math.comb(tokens * topk + experts, experts) for tokens, topk, experts in sizes)


def test_the_worst_routings_have_ids() -> None:
    worst = worst_tokens_per_expert_any(64, 8)
    assert torch.bincount(topk_ids_from_counts(worst, tokens=8, topk=8).flatten()).tolist() == worst
    worst = worst_tokens_per_expert_distinct(130, 2, 5)
    ids = topk_ids_from_counts(torch.tensor(worst), tokens=130, topk=2, ids="distinct")
    assert torch.bincount(ids.flatten()).tolist() == worst
    assert (ids[:, 0] != ids[:, 1]).all()


def test_counts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="7 rows do not fit 3 tokens x 2 slots"):
        topk_ids_from_counts([4, 3], tokens=3, topk=2)
    with pytest.raises(ValueError, match=r"tokens_per_expert\[1\].*-1"):
        topk_ids_from_counts([4, -1], tokens=3, topk=2)
    with pytest.raises(ValueError, match="expert 0 has 4 rows, 3 tokens"):
        topk_ids_from_counts([4, 1], tokens=3, topk=2, ids="distinct")
    with pytest.raises(ValueError, match="got 'unique'"):
        topk_ids_from_counts([1], tokens=3, topk=2, ids="unique")
    with pytest.raises(TypeError, match="topk must be an integer"):
        topk_ids_from_counts([1], tokens=3, topk=2.0)  # type: ignore[arg-type]
