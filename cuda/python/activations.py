"""Activations that are not fused with the quantization: plain torch, exact, capture-safe.

`silu_no_mul` looks every 16-bit input up in the table of correctly rounded SiLU values (`silu_table`); `relu2_no_mul` is one
float32 product, rounded once. Gated `silu` is the fused quantizer's and has no path of its own here.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from nvfp4_moe.cuda.silu_table import silu_table

IS_GATED = {"silu": True, "silu_no_mul": False, "relu2_no_mul": False}
"""Every activation of the layer; those that are gated have twice the columns in the first GEMM."""


def activation_name(activation: object) -> str:
    """Return the name of an activation given as text or as a member of an enum of names.

    Raises:
        ValueError: none of `IS_GATED`.
    """
    name = getattr(activation, "value", activation)
    if not isinstance(name, str) or name not in IS_GATED:
        raise ValueError(f"activation must be one of {', '.join(IS_GATED)}, got {activation!r}")
    return name


def apply_activation(name: str, output: Tensor, input: Tensor) -> None:
    """Write the activation of bf16 or f16 (rows, n) into `output` of the same shape and type.

    Raises:
        ValueError: `silu`, which only the fused quantizer computes, or an unknown name.
    """
    if name == "silu_no_mul":
        patterns = input.contiguous().view(torch.int16).to(torch.int32) & 0xFFFF
        output.copy_(_table(input.dtype, input.device)[patterns])
    elif name == "relu2_no_mul":
        positive = input.to(torch.float32).clamp_(min=0.0)
        output.copy_(positive.square_())
    else:
        raise ValueError(f"no separate path of activation {name!r}")


@cache
def _table(dtype: torch.dtype, device: torch.device) -> Tensor:
    return silu_table(dtype).to(device)
