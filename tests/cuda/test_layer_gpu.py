"""The layer over models' shapes: golden interval, every routing family, graphs, compilation, stale memory, batches.

The same tests run on the host twin with one small shape and on the kernels over all models. Where an expert's weights would
not fit beside their float64 copies, the intermediate size is cut to what keeps its remainder by 128; hidden size, experts
and top-k are the models' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda import moe
from nvfp4_moe.cuda.fused_moe import FusedMoE, FusedMoEConfig
from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations, Operations
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.gemm_bounds import ACCUMULATORS, inside, output_interval
from nvfp4_moe.reference.grouped_gemm import read_operands
from nvfp4_moe.reference.layer_bounds import layer_interval
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.reference.moe_layer import moe_layer
from nvfp4_moe.verification.conformance.cases import RoutingCase
from nvfp4_moe.verification.conformance.layer_cases import ID_FAMILIES
from nvfp4_moe.verification.conformance.routing_check import make_topk_ids
from nvfp4_moe.verification.counter import below, bits, words

CHIP = "NVIDIA H200"
LARGEST = 2**29
"""Elements of a weight whose float64 copy is made."""
TILE = 128


@dataclass(frozen=True)
class Model:
    """Sizes of a model's MoE layer."""

    name: str
    hidden: int
    intermediate: int
    experts: int
    topk: int
    activation: str = "silu"
    on_input: bool = False
    tokens: tuple[int, ...] = (1, 64, 1000, 8192)

    @property
    def n(self) -> int:
        """The intermediate size, cut where the weights are too large."""
        if self.experts * self.hidden * self.intermediate <= LARGEST:
            return self.intermediate
        tiles = max(1, LARGEST // (self.experts * self.hidden * TILE))
        return self.intermediate % TILE + TILE * tiles

    @property
    def config(self) -> FusedMoEConfig:
        return FusedMoEConfig(
            num_experts=self.experts, topk=self.topk, hidden_size=self.hidden, intermediate_size=self.n,
            activation=self.activation, apply_router_weight_on_input=self.on_input,
        )  # fmt: skip


SMALL = Model("small", 80, 48, 5, 2, tokens=(1, 33))
MODELS = (
    Model("DeepSeek-R1", 7168, 2048, 256, 8),
    Model("Kimi-K2", 7168, 2048, 384, 8),
    Model("Qwen3-235B-A22B", 4096, 1536, 128, 8),
    Model("Qwen3-30B-A3B", 2048, 768, 128, 8),
    Model("Qwen3-Next-80B-A3B", 2048, 512, 512, 10),
    Model("Qwen1.5-MoE-A2.7B", 2048, 1408, 60, 4),
    Model("OLMoE-1B-7B", 2048, 1024, 64, 8),
    Model("Mixtral-8x7B", 4096, 14336, 8, 2),
    Model("Mixtral-8x22B", 6144, 16384, 8, 2),
    Model("Llama-4-Scout", 5120, 8192, 16, 1, on_input=True),
    Model("Llama-4-Maverick", 5120, 8192, 128, 1, on_input=True),
    Model("gpt-oss-120b", 2880, 2880, 128, 4),
    Model("GLM-4.5", 5120, 1536, 160, 8),
    Model("GLM-4.5-Air", 4096, 1408, 128, 8),
    Model("MiniMax-M2", 3072, 1536, 256, 8),
    Model("DeepSeek-V2-Lite", 2048, 1408, 64, 6),
    Model("Nemotron-3-Nano", 2688, 1856, 128, 6, activation="relu2_no_mul"),
    Model("a tensor-parallel shard", 2048, 464, 64, 8),
)
FAMILIES = Model("all routing families", 2048, 512, 60, 4, tokens=(300,))

ON_HOST = [pytest.param("cpu", SMALL, id="host")]
ON_CUDA = [pytest.param("cuda", model, id=model.name, marks=pytest.mark.gpu) for model in MODELS]
ONE_OF_EACH = [
    *ON_HOST, pytest.param("cuda", replace(MODELS[3], tokens=(64,)), id="cuda", marks=pytest.mark.gpu)
]  # fmt: skip


def operations(device: str) -> Operations:
    if device == "cpu":
        return IEEE
    if torch.cuda.get_device_name() != CHIP:
        pytest.skip(f"no shipped table for {torch.cuda.get_device_name()}")
    return HardwareOperations(CHIP)


def make_weights(model: Model, device: str) -> ExpertWeights:
    """Every code, scale bytes of six binades, a global scale and an alpha of its own for each expert."""

    def weight(name: str, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        shape = (model.experts, rows)
        count = model.experts * rows * columns
        codes = bits(words(0, f"gpu.{name}", 0, count // 2, device=device), 8).to(torch.uint8)
        scales = (0x18 + below(words(0, f"gpu.scale.{name}", 0, count // 16, device=device), 0x30)).to(
            torch.uint8
        )
        return codes.view(*shape, -1), to_layout(scales.view(*shape, -1), "swizzled_128x4")

    k, n = model.hidden, model.n
    w1, w1_scale = weight("w1", 2 * n if model.activation == "silu" else n, k)
    w2, w2_scale = weight("w2", k, n)
    spread = 1 + torch.arange(model.experts, device=device) % 7 / 7
    return ExpertWeights(
        w1_fp4=w1, w1_blockscale=w1_scale, w1_alphas=spread / (1024 * k**0.5), a1_gscale=64 * spread,
        w2_fp4=w2, w2_blockscale=w2_scale, w2_alphas=spread / (1024 * n**0.5), a2_gscale=64 * spread.flip(0),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Batch:
    """Arguments of the layer."""

    tokens: Tensor
    topk_weights: Tensor
    topk_ids: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.tokens, self.topk_weights, self.topk_ids))

    def rows(self, picked: slice) -> Batch:
        return Batch(*(tensor[picked].clone() for tensor in self))


def make_batch(model: Model, tokens: int, device: str, *, ids: str = "uniform", index: int = 0) -> Batch:
    raw = words(index, "gpu.tokens", 0, tokens * model.hidden, device=device).view(tokens, model.hidden)
    values = (below(raw, 511) - 255).to(torch.float32) * torch.exp2(-bits(raw, 2).to(torch.float32) - 6)
    slots = words(index, "gpu.router", 0, tokens * model.topk, device=device)
    weights = (1 + below(slots, 1 << 20)).to(torch.float32) / (1 << 20)
    case = RoutingCase(
        index=index, seed=0, tokens=tokens, topk=model.topk, num_experts=model.experts, ids=ids, id_dtype="int32",
        is_gated=True, n=model.n, k=model.hidden,
    )  # fmt: skip
    return Batch(values.to(torch.bfloat16), weights.view(tokens, model.topk), make_topk_ids(case).to(device))


def assert_inside(layer: FusedMoE, weights: ExpertWeights, batch: Batch, ops: Operations) -> Tensor:
    """Run the layer, hold its output to the derived interval, and return it."""
    config = layer.config
    output = layer(*batch)
    stages = moe_layer(
        batch.tokens, weights, batch.topk_weights, batch.topk_ids, activation=config.activation,
        apply_router_weight_on_input=config.apply_router_weight_on_input, arithmetic=ops,
    )  # fmt: skip
    sums = torch.ones_like(batch.topk_weights) if config.apply_router_weight_on_input else batch.topk_weights
    accumulator = ACCUMULATORS["truncating_mma" if output.is_cuda else "ieee_float32"]
    low, high = layer_interval(
        stages, weights.a2_gscale, sums, activation=config.activation, ops=ops, accumulator=accumulator
    )
    wrong = ~inside(output, low, high)
    assert not wrong.any(), (
        f"{int(wrong.sum())} of {wrong.numel()} outside, first at {wrong.nonzero()[0].tolist()}"
    )
    if len(output) > 1 and stages.output.any():  # the bound says something: other tokens' outputs lie outside
        assert float((~inside(stages.output.roll(1, 0), low, high)).float().mean()) > 0.3
    return output  # type: ignore[no-any-return]


@pytest.mark.parametrize(("device", "model"), [*ON_HOST, *ON_CUDA])
def test_models(device: str, model: Model) -> None:
    ops, weights = operations(device), make_weights(model, device)
    layer = FusedMoE(model.config, weights)
    for index, tokens in enumerate(model.tokens):
        batch = make_batch(model, tokens, device, index=index)
        output = assert_inside(layer, weights, batch, ops)
        last = slice(tokens - 1, tokens)
        assert layer(*batch.rows(last)).equal(output[last])  # batch-invariant, to the byte


@pytest.mark.parametrize("activation", ["silu", "relu2_no_mul", "silu_no_mul"])
@pytest.mark.parametrize(("device", "model"), ONE_OF_EACH)
def test_each_stage_from_what_it_was_given(
    device: str, model: Model, activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Golden bytes of both quantizations and the derived interval of both GEMMs, each on its own inputs."""
    ops = operations(device)
    model = replace(model, activation=activation)
    seen: dict[str, list[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]] = {"quantized": [], "multiplied": []}

    def quantizer(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
        real = getattr(moe, name)

        def recorded(*given: Any, **options: Any) -> tuple[Tensor, Tensor]:
            rows = given[0] if options.get("input_map") is None else given[0][options["input_map"].long()]
            result: tuple[Tensor, Tensor] = real(*given, **options)
            seen["quantized"].append(((rows.clone(), *given[1:4]), result))
            return result

        return recorded

    def multiply(out: Tensor, *given: Any, **options: Any) -> None:
        real_gemm(out, *given, **options)
        seen["multiplied"].append((given, (out.clone(),)))

    real_gemm = moe.cutlass_fp4_moe_mm
    for name in ("scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"):
        monkeypatch.setattr(moe, name, quantizer(name))
    monkeypatch.setattr(moe, "cutlass_fp4_moe_mm", multiply)
    batch = make_batch(model, model.tokens[-1], device, ids="negative")
    FusedMoE(model.config, make_weights(model, device))(*batch)

    golden = (quantize_experts, silu_and_mul_quantize_experts if activation == "silu" else quantize_experts)
    assert [len(found) for found in seen.values()] == [2, 2]
    for quantize, (given, (packed, scales)) in zip(golden, seen["quantized"], strict=True):
        rows, gscale, offsets, starts = given
        routed, padded = int(offsets[-1]), int(starts[-1])
        true = quantize(rows[:routed], gscale, offsets, blockscale_offsets=starts, arithmetic=ops)
        assert packed[:routed].equal(true.packed)
        assert scales[:padded].view(torch.uint8).equal(true.block_scale)
    accumulator = ACCUMULATORS["truncating_mma" if device == "cuda" else "ieee_float32"]
    for given, (out,) in seen["multiplied"]:
        a, b, sa, sb, alphas, *_ = given
        operands = read_operands(a, b, sa[:padded], sb, alphas, offsets, starts)
        low, high = output_interval(operands, dtype=out.dtype, accumulator=accumulator)
        assert bool(inside(out[:routed], low, high).all())


@pytest.mark.parametrize("ids", ID_FAMILIES)
@pytest.mark.parametrize(
    ("device", "model"), [*ON_HOST, pytest.param("cuda", FAMILIES, id="cuda", marks=pytest.mark.gpu)]
)
def test_routing_families(device: str, model: Model, ids: str) -> None:
    weights = make_weights(model, device)
    batch = make_batch(model, model.tokens[-1], device, ids=ids)
    assert_inside(FusedMoE(model.config, weights), weights, batch, operations(device))


@pytest.mark.parametrize("sizing", ["proposed", "exact_any", "vllm_env"])
@pytest.mark.parametrize(("device", "model"), ONE_OF_EACH)
def test_stale_memory_policies_and_repetition(device: str, model: Model, sizing: str) -> None:
    weights = make_weights(model, device)
    layer = FusedMoE(replace(model.config, sizing=sizing, max_num_batched_tokens=64), weights)
    batch = make_batch(model, model.tokens[-1], device, ids="negative")
    outputs = []
    for fill in (0x00, 0xFF, 0x7E):
        stale = [torch.full((1 << size,), fill, dtype=torch.uint8, device=device) for size in range(9, 25)]
        del stale
        outputs.append(layer(*batch))
    assert not outputs[0].isnan().any()
    assert all(output.equal(outputs[0]) for output in outputs)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("device", "model"), ONE_OF_EACH)
def test_compiled(device: str, model: Model) -> None:
    layer = FusedMoE(model.config, make_weights(model, device))
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (5, 64, 17):
        batch = make_batch(model, tokens, device)
        assert compiled(*batch).equal(layer(*batch))


@pytest.mark.gpu
@pytest.mark.parametrize("sizing", ["proposed", "exact_any"])
@pytest.mark.parametrize("model", [MODELS[3], MODELS[-2], MODELS[9]], ids=lambda model: model.name)
def test_a_captured_graph_serves_every_routing_of_its_batch(model: Model, sizing: str) -> None:
    """Captured with one routing, replayed with others: all on one expert, some skipped, none at all."""
    layer = FusedMoE(replace(model.config, sizing=sizing), make_weights(model, "cuda"))
    fixed = make_batch(model, 64, "cuda")
    layer(*fixed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = layer(*fixed)
    for index, ids in enumerate(ID_FAMILIES):
        other = make_batch(model, 64, "cuda", ids=ids, index=index + 1)
        for tensor, new in zip(fixed, other, strict=True):
            tensor.copy_(new)
        graph.replay()
        torch.cuda.synchronize()
        assert output.equal(layer(*other)), ids
