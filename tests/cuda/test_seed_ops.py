"""The quantizers with the seed's signatures: golden bytes, shapes and types, fake kernels, compiled, stale memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda import ops
from nvfp4_moe.cuda.sizing import POLICIES
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.routing import route

E, K, TOPK, TOKENS = 5, 80, 2, 70
SEED = [
    "input_tensor",
    "input_global_scale",
    "expert_offsets",
    "blockscale_offsets",
    "topk",
    "max_num_batched_tokens",
]


def arguments(plain: Callable[..., Tensor], *, fused: bool, tokens: int = TOKENS) -> tuple[Any, ...]:
    ids = (torch.arange(tokens * TOPK) * 7 % (E + 1) - 1).view(tokens, TOPK)
    routing = route(ids, E, n=48, k=K)
    rows = plain(1, "rows", (tokens * TOPK, 2 * K if fused else K), torch.bfloat16)
    scale = torch.arange(1, E + 1, dtype=torch.float32) * 100
    return rows, scale, routing.expert_offsets, routing.blockscale_offsets, TOPK, 100


FORMS = {
    False: (ops.scaled_fp4_experts_quant, quantize_experts),
    True: (ops.silu_and_mul_scaled_fp4_experts_quant, silu_and_mul_quantize_experts),
}


@pytest.mark.parametrize("fused", FORMS)
def test_signatures_are_the_seeds(fused: bool) -> None:
    parameters = inspect.signature(FORMS[fused][0]).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == SEED
    assert all(p.default is not p.empty for p in parameters if p.kind is p.KEYWORD_ONLY)


@pytest.mark.parametrize("sizing", POLICIES)
@pytest.mark.parametrize("fused", FORMS)
def test_golden_bytes_under_every_policy(
    fused: bool, sizing: str, plain: Callable[..., Tensor], same_bytes: Callable[..., None]
) -> None:
    operation, golden = FORMS[fused]
    given = arguments(plain, fused=fused)
    packed, scales = operation(*given, sizing=sizing)
    rows, scale, offsets, starts = given[:4]
    true = golden(rows, scale, offsets, blockscale_offsets=starts)
    routed, padded = int(offsets[-1]), int(starts[-1])
    assert routed < len(rows)
    assert (packed.dtype, scales.dtype) == (torch.uint8, torch.float8_e4m3fn)
    assert packed.shape == (TOKENS * TOPK, K // 2)
    assert scales.shape[1] == 8
    same_bytes("packed", packed[:routed], true.packed[:routed])
    same_bytes("scales", scales[:padded], true.block_scale)


def test_the_default_is_the_seeds_formula(plain: Callable[..., Tensor]) -> None:
    given = arguments(plain, fused=False)
    assert len(ops.scaled_fp4_experts_quant(*given)[1]) == 100 * TOPK + 127 * E
    with pytest.raises(
        ValueError, match="m \\* topk = 140 rows exceed max_num_batched_tokens \\* topk = 69 \\* 2 = 138"
    ):
        ops.scaled_fp4_experts_quant(*given[:5], 69)
    ops.scaled_fp4_experts_quant(*given[:5], 70)
    ops.scaled_fp4_experts_quant(*given[:5], 1, sizing="exact_any")


def test_a_map_reads_the_rows_where_they_lie(plain: Callable[..., Tensor]) -> None:
    rows, *others = arguments(plain, fused=False)
    tokens = rows[: TOKENS // 2].contiguous()
    input_map = (torch.arange(len(rows), dtype=torch.int32) * 3) % len(tokens)
    mapped = ops.scaled_fp4_experts_quant(tokens, *others, input_map=input_map)
    gathered = ops.scaled_fp4_experts_quant(tokens[input_map.long()], *others)
    routed, padded = int(others[1][-1]), int(others[2][-1])
    assert mapped[0][:routed].equal(gathered[0][:routed])
    assert mapped[1][:padded].view(torch.uint8).equal(gathered[1][:padded].view(torch.uint8))


def test_fewer_rows_than_the_routing_needs_are_refused(plain: Callable[..., Tensor]) -> None:
    """The policy's rows hold any routing of the call; one that claims more is refused by the host twin."""
    rows, scale, offsets, starts, *sizes = arguments(plain, fused=False)
    with pytest.raises(ValueError, match="rows"):
        ops.scaled_fp4_experts_quant(rows, scale, offsets, starts * 64, *sizes)


@pytest.mark.parametrize("sizing", POLICIES)
def test_opcheck(sizing: str, plain: Callable[..., Tensor]) -> None:
    """Schema, fake kernel and dispatch; outputs are uninitialized where nothing reads, so values are not compared."""
    given = arguments(plain, fused=True)
    torch.library.opcheck(
        torch.ops.nvfp4_moe.sized_experts_quant.default,
        (*given, sizing, None, True),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_compiled_with_varying_sizes(plain: Callable[..., Tensor]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(ops.scaled_fp4_experts_quant, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (13, 40, 100):
        given = arguments(plain, fused=False, tokens=tokens)
        for sizing in ("proposed", "exact_any"):
            packed, scales = compiled(*given, sizing=sizing)
            eager = ops.scaled_fp4_experts_quant(*given, sizing=sizing)
            routed, padded = int(given[2][-1]), int(given[3][-1])
            assert scales.shape == eager[1].shape
            assert packed[:routed].equal(eager[0][:routed])
            assert scales[:padded].view(torch.uint8).equal(eager[1][:padded].view(torch.uint8))


@pytest.mark.parametrize("shape", [(3,), (2, 3, 16)])
def test_other_dimensions_are_refused(shape: tuple[int, ...], plain: Callable[..., Tensor]) -> None:
    _, *others = arguments(plain, fused=False)
    with pytest.raises((ValueError, IndexError)):
        ops.scaled_fp4_experts_quant(torch.ones(shape, dtype=torch.bfloat16), *others)
