"""The grouped NVFP4 GEMM of the subject protocol, `cutlass_fp4_moe_mm`, dispatched by device.

    out[r, n] = round(alphas[e] * sum over k of A[r, k] * B[e, n, k])      r in the rows of expert e

A and B are the exact dequantized operands (code times block scale), the sum is float32, and it is rounded once, after the
product with alpha. On a CPU the host twin runs; on compute capability 9.0 a kernel that keeps the weights in NVFP4 and
multiplies in bfloat16; on 10.0, 10.3, 12.0 and 12.1 CUTLASS's block-scaled kernel, which was compiled but never run.

What holds for the first two: rows that no expert owns stay untouched; no padding byte has an influence (scale rows behind
an expert's last, scale columns past K / 16, scale rows of weights past N, codes of rows that no expert owns); equal calls
give equal bits; and the bits of a row depend on that row and its expert alone, not on the other rows of the call (one family
of products, one order of K, no split of K).
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.cuda.gemm_build import (
    BLACKWELL,
    blackwell_gemm_library,
    hopper_gemm_library,
    host_gemm_library,
)

STEP_K = 128
"""K of the prepared rows is rounded up to this: a step of Hopper's kernel."""
CHOOSE = -1
"""The form of Hopper's kernel is chosen by rows an expert."""
ONE_SM = 0
"""The form of Blackwell's kernel that every compute capability has; 1 is pairs of multiprocessors, on 10.x."""


def grouped_gemm(
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
    """Multiply each expert's rows by its weights.

    Args:
        out: bfloat16 or float16 (rows, N), written in the rows that an expert owns.
        a: uint8 (rows, K/2), codes.
        b: uint8 (E, N, K/2), codes of the weights.
        a_blockscale: float8_e4m3fn or uint8 (scale rows, 4 * ceil(K/64)), or int32 of a quarter of the columns;
            swizzled_128x4, each expert's rows from its offset.
        b_blockscale: float8_e4m3fn or uint8 (E, round_up(N, 128), 4 * ceil(K/64)), swizzled_128x4.
        alphas: float32 (E,).
        problem_sizes: int32 (E, 3): rows, N, K of each expert.
        expert_offsets: int32 (E,), first row of each expert, ascending.
        blockscale_offsets: int32 (E,), first scale row of each expert, multiples of 128.

    Raises:
        TypeError, ValueError: dtypes, shapes, strides, devices; on a CPU values too. K must be a multiple of 16 (32 on
            Hopper, 64 on Blackwell) and N of 8.
        NotImplementedError: a device that no kernel is for.
        BuildError: the library could not be built.
    """
    if a.ndim != 2 or b.ndim != 3:
        raise ValueError(
            f"a must be (rows, K/2) and b (E, N, K/2), got shapes {tuple(a.shape)} and {tuple(b.shape)}"
        )
    tensors = (
        out, a, b, _bytes("a_blockscale", a_blockscale), _bytes("b_blockscale", b_blockscale), alphas, problem_sizes,
        expert_offsets, blockscale_offsets,
    )  # fmt: skip
    if a.device.type == "cpu":
        host_gemm_library().grouped_gemm_host(*tensors, torch.get_num_threads(), -1, False)
        return
    capability = torch.cuda.get_device_capability(a.device)
    if capability == (9, 0):
        hopper_gemm(*tensors, form=CHOOSE)
    elif capability in BLACKWELL:
        blackwell_gemm(*tensors, form=ONE_SM, capability=capability)
    else:
        known = ", ".join(f"{major}.{minor}" for major, minor in ((9, 0), *BLACKWELL))
        raise NotImplementedError(
            f"no grouped GEMM for compute capability {capability[0]}.{capability[1]}, only for {known}"
        )


def hopper_gemm(*tensors: Tensor, form: int) -> None:
    """Run Hopper's kernel in one of its forms, or `CHOOSE`; `tensors` as `grouped_gemm` has them, scales as bytes.

    The forms differ in tile sizes and give the same bits.
    """
    a, b = tensors[1], tensors[2]
    rows = a.new_empty((a.shape[0], -(-2 * a.shape[-1] // STEP_K) * STEP_K), dtype=torch.bfloat16)
    tile_ends = a.new_empty(b.shape[0], dtype=torch.int32)
    hopper_gemm_library().grouped_gemm_hopper(*tensors, rows, tile_ends, form)


def blackwell_gemm(*tensors: Tensor, form: int, capability: tuple[int, int]) -> None:
    """Run CUTLASS's kernel in one of its forms; `tensors` as `grouped_gemm` has them, scales as bytes. Never run yet."""
    out, a, b = tensors[0], tensors[1], tensors[2]
    library = blackwell_gemm_library(capability)
    room = library.blackwell_workspace(b.shape[0], out.dtype == torch.bfloat16, form)
    library.grouped_gemm_blackwell(*tensors, a.new_empty(room), form)


def dequantized_operands(*tensors: Tensor) -> tuple[Tensor, Tensor]:
    """Return both operands as bfloat16 on a Hopper device: (rows, K), rows of no expert zero, and (E, N, K)."""
    a, b = tensors[1], tensors[2]
    rows = a.new_zeros((a.shape[0], 2 * a.shape[1]), dtype=torch.bfloat16)
    weights = b.new_empty((*b.shape[:2], 2 * b.shape[2]), dtype=torch.bfloat16)
    dequantize_into(*tensors, rows=rows, weights=weights)
    return rows, weights


def dequantize_into(*tensors: Tensor, rows: Tensor, weights: Tensor) -> None:
    """Write both operands, as `dequantized_operands` returns them, into bfloat16 tensors of the caller."""
    hopper_gemm_library().dequantize_operands(*tensors, rows, weights)


def _bytes(name: str, scales: Tensor) -> Tensor:
    if scales.dtype not in (torch.int32, torch.uint8, torch.float8_e4m3fn):
        raise TypeError(f"{name} must be float8_e4m3fn, uint8 or int32, got {scales.dtype}")
    if not scales.is_contiguous():
        raise ValueError(f"{name} must be contiguous")
    return scales.view(torch.uint8)
