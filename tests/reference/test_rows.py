"""The same code on a GPU gives the bytes that it gives on the CPU."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.arithmetic import IEEE
from nvfp4_moe.reference.experts import quantize_masked, silu_and_mul_quantize_experts
from nvfp4_moe.reference.quantize import quantize
from nvfp4_moe.reference.recipes import RECIPES, Recipe
from nvfp4_moe.reference.rows import quantize_rows, quantize_rows_plainly
from nvfp4_moe.verification.counter import words

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32], ids=lambda dtype: str(dtype).split(".")[1]
)


def any_patterns(dtype: torch.dtype, rows: int, columns: int) -> torch.Tensor:
    raw = words(7, "patterns", 0, rows * columns).view(rows, columns)
    return (raw >> 32).to(torch.int32 if dtype == torch.float32 else torch.int16).view(dtype)


def ordinary(dtype: torch.dtype, rows: int, columns: int) -> torch.Tensor:
    raw = words(8, "ordinary", 0, rows * columns).view(rows, columns)
    return torch.ldexp(((raw >> 40) % 4096).to(torch.float64), (raw & 7) - 14).to(dtype)


def test_values_are_kept_only_if_asked_for() -> None:
    arguments = (ordinary(torch.float32, 3, 32), torch.tensor(3.0))
    recipe = RECIPES["vllm"]
    assert quantize_rows(*arguments, recipe=recipe, ops=IEEE).values is None
    kept = quantize_rows(*arguments, recipe=recipe, ops=IEEE, keep_values=True)
    assert kept.values is not None
    assert kept.values["multiplier"].shape == (3, 2)


@pytest.mark.gpu
@DTYPES
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_gpu_quantizes_as_the_cpu(dtype: torch.dtype, recipe: Recipe) -> None:
    for input in (any_patterns(dtype, 64, 256), ordinary(dtype, 64, 256)):
        for value in (1.0, 0.37, 1e-30, 1e30):
            scale = torch.tensor(value)
            true = quantize_rows_plainly(input, scale, recipe=recipe, ops=IEEE)
            for work in (quantize_rows, quantize_rows_plainly):
                subject = work(input.cuda(), scale.cuda(), recipe=recipe, ops=IEEE)
                assert torch.equal(subject.packed.cpu(), true.packed)
                assert torch.equal(subject.block_scale.cpu(), true.block_scale)


@pytest.mark.gpu
@DTYPES
def test_gpu_experts_as_the_cpu(dtype: torch.dtype) -> None:
    offsets, scales = torch.tensor([0, 5, 5, 135], dtype=torch.int32), torch.tensor([3.0, 7.0, 11.0])
    input = ordinary(dtype, 140, 160)
    true = silu_and_mul_quantize_experts(input, scales, offsets)
    subject = silu_and_mul_quantize_experts(input.cuda(), scales.cuda(), offsets.cuda())
    assert torch.equal(subject.packed.cpu(), true.packed)
    assert torch.equal(subject.block_scale.cpu(), true.block_scale)
    masked_m = torch.tensor([3, 0], dtype=torch.int32)
    true = quantize_masked(input.view(2, 70, 160), scales[:2], masked_m)
    subject = quantize_masked(input.cuda().view(2, 70, 160), scales[:2].cuda(), masked_m.cuda())
    assert torch.equal(subject.packed.cpu(), true.packed)
    assert torch.equal(subject.block_scale.cpu(), true.block_scale)


@pytest.mark.gpu
def test_gpu_input_and_scale_must_share_a_device() -> None:
    with pytest.raises(ValueError, match="device cuda:0, got cpu"):
        quantize(torch.zeros(2, 16, device="cuda"), torch.ones(()))
