"""The grouped GEMM in plain torch: for machines without a compiler or a kernel, and beside the kernel to compare with.

Operands are dequantized exactly (`code * SF` has six significant bits). The columns are added in pieces of 1,024, each a
float64 matrix product: every partial sum of a piece is a multiple of 2^-20 below 2^33, so float64 holds it exactly and the
order in which a library adds does not matter. The pieces are added in ascending order in float64, the sum is rounded once
to float32, multiplied by alpha, and rounded once to the output type. So a row's result depends on its own codes and its
expert's weights alone: the same for every batch, thread count and device.

One expert's weights are held dequantized at a time. The row counts are read on the host: no CUDA graph can hold it.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from nvfp4_moe.cuda.moe_gemm_arguments import check_gemm_arguments
from nvfp4_moe.reference.formats import E2M1, E4M3, NVFP4
from nvfp4_moe.reference.layouts import from_layout
from nvfp4_moe.reference.padding import TILE, round_up

PIECE_COLUMNS = 1024
LAYOUT = "swizzled_128x4"


def host_grouped_gemm(
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
    """Write alpha[e] * (rows of expert e times its weights) into their rows of `out`; no other row is touched.

    Args:
        out: bfloat16 or float16 (rows, N), written.
        a: uint8 (rows, K/2).
        b: uint8 (E, N, K/2).
        a_blockscale: uint8 or float8_e4m3fn (scale rows, 4 * ceil(K/64)), swizzled_128x4.
        b_blockscale: uint8 or float8_e4m3fn (E, round_up(N, 128), 4 * ceil(K/64)), swizzled_128x4.
        alphas: float32 (E,).
        problem_sizes: int32 (E, 3): rows, N, K.
        expert_offsets: int32 (E,), first row of each expert.
        blockscale_offsets: int32 (E,), first scale row of each expert.

    Raises:
        TypeError, ValueError: as `check_gemm_arguments`; sizes that disagree with the tensors; rows outside `out`, or
            scale rows outside `a_blockscale` or off the tile.
    """
    check_gemm_arguments(
        out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes, expert_offsets, blockscale_offsets
    )
    _check_values(out, b, a_blockscale, problem_sizes, expert_offsets, blockscale_offsets)
    n, k = b.shape[1], 2 * b.shape[2]
    firsts, starts = expert_offsets.tolist(), blockscale_offsets.tolist()
    for expert, rows in enumerate(problem_sizes[:, 0].tolist()):
        if rows == 0:
            continue
        first, start = firsts[expert], starts[expert]
        a_scale = from_layout(_bytes(a_blockscale)[start : start + round_up(rows, TILE)], rows, k, LAYOUT)
        b_scale = from_layout(_bytes(b_blockscale)[expert], n, k, LAYOUT)
        left = _dequantized(a[first : first + rows], a_scale)
        right = _dequantized(b[expert], b_scale)
        out[first : first + rows] = (_sums(left, right) * alphas[expert]).to(out.dtype)


def _sums(left: Tensor, right: Tensor) -> Tensor:
    total = torch.zeros((len(left), len(right)), dtype=torch.float64, device=left.device)
    for piece, other in zip(left.split(PIECE_COLUMNS, 1), right.split(PIECE_COLUMNS, 1), strict=True):
        total += piece.to(torch.float64) @ other.to(torch.float64).T
    return total.to(torch.float32)


def _dequantized(packed: Tensor, scale: Tensor) -> Tensor:
    """Return float32 (rows, K), exact."""
    pairs = _code_pairs(packed.device).index_select(0, packed.reshape(-1).to(torch.int32))
    blocks = pairs.view(len(packed), -1, NVFP4.block_size)
    values = _scale_values(scale.device).index_select(0, scale.reshape(-1).to(torch.int32))
    return (blocks * values.view(len(packed), -1, 1)).flatten(1)


@cache
def _code_pairs(device: torch.device) -> Tensor:
    """Return float32 (256, 2): both elements of each byte, the low nibble first."""
    values = torch.tensor(E2M1.values, dtype=torch.float32, device=device)
    codes = torch.arange(256, device=device)
    return torch.stack([values[codes & 15], values[codes >> 4]], dim=1)


@cache
def _scale_values(device: torch.device) -> Tensor:
    return torch.tensor(E4M3.values, dtype=torch.float32, device=device)


def _bytes(scales: Tensor) -> Tensor:
    return scales.view(torch.uint8)


def _check_values(
    out: Tensor,
    b: Tensor,
    a_blockscale: Tensor,
    problem_sizes: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
) -> None:
    n, k = b.shape[1], 2 * b.shape[2]
    columns = (problem_sizes.tolist(), expert_offsets.tolist(), blockscale_offsets.tolist())
    for expert, ((rows, its_n, its_k), first, start) in enumerate(zip(*columns, strict=True)):
        if (its_n, its_k) != (n, k):
            raise ValueError(f"problem_sizes[{expert}] says N, K = {its_n}, {its_k}; b has {n}, {k}")
        if rows < 0 or first < 0 or first + rows > len(out):
            raise ValueError(f"expert {expert} owns rows {first} to {first + rows}, out has {len(out)}")
        if start % TILE or start < 0 or (rows and start + round_up(rows, TILE) > len(a_blockscale)):
            raise ValueError(
                f"expert {expert} has its {rows} rows of scales from row {start}: not on a tile of {TILE}, or "
                f"outside the {len(a_blockscale)} rows of a_blockscale"
            )
