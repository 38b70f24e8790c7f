"""Weight preparation and checkpoints: golden bytes, padding that changes nothing, both forms of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.checkpoint import load_experts, save_checkpoint, synthetic_checkpoint
from nvfp4_moe.cuda.fused_moe import FusedMoE, FusedMoEConfig
from nvfp4_moe.cuda.weights import assemble, pad_weight, place_weight, prepare_experts, quantize_weight
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.reference.moe_layer import moe_layer
from nvfp4_moe.reference.quantize import quantize

pytest.importorskip("safetensors", reason="needs the package safetensors (extra weights)")

LAYOUT = "swizzled_128x4"


def weight(experts: int, n: int, k: int) -> Tensor:
    tensors = synthetic_checkpoint(experts, hidden=k, intermediate=n)
    stacked = torch.stack([tensors[f"experts.{e}.up_proj.weight"] for e in range(experts)])
    return stacked * torch.arange(1, experts + 1).to(torch.bfloat16)[:, None, None]


def test_quantized_weights_are_the_golden_ones() -> None:
    given = weight(3, 136, 80)
    given[1] = 0
    quantized = quantize_weight(given)
    for expert in range(3):
        amax = float(given[expert].float().abs().max())
        encode = torch.tensor(2688.0) / torch.tensor(amax) if amax else torch.tensor(1.0)
        true = quantize(given[expert], encode)
        assert quantized.packed[expert].equal(true.packed)
        assert quantized.block_scale[expert].view(torch.uint8).equal(to_layout(true.block_scale, LAYOUT))
        assert float(quantized.global_decode_scale[expert]) == float(1.0 / encode)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        (torch.zeros(2, 8, 16), TypeError, "bfloat16 or float16, got torch.float32"),
        (torch.zeros(8, 16).bfloat16(), ValueError, "\\(E, N, K\\)"),
        (torch.zeros(2, 8, 24).bfloat16(), ValueError, "multiple of 16, got \\(2, 8, 24\\)"),
        (torch.tensor([[[0.0] * 16], [[torch.inf] * 16]]).bfloat16(), ValueError, "expert 1 is not finite"),
    ],
)
def test_weights_that_cannot_be_quantized(given: Tensor, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        quantize_weight(given)


def layer_output(weights: ExpertWeights, tokens: Tensor, activation: str) -> Tensor:
    ids = (torch.arange(len(tokens) * 2) * 3 % 4 - 1).view(-1, 2)
    router = torch.full(ids.shape, 0.5)
    return moe_layer(tokens, weights, router, ids, activation=activation).output


@pytest.mark.parametrize("activation", ["silu", "relu2_no_mul"])
def test_padding_changes_no_output(activation: str) -> None:
    """The same weights padded further: gate and up apart, K of the second weight, both of the hidden size."""
    tensors = synthetic_checkpoint(3, hidden=80, intermediate=48, activation=activation)
    stack = {
        name: torch.stack([tensors[f"experts.{e}.{name}.weight"] for e in range(3)])
        for name in ("gate_proj", "up_proj", "down_proj")
        if f"experts.0.{name}.weight" in tensors
    }
    scale = torch.full((3,), 2.0**-8)
    args = (stack.get("gate_proj"), stack["up_proj"], stack["down_proj"])
    plain = prepare_experts(*args, input_scale1=scale, input_scale2=scale, activation=activation)
    tokens = ((torch.arange(9 * 80) % 113 - 56) / 32).to(torch.bfloat16).view(9, 80)
    true = layer_output(plain, tokens, activation)
    assert true.any()
    for multiple, hidden in ((64, 16), (16, 64), (128, 128)):
        padded = prepare_experts(
            *args, input_scale1=scale, input_scale2=scale, activation=activation,
            intermediate_multiple=multiple, hidden_multiple=hidden,
        )  # fmt: skip
        width = 2 * padded.w1_fp4.shape[2]
        wide = torch.nn.functional.pad(tokens, (0, width - 80))
        output = layer_output(padded, wide, activation)
        assert output[:, :80].equal(true)
        assert not output[:, 80:].any()


def test_odd_shards_are_padded() -> None:
    """A tensor-parallel shard of 360 columns and a hidden size of 120: multiples of 16 after preparation."""
    tensors = synthetic_checkpoint(2, hidden=120, intermediate=360)
    gate, up, down = (
        torch.stack([tensors[f"experts.{e}.{name}.weight"] for e in range(2)])
        for name in ("gate_proj", "up_proj", "down_proj")
    )
    scale = torch.ones(2)
    weights = prepare_experts(gate, up, down, input_scale1=scale, input_scale2=scale)
    assert weights.w1_fp4.shape == (2, 2 * 368, 64)
    assert weights.w2_fp4.shape == (2, 128, 184)
    assert not weights.w1_fp4[:, 360:368].any()
    assert weights.w1_fp4[:, 368:728].any()
    assert not weights.w1_fp4[:, 728:].any()
    assert not weights.w2_fp4[:, :, 180:].any()
    FusedMoE(FusedMoEConfig(num_experts=2, topk=1, hidden_size=128, intermediate_size=368), weights)


def nvfp4_checkpoint(tensors: dict[str, Tensor], *, gate_scale: float = 1.0) -> dict[str, Tensor]:
    """Return the same experts as ModelOpt exports them, one weight_scale_2 for gate and up."""
    found = {name: tensor for name, tensor in tensors.items() if name.endswith("input_scale")}
    for name, tensor in tensors.items():
        if name.endswith(".weight"):
            encode = torch.tensor(2688.0 / 2)
            quantized = quantize(tensor, encode)
            stem = name.removesuffix(".weight")
            found[name] = quantized.packed
            found[f"{stem}.weight_scale"] = quantized.block_scale.view(torch.float8_e4m3fn)
            found[f"{stem}.weight_scale_2"] = 1 / encode * (gate_scale if "gate" in name else 1.0)
    return found


@pytest.mark.parametrize("activation", ["silu", "silu_no_mul"])
def test_both_forms_of_checkpoints_give_one_layer(activation: str, tmp_path: Path) -> None:
    """amax 2 in every weight: quantizing here and reading ModelOpt's form give the same bytes."""
    tensors = synthetic_checkpoint(3, hidden=80, intermediate=144, activation=activation)
    for tensor in tensors.values():
        if tensor.dim():
            tensor[0, 0] = -2.0
    save_checkpoint(tmp_path / "plain.safetensors", tensors)
    exported = list(nvfp4_checkpoint(tensors).items())
    save_checkpoint(tmp_path / "a.safetensors", dict(exported[::2]))
    save_checkpoint(tmp_path / "b.safetensors", dict(exported[1::2]))
    assert {path.name for path in tmp_path.iterdir()} == {
        "plain.safetensors",
        "a.safetensors",
        "b.safetensors",
    }
    plain = load_experts(tmp_path / "plain.safetensors", experts=range(3), activation=activation)
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    read = load_experts(files, experts=range(3), activation=activation)
    for name, tensor in plain.as_dict().items():
        assert tensor.view(torch.uint8).equal(read.as_dict()[name].view(torch.uint8)), name
    assert plain.a1_gscale.tolist() == [64.0, 128.0, 256.0]
    one_rank = load_experts(files, experts=[2, 1], activation=activation)
    assert one_rank.w2_fp4.equal(plain.w2_fp4[[2, 1]])


def test_the_larger_input_scale_counts(tmp_path: Path) -> None:
    tensors = synthetic_checkpoint(1, hidden=32, intermediate=16)
    tensors["experts.0.gate_proj.input_scale"] = torch.tensor(0.5)
    save_checkpoint(tmp_path / "x.safetensors", tensors)
    assert load_experts(tmp_path / "x.safetensors", experts=[0]).a1_gscale.tolist() == [2.0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"experts.1.up_proj.weight": None}, "the checkpoint has no experts.1.up_proj.weight"),
        (
            {"experts.1.up_proj.weight": torch.zeros(32, 32).bfloat16()},
            "that of expert 0 torch.bfloat16 \\(16, 32\\)",
        ),
        (
            {"experts.1.down_proj.input_scale": torch.tensor(0.0)},
            "input_scale2\\[1\\] must be finite and positive, got 0",
        ),
    ],
)
def test_broken_checkpoints_are_named(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    tensors = synthetic_checkpoint(2, hidden=32, intermediate=16) | change
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_checkpoint(tmp_path / "x.safetensors", kept)
    with pytest.raises(ValueError, match=told):
        load_experts(tmp_path / "x.safetensors", experts=[0, 1])


def test_scales_of_gate_and_up_that_differ_are_refused(tmp_path: Path) -> None:
    tensors = nvfp4_checkpoint(synthetic_checkpoint(2, hidden=32, intermediate=16), gate_scale=2.0)
    save_checkpoint(tmp_path / "x.safetensors", tensors)
    with pytest.raises(ValueError, match="expert 0: weight_scale_2 of gate_proj and up_proj must be equal"):
        load_experts(tmp_path / "x.safetensors", experts=[0, 1])


def test_other_files_and_requests_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_text("no tensors")
    with pytest.raises(ValueError, match="is no safetensors file"):
        load_experts(tmp_path / "x.safetensors", experts=[0])
    with pytest.raises(FileNotFoundError):
        load_experts(tmp_path / "y.safetensors", experts=[0])
    with pytest.raises(ValueError, match="at least one expert"):
        load_experts(tmp_path / "x.safetensors", experts=[])


def test_parts_that_do_not_belong_together_are_refused() -> None:
    quantized = quantize_weight(weight(2, 16, 32))
    one = torch.ones(2)
    with pytest.raises(ValueError, match="input_scale1 must be \\(2,\\), got \\(3,\\)"):
        assemble(quantized, quantized, input_scale1=torch.ones(3), input_scale2=one)
    with pytest.raises(ValueError, match="block_scale \\(E, N, K/16\\)"):
        place_weight(quantized.packed, torch.zeros(2, 16, 3, dtype=torch.uint8), one)
    with pytest.raises(ValueError, match="does not fit 8 x 32"):
        pad_weight(weight(2, 16, 32), 8, 32)
    up, down = weight(2, 16, 32), weight(2, 32, 16)
    for given, told in (
        ({"gate": None}, "activation silu needs a gate"),
        ({"gate": up, "activation": "relu2_no_mul"}, "has no gate"),
        ({"gate": down}, "gate the same"),
        ({"gate": up, "intermediate_multiple": 24}, "multiples of 16, got 24"),
    ):
        with pytest.raises(ValueError, match=told):
            prepare_experts(up=up, down=down, input_scale1=one, input_scale2=one, **given)  # type: ignore[arg-type]


def test_a_quantized_weight_keeps_its_padding_zero() -> None:
    quantized = quantize_weight(weight(2, 40, 80))
    owned = to_layout(torch.ones((2, 40, 5), dtype=torch.uint8), LAYOUT)
    assert not quantized.block_scale.view(torch.uint8)[owned == 0].any()
