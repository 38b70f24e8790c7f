"""The expert quantizers as the seed's change to vLLM calls them: outputs allocated here, rows by a sizing policy.

`scaled_fp4_experts_quant` and `silu_and_mul_scaled_fp4_experts_quant` have the seed's names, arguments and results; they
are also names of `nvfp4_moe.cuda.ops`. Both are one PyTorch operator, `torch.ops.nvfp4_moe.sized_experts_quant`, with
kernels for CPU (host twin), CUDA and fake tensors, so that they work under torch.compile and in CUDA graphs.

The buffers come uninitialized, as in the seed. The kernels write every byte of the rows below blockscale_offsets[E],
padding as zeros; what lies behind is never read. Rows of the codes at or after expert_offsets[E] stay unwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nvfp4_moe.cuda.sizing import SEED_POLICY, check_call, scale_rows
from nvfp4_moe.reference.layouts import scale_shape

if TYPE_CHECKING:
    from nvfp4_moe.cuda.ops import Ops

LAYOUT = "swizzled_128x4"
NAME = "sized_experts_quant"
SCHEMA = (
    f"{NAME}(Tensor input, Tensor input_global_scale, Tensor expert_offsets, Tensor blockscale_offsets, int topk,"
    " int max_num_batched_tokens, str sizing, str? arithmetic, bool fused, Tensor? input_map=None) -> (Tensor, Tensor)"
)

Two = tuple[Tensor, Tensor]


def scaled_fp4_experts_quant(
    input_tensor: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    topk: int,
    max_num_batched_tokens: int,
    *,
    sizing: str = SEED_POLICY,
    arithmetic: str | None = None,
    input_map: Tensor | None = None,
) -> Two:
    """Quantize routed rows, each with the global encode scale of its expert.

    Args:
        input_tensor: bfloat16 or float16 (m * topk, K), rows in expert order, K a multiple of 16.
        input_global_scale: float32 (E,), encode direction.
        expert_offsets: int32 (E + 1,), prefix sums of the experts' rows.
        blockscale_offsets: int32 (E + 1,), first scale row of each expert.
        topk: experts of a token.
        max_num_batched_tokens: the scheduler's setting: how many tokens a call may have.
        sizing: a policy of `nvfp4_moe.cuda.sizing`; the seed's is `proposed`.
        arithmetic: `ieee` or `hardware`; by default `hardware` on a GPU and `ieee` on the CPU.
        input_map: int32 (m * topk,): row r is then read from input_tensor[input_map[r]], of any number of rows.

    Returns:
        packed uint8 (m * topk, K/2), and the block scales as float8_e4m3fn (rows of the policy, 4 * ceil(K/64)) in
        swizzled_128x4 order.

    Raises:
        TypeError: another dtype.
        ValueError: shapes that do not fit, or more rows than the policy allows: the text names the numbers and the
            setting to raise.
    """
    out: Two = torch.ops.nvfp4_moe.sized_experts_quant(
        input_tensor, input_global_scale, expert_offsets, blockscale_offsets, topk, max_num_batched_tokens, sizing,
        arithmetic, False, input_map,
    )  # fmt: skip
    return out


def silu_and_mul_scaled_fp4_experts_quant(
    input_tensor: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    topk: int,
    max_num_batched_tokens: int,
    *,
    sizing: str = SEED_POLICY,
    arithmetic: str | None = None,
) -> Two:
    """Quantize silu(gate) * up, rounded to the input type first; `input_tensor` is (m * topk, 2K), gate first.

    Otherwise as `scaled_fp4_experts_quant`.
    """
    out: Two = torch.ops.nvfp4_moe.sized_experts_quant(
        input_tensor, input_global_scale, expert_offsets, blockscale_offsets, topk, max_num_batched_tokens, sizing,
        arithmetic, True, None,
    )  # fmt: skip
    return out


def _allocate(
    input: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    topk: int,
    max_num_batched_tokens: int,
    sizing: str,
    arithmetic: str | None,
    fused: bool,
    input_map: Tensor | None = None,
) -> Two:
    """Return the two outputs, uninitialized: all that the fake kernel does."""
    del input_global_scale, blockscale_offsets, arithmetic
    rows = input.shape[0] if input_map is None else input_map.shape[0]
    k = input.shape[1] // (2 if fused else 1)
    total = scale_rows(
        sizing,
        rows=rows,
        topk=topk,
        num_experts=int(expert_offsets.shape[0]) - 1,  # a compiled graph is for one number of experts
        max_num_batched_tokens=max_num_batched_tokens,
    )
    packed = input.new_empty((rows, k // 2), dtype=torch.uint8)
    return packed, input.new_empty((total, scale_shape(0, k, LAYOUT)[1]), dtype=torch.float8_e4m3fn)


def _quantize(
    input: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    topk: int,
    max_num_batched_tokens: int,
    sizing: str,
    arithmetic: str | None,
    fused: bool,
    input_map: Tensor | None = None,
) -> Two:
    if input.dim() != 2 or expert_offsets.dim() != 1:
        raise ValueError(
            f"input_tensor must be (rows, columns) and expert_offsets (E + 1,), got {tuple(input.shape)} and "
            f"{tuple(expert_offsets.shape)}"
        )
    check_call(
        sizing,
        rows=input.shape[0] if input_map is None else input_map.shape[0],
        topk=topk,
        num_experts=expert_offsets.shape[0] - 1,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    packed, block_scale = _allocate(
        input, input_global_scale, expert_offsets, blockscale_offsets, topk, max_num_batched_tokens, sizing, arithmetic,
        fused, input_map,
    )  # fmt: skip
    ops = ops_of(input, arithmetic)
    offsets = expert_offsets, blockscale_offsets
    if fused:
        ops.silu_and_mul_scaled_fp4_experts_quant(packed, block_scale, input, input_global_scale, *offsets)
    else:
        ops.scaled_fp4_experts_quant(
            packed, block_scale, input, input_global_scale, *offsets, input_map=input_map
        )
    return packed, block_scale


def ops_of(tensor: Tensor, arithmetic: str | None = None) -> Ops:
    """Return the ops of the device that a tensor lies on."""
    from nvfp4_moe.cuda.ops import CudaOps, HostOps  # ops.py itself offers this module's functions

    ops = CudaOps() if tensor.is_cuda else HostOps()
    return ops if arithmetic is None else ops.options(arithmetic=arithmetic)


def _define() -> torch.library.Library:
    library = torch.library.Library("nvfp4_moe", "FRAGMENT")
    library.define(SCHEMA)
    for dispatch_key in ("CPU", "CUDA"):
        library.impl(NAME, _quantize, dispatch_key)
    torch.library.register_fake(f"nvfp4_moe::{NAME}", _allocate, lib=library)
    return library


LIBRARY = _define()
"""Keeps the definition alive."""
