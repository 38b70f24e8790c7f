"""Routing metadata against a loop over slots, over all tiny id matrices and over directed ones."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.padding import expert_starts
from nvfp4_moe.reference.routing import Routing, route

FIELDS = (
    "tokens_per_expert",
    "expert_offsets",
    "blockscale_offsets",
    "problem_sizes1",
    "problem_sizes2",
    "input_permutation",
    "output_permutation",
)


def walked(
    topk_ids: list[list[int]], num_experts: int, *, n1: int, n: int, k: int, tile: int
) -> dict[str, object]:
    """Every output, made by appending each slot to its expert's list in the order of the slots."""
    slots_of: list[list[int]] = [[] for _ in range(num_experts)]
    slots = list(itertools.chain(*topk_ids))
    for slot, expert in enumerate(slots):
        if expert >= 0:
            slots_of[expert].append(slot)
    counts = [len(members) for members in slots_of]
    order = list(itertools.chain(*slots_of))
    topk = len(topk_ids[0]) if topk_ids else 1
    row_of = {slot: row for row, slot in enumerate(order)}
    return {
        "tokens_per_expert": counts,
        "expert_offsets": [0, *itertools.accumulate(counts)],
        "blockscale_offsets": expert_starts(counts, tile=tile),
        "problem_sizes1": [[count, n1, k] for count in counts],
        "problem_sizes2": [[count, k, n] for count in counts],
        "input_permutation": [slot // topk for slot in order] + [0] * (len(slots) - len(order)),
        "output_permutation": [row_of.get(slot, len(order)) for slot in range(len(slots))],
    }


def as_lists(routing: Routing) -> dict[str, object]:
    return {name: getattr(routing, name).tolist() for name in FIELDS}


def test_all_tiny_routings() -> None:
    """All ids in [-1, E) for up to 3 tokens, top-2, 2 experts, and 2 tokens, top-2, 3 experts."""
    tried = 0
    for tokens, topk, num_experts in ((0, 1, 1), (1, 1, 1), (1, 3, 2), (3, 2, 2), (2, 2, 3)):
        for slots in itertools.product(range(-1, num_experts), repeat=tokens * topk):
            ids = [list(slots[token * topk : (token + 1) * topk]) for token in range(tokens)]
            tensor = torch.tensor(slots, dtype=torch.int32).view(tokens, topk)
            routing = route(tensor, num_experts, n=48, k=32, tile=2)
            assert as_lists(routing) == walked(ids, num_experts, n1=96, n=48, k=32, tile=2)
            tried += 1
    assert tried == 1 + 2 + 27 + 729 + 256


def scattered_ids(tokens: int, topk: int, num_experts: int) -> Tensor:
    """Ids over [-1, E) from a quadratic walk: uneven counts, repeats inside a token, skipped slots."""
    slot = torch.arange(tokens * topk)
    return ((slot * slot * 7 + slot * 3) % (num_experts + 1) - 1).to(torch.int32).view(tokens, topk)


@pytest.mark.parametrize("tokens", [1, 127, 128, 129, 300])
@pytest.mark.parametrize(("num_experts", "topk"), [(1, 1), (5, 2), (17, 4), (257, 8)])
def test_larger_routings(tokens: int, num_experts: int, topk: int) -> None:
    ids = scattered_ids(tokens, topk, num_experts)
    routing = route(ids, num_experts, n=1536, k=4096)
    assert as_lists(routing) == walked(ids.tolist(), num_experts, n1=3072, n=1536, k=4096, tile=128)
    assert routing.routed_rows == int((ids >= 0).sum())
    assert routing.padded_rows == int(routing.blockscale_offsets[-1])


def test_an_example_worked_by_hand() -> None:
    ids = torch.tensor([[2, 0], [-1, 2], [0, 0]])
    routing = route(ids, 4, n=8, k=16, tile=4)
    assert as_lists(routing) == {
        "tokens_per_expert": [3, 0, 2, 0],
        "expert_offsets": [0, 3, 3, 5, 5],
        "blockscale_offsets": [0, 4, 4, 8, 8],
        "problem_sizes1": [[3, 16, 16], [0, 16, 16], [2, 16, 16], [0, 16, 16]],
        "problem_sizes2": [[3, 16, 8], [0, 16, 8], [2, 16, 8], [0, 16, 8]],
        "input_permutation": [0, 2, 2, 0, 1, 0],
        "output_permutation": [3, 0, 5, 4, 1, 2],
    }


def test_ungated_experts_have_n_columns_in_the_first_gemm() -> None:
    routing = route(torch.tensor([[0]]), 1, n=8, k=16, is_gated=False)
    assert routing.problem_sizes1.tolist() == [[1, 8, 16]]
    assert routing.problem_sizes2.tolist() == [[1, 16, 8]]


@pytest.mark.parametrize(
    "ids", [torch.zeros(0, 4, dtype=torch.int32), torch.full((3, 4), -1)], ids=["M=0", "T=0"]
)
def test_nothing_routed(ids: Tensor) -> None:
    routing = route(ids, 3, n=8, k=16)
    assert routing.routed_rows == routing.padded_rows == 0
    assert routing.expert_offsets.tolist() == routing.blockscale_offsets.tolist() == [0, 0, 0, 0]
    assert routing.input_permutation.tolist() == [0] * ids.numel()
    assert routing.output_permutation.tolist() == [0] * ids.numel()  # T, which is 0


def test_outputs_are_int32_and_the_id_dtype_does_not_matter() -> None:
    ids = scattered_ids(40, 3, 7)
    narrow, wide = route(ids, 7, n=8, k=16), route(ids.long(), 7, n=8, k=16)
    assert as_lists(narrow) == as_lists(wide)
    for routing, name in itertools.product((narrow, wide), FIELDS):
        assert getattr(routing, name).dtype == torch.int32


def test_strided_ids_are_honoured() -> None:
    ids = scattered_ids(40, 6, 7)
    assert as_lists(route(ids[::2, ::3], 7, n=8, k=16)) == as_lists(
        route(ids[::2, ::3].clone(), 7, n=8, k=16)
    )


def test_ids_are_left_as_they_were() -> None:
    ids = scattered_ids(40, 3, 7)
    before = ids.clone()
    route(ids, 7, n=8, k=16)
    assert torch.equal(ids, before)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_ids_outside_are_named() -> None:
    with pytest.raises(ValueError, match=r"topk_ids\[1, 0\] = 4 is outside \[-1, 4\)"):
        route(torch.tensor([[0, 1], [4, -2]]), 4, n=8, k=16)


def test_unsigned_ids_are_refused() -> None:
    with pytest.raises(TypeError, match=r"got torch.uint32"):
        route(torch.zeros(1, 1, dtype=torch.uint32), 4, n=8, k=16)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n": 0}, "n must be between 1"),
        ({"k": -1}, "k must be between 1"),
        ({"k": 17}, "k must be a multiple of 16, got 17"),
        ({"tile": 0}, "tile must be between 1"),
        ({"n": 2**30}, "columns of the first GEMM = 2147483648 does not fit int32"),
        ({"n": 2**31, "is_gated": False}, "columns of the first GEMM = 2147483648 does not fit int32"),
        ({"k": 2**31}, "k = 2147483648 does not fit int32"),
        ({"tile": 2**31}, "tile = 2147483648 does not fit int32"),
        ({"tile": 2**30}, r"blockscale_offsets\[E\] = 2147483648 does not fit int32"),
    ],
)
def test_sizes_that_int32_cannot_hold_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        route(torch.tensor([[0, 1]]), 2, **{"n": 8, "k": 16, **sizes})


@pytest.mark.parametrize("is_gated", ["x", 1, None])
def test_is_gated_is_a_bool(is_gated: Any) -> None:
    with pytest.raises(TypeError, match=f"is_gated must be True or False, got {is_gated!r}"):
        route(torch.tensor([[0]]), 1, n=8, k=16, is_gated=is_gated)


def test_the_largest_sizes_that_int32_holds_are_exact() -> None:
    routing = route(torch.tensor([[0]]), 1, n=2**30 - 1, k=2**31 - 16, tile=2**31 - 1)
    assert routing.problem_sizes1.tolist() == [[1, 2**31 - 2, 2**31 - 16]]
    assert routing.blockscale_offsets.tolist() == [0, 2**31 - 1]


@pytest.mark.gpu
def test_the_gpu_gives_the_same_routing() -> None:
    for ids in (scattered_ids(300, 8, 257), torch.zeros(0, 8, dtype=torch.int32)):
        routing = route(ids.cuda(), 257, n=8, k=16)
        assert routing.output_permutation.is_cuda
        assert as_lists(routing) == as_lists(route(ids, 257, n=8, k=16))
