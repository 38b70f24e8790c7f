"""The work under all quantizers: rows in, packed codes and linear scale bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import Operations, keeps_subnormals
from nvfp4_moe.reference.casts import pack_encoded
from nvfp4_moe.reference.chunked_rows import quantize_rows_into
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.recipes import Recipe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedRows:
    """Quantized rows with linear scales."""

    packed: torch.Tensor
    """uint8 (R, K/2)."""
    block_scale: torch.Tensor
    """uint8 (R, K/16)."""
    values: Mapping[str, torch.Tensor] | None
    """What the recipe computed per block, each (R, K/16), block_scale uint8 and all others float32; or None."""


def quantize_rows(
    input: torch.Tensor,
    global_scale: torch.Tensor,
    *,
    recipe: Recipe,
    ops: Operations,
    keep_values: bool = False,
) -> QuantizedRows:
    """Quantize rows.

    Args:
        input: bf16, f16 or f32 (R, K), K a multiple of 16; any strides.
        global_scale: float32 () or (R, 1), in the recipe's direction.
        recipe: the recipe.
        ops: the arithmetic.
        keep_values: return the values per block; goes by `quantize_rows_plainly`.
    """
    if keep_values:
        return quantize_rows_plainly(input, global_scale, recipe=recipe, ops=ops)
    rows, columns = input.shape
    packed = torch.empty((rows, columns // 2), dtype=torch.uint8, device=input.device)
    block_scale = torch.empty((rows, columns // NVFP4.block_size), dtype=torch.uint8, device=input.device)
    quantize_rows_into(packed, block_scale, input.detach(), global_scale, recipe=recipe, ops=ops)
    return QuantizedRows(packed=packed, block_scale=block_scale, values=None)


@keeps_subnormals
def quantize_rows_plainly(
    input: torch.Tensor, global_scale: torch.Tensor, *, recipe: Recipe, ops: Operations
) -> QuantizedRows:
    """Quantize rows word by word as the recipe says, whole tensors at a time: what every other path must equal."""
    rows, columns = input.shape
    blocks = input.detach().reshape(rows, columns // NVFP4.block_size, NVFP4.block_size)
    codes, values = recipe.quantize_blocks(blocks, global_scale, ops)
    return QuantizedRows(
        packed=pack_encoded(codes.flatten(-2)),
        block_scale=values["block_scale"],
        values={name: value.expand(blocks.shape[:-1]) for name, value in values.items()},
    )
