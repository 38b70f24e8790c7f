"""The golden layer: every stage from the one before, router weights applied once, -1, empty experts, no tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.activations import ACTIVATIONS, activation_named
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.reference.gemm_bounds import ACCUMULATORS, output_interval
from nvfp4_moe.reference.grouped_gemm import grouped_gemm, read_operands
from nvfp4_moe.reference.moe_layer import LayerStages, moe_layer, weighted_tokens
from nvfp4_moe.reference.routing import route
from nvfp4_moe.reference.silu import silu
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.layer_data import LayerInputs, make_layer

CASE = LayerCase(
    index=5, seed=0, tokens=9, topk=3, num_experts=5, n=48, k=80, dtype="bf16", activation="silu", values="any",
    ids="negative",
)  # fmt: skip


def run(inputs: LayerInputs, **changes: object) -> LayerStages:
    arguments: dict[str, object] = {"activation": inputs.activation, **changes}
    return moe_layer(inputs.tokens, inputs.weights, inputs.topk_weights, inputs.topk_ids, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_each_stage_follows_from_the_one_before(activation: str, dtype: str) -> None:
    inputs = make_layer(replace(CASE, activation=activation, dtype=dtype))
    stages, weights = run(inputs), inputs.weights
    gated = ACTIVATIONS[activation].is_gated
    true = route(inputs.topk_ids, 5, n=48, k=80, is_gated=gated)
    offsets = true.expert_offsets, true.blockscale_offsets
    routed = true.routed_rows
    assert stages.rows1.equal(inputs.tokens[true.input_permutation[:routed].long()])
    first = quantize_experts(stages.rows1, weights.a1_gscale, offsets[0])
    assert stages.quantized1.packed.equal(first.packed)
    operands = read_operands(
        first.packed, weights.w1_fp4, first.block_scale, weights.w1_blockscale, weights.w1_alphas, *offsets
    )
    assert stages.gemm1.equal(grouped_gemm(operands, dtype=inputs.tokens.dtype))
    assert stages.gemm1.shape == (routed, 96 if gated else 48)
    assert stages.activated.equal(activation_named(activation).apply(stages.gemm1, "ieee"))
    second = quantize_experts(stages.activated, weights.a2_gscale, offsets[0])
    assert stages.quantized2.block_scale.equal(second.block_scale)
    low, high = output_interval(
        stages.operands2, dtype=inputs.tokens.dtype, accumulator=ACCUMULATORS["ieee_float32"]
    )
    assert bool(((low <= stages.gemm2) & (stages.gemm2 <= high)).all())
    assert stages.output.equal(slot_by_slot(inputs, stages))


def slot_by_slot(inputs: LayerInputs, stages: LayerStages) -> Tensor:
    """The weighted sum as a scalar program: float32, slots in order, skipped ones left out."""
    routed, topk = stages.routing.routed_rows, inputs.topk_ids.shape[1]
    output = torch.zeros_like(stages.output)
    for token in range(len(output)):
        total = torch.zeros(inputs.k)
        for slot in range(topk):
            row = int(stages.routing.output_permutation[token * topk + slot])
            if row < routed:
                total = total + inputs.sum_weights[token, slot] * stages.gemm2[row].float()
        output[token] = total.to(output.dtype)
    return output


def test_activations_without_a_gate() -> None:
    x = torch.tensor([-2.0, -0.0, 0.0, 0.5, 3.0, torch.inf, torch.nan], dtype=torch.float16)
    assert torch.equal(ACTIVATIONS["silu_no_mul"].apply(x[:6], "ieee"), silu(x[:6]).to(torch.float16))
    squared = ACTIVATIONS["relu2_no_mul"].apply(x, "ieee")
    assert squared[:6].tolist() == [0.0, 0.0, 0.0, 0.25, 9.0, torch.inf]
    assert squared[6].isnan()
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)
    finite = every[every.isfinite()]
    wide = finite.double().clamp(min=0).square().float().to(torch.bfloat16)
    assert ACTIVATIONS["relu2_no_mul"].apply(finite, "ieee").equal(wide)
    with pytest.raises(ValueError, match="silu, silu_no_mul, relu2_no_mul, got 'gelu'"):
        activation_named("gelu")


def test_router_weights_on_the_input_are_applied_once() -> None:
    inputs = make_layer(replace(CASE, topk=1, ids="uniform", weights_on_input=True))
    stages = run(inputs, apply_router_weight_on_input=True)
    scaled = (inputs.tokens.float() * inputs.topk_weights).to(torch.bfloat16)
    assert weighted_tokens(inputs.tokens, inputs.topk_weights).equal(scaled)
    without = run(replace(inputs, tokens=scaled, topk_weights=torch.ones_like(inputs.topk_weights)))
    assert stages.output.equal(without.output)
    assert not stages.output.equal(run(inputs).output)
    with pytest.raises(ValueError, match="need topk 1, got 3"):
        run(make_layer(CASE), apply_router_weight_on_input=True)


def test_a_token_without_experts_is_zero_and_others_do_not_notice() -> None:
    inputs = make_layer(replace(CASE, ids="uniform"))
    ids = inputs.topk_ids.clone()
    ids[4] = -1
    weights = inputs.topk_weights.clone()
    weights[4] = torch.nan
    skipped = run(replace(inputs, topk_ids=ids, topk_weights=weights)).output
    assert not skipped[4].any()
    others = [token for token in range(9) if token != 4]
    assert skipped[others].equal(run(inputs).output[others])


def test_experts_without_rows_and_what_they_hold_do_not_matter() -> None:
    inputs = make_layer(replace(CASE, ids="uniform"))
    ids = torch.where(inputs.topk_ids == 2, 3, inputs.topk_ids)
    changed = {name: tensor.clone() for name, tensor in inputs.weights.as_dict().items()}
    for name in ("w1_alphas", "w2_alphas", "a1_gscale", "a2_gscale"):
        changed[name][2] = torch.nan
    changed["w1_blockscale"][2] = 0x7F
    poisoned = replace(inputs, topk_ids=ids, weights=ExpertWeights(**changed))
    assert run(poisoned).output.equal(run(replace(inputs, topk_ids=ids)).output)


@pytest.mark.parametrize("ids", ["all_negative", "uniform"])
def test_no_rows(ids: str) -> None:
    stages = run(make_layer(replace(CASE, ids=ids, tokens=0 if ids == "uniform" else 4)))
    assert stages.output.shape == (0 if ids == "uniform" else 4, 80)
    assert not stages.output.any()


def test_experts_of_a_rank() -> None:
    """Two ranks' outputs sum to the whole in a case that rounds nothing in the sum: each token has one expert."""
    inputs = make_layer(replace(CASE, topk=1, ids="uniform"))
    whole = run(inputs).output
    parts = [run(inputs.of_experts(first, end)).output for first, end in ((0, 2), (2, 5))]
    assert (parts[0] + parts[1]).equal(whole)


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"topk_weights": torch.ones(9, 2)}, ValueError, "topk_weights must be float32 \\(9, 3\\)"),
        ({"topk_weights": torch.ones(9, 3).double()}, ValueError, "topk_weights must be float32"),
        ({"tokens": torch.ones(9, 64, dtype=torch.bfloat16)}, ValueError, "tokens \\(M, K\\)"),
        ({"topk_ids": torch.full((9, 3), 5)}, ValueError, "outside \\[-1, 5\\)"),
    ],
)
def test_refused(change: dict[str, Tensor], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        run(replace(make_layer(CASE), **change))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="activation silu_no_mul of n = 48 needs w1 \\(E, 48, K/2\\)"):
        run(make_layer(CASE), activation="silu_no_mul")
