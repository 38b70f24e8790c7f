"""A grouped GEMM written differently from the kernels and from the golden model: weights and rows become float64 first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nvfp4_moe.verification.mutants.right_quant import BLOCK, TILE, places

_VALUES = torch.tensor(
    [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64
)


def gemm_in_double(
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
    """Multiply each expert's rows with its weights in float64; one rounding to float32, one to the type of `out`.

    Raises:
        ValueError: a shape or type that the operation does not take.
    """
    _refuse(out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes, expert_offsets, blockscale_offsets)
    for e, rows in enumerate(problem_sizes[:, 0].tolist()):
        if rows == 0:
            continue
        first, scale_row = int(expert_offsets[e]), int(blockscale_offsets[e])
        scales = a_blockscale[scale_row : scale_row + -(-rows // TILE) * TILE]
        left = _numbers(a[first : first + rows], scales)
        product = left @ _numbers(b[e], b_blockscale[e]).T
        out[first : first + rows] = (product * alphas[e].double()).float().to(out.dtype)


def _numbers(packed: Tensor, scales: Tensor) -> Tensor:
    """Return float64 (R, K) of codes (R, K/2) and their swizzled scales."""
    codes = torch.stack([packed & 0xF, packed >> 4], dim=-1).flatten(1)
    rows, k = codes.shape
    where = places(np.arange(rows)[:, None], np.arange(k // BLOCK)[None], scales.shape[-1] // 4)
    linear = scales.float().reshape(-1)[torch.from_numpy(where)].double()
    return _VALUES[codes.long()] * linear.repeat_interleave(BLOCK, dim=1)


def _refuse(
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
    if b.dim() != 3:
        raise ValueError(f"b must have three dimensions, got {tuple(b.shape)}")
    experts, n, half_k = b.shape
    columns = -(-half_k // 32) * 4
    fp8 = torch.float8_e4m3fn
    legal = {
        "b": n % 8 == 0 and half_k % 8 == 0 and b.dtype is torch.uint8,
        "a": a.shape[1:] == (half_k,) and a.dtype is torch.uint8,
        "out": out.shape == (len(a), n) and out.dtype in (torch.bfloat16, torch.float16),
        "a_blockscale": a_blockscale.shape[1:] == (columns,) and a_blockscale.dtype is fp8,
        "b_blockscale": b_blockscale.shape == (experts, -(-n // TILE) * TILE, columns)
        and b_blockscale.dtype is fp8,
        "alphas": alphas.shape == (experts,) and alphas.dtype is torch.float32,
        "problem_sizes": problem_sizes.shape == (experts, 3) and problem_sizes.dtype is torch.int32,
        "expert_offsets": expert_offsets.shape == (experts,) and expert_offsets.dtype is torch.int32,
        "blockscale_offsets": blockscale_offsets.shape == (experts,)
        and blockscale_offsets.dtype is torch.int32,
    }
    wrong = [name for name, right in legal.items() if not right]
    if wrong:
        raise ValueError(f"{wrong[0]} has a shape or type that is not legal")
