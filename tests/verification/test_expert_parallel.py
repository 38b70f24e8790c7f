"""Expert parallelism over two processes: the ranks' outputs sum to the single rank's; a rank that errs shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.layer_check import split_bound
from nvfp4_moe.verification.conformance.layer_data import make_layer
from nvfp4_moe.verification.expert_parallel import RankFailed, Split, run_ranks, run_share, share_of

CASE = LayerCase(
    index=7, seed=0, tokens=40, topk=4, num_experts=5, n=48, k=80, dtype="bf16", activation="silu", values="any",
    ids="negative",
)  # fmt: skip


def test_two_ranks_of_gloo_sum_to_one() -> None:
    split = run_ranks(CASE, ranks=2)
    assert split.holds
    assert all(split.rows_of_ranks)
    assert sum(split.rows_of_ranks) == int((make_layer(CASE).topk_ids >= 0).sum())
    assert not split.summed.equal(split.single)  # so the bound is not idle


def in_one_process(case: LayerCase, ranks: int, wrong_rank: int | None = None) -> Split:
    """The same without processes; a wrong rank takes every id for its own expert 0."""
    inputs = make_layer(case)
    shares = [share_of(inputs, rank, ranks) for rank in range(ranks)]
    if wrong_rank is not None:
        wrong = shares[wrong_rank]
        shares[wrong_rank] = replace(wrong, topk_ids=wrong.topk_ids.clamp(min=0))
    outputs = [run_share(share, "reference", device="cpu").double() for share in shares]
    single = run_share(inputs, "reference", device="cpu").double()
    return Split(torch.stack(outputs).sum(0), single, split_bound(inputs, single, outputs), [])


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "change", [{}, {"dtype": "f16", "activation": "relu2_no_mul"}, {"topk": 1, "weights_on_input": True}]
)
def test_any_number_of_ranks(ranks: int, change: dict[str, object]) -> None:
    assert in_one_process(replace(CASE, **change), ranks).holds  # type: ignore[arg-type]


def test_a_rank_that_takes_others_rows_is_noticed() -> None:
    assert not in_one_process(CASE, 2, wrong_rank=1).holds


def test_one_bit_more_than_the_roundings_is_noticed() -> None:
    split = in_one_process(CASE, 2)
    further = replace(split, summed=split.summed + 2.5 * split.bound)
    assert not further.holds
    assert float(split.bound.mean() / split.single.abs().mean()) < 0.05


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="subject must be one of reference, host, cuda, got 'vllm'"):
        run_ranks(CASE, ranks=2, subject="vllm")
    with pytest.raises(ValueError, match="at most the 5 experts, got 6"):
        run_ranks(CASE, ranks=6)


def test_a_rank_that_fails_is_told() -> None:
    with pytest.raises(RankFailed, match="rank 0 ended with exit code 1: ") as caught:
        run_ranks(replace(CASE, weights_on_input=True), ranks=1)
    assert "router weights on the input need topk 1, got 4" in str(caught.value)


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["silu", "relu2_no_mul"])
def test_two_gpus_sum_to_one(activation: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs a CUDA device more: two ranks of nccl")
    case = replace(CASE, n=64, k=128, num_experts=8, activation=activation)
    assert run_ranks(case, ranks=2, subject="cuda").holds
