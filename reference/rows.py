"""The work under all quantizers: rows in, packed codes and linear scale bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.casts import pack
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
    """What the recipe computed per block, each (R, K/16), or None."""


def quantize_rows(
    input: torch.Tensor,
    global_scale: torch.Tensor,
    *,
    recipe: Recipe,
    ops: Operations,
    keep_values: bool = False,
) -> QuantizedRows:
    """Quantize rows word by word as the recipe says.

    Args:
        input: bf16, f16 or f32 (R, K), K a multiple of 16.
        global_scale: float32 () or (R, 1), in the recipe's direction.
        recipe: the recipe.
        ops: the arithmetic.
        keep_values: return the values per block.
    """
    blocks = input.unflatten(-1, (-1, NVFP4.block_size))
    codes, values = recipe.quantize_blocks(blocks, global_scale, ops)
    kept = {name: value.expand(blocks.shape[:-1]) for name, value in values.items()} if keep_values else None
    return QuantizedRows(packed=pack(codes.flatten(-2)), block_scale=values["block_scale"], values=kept)
