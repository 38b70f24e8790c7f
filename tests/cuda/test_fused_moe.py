"""The module: configuration, scheduler's setting, state_dict, expert map, compiled with any number of tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.fused_moe import FusedMoE, FusedMoEConfig, SchedulerConfig
from nvfp4_moe.reference.arithmetic import IEEE
from nvfp4_moe.reference.topk_ids import expert_map
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.layer_data import LayerInputs, make_layer

CASE = LayerCase(
    index=4, seed=0, tokens=29, topk=2, num_experts=5, n=48, k=80, dtype="bf16", activation="silu", values="exact",
    ids="negative",
)  # fmt: skip
CONFIG = FusedMoEConfig(num_experts=5, topk=2, hidden_size=80, intermediate_size=48)


def call(layer: FusedMoE, inputs: LayerInputs) -> Tensor:
    return layer(inputs.tokens, inputs.topk_weights, inputs.topk_ids)  # type: ignore[no-any-return]


def test_golden_bytes_and_defaults() -> None:
    inputs = make_layer(CASE)
    assert (CONFIG.max_num_batched_tokens, CONFIG.sizing) == (2048, "exact_any")
    assert call(FusedMoE(CONFIG, inputs.weights), inputs).equal(inputs.stages(IEEE).output)


@pytest.mark.parametrize("activation", ["silu_no_mul", "relu2_no_mul"])
def test_activations_without_a_gate(activation: str) -> None:
    inputs = make_layer(replace(CASE, activation=activation))
    layer = FusedMoE(replace(CONFIG, activation=activation), inputs.weights)
    assert call(layer, inputs).equal(inputs.stages(IEEE).output)


def test_the_schedulers_setting_reaches_the_buffers() -> None:
    inputs = make_layer(CASE)
    config = replace(CONFIG, sizing="proposed")
    enough = FusedMoE(config, inputs.weights, scheduler=SchedulerConfig(max_num_batched_tokens=29))
    assert enough.config.max_num_batched_tokens == 29
    assert call(enough, inputs).equal(inputs.stages(IEEE).output)
    short = FusedMoE(config, inputs.weights, scheduler=SchedulerConfig(max_num_batched_tokens=28))
    with pytest.raises(
        ValueError, match="m \\* topk = 58 rows exceed max_num_batched_tokens \\* topk = 28 \\* 2 = 56"
    ):
        call(short, inputs)
    call(FusedMoE(CONFIG, inputs.weights, scheduler=SchedulerConfig(max_num_batched_tokens=1)), inputs)
    with pytest.raises(ValueError, match="max_num_batched_tokens must be between 1"):
        SchedulerConfig(max_num_batched_tokens=0)


def test_state_dict_round_trip(tmp_path: Path) -> None:
    inputs = make_layer(CASE)
    layer = FusedMoE(CONFIG, inputs.weights)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = FusedMoE(CONFIG)
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    for name, tensor in layer.state_dict().items():
        assert tensor.view(torch.uint8).equal(other.state_dict()[name].view(torch.uint8)), name
    assert call(other, inputs).equal(call(layer, inputs))
    assert set(layer.state_dict()) == set(inputs.weights.as_dict())
    assert "sizing='exact_any'" in repr(layer)


def test_ranks_share_the_experts_by_a_map() -> None:
    inputs = make_layer(replace(CASE, topk=1))
    whole = call(FusedMoE(replace(CONFIG, topk=1), inputs.weights), inputs)
    total = torch.zeros_like(whole)
    for rank, (first, end) in enumerate(((0, 3), (3, 5))):
        config = replace(CONFIG, topk=1, num_experts=end - first)
        local = expert_map(5, rank=rank, expert_parallel_size=2)
        part = FusedMoE(config, inputs.weights.of_experts(first, end), expert_map=local)
        assert "expert_map" not in part.state_dict()
        total = total + call(part, inputs)
    assert total.equal(whole)


# torch's own compiler still calls torch.jit and warns about it under Python 3.12.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_compiled_whole_with_any_number_of_tokens() -> None:
    inputs = make_layer(CASE)
    layer = FusedMoE(CONFIG, inputs.weights)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (29, 7, 130):
        other = replace(make_layer(replace(CASE, tokens=tokens)), weights=inputs.weights)
        assert call(compiled, other).equal(call(layer, other))


def test_opcheck() -> None:
    inputs = make_layer(CASE)
    layer = FusedMoE(CONFIG, inputs.weights)
    # The check itself has no arithmetic for float8: the scales go in as bytes.
    weights = [t.view(torch.uint8) if t.itemsize == 1 else t for t in layer.state_dict().values()]
    torch.library.opcheck(
        torch.ops.nvfp4_moe.fused_moe.default,
        (
            inputs.tokens,
            inputs.topk_weights,
            inputs.topk_ids,
            *weights,
            "silu",
            64,
            False,
            "proposed",
            None,
            "kernel",
        ),
    )


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"num_experts": 0}, ValueError, "num_experts must be between 1"),
        ({"hidden_size": 72}, ValueError, "hidden_size must be a multiple of 16, got 72"),
        (
            {"intermediate_size": 360},
            ValueError,
            "intermediate_size must be a multiple of 16, got 360.*pads it",
        ),
        ({"max_num_batched_tokens": "8"}, TypeError, "max_num_batched_tokens must be an integer"),
        ({"activation": "gelu"}, ValueError, "activation must be one of"),
        ({"sizing": "loose"}, ValueError, "sizing must be one of"),
        ({"arithmetic": "exact"}, ValueError, "arithmetic must be ieee"),
        ({"gemm": "auto"}, ValueError, "gemm must be one of"),
        ({"apply_router_weight_on_input": True}, ValueError, "need topk 1, got 2"),
    ],
)
def test_wrong_configurations_are_refused(change: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        replace(CONFIG, **change)


def test_weights_of_another_shape_are_refused() -> None:
    inputs = make_layer(replace(CASE, num_experts=4))
    with pytest.raises(ValueError, match=r"w1_fp4 must be .*, got"):
        FusedMoE(CONFIG, inputs.weights)
