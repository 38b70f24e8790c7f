"""Sizing policies: rows by the registry's formulas, what is refused and in which words, and bytes as they are allocated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from nvfp4_moe.cuda import ops
from nvfp4_moe.cuda.sizing import POLICIES, check_call, scale_rows
from nvfp4_moe.reference.padding import FORMULAS, Sizing, exact_any_rows
from nvfp4_moe.reference.routing import route

SETTING = 64


@pytest.mark.parametrize(("topk", "experts"), [(1, 1), (8, 256), (2, 5)])
def test_rows_are_the_formulas(topk: int, experts: int) -> None:
    def rows(policy: str, of: int = 10) -> int:
        return scale_rows(policy, rows=of, topk=topk, num_experts=experts, max_num_batched_tokens=SETTING)

    sizing = Sizing(tokens=SETTING, topk=topk, num_experts=experts, num_global_experts=experts)
    assert rows("proposed") == SETTING * topk + 127 * experts == FORMULAS["proposed"].rows(sizing)
    assert rows("vllm_env") == 163_840 * topk
    assert rows("exact_any") == exact_any_rows(10, experts)
    assert rows("exact_any", of=0) == 0
    assert rows("proposed", of=0) == rows("proposed")


@pytest.mark.parametrize("policy", POLICIES)
def test_guard_and_rows_come_from_one_formula(policy: str) -> None:
    """The largest call that is let through fits, in the worst routing; but for vllm_env, whose guard has no padding."""
    sizes = {"topk": 2, "num_experts": 5, "max_num_batched_tokens": SETTING}
    most = {"proposed": 2 * SETTING, "exact_any": 10**6, "vllm_env": 2 * 163_840}[policy]
    check_call(policy, rows=most, **sizes)
    fits = scale_rows(policy, rows=most, **sizes) >= exact_any_rows(most, 5)
    assert fits == (policy != "vllm_env")
    if policy != "exact_any":
        with pytest.raises(ValueError, match=f"m \\* topk = {most + 1} rows exceed"):
            check_call(policy, rows=most + 1, **sizes)


def test_the_error_names_the_numbers_and_the_setting() -> None:
    with pytest.raises(ValueError, match="--max-num-batched-tokens") as caught:
        check_call("proposed", rows=1040, topk=8, num_experts=4, max_num_batched_tokens=128)
    for said in (
        "m * topk = 1040",
        "128 * 8 = 1024",
        "to at least 130",
        "sizing='exact_any'",
        "data parallelism",
    ):
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        ({"policy": "sglang"}, ValueError, "one of proposed, exact_any, vllm_env, got 'sglang'"),
        ({"topk": 0}, ValueError, "topk must be between 1"),
        ({"num_experts": 0}, ValueError, "num_experts must be between 1"),
        ({"max_num_batched_tokens": 2.0}, TypeError, "tokens must be an integer"),
    ],
)
def test_refused(wrong: dict[str, object], error: type[Exception], told: str) -> None:
    arguments = {
        "policy": "exact_any",
        "rows": 4,
        "topk": 2,
        "num_experts": 5,
        "max_num_batched_tokens": 9,
        **wrong,
    }
    with pytest.raises(error, match=told):
        check_call(arguments.pop("policy"), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES)
def test_bytes_of_the_cpu_allocator_are_the_formula(policy: str, plain: Callable[..., Tensor]) -> None:
    """What a call asks the allocator for: the codes and the scale buffer, by the profiler's record of allocations."""
    tokens, topk, experts, k = 40, 2, 5, 80
    ids = (torch.arange(tokens * topk) * 7 % experts).view(tokens, topk)
    routing = route(ids, experts, n=48, k=k)
    rows = plain(1, "rows", (tokens * topk, k), torch.bfloat16)
    offsets = routing.expert_offsets, routing.blockscale_offsets

    def call() -> tuple[Tensor, Tensor]:
        return ops.scaled_fp4_experts_quant(rows, torch.ones(experts), *offsets, topk, SETTING, sizing=policy)

    call()  # whatever is built or read on first use
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        kept = call()
    (entry,) = [row for row in recorded.key_averages() if row.key == "nvfp4_moe::sized_experts_quant"]
    scale_bytes = (
        scale_rows(policy, rows=80, topk=topk, num_experts=experts, max_num_batched_tokens=SETTING) * 8
    )
    assert kept[1].untyped_storage().nbytes() == scale_bytes
    assert entry.cpu_memory_usage == scale_bytes + 80 * k // 2


@pytest.mark.gpu
@pytest.mark.parametrize("policy", POLICIES)
def test_peak_of_the_cuda_allocator_is_the_formula(policy: str, plain: Callable[..., Tensor]) -> None:
    """Both outputs, each rounded up to the 512 bytes that PyTorch's allocator deals out."""
    tokens, topk, experts, k = 40, 2, 5, 80
    ids = (torch.arange(tokens * topk) * 7 % experts).view(tokens, topk).cuda()
    routing = route(ids, experts, n=48, k=k)
    rows = plain(1, "rows", (tokens * topk, k), torch.bfloat16).cuda()
    arguments = (rows, torch.ones(experts, device="cuda"), routing.expert_offsets, routing.blockscale_offsets)
    ops.scaled_fp4_experts_quant(*arguments, topk, SETTING, sizing=policy)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = ops.scaled_fp4_experts_quant(*arguments, topk, SETTING, sizing=policy)
    total = scale_rows(policy, rows=80, topk=topk, num_experts=experts, max_num_batched_tokens=SETTING)
    due = sum(-(-size // 512) * 512 for size in (total * 8, 80 * k // 2))
    assert torch.cuda.max_memory_allocated() - before == due
    del kept
