"""`run_cutlass_moe_fp4`: the NVFP4 MoE layer with the argument list of the seed's change to vLLM.

    route -> gather and quantize (a1_gscale) -> GEMM 1 -> silu(gate) * up and quantize, or activation, then quantize
    (a2_gscale) -> GEMM 2 -> weighted sum over the slots of each token

The arithmetic of every step is that of `nvfp4_moe.reference.moe_layer`. Differences from vLLM's function, on purpose:

- router weights on the input are applied to a copy, `a` is never changed;
- the weighted sum is taken in float32 in the order of the slots, weights and products unrounded;
- id -1 is skipped: such a slot adds nothing, whatever the workspaces held;
- the padded strides of both scale buffers are used in writer and reader alike, so K % 64 and N % 128 may be anything.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.cuda.activations import IS_GATED, activation_name, apply_activation
from nvfp4_moe.cuda.moe_gemm import DEFAULT_PATH, cutlass_fp4_moe_mm
from nvfp4_moe.cuda.seed_ops import ops_of, scaled_fp4_experts_quant, silu_and_mul_scaled_fp4_experts_quant
from nvfp4_moe.cuda.sizing import SEED_POLICY, check_call


def workspace_shapes(
    m: int, topk: int, n: int, k: int, *, activation: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the shapes of workspace13 and workspace2 in elements of the row type.

    workspace13 holds the outputs of both GEMMs, one after the other; workspace2 the activated rows where the activation
    is not fused, and nothing otherwise.
    """
    rows = m * topk
    gated = IS_GATED[activation]
    return (rows, max(2 * n if gated else n, k)), (0 if gated else rows, n)


def run_cutlass_moe_fp4(
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
    activation: object,
    workspace13: Tensor,
    workspace2: Tensor,
    m: int,
    n: int,
    k: int,
    e: int,
    device: torch.device | str,
    max_num_batched_tokens: int,
    apply_router_weight_on_input: bool = False,
    *,
    sizing: str = SEED_POLICY,
    arithmetic: str | None = None,
    gemm: str = DEFAULT_PATH,
) -> None:
    """Write the layer's output.

    Args:
        output: bfloat16 or float16 (m, k), written.
        a: (m, k) of the same type.
        a1_gscale, a2_gscale: float32 (e,), encode scales of the activations of both GEMMs.
        w1_fp4: uint8 (e, 2n, k/2), gate above up; (e, n, k/2) for activations that are not gated.
        w1_blockscale: float8_e4m3fn or uint8 (e, round_up(2n or n, 128), 4 * ceil(k/64)), swizzled_128x4.
        w1_alphas, w2_alphas: float32 (e,).
        w2_fp4: uint8 (e, k, n/2).
        w2_blockscale: (e, round_up(k, 128), 4 * ceil(n/64)), as w1_blockscale.
        topk_weights: float32 (m, topk).
        topk_ids: int32 or int64 (m, topk), in [0, e) or -1.
        activation: a name of `activations.IS_GATED`, or an enum member with such a value.
        workspace13, workspace2: of the row type, at least `workspace_shapes` elements; contents do not matter.
        m, n, k, e: tokens, intermediate size, hidden size, experts on this rank.
        device: where all tensors are.
        max_num_batched_tokens: the scheduler's setting.
        apply_router_weight_on_input: topk 1 only: multiply the input, not the output.
        sizing: policy of the scale buffers, see `sizing`; the seed's is `proposed`.
        arithmetic: of the quantizers, by default the device's.
        gemm: path of the GEMMs, see `moe_gemm`.

    Raises:
        TypeError, ValueError: tensors that do not belong together; more tokens than the sizing policy allows.
        NotImplementedError: no GEMM kernel for this device.
    """
    name = activation_name(activation)
    topk = _check(output, a, w1_fp4, w2_fp4, topk_weights, topk_ids, name, m, n, k, e, torch.device(device))
    check_call(sizing, rows=m * topk, topk=topk, num_experts=e, max_num_batched_tokens=max_num_batched_tokens)
    if apply_router_weight_on_input and topk != 1:
        raise ValueError(f"router weights on the input need topk 1, got {topk}")
    if m == 0:
        return
    if apply_router_weight_on_input:
        a = (a.to(torch.float32) * topk_weights).to(a.dtype)
        topk_weights = torch.ones_like(topk_weights)
    rows, columns = m * topk, w1_fp4.shape[1]
    routing = [
        a.new_empty(shape, dtype=torch.int32)
        for shape in ((e + 1,), (e, 3), (e, 3), (rows,), (rows,), (e + 1,))
    ]
    expert_offsets, sizes1, sizes2, input_map, output_map, scale_offsets = routing
    ops_of(a).get_cutlass_moe_mm_data(
        topk_ids,
        expert_offsets,
        sizes1,
        sizes2,
        input_map,
        output_map,
        e,
        n,
        k,
        scale_offsets,
        IS_GATED[name],
    )
    offsets, sized = (expert_offsets, scale_offsets), (topk, max_num_batched_tokens)
    gemm_offsets = expert_offsets[:-1], scale_offsets[:-1]
    rows_fp4, rows_scale = scaled_fp4_experts_quant(
        a, a1_gscale, *offsets, *sized, sizing=sizing, arithmetic=arithmetic, input_map=input_map
    )
    c1 = _part("workspace13", workspace13, a, rows, columns)
    cutlass_fp4_moe_mm(
        c1, rows_fp4, w1_fp4, rows_scale, w1_blockscale, w1_alphas, sizes1, *gemm_offsets, gemm=gemm
    )
    if IS_GATED[name]:
        inner_fp4, inner_scale = silu_and_mul_scaled_fp4_experts_quant(
            c1, a2_gscale, *offsets, *sized, sizing=sizing, arithmetic=arithmetic
        )
    else:
        c2 = _part("workspace2", workspace2, a, rows, n)
        apply_activation(name, c2, c1)
        inner_fp4, inner_scale = scaled_fp4_experts_quant(
            c2, a2_gscale, *offsets, *sized, sizing=sizing, arithmetic=arithmetic
        )
    c3 = _part("workspace13", workspace13, a, rows, k)
    cutlass_fp4_moe_mm(
        c3, inner_fp4, w2_fp4, inner_scale, w2_blockscale, w2_alphas, sizes2, *gemm_offsets, gemm=gemm
    )
    ops_of(a).unpermute_rows(output, c3, output_map, topk_weights, expert_offsets)


def _part(name: str, workspace: Tensor, like: Tensor, rows: int, columns: int) -> Tensor:
    """Return the first rows * columns elements of a workspace as a matrix."""
    if workspace.dtype != like.dtype or workspace.device != like.device or not workspace.is_contiguous():
        raise ValueError(
            f"{name} must be contiguous {like.dtype} on {like.device}, got {workspace.dtype} on {workspace.device}"
        )
    if workspace.numel() < rows * columns:
        raise ValueError(
            f"{name} must have at least {rows} x {columns} elements, got {tuple(workspace.shape)}"
        )
    return workspace.view(-1)[: rows * columns].view(rows, columns)


def _check(
    output: Tensor,
    a: Tensor,
    w1_fp4: Tensor,
    w2_fp4: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    activation: str,
    m: int,
    n: int,
    k: int,
    e: int,
    device: torch.device,
) -> int:
    """Return topk after a look at the shapes that later steps do not compare with each other."""
    if a.dtype not in (torch.bfloat16, torch.float16) or output.dtype != a.dtype:
        raise TypeError(f"a and output must both be bfloat16 or float16, got {a.dtype} and {output.dtype}")
    if topk_ids.dim() != 2 or topk_ids.shape[1] == 0:
        raise ValueError(f"topk_ids must be (m, topk) with topk >= 1, got {tuple(topk_ids.shape)}")
    topk = topk_ids.shape[1]
    columns = 2 * n if IS_GATED[activation] else n
    for name, tensor, shape in (
        ("a", a, (m, k)),
        ("output", output, (m, k)),
        ("w1_fp4", w1_fp4, (e, columns, k // 2)),
        ("w2_fp4", w2_fp4, (e, k, n // 2)),
        ("topk_weights", topk_weights, (m, topk)),
        ("topk_ids", topk_ids, (m, topk)),
    ):
        if tuple(tensor.shape) != shape:
            raise ValueError(
                f"{name} must be {shape} for m, n, k, e = {m}, {n}, {k}, {e} and activation {activation}, got "
                f"{tuple(tensor.shape)}"
            )
        if tensor.device.type != device.type:
            raise ValueError(f"{name} must be on {device}, got {tensor.device}")
    return topk
