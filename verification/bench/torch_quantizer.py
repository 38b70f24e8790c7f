"""Recipe R1 in plain PyTorch, for `torch.compile`: what an engine gets without a kernel of its own.

Block scales stay in row-major order. Eagerly the bytes are those of the golden model in arithmetic ieee for finite
inputs; a compiler that divides less exactly differs in a few.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.reference.formats import NVFP4

_TIES_UP, _TIES_DOWN = (0.75, 1.75, 3.5), (0.25, 1.25, 2.5, 5.0)
"""Boundaries between neighbouring E2M1 magnitudes, by the code that a tie goes to: the even one."""


def quantize_plainly(input: Tensor, global_encode_scale: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize rows.

    Args:
        input: bfloat16 (rows, K), finite.
        global_encode_scale: float32 (rows, 1), of each row's expert.

    Returns:
        packed uint8 (rows, K/2) and block scales float8_e4m3fn (rows, K/16).
    """
    blocks = input.float().unflatten(1, (-1, NVFP4.block_size))
    amax = blocks.abs().amax(-1)
    wanted = global_encode_scale * (amax * (1.0 / 6.0))
    block_scale = wanted.clamp(max=448.0).to(torch.float8_e4m3fn)
    scale = block_scale.float()
    product = scale * (1.0 / global_encode_scale)
    multiplier = torch.where(scale == 0, 0.0, 1.0 / product)
    scaled = blocks * multiplier.unsqueeze(-1)
    magnitude = scaled.abs()
    code = torch.signbit(scaled).to(torch.uint8) * 8
    for tie in _TIES_UP:
        code += (magnitude >= tie).to(torch.uint8)
    for tie in _TIES_DOWN:
        code += (magnitude > tie).to(torch.uint8)
    code = code.flatten(1)
    return code[:, 0::2] | code[:, 1::2] << 4, block_scale
