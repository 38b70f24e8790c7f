"""The layer on the CPU: golden bytes where nothing is rounded twice, the seed's arguments, stale memory, refusals."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.activations import apply_activation
from nvfp4_moe.cuda.moe import run_cutlass_moe_fp4, workspace_shapes
from nvfp4_moe.reference.activations import ACTIVATIONS
from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations
from nvfp4_moe.reference.gemm_bounds import ACCUMULATORS
from nvfp4_moe.reference.layer_bounds import layer_interval
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.layer_data import LayerInputs, make_layer

CASE = LayerCase(
    index=2, seed=0, tokens=37, topk=2, num_experts=5, n=48, k=80, dtype="bf16", activation="silu", values="exact",
    ids="negative",
)  # fmt: skip

SEED = [
    "output",
    "a",
    "a1_gscale",
    "w1_fp4",
    "w1_blockscale",
    "w1_alphas",
    "a2_gscale",
    "w2_fp4",
    "w2_blockscale",
    "w2_alphas",
    "topk_weights",
    "topk_ids",
    "activation",
    "workspace13",
    "workspace2",
    "m",
    "n",
    "k",
    "e",
    "device",
    "max_num_batched_tokens",
    "apply_router_weight_on_input",
]


def seed_arguments(inputs: LayerInputs, *, fill: float = torch.nan, setting: int = 64) -> list[Any]:
    """Return the arguments in the seed's order; output and workspaces hold `fill`."""
    (m, topk), w = inputs.topk_ids.shape, inputs.weights
    shapes = workspace_shapes(m, topk, inputs.n, inputs.k, activation=inputs.activation)
    workspaces = [torch.full(shape, fill, dtype=inputs.tokens.dtype) for shape in shapes]
    return [
        torch.full((m, inputs.k), fill, dtype=inputs.tokens.dtype), inputs.tokens, w.a1_gscale, w.w1_fp4, w.w1_blockscale,
        w.w1_alphas, w.a2_gscale, w.w2_fp4, w.w2_blockscale, w.w2_alphas, inputs.topk_weights, inputs.topk_ids,
        inputs.activation, *workspaces, m, inputs.n, inputs.k, len(w.w1_fp4), torch.device("cpu"), setting,
        inputs.weights_on_input,
    ]  # fmt: skip


def run(inputs: LayerInputs, **options: Any) -> Tensor:
    arguments = seed_arguments(inputs)
    run_cutlass_moe_fp4(*arguments, **options)
    return arguments[0]  # type: ignore[no-any-return]


def test_the_argument_list_is_the_seeds() -> None:
    parameters = inspect.signature(run_cutlass_moe_fp4).parameters.values()
    assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == SEED
    assert [p.default for p in parameters if p.name == SEED[-1]] == [False]


@pytest.mark.parametrize("gemm", ["kernel", "torch"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_golden_bytes(activation: str, dtype: str, gemm: str) -> None:
    inputs = make_layer(replace(CASE, activation=activation, dtype=dtype))
    assert run(inputs, gemm=gemm).equal(inputs.stages(IEEE).output)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_golden_bytes_in_the_arithmetic_of_a_chip(activation: str) -> None:
    """With measured tables; the interval of the same arithmetic is one value and says the same."""
    ops = HardwareOperations("NVIDIA H200")
    inputs = make_layer(replace(CASE, activation=activation))
    stages = inputs.stages(ops)
    output = run(inputs, arithmetic="hardware")
    assert output.equal(stages.output)
    low, high = layer_interval(
        stages, inputs.weights.a2_gscale, inputs.sum_weights, activation=activation, ops=ops,
        accumulator=ACCUMULATORS["truncating_mma"],
    )  # fmt: skip
    assert low.equal(high)
    assert low.equal(output)


@pytest.mark.parametrize("sizing", ["proposed", "exact_any", "vllm_env"])
def test_policies_change_no_byte(sizing: str) -> None:
    inputs = make_layer(CASE)
    assert run(inputs, sizing=sizing).equal(run(inputs))


@pytest.mark.parametrize("ids", ["all_negative", "one_expert", "uniform", "duplicates"])
@pytest.mark.parametrize("tokens", [0, 1, 130])
def test_routings(ids: str, tokens: int) -> None:
    inputs = make_layer(replace(CASE, ids=ids, tokens=tokens))
    arguments = seed_arguments(inputs, setting=max(tokens, 1))
    run_cutlass_moe_fp4(*arguments)
    assert arguments[0].equal(inputs.stages(IEEE).output)


def test_router_weights_on_the_input_leave_it_as_it_is() -> None:
    inputs = make_layer(replace(CASE, topk=1, weights_on_input=True))
    before = inputs.tokens.clone()
    assert run(inputs).equal(inputs.stages(IEEE).output)
    assert inputs.tokens.equal(before)
    two = make_layer(replace(CASE, weights_on_input=True))
    with pytest.raises(ValueError, match="need topk 1, got 2"):
        run(two)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_stale_bytes_do_not_matter(activation: str) -> None:
    """Workspaces, output and freed memory full of NaN, of zeros and of large numbers."""
    inputs = make_layer(replace(CASE, activation=activation, values="any", n=80))
    outputs = []
    for fill in (torch.nan, 0.0, 3e38):
        stale = [torch.full((1 << 14,), fill, dtype=torch.bfloat16) for _ in range(8)]
        arguments = seed_arguments(inputs, fill=fill)
        del stale
        run_cutlass_moe_fp4(*arguments)
        outputs.append(arguments[0])
    assert outputs[0].equal(outputs[1])
    assert outputs[0].equal(outputs[2])
    assert not outputs[0].isnan().any()


def test_an_enum_names_its_activation() -> None:
    inputs = make_layer(CASE)
    arguments = seed_arguments(inputs)

    class MoEActivation:
        value = "silu"

    arguments[SEED.index("activation")] = MoEActivation()
    run_cutlass_moe_fp4(*arguments)
    assert arguments[0].equal(run(inputs))


@pytest.mark.parametrize(
    ("name", "wrong", "error", "told"),
    [
        ("activation", lambda v: "gelu", ValueError, "activation must be one of silu"),
        ("max_num_batched_tokens", lambda v: 36, ValueError, "m \\* topk = 74 rows exceed.*36 \\* 2 = 72"),
        ("output", lambda v: v.half(), TypeError, "a and output must both be"),
        ("output", lambda v: v[:-1], ValueError, "output must be \\(37, 80\\)"),
        ("w1_fp4", lambda v: v[:, :48], ValueError, "w1_fp4 must be \\(5, 96, 40\\)"),
        ("w2_fp4", lambda v: v[:4], ValueError, "w2_fp4 must be \\(5, 80, 24\\)"),
        ("topk_weights", lambda v: v[:, :1], ValueError, "topk_weights must be \\(37, 2\\)"),
        ("topk_weights", lambda v: v.double(), (ValueError, TypeError), "weights"),
        ("topk_ids", lambda v: v + 5, ValueError, "ids"),
        ("topk_ids", lambda v: v[0], ValueError, "topk_ids must be \\(m, topk\\)"),
        ("workspace13", lambda v: v[:70], ValueError, "workspace13 must have at least 74 x 96"),
        ("workspace13", lambda v: v.float(), ValueError, "workspace13 must be contiguous torch.bfloat16"),
        ("w1_alphas", lambda v: v[:-1], ValueError, "alphas"),
        ("a2_gscale", lambda v: v.double(), (ValueError, TypeError), "scale"),
        ("w2_blockscale", lambda v: v[:, :80], ValueError, "scale"),
        ("device", lambda v: "cuda", ValueError, "a must be on cuda"),
    ],
)
def test_refused(name: str, wrong: Any, error: type[Exception], told: str) -> None:
    arguments = seed_arguments(make_layer(CASE))
    arguments[SEED.index(name)] = wrong(arguments[SEED.index(name)])
    with pytest.raises(error, match=told):
        run_cutlass_moe_fp4(*arguments)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["silu_no_mul", "relu2_no_mul"])
def test_activations_are_the_golden_ones_on_every_pattern(name: str, dtype: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).view(256, 256)
    output = torch.empty_like(every)
    apply_activation(name, output, every)
    true = ACTIVATIONS[name].apply(every, "ieee")
    assert output.isnan().equal(true.isnan())
    assert output.nan_to_num().view(torch.int16).equal(true.nan_to_num().view(torch.int16))
    with pytest.raises(ValueError, match="no separate path of activation 'silu'"):
        apply_activation("silu", output, every)
