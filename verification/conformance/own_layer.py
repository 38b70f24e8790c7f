"""The golden GEMM and the golden layer behind the subject protocol."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.grouped_gemm import grouped_gemm, read_operands
from nvfp4_moe.reference.layouts import scale_shape
from nvfp4_moe.reference.moe_layer import moe_layer
from nvfp4_moe.reference.padding import TILE, round_up
from nvfp4_moe.verification.conformance.forms import SWIZZLED


def golden_gemm(
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
    """`cutlass_fp4_moe_mm`: write the rows that experts own.

    Raises:
        TypeError, ValueError: tensors outside the protocol.
    """
    for name, vector in (("problem_sizes", problem_sizes), ("expert_offsets", expert_offsets)):
        if vector.dtype != torch.int32 or len(vector) != len(b):
            raise TypeError(
                f"{name} must be int32 with E = {len(b)} entries, got {vector.dtype} {tuple(vector.shape)}"
            )
    if tuple(b_blockscale.shape) != (len(b), *scale_shape(b.shape[1], 2 * b.shape[2], SWIZZLED)):
        raise ValueError(f"b_blockscale must be padded in N and K, got {tuple(b_blockscale.shape)}")
    if tuple(out.shape) != (len(a), b.shape[1]) or b.shape[1] % 8:
        raise ValueError(f"out must be (rows, N) with N a multiple of 8, got {tuple(out.shape)}")
    last = int(problem_sizes[-1, 0])
    ends = torch.cat([expert_offsets, expert_offsets[-1:] + last])
    starts = torch.cat([blockscale_offsets, blockscale_offsets[-1:] + round_up(last, TILE)])
    sizes = [[rows, b.shape[1], 2 * b.shape[2]] for rows in ends.diff().tolist()]
    if problem_sizes.tolist() != sizes:
        raise ValueError(f"problem_sizes disagree with the tensors: {problem_sizes.tolist()}, {sizes}")
    operands = read_operands(a, b, a_blockscale, b_blockscale, alphas, ends, starts)
    out[: int(ends[-1])] = grouped_gemm(operands, dtype=out.dtype)


def golden_layer(
    output: Tensor,
    a: Tensor,
    a1_gscale: Tensor,
    w1_fp4: Tensor,
    w1_blockscale: Tensor,
    w1_alphas: Tensor,
    a2_gscale: Tensor,
    w2_fp4: Tensor,
    w2_blockscale: Tensor,
    w2_alphas: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    activation: str,
    workspace13: Tensor,
    workspace2: Tensor,
    m: int,
    n: int,
    k: int,
    e: int,
    device: Any,
    max_num_batched_tokens: int,
    apply_router_weight_on_input: bool = False,
) -> None:
    """`run_cutlass_moe_fp4` with the seed's argument list."""
    del workspace13, workspace2, m, n, k, e, device, max_num_batched_tokens
    weights = ExpertWeights(
        w1_fp4=w1_fp4, w1_blockscale=w1_blockscale, w1_alphas=w1_alphas, a1_gscale=a1_gscale,
        w2_fp4=w2_fp4, w2_blockscale=w2_blockscale, w2_alphas=w2_alphas, a2_gscale=a2_gscale,
    )  # fmt: skip
    stages = moe_layer(
        a,
        weights,
        topk_weights,
        topk_ids,
        activation=activation,
        apply_router_weight_on_input=apply_router_weight_on_input,
    )
    output.copy_(stages.output)
