"""NVFP4 codes and scales back to float32."""

from __future__ import annotations

import torch

from nvfp4_moe.reference.arithmetic import keeps_subnormals
from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, unpack
from nvfp4_moe.reference.formats import NVFP4


@keeps_subnormals
def dequantize(
    packed: torch.Tensor, block_scale: torch.Tensor, global_decode_scale: torch.Tensor | float
) -> torch.Tensor:
    """Return ``(code * SF) * global_decode_scale`` in float32.

    The first product is exact (two and four significant bits); only the second one rounds.

    Args:
        packed: uint8 (..., K/2).
        block_scale: uint8 (..., K/16), linear; other layouts go through `from_layout` first.
        global_decode_scale: about amax / 2688: a number, or float32 that broadcasts against (..., K) (for experts
            one value a row: (R, 1)).

    Returns:
        float32 (..., K).

    Raises:
        TypeError: packed or block_scale not uint8, or a global scale tensor that is not float32.
        ValueError: shapes that do not belong together.
    """
    codes = unpack(packed)
    columns = codes.shape[-1]
    blocks = (*codes.shape[:-1], columns // NVFP4.block_size)
    if columns % NVFP4.block_size or tuple(block_scale.shape) != blocks:
        raise ValueError(
            f"packed {tuple(packed.shape)} holds K = {columns} columns and needs block_scale (..., K/16) "
            f"with K a multiple of 16, got {tuple(block_scale.shape)}"
        )
    if isinstance(global_decode_scale, torch.Tensor) and global_decode_scale.dtype != torch.float32:
        raise TypeError(f"global_decode_scale must be float32, got {global_decode_scale.dtype}")
    elements = decode_e2m1(codes).view(*blocks, NVFP4.block_size)
    scaled = (elements * decode_ue4m3(block_scale).unsqueeze(-1)).view(codes.shape)
    return torch.mul(scaled, global_decode_scale)
