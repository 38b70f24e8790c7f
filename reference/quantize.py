"""NVFP4 quantization of one tensor: packed E2M1 codes, UE4M3 block scales, one global scale.

For each row and each block of 16 neighbouring columns the recipe (`recipes`) gives one scale byte and 16 codes.
Two codes share a byte, the even column in the low nibble. The result is a function of the input's values alone: the
same bytes on every device, for every thread count, strided or contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import Arithmetic, Operations, keeps_subnormals, operations
from nvfp4_moe.reference.checks import check_global_scale, check_input
from nvfp4_moe.reference.layouts import layout_by_name, to_layout
from nvfp4_moe.reference.recipes import Recipe, recipe_named
from nvfp4_moe.reference.rows import quantize_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantized:
    """A quantized tensor."""

    packed: torch.Tensor
    """uint8 (..., R, K/2): two codes a byte, the even column in the low nibble."""
    block_scale: torch.Tensor
    """uint8 in `layout`: UE4M3 bytes in decode direction, one per 16 columns; padding bytes are zero."""
    layout: str
    """A name of `layouts.LAYOUTS`."""
    intermediates: Mapping[str, torch.Tensor] | None = None
    """If asked for: what the recipe computed per block, by name, each (..., R, K/16) in linear order: block_scale
    uint8, all others (block_amax, scale, decoded_scale, multiplier, ...) float32."""


@keeps_subnormals
def quantize(
    input: torch.Tensor,
    global_encode_scale: torch.Tensor | float | None = None,
    *,
    global_decode_scale: torch.Tensor | float | None = None,
    recipe: Recipe | str = "vllm",
    arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE,
    layout: str = "linear",
    intermediates: bool = False,
) -> Quantized:
    """Quantize a matrix with one global scale.

    Args:
        input: bf16, f16 or f32 (R, K), K a multiple of 16; any strides.
        global_encode_scale: about 2688 / amax; a number or a float32 tensor of one element.
        global_decode_scale: about amax / 2688, for recipes that take this direction; exactly one of the two.
        recipe: a name of `RECIPES` or a recipe.
        arithmetic: "ieee", "hardware", or operations (for example of a certain chip).
        layout: a name of `LAYOUTS`, for block_scale.
        intermediates: keep what was computed per block, each (R, K/16): block_scale uint8, all others float32.

    Returns:
        packed (R, K/2), block_scale `scale_shape(R, K, layout)`.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong shape or device, K no multiple of 16, a global scale that is not finite and positive or in
            the direction that the recipe does not take, unknown recipe, arithmetic or layout.
        MissingTableError: arithmetic "hardware" without a measured table.
    """
    chosen, ops = recipe_named(recipe), operations(arithmetic)
    layout_by_name(layout)
    check_input("input", input, dims=2)
    name, given = the_global_scale(chosen, global_encode_scale, global_decode_scale)
    scale = check_global_scale(name, given, device=input.device)
    rows = quantize_rows(input, scale, recipe=chosen, ops=ops, keep_values=intermediates)
    return Quantized(
        packed=rows.packed,
        block_scale=to_layout(rows.block_scale, layout),
        layout=layout,
        intermediates=rows.values,
    )


def the_global_scale(
    recipe: Recipe, encode: torch.Tensor | float | None, decode: torch.Tensor | float | None
) -> tuple[str, torch.Tensor | float]:
    """Return the name and value of the global scale that `recipe` takes.

    Raises:
        ValueError: it is missing, or the other direction was given.
    """
    given = {"global_encode_scale": encode, "global_decode_scale": decode}
    wanted = given.pop(recipe.global_scale)
    if wanted is None or any(other is not None for other in given.values()):
        raise ValueError(f"recipe {recipe.name!r} takes {recipe.global_scale}, and no other global scale")
    return recipe.global_scale, wanted
