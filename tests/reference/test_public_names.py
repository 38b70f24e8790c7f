"""What `nvfp4_moe.reference` offers, end to end: route, quantize in a layout, read the layout back."""

from __future__ import annotations

import importlib
from types import ModuleType

import torch

from nvfp4_moe import reference


def test_a_batch_goes_through_the_public_names() -> None:
    topk_ids = torch.tensor([[2, 0], [-1, 2], [0, 1]])
    routing = reference.route(topk_ids, 4, n=48, k=80)
    tokens = (torch.arange(3 * 80) % 97 - 48).to(torch.bfloat16).view(3, 80)
    rows = reference.shuffle_rows(tokens, routing.input_permutation)
    encode_scales = torch.tensor([1.0, 2.0, 4.0, 8.0])
    quantized = reference.quantize_experts(
        rows, encode_scales, routing.expert_offsets, blockscale_offsets=routing.blockscale_offsets
    )
    linear = reference.experts_from_layout(
        quantized.block_scale,
        routing.expert_offsets,
        routing.blockscale_offsets,
        k=80,
        layout=quantized.layout,
    )
    assert linear.shape == (5, 5)
    for expert, scale in enumerate(encode_scales.tolist()):
        first, last = routing.expert_offsets[expert : expert + 2].tolist()
        if first < last:
            alone = reference.quantize(rows[first:last], torch.tensor(scale))
            assert torch.equal(quantized.packed[first:last], alone.packed)
            assert torch.equal(linear[first:last], alone.block_scale)


def test_every_public_name_is_documented_and_defined_below_this_package() -> None:
    offered = {
        name: value
        for name, value in vars(reference).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert {"quantize", "dequantize", "route", "FORMULAS", "LAYOUTS", "RECIPES", "NVFP4"} <= offered.keys()
    for name, value in offered.items():
        if callable(value):
            assert value.__module__.startswith("nvfp4_moe.reference."), name
            assert value.__doc__, name


def test_functions_named_as_their_modules_leave_the_modules_importable() -> None:
    for name in ("quantize", "dequantize", "grouped_gemm", "moe_layer"):
        module = importlib.import_module(f"nvfp4_moe.reference.{name}")
        assert getattr(reference, name) is getattr(module, name)
