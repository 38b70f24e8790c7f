"""Intervals of the layer: right layers with other sums inside, one value in exact cases, wrong layers outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference import layer_bounds
from nvfp4_moe.reference.arithmetic import IEEE
from nvfp4_moe.reference.gemm_bounds import ACCUMULATORS, inside, order_free, output_interval
from nvfp4_moe.reference.grouped_gemm import Operands, exact_operand, grouped_gemm
from nvfp4_moe.reference.layer_bounds import activated_ends, dequantized_ends, layer_interval
from nvfp4_moe.reference.quantize import quantize
from nvfp4_moe.reference.silu import silu, silu_and_mul
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.layer_data import LayerInputs, make_layer
from nvfp4_moe.verification.counter import below, bits, words

LAYER_MODULE = import_module("nvfp4_moe.reference.moe_layer")
MMA = ACCUMULATORS["truncating_mma"]
WIDE = LayerCase(
    index=1, seed=0, tokens=12, topk=2, num_experts=3, n=128, k=1024, dtype="f16", activation="silu", values="any",
    ids="uniform",
)  # fmt: skip


def interval(inputs: LayerInputs) -> tuple[Tensor, Tensor]:
    return layer_interval(
        inputs.stages(IEEE),
        inputs.weights.a2_gscale,
        inputs.sum_weights,
        activation=inputs.activation,
        accumulator=MMA,
    )


def at_the_ends(operands: Operands, *, dtype: torch.dtype) -> Tensor:
    """The most that a right GEMM may be off, this way or that in turn; nothing where every order gives the same."""
    low, high = output_interval(operands, dtype=dtype, accumulator=MMA)
    either = torch.where(bits(words(0, "tests.ends", 0, low.numel()), 1).view(low.shape) == 1, low, high)
    return torch.where(order_free(operands), grouped_gemm(operands, dtype=dtype), either)


@pytest.mark.parametrize("activation", ["silu", "silu_no_mul", "relu2_no_mul"])
@pytest.mark.parametrize("k", [80, 1024])
def test_right_layers_with_other_sums_lie_inside(
    activation: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = make_layer(replace(WIDE, activation=activation, k=k))
    low, high = interval(inputs)
    golden = inputs.stages(IEEE).output
    monkeypatch.setattr(LAYER_MODULE, "grouped_gemm", at_the_ends)
    other = inputs.stages(IEEE).output
    assert bool(inside(golden, low, high).all())
    assert bool(inside(other, low, high).all())
    assert not other.equal(golden)
    width = (high.double() - low.double()).mean() / golden.double().abs().mean()
    assert float(width) < 0.25


def test_exact_cases_have_one_output() -> None:
    for activation in ("silu", "silu_no_mul", "relu2_no_mul"):
        inputs = make_layer(replace(WIDE, values="exact", k=144, n=48, activation=activation))
        low, high = interval(inputs)
        assert low.equal(high)
        assert low.equal(inputs.stages(IEEE).output)


def other_scale(inputs: LayerInputs) -> dict[str, Tensor]:
    tensors = inputs.weights.as_dict()
    return {"w2_blockscale": tensors["w2_blockscale"].roll(1, 0)}


def other_alpha(inputs: LayerInputs) -> dict[str, Tensor]:
    return {"w1_alphas": inputs.weights.w1_alphas * 1.0625}


def other_gscale(inputs: LayerInputs) -> dict[str, Tensor]:
    return {"a2_gscale": inputs.weights.a2_gscale * 2}


@pytest.mark.parametrize("wrong", [other_scale, other_alpha, other_gscale])
@pytest.mark.parametrize("k", [80, 1024])
def test_wrong_layers_lie_outside(wrong: Callable[[LayerInputs], dict[str, Any]], k: int) -> None:
    inputs = make_layer(replace(WIDE, k=k))
    changed = replace(inputs, weights=replace(inputs.weights, **wrong(inputs)))
    outside = ~inside(changed.stages(IEEE).output, *interval(inputs))
    assert float(outside.float().mean()) > 0.5


def moved(values: Tensor, by: int) -> Tensor:
    """Return the numbers so many places further from zero; zero stays."""
    return (values.view(torch.int16) + (by * (values != 0)).to(torch.int16)).view(values.dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_activated_ends_hold_every_value_between(dtype: torch.dtype) -> None:
    """Every input of short ranges around where SiLU turns, around zero, and far out; products with both signs of up."""
    centre = torch.tensor([-1.2785, -1.2785, 0.0, 0.0, 2.0, -9.0, 30.0, -0.5] * 2, dtype=dtype)
    steps = [moved(centre, by) for by in range(-5, 6)]
    low, high = torch.stack(steps).amin(0), torch.stack(steps).amax(0)
    up_low, up_high = torch.full((16,), -1.5, dtype=dtype), torch.full((16,), 0.75, dtype=dtype)
    ends = torch.cat([low, up_low])[None], torch.cat([high, up_high])[None]
    least, greatest = activated_ends(ends, "silu", IEEE)
    alone = activated_ends((low[None], high[None]), "silu_no_mul", IEEE)
    for inner in steps:
        for up in (up_low, up_high, torch.zeros_like(up_low)):
            value = silu_and_mul(torch.cat([inner, up])[None])
            assert bool(((least <= value) & (value <= greatest)).all())
        assert bool(((alone[0] <= silu(inner).to(dtype)) & (silu(inner).to(dtype) <= alone[1])).all())
    least_alone = float(alone[0][0, 0])
    assert least_alone < float(silu(low)[0]) or least_alone < float(
        silu(high)[0]
    )  # the bottom lies between the ends


def test_dequantized_ends_hold_every_value_between() -> None:
    raw = words(0, "tests.ends", 0, 40 * 32).view(40, 32)
    low = ((below(raw, 200) - 100).to(torch.float32) / 16).to(torch.bfloat16)
    high = (low.float() + below(raw, 3, half=0).to(torch.float32) / 16).to(torch.bfloat16)
    gscale = torch.tensor(37.0)
    least, greatest = dequantized_ends((low, high), gscale, IEEE)
    for share in (0.0, 0.25, 0.5, 1.0):
        inner = (low.float() + share * (high.float() - low.float())).to(torch.bfloat16)
        quantized = quantize(inner, gscale)
        value = exact_operand(quantized.packed, quantized.block_scale)
        assert bool(((least <= value) & (value <= greatest)).all())
    assert 0.0 < float((least == greatest).float().mean()) < 1.0
    same, also = dequantized_ends((low, low), gscale, IEEE)
    quantized = quantize(low, gscale)
    assert same.equal(also)
    assert same.equal(exact_operand(quantized.packed, quantized.block_scale))


def test_what_has_no_interval_is_refused() -> None:
    inputs = make_layer(replace(WIDE, k=80))
    stages = inputs.stages(IEEE)
    with pytest.raises(ValueError, match="not be negative"):
        layer_interval(
            stages, inputs.weights.a2_gscale, -inputs.topk_weights, activation="silu", accumulator=MMA
        )
    nan = replace(inputs, weights=replace(inputs.weights, w1_alphas=torch.full((3,), torch.nan)))
    with pytest.raises(ValueError, match="not finite"):
        interval(nan)


def test_range_tables_hold_every_level() -> None:
    least, greatest = layer_bounds._range_tables(torch.bfloat16, IEEE)
    assert least.shape == greatest.shape == (17, 2**16)
    assert float(least[10, 32768]) == 0.0  # +0 upwards
    assert float(greatest[0, 32768 + 0x3F80]) == float(silu(torch.ones(1, dtype=torch.bfloat16))[0])
