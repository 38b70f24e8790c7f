"""What every path of the grouped GEMM requires of its tensors, checked before anything is read or launched.

Scale strides are those of the padded layout: a row of scales has 4 * ceil(K/64) bytes, a weight's scales round_up(N, 128)
rows. A buffer with unpadded rows or columns is refused: read with padded strides it would give wrong numbers silently.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.layouts import scale_shape

N_MULTIPLE = 8
"""Columns of the output: rows of it are then whole 16-byte pieces."""
LAYOUT = "swizzled_128x4"
OUTPUT_DTYPES = (torch.bfloat16, torch.float16)
SCALE_DTYPES = (torch.float8_e4m3fn, torch.uint8)


def check_gemm_arguments(
    out: Tensor,
    a: Tensor,
    b: Tensor,
    a_blockscale: Tensor,
    b_blockscale: Tensor,
    alphas: Tensor,
    problem_sizes: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
) -> None:
    """Refuse tensors that do not belong together. Reads no values.

    Raises:
        TypeError: another dtype; the text names the tensor.
        ValueError: another shape, layout or device, K no multiple of 16, N no multiple of 8.
    """
    _dtype("out", out, *OUTPUT_DTYPES)
    _dtype("a", a, torch.uint8)
    _dtype("b", b, torch.uint8)
    _dtype("a_blockscale", a_blockscale, *SCALE_DTYPES)
    _dtype("b_blockscale", b_blockscale, *SCALE_DTYPES)
    _dtype("alphas", alphas, torch.float32)
    for name, vector in (
        ("problem_sizes", problem_sizes),
        ("expert_offsets", expert_offsets),
        ("blockscale_offsets", blockscale_offsets),
    ):
        _dtype(name, vector, torch.int32)
    if b.dim() != 3:
        raise ValueError(f"b must be (E, N, K/2), got {tuple(b.shape)}")
    experts, n, half_k = b.shape
    k = 2 * half_k
    if experts == 0 or k == 0 or k % NVFP4.block_size:
        raise ValueError(f"b must hold experts with K a multiple of {NVFP4.block_size}, got {tuple(b.shape)}")
    if n == 0 or n % N_MULTIPLE:
        raise ValueError(f"N must be a multiple of {N_MULTIPLE}, got b {tuple(b.shape)}")
    rows = a.shape[0] if a.dim() == 2 else -1
    scale_columns = scale_shape(0, k, LAYOUT)[1]
    scale_rows = a_blockscale.shape[0] if a_blockscale.dim() == 2 else -1
    for name, tensor, shape in (
        ("a", a, (rows, half_k)),
        ("out", out, (rows, n)),
        ("a_blockscale", a_blockscale, (scale_rows, scale_columns)),
        ("b_blockscale", b_blockscale, (experts, *scale_shape(n, k, LAYOUT))),
        ("alphas", alphas, (experts,)),
        ("problem_sizes", problem_sizes, (experts, 3)),
        ("expert_offsets", expert_offsets, (experts,)),
        ("blockscale_offsets", blockscale_offsets, (experts,)),
    ):
        if tuple(tensor.shape) != shape:
            due = tuple("any" if size < 0 else size for size in shape)
            raise ValueError(
                f"{name} must be {due} for E, N, K = {experts}, {n}, {k}, got {tuple(tensor.shape)}"
            )
        if not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous, got strides {tensor.stride()}")
        if tensor.device != a.device:
            raise ValueError(f"{name} must be on the device of a, {a.device}, got {tensor.device}")


def _dtype(name: str, tensor: Tensor, *legal: torch.dtype) -> None:
    if tensor.dtype not in legal:
        raise TypeError(f"{name} must be {' or '.join(map(str, legal))}, got {tensor.dtype}")
