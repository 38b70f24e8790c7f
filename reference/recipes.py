"""Quantization recipes: which operations an implementation performs, in which order.

All recipes share one frame. For a block of 16 elements x (widened to float32, which is exact):

    block_amax   largest |x| of the block; what becomes of NaN the recipe says (`NanInAmax`)
    steps        named operations on one value per block; among them they write
                 `block_scale` (the UE4M3 byte) and `multiplier`
    scaled       x * multiplier                 (one float32 product)
    code         e2m1(scaled)                   (round to nearest even, saturating)

A recipe is data: an ordered tuple of `Step`s, each a name, its formula in words and a small function. A step reads
what earlier steps wrote, computes float32 with one rounding per written operation, and never branches on a name.
Recipes differ only at ties of the UE4M3 and E2M1 roundings, at underflow and on zero, Inf and NaN; but there they do.

Symbols in formulas: a block_amax, g global_encode_scale (about 2688 / tensor amax), p global_decode_scale (about
tensor amax / 2688), SF the decoded block scale, rcp the reciprocal of the arithmetic in use, `/` always IEEE. Of NaN
and a number `min` and `clamp` give the number, `nan_min` and `nan_clamp` give NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import torch

from nvfp4_moe.reference.arithmetic import Operations, keeps_subnormals
from nvfp4_moe.reference.casts import encode_e2m1
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.recipe_steps import (
    Step,
    clamp_scale,
    decode_scale,
    encode_scale,
    multiplier_encode_over_scale,
    multiplier_encode_times_reciprocal,
    multiplier_ieee_bounded,
    multiplier_inverse_decode_over_scale,
    multiplier_unless_amax_zero,
    multiplier_unless_scale_zero,
    nan_clamp_scale,
    scale_amax_first,
    scale_global_first,
    scale_global_first_approximate,
    scale_quotient_over_decode,
    scale_quotient_times_encode,
)

GlobalScale = Literal["global_encode_scale", "global_decode_scale"]


class NanInAmax(StrEnum):
    """What becomes of NaN elements in block_amax; the values are how a recipe says it."""

    PROPAGATED = "NaN propagated"
    """One NaN makes it NaN."""
    DROPPED = "NaN dropped, NaN if nothing else is there"
    """The maximum starts with the first elements: only a block of NaN alone gives NaN."""
    DROPPED_FROM_ZERO = "NaN dropped, 0 if nothing else is there"
    """The maximum starts with 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The operations of one implementation, in order."""

    name: str
    source: str
    global_scale: GlobalScale
    """Which direction of the global scale it takes."""
    nan_in_amax: NanInAmax
    """What becomes of NaN elements in block_amax."""
    steps: tuple[Step, ...]
    domain: str = "any input"
    """Where the recipe is known to be exact."""

    def formulas(self) -> tuple[str, ...]:
        """Return the recipe as text, one line an operation."""
        amax = f"block_amax = max |x|, {self.nan_in_amax}"
        steps = tuple(f"{step.writes} = {step.formula}" for step in self.steps)
        return (amax, *steps, "scaled = x * multiplier", "code = e2m1(scaled)")

    @keeps_subnormals
    def block_values(
        self, block_amax: torch.Tensor, global_scale: torch.Tensor, ops: Operations
    ) -> dict[str, torch.Tensor]:
        """Run the steps.

        Args:
            block_amax: float32 (R, K/16).
            global_scale: float32, () or (R, 1), in the recipe's direction.
            ops: the arithmetic.

        Returns:
            Every value by name: block_amax, the global scale, and what the steps wrote.
        """
        values = {"block_amax": block_amax, self.global_scale: global_scale}
        for step in self.steps:
            values[step.writes] = step.compute(values, ops)
        return values

    @keeps_subnormals
    def quantize_blocks(
        self, blocks: torch.Tensor, global_scale: torch.Tensor, ops: Operations
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Quantize blocks: the recipe word by word, the definition that every faster path must equal.

        Args:
            blocks: bf16, f16 or f32 (R, K/16, 16).
            global_scale: float32, () or (R, 1).
            ops: the arithmetic.

        Returns:
            codes uint8 (R, K/16, 16), and every value per block by name.
        """
        elements = blocks.to(torch.float32)
        values = self.block_values(largest_magnitude(elements, self.nan_in_amax), global_scale, ops)
        scaled = elements * values["multiplier"].unsqueeze(-1)
        return encode_e2m1(scaled), values


def largest_magnitude(blocks: torch.Tensor, nan: NanInAmax) -> torch.Tensor:
    """Return max |x| over the last axis of float32 `blocks`; `nan` says what becomes of NaN."""
    magnitudes = blocks.abs()
    if nan is NanInAmax.PROPAGATED:
        return magnitudes.amax(dim=-1)
    if nan is NanInAmax.DROPPED_FROM_ZERO:
        return magnitudes.nan_to_num(0.0, posinf=torch.inf).amax(dim=-1)
    largest = torch.where(magnitudes.isnan(), -1.0, magnitudes).amax(dim=-1)
    return torch.where(largest < 0, torch.nan, largest)


_TO_BYTE = (
    Step("block_scale", "e4m3(scale)", encode_scale),
    Step("decoded_scale", "float32(block_scale)", decode_scale),
)

VLLM = Recipe(
    name="vllm",
    source="vLLM csrc/.../fp4/nvfp4_utils.cuh cvt_warp_fp16_to_fp4; the same in QuTLASS and FlashInfer CuTe-DSL",
    global_scale="global_encode_scale",
    nan_in_amax=NanInAmax.DROPPED,
    steps=(
        Step("scale", "g * (a * rcp(6))", scale_amax_first),
        *_TO_BYTE,
        Step("multiplier", "SF == 0 ? 0 : rcp(SF * rcp(g))", multiplier_unless_scale_zero),
    ),
)

TENSORRT_LLM = Recipe(
    name="tensorrt_llm",
    source="TensorRT-LLM quantization.cuh cvt_warp_fp16_to_fp4; FlashInfer's default CUDA back end",
    global_scale="global_encode_scale",
    nan_in_amax=NanInAmax.DROPPED,
    steps=(
        Step("scale", "g * (a * rcp(6))", scale_amax_first),
        *_TO_BYTE,
        Step("multiplier", "a == 0 ? 0 : rcp(SF * rcp(g))", multiplier_unless_amax_zero),
    ),
)

TRANSFORMER_ENGINE = Recipe(
    name="transformer_engine",
    # The kernels without a transpose leave out the min of the scale, which only an Inf with g up to 2^-148 can tell.
    source="TransformerEngine core_nvfp4.cuh, quantize_transpose_nvfp4.cuh (fmaxf from 0, fminf; default mathematics)",
    global_scale="global_encode_scale",
    nan_in_amax=NanInAmax.DROPPED_FROM_ZERO,
    steps=(
        Step("scale", "min(a * (g * (1/6)), FLT_MAX)", scale_global_first),
        *_TO_BYTE,
        Step("multiplier", "min(1 / (SF * (1/g)), FLT_MAX)", multiplier_ieee_bounded),
    ),
)

CUTLASS = Recipe(
    name="cutlass",
    source="CUTLASS SM100 block-scale-factor epilogue (Sm100BlockScaleFactorRowStore; NaN-propagating amax and minimum)",
    global_scale="global_encode_scale",
    nan_in_amax=NanInAmax.PROPAGATED,
    steps=(
        Step("scale", "a * (g * rcp(6))", scale_global_first_approximate),
        *_TO_BYTE,
        Step("multiplier", "nan_min(g * rcp(SF), FLT_MAX)", multiplier_encode_times_reciprocal),
    ),
)

TORCHAO = Recipe(
    name="torchao",
    source="torchao nvfp4_tensor.py nvfp4_quantize with a per-tensor scale",
    global_scale="global_decode_scale",
    nan_in_amax=NanInAmax.PROPAGATED,
    steps=(
        Step("unclamped_scale", "(a / 6) / p", scale_quotient_over_decode),
        Step("scale", "nan_clamp(unclamped_scale, 2^-6, 448)", nan_clamp_scale(NVFP4.scale.min_normal)),
        *_TO_BYTE,
        Step("multiplier", "(1/p) / SF", multiplier_inverse_decode_over_scale),
    ),
    domain=(
        "every element but those whose x * multiplier is NaN: a NaN in the block, or a zero where the multiplier is Inf "
        "(p up to 2^-122). There torchao's element cast shifts the bits of the NaN, so that its code (3, 4, 11 or 12) "
        "differs between devices; this recipe gives 7"
    ),
)

MSLK_LEAST_SCALE = 2.0**-16
"""MSLK's lower clamp, which itself rounds to scale byte 0."""

MSLK = Recipe(
    name="mslk",
    source="MSLK Triton quantize (torchao use_triton_kernel), default precise mode; tl.max and tl.clamp drop NaN",
    global_scale="global_encode_scale",
    nan_in_amax=NanInAmax.DROPPED,
    steps=(
        Step("unclamped_scale", "(a / 6) * g", scale_quotient_times_encode),
        Step("scale", "clamp(unclamped_scale, 2^-16, 448)", clamp_scale(MSLK_LEAST_SCALE)),
        *_TO_BYTE,
        Step("multiplier", "g / SF", multiplier_encode_over_scale),
    ),
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for recipe in (VLLM, TENSORRT_LLM, TRANSFORMER_ENGINE, CUTLASS, TORCHAO, MSLK)
}
"""Every recipe by name."""


def recipe_named(recipe: Recipe | str) -> Recipe:
    """Return a recipe by its name; a `Recipe` is returned as it is.

    Raises:
        ValueError: unknown name.
    """
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, got {recipe!r}")
    return RECIPES[recipe]
