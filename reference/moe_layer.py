"""The whole NVFP4 MoE layer, from routed tokens to the weighted sum, with everything in between kept.

For tokens (M, K), E experts of intermediate size n, each token's topk ids and weights:

    x          = tokens; with `apply_router_weight_on_input` each times its one weight, rounded to the row type
    routing    = `route` of the ids; rows1 = x gathered in expert order
    quantized1 = rows1, each with its expert's a1_gscale
    gemm1      = quantized1 times w1, alpha w1_alphas                     (T, 2n) or (T, n)
    activated  = the activation, rounded to the row type                  (T, n)
    quantized2 = activated, each with its expert's a2_gscale
    gemm2      = quantized2 times w2, alpha w2_alphas                     (T, K)
    output     = `unpermute_rows`: the sum over the slots in their order, each times its weight, in float32, rounded
                 once; the weight is 1 where it was applied on the input already

Weights are applied once, in float32: vLLM rounds them to the row type before the sum and each product too; its sums
differ from these by that. Slots with id -1 add nothing; a token without any is zero. M = 0 and experts without rows are
legal. GEMMs accumulate exactly and round once (`grouped_gemm`).

Source: vLLM `run_cutlass_moe_fp4` (cutlass_moe.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nvfp4_moe.reference.activations import activation_named
from nvfp4_moe.reference.arithmetic import Arithmetic, Operations, keeps_subnormals
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.reference.grouped_gemm import Operands, grouped_gemm, read_operands
from nvfp4_moe.reference.permute import shuffle_rows, unpermute_rows
from nvfp4_moe.reference.quantize import Quantized
from nvfp4_moe.reference.routing import Routing, route
from nvfp4_moe.reference.topk_ids import check_topk_ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerStages:
    """Everything that the layer computes; rows are the T routed ones, in expert order."""

    routing: Routing
    rows1: Tensor
    quantized1: Quantized
    operands1: Operands
    gemm1: Tensor
    activated: Tensor
    quantized2: Quantized
    operands2: Operands
    gemm2: Tensor
    output: Tensor
    """(M, K) in the type of the tokens."""


@keeps_subnormals
def moe_layer(
    tokens: Tensor,
    weights: ExpertWeights,
    topk_weights: Tensor,
    topk_ids: Tensor,
    *,
    activation: str = "silu",
    apply_router_weight_on_input: bool = False,
    arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE,
) -> LayerStages:
    """Return the layer's output and all stages on the way. The module states the arithmetic.

    Args:
        tokens: bfloat16 or float16 (M, K), K a multiple of 16.
        weights: of the E experts of this rank.
        topk_weights: float32 (M, topk); those of skipped slots do not count.
        topk_ids: int32 or int64 (M, topk), in [0, E) or -1.
        activation: a name of `ACTIVATIONS`.
        apply_router_weight_on_input: topk 1 only.
        arithmetic: of the quantizers and of SiLU.

    Raises:
        TypeError: another dtype.
        ValueError: shapes that do not belong together, ids out of range, router weights on the input with topk > 1.
    """
    chosen = activation_named(activation)
    experts = len(weights.w1_fp4)
    check_topk_ids(topk_ids, experts)
    if topk_weights.dtype != torch.float32 or topk_weights.shape != topk_ids.shape:
        raise ValueError(
            f"topk_weights must be float32 {tuple(topk_ids.shape)}, got {topk_weights.dtype} {tuple(topk_weights.shape)}"
        )
    n, k = 2 * weights.w2_fp4.shape[2], 2 * weights.w1_fp4.shape[2]
    columns = 2 * n if chosen.is_gated else n
    if weights.w1_fp4.shape[1] != columns or weights.w2_fp4.shape[1] != k or tokens.shape[1:] != (k,):
        raise ValueError(
            f"activation {activation} of n = {n} needs w1 (E, {columns}, K/2), w2 (E, K, {n // 2}) and tokens (M, K), got "
            f"{tuple(weights.w1_fp4.shape)}, {tuple(weights.w2_fp4.shape)} and {tuple(tokens.shape)}"
        )
    if apply_router_weight_on_input:
        tokens = weighted_tokens(tokens, topk_weights)
        topk_weights = torch.ones_like(topk_weights)
    routing = route(topk_ids, experts, n=n, k=k, is_gated=chosen.is_gated)
    routed = routing.routed_rows
    rows1 = shuffle_rows(tokens, routing.input_permutation[:routed])
    quantized1, operands1, gemm1 = _project(
        rows1,
        weights.a1_gscale,
        weights.w1_fp4,
        weights.w1_blockscale,
        weights.w1_alphas,
        routing,
        arithmetic,
    )
    activated = chosen.apply(gemm1, arithmetic)
    quantized2, operands2, gemm2 = _project(
        activated,
        weights.a2_gscale,
        weights.w2_fp4,
        weights.w2_blockscale,
        weights.w2_alphas,
        routing,
        arithmetic,
    )
    output = unpermute_rows(gemm2, routing.output_permutation, topk_weights, routed_rows=routed)
    return LayerStages(
        routing=routing, rows1=rows1, quantized1=quantized1, operands1=operands1, gemm1=gemm1, activated=activated,
        quantized2=quantized2, operands2=operands2, gemm2=gemm2, output=output,
    )  # fmt: skip


@keeps_subnormals
def weighted_tokens(tokens: Tensor, topk_weights: Tensor) -> Tensor:
    """Return each token times its one router weight: the float32 product, rounded to the type of the tokens.

    Raises:
        ValueError: more than one weight a token: a token has one input, whichever expert reads it.
    """
    if topk_weights.shape[1] != 1:
        raise ValueError(f"router weights on the input need topk 1, got {topk_weights.shape[1]}")
    return (tokens.to(torch.float32) * topk_weights).to(tokens.dtype)


def _project(
    rows: Tensor,
    gscale: Tensor,
    codes: Tensor,
    blockscale: Tensor,
    alphas: Tensor,
    routing: Routing,
    arithmetic: Arithmetic | str | Operations,
) -> tuple[Quantized, Operands, Tensor]:
    """Quantize rows and multiply them with their experts' weights."""
    offsets = routing.expert_offsets, routing.blockscale_offsets
    quantized = quantize_experts(
        rows, gscale, offsets[0], blockscale_offsets=offsets[1], arithmetic=arithmetic
    )
    operands = read_operands(quantized.packed, codes, quantized.block_scale, blockscale, alphas, *offsets)
    return quantized, operands, grouped_gemm(operands, dtype=rows.dtype)
