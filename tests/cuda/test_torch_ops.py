"""The PyTorch operators: opcheck, torch.compile with varying sizes, and the bytes of the ops beneath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda import torch_ops
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.routing import route

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
E, K, N = 5, 80, 48


def batch(tokens: int, device: str, plain: Callable[..., Tensor], *, topk: int = 2) -> dict[str, Any]:
    """Return the arguments of every operator for a batch of so many tokens."""
    ids = (torch.arange(tokens * topk).reshape(tokens, topk) * 7 % (E + 1) - 1).to(torch.int32).to(device)
    routing = route(ids, E, n=N, k=K)
    rows = tokens * topk
    scale = torch.arange(1, E + 1, dtype=torch.float32, device=device) * 100
    offsets = (scale, routing.expert_offsets, routing.blockscale_offsets, "ieee")
    values = plain(1, "rows", (rows, 2 * K), torch.bfloat16).to(device)
    return {
        "moe_data": (ids, E, N, K, True),
        "shuffle_rows": (values, routing.input_permutation),
        "unpermute_rows": (
            values, routing.output_permutation, plain(2, "w", (tokens, topk), torch.float32).to(device),
            routing.expert_offsets,
        ),
        "experts_quant": (values[:, :K].contiguous(), *offsets),
        "silu_and_mul_experts_quant": (values, *offsets),
        "experts_quant_": in_place(values[:, :K].contiguous(), offsets),
        "silu_and_mul_experts_quant_": in_place(values, offsets),
    }  # fmt: skip


def in_place(input: Tensor, offsets: tuple[Any, ...]) -> tuple[Any, ...]:
    end = int(offsets[2][-1])
    packed = torch.zeros((len(input), K // 2), dtype=torch.uint8, device=input.device)
    words = torch.zeros((end, -(-K // 64)), dtype=torch.int32, device=input.device)
    return packed, words, input, *offsets, "zero"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", torch_ops.KERNELS)
def test_opcheck(name: str, device: str, plain: Callable[..., Tensor]) -> None:
    operator = getattr(torch.ops.nvfp4_moe, name).default
    torch.library.opcheck(operator, batch(13, device, plain)[name])


@pytest.mark.parametrize("device", DEVICES)
def test_quantizers_return_the_golden_bytes(
    device: str, plain: Callable[..., Tensor], same_bytes: Callable[..., None]
) -> None:
    arguments = batch(13, device, plain)
    for name, golden in (
        ("experts_quant", quantize_experts),
        ("silu_and_mul_experts_quant", silu_and_mul_quantize_experts),
    ):
        input, scale, offsets, starts, _ = arguments[name]
        packed, block_scale = getattr(torch.ops.nvfp4_moe, name)(*arguments[name])
        true = golden(input, scale, offsets, blockscale_offsets=starts, scale_rows=len(block_scale))
        same_bytes("packed", packed, true.packed)
        same_bytes("block_scale", block_scale, true.block_scale)


# torch 2.11's own compiler still calls torch.jit and warns about it under Python 3.12.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("device", DEVICES)
def test_compiled_whole_with_varying_sizes(device: str, plain: Callable[..., Tensor]) -> None:
    """Route, gather, quantize: one graph, compiled once, for batches of any number of tokens."""

    def layer(input: Tensor, ids: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        ops = torch.ops.nvfp4_moe
        offsets, starts, _, _, input_permutation, _ = ops.moe_data(ids, E, N, K)
        return ops.experts_quant(ops.shuffle_rows(input, input_permutation), scale, offsets, starts, "ieee")

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (13, 40, 200):
        ids = (torch.arange(tokens * 2).reshape(tokens, 2) * 7 % (E + 1) - 1).to(torch.int32).to(device)
        input = plain(3, "tokens", (tokens, K), torch.bfloat16).to(device)
        scale = torch.full((E,), 300.0, device=device)
        assert all(
            a.equal(b) for a, b in zip(compiled(input, ids, scale), layer(input, ids, scale), strict=True)
        )


def test_wrong_arithmetic_is_refused(plain: Callable[..., Tensor]) -> None:
    arguments = batch(3, "cpu", plain)["experts_quant"]
    with pytest.raises(ValueError, match="arithmetic must be one of"):
        torch.ops.nvfp4_moe.experts_quant(*arguments[:-1], "fast")
