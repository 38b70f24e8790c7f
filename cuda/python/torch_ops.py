"""The kernels as PyTorch operators `torch.ops.nvfp4_moe.*`, with CPU (host twin), CUDA and fake kernels.

Importing this module defines them; the library is built at the first real call. Each operator returns new tensors and
works under `torch.compile`, also with sizes that vary. What the caller cannot know, it is given room for: the scale
buffer has the exact worst number of rows for T rows and E experts. Bytes that no row owns are zero.

| operator | returns |
|---|---|
| `moe_data(topk_ids, num_experts, n, k, is_gated)` | expert_offsets, blockscale_offsets, problem_sizes1, problem_sizes2, input_permutation, output_permutation |
| `shuffle_rows(input, map)` | the gathered rows |
| `unpermute_rows(input, output_permutation, topk_weights, expert_offsets)` | each token's weighted sum |
| `experts_quant(input, input_global_scale, expert_offsets, blockscale_offsets, arithmetic)` | packed, block_scale |
| `silu_and_mul_experts_quant(...)` | the same of silu(gate) * up |

The operators with a trailing underscore, `experts_quant_` and `silu_and_mul_experts_quant_`, write into the caller's
buffers instead, as the subject protocol has it, and touch nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.cuda.ops import CudaOps, HostOps, Ops
from nvfp4_moe.reference.layouts import scale_shape
from nvfp4_moe.reference.padding import exact_any_rows

NAMESPACE = "nvfp4_moe"
LAYOUT = "swizzled_128x4"

SCHEMAS = (
    "moe_data(Tensor topk_ids, int num_experts, int n, int k, bool is_gated=True)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "shuffle_rows(Tensor input, Tensor map) -> Tensor",
    "unpermute_rows(Tensor input, Tensor output_permutation, Tensor topk_weights, Tensor expert_offsets) -> Tensor",
    "experts_quant(Tensor input, Tensor input_global_scale, Tensor expert_offsets, Tensor blockscale_offsets,"
    ' str arithmetic="hardware") -> (Tensor, Tensor)',
    "silu_and_mul_experts_quant(Tensor input, Tensor input_global_scale, Tensor expert_offsets,"
    ' Tensor blockscale_offsets, str arithmetic="hardware") -> (Tensor, Tensor)',
    "experts_quant_(Tensor(a!) output, Tensor(b!) output_scale, Tensor input, Tensor input_global_scale,"
    ' Tensor input_offset_by_experts, Tensor output_scale_offset_by_experts, str arithmetic="hardware",'
    ' str row_padding="zero") -> ()',
    "silu_and_mul_experts_quant_(Tensor(a!) output, Tensor(b!) output_scale, Tensor input, Tensor input_global_scale,"
    ' Tensor input_offset_by_experts, Tensor output_scale_offset_by_experts, str arithmetic="hardware",'
    ' str row_padding="zero") -> ()',
)

Six = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
Two = tuple[Tensor, Tensor]


def _ops(tensor: Tensor, arithmetic: str = "ieee", row_padding: str = "zero") -> Ops:
    kind = CudaOps if tensor.is_cuda else HostOps
    return kind(arithmetic=arithmetic, row_padding=row_padding)


# --- allocation: the shapes that the fake kernels know ---------------------------------------------------------


def _empty_moe_data(topk_ids: Tensor, num_experts: int, n: int, k: int, is_gated: bool = True) -> Six:
    del n, k, is_gated
    slots = topk_ids.shape[0] * topk_ids.shape[1]
    shapes = ((num_experts + 1,), (num_experts + 1,), (num_experts, 3), (num_experts, 3), (slots,), (slots,))
    first, second, third, fourth, fifth, sixth = (
        topk_ids.new_empty(shape, dtype=torch.int32) for shape in shapes
    )
    return first, second, third, fourth, fifth, sixth


def _zero_quantized(input: Tensor, input_global_scale: Tensor, *, k: int) -> Two:
    rows = input.shape[0]
    scale_rows = exact_any_rows(rows, input_global_scale.shape[0])
    packed = input.new_zeros((rows, k // 2), dtype=torch.uint8)
    return packed, input.new_zeros((scale_rows, scale_shape(0, k, LAYOUT)[1]), dtype=torch.uint8)


def _fake_experts_quant(
    input: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    arithmetic: str = "hardware",
) -> Two:
    del expert_offsets, blockscale_offsets, arithmetic
    return _zero_quantized(input, input_global_scale, k=input.shape[1])


def _fake_silu_and_mul_experts_quant(
    input: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    arithmetic: str = "hardware",
) -> Two:
    del expert_offsets, blockscale_offsets, arithmetic
    return _zero_quantized(input, input_global_scale, k=input.shape[1] // 2)


def _fake_in_place(*_: object) -> None:
    return None


# --- the kernels ---------------------------------------------------------------------------------------------------


def _moe_data(topk_ids: Tensor, num_experts: int, n: int, k: int, is_gated: bool = True) -> Six:
    out = _empty_moe_data(topk_ids, num_experts, n, k)
    expert_offsets, blockscale_offsets, sizes1, sizes2, input_permutation, output_permutation = out
    _ops(topk_ids).get_cutlass_moe_mm_data(
        topk_ids, expert_offsets, sizes1, sizes2, input_permutation, output_permutation, num_experts, n, k,
        blockscale_offsets, is_gated,
    )  # fmt: skip
    return out


def _shuffle_rows(input: Tensor, map: Tensor) -> Tensor:
    return _ops(input).shuffle_rows(input, map)


def _fake_shuffle_rows(input: Tensor, map: Tensor) -> Tensor:
    return input.new_empty((map.shape[0], input.shape[1]))


def _unpermute_rows(
    input: Tensor, output_permutation: Tensor, topk_weights: Tensor, expert_offsets: Tensor
) -> Tensor:
    output = input.new_empty((topk_weights.shape[0], input.shape[1]))
    _ops(input).unpermute_rows(output, input, output_permutation, topk_weights, expert_offsets)
    return output


def _fake_unpermute_rows(
    input: Tensor, output_permutation: Tensor, topk_weights: Tensor, expert_offsets: Tensor
) -> Tensor:
    del output_permutation, expert_offsets
    return input.new_empty((topk_weights.shape[0], input.shape[1]))


def _experts_quant(
    input: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    arithmetic: str = "hardware",
) -> Two:
    packed, block_scale = _zero_quantized(input, input_global_scale, k=input.shape[1])
    _ops(input, arithmetic).scaled_fp4_experts_quant(
        packed, block_scale, input, input_global_scale, expert_offsets, blockscale_offsets
    )
    return packed, block_scale


def _silu_and_mul_experts_quant(
    input: Tensor,
    input_global_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    arithmetic: str = "hardware",
) -> Two:
    packed, block_scale = _zero_quantized(input, input_global_scale, k=input.shape[1] // 2)
    _ops(input, arithmetic).silu_and_mul_scaled_fp4_experts_quant(
        packed, block_scale, input, input_global_scale, expert_offsets, blockscale_offsets
    )
    return packed, block_scale


def _experts_quant_(
    output: Tensor,
    output_scale: Tensor,
    input: Tensor,
    input_global_scale: Tensor,
    input_offset_by_experts: Tensor,
    output_scale_offset_by_experts: Tensor,
    arithmetic: str = "hardware",
    row_padding: str = "zero",
) -> None:
    _ops(input, arithmetic, row_padding).scaled_fp4_experts_quant(
        output,
        output_scale,
        input,
        input_global_scale,
        input_offset_by_experts,
        output_scale_offset_by_experts,
    )


def _silu_and_mul_experts_quant_(
    output: Tensor,
    output_scale: Tensor,
    input: Tensor,
    input_global_scale: Tensor,
    input_offset_by_experts: Tensor,
    output_scale_offset_by_experts: Tensor,
    arithmetic: str = "hardware",
    row_padding: str = "zero",
) -> None:
    _ops(input, arithmetic, row_padding).silu_and_mul_scaled_fp4_experts_quant(
        output,
        output_scale,
        input,
        input_global_scale,
        input_offset_by_experts,
        output_scale_offset_by_experts,
    )


KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "moe_data": (_moe_data, _empty_moe_data),
    "shuffle_rows": (_shuffle_rows, _fake_shuffle_rows),
    "unpermute_rows": (_unpermute_rows, _fake_unpermute_rows),
    "experts_quant": (_experts_quant, _fake_experts_quant),
    "silu_and_mul_experts_quant": (_silu_and_mul_experts_quant, _fake_silu_and_mul_experts_quant),
    "experts_quant_": (_experts_quant_, _fake_in_place),
    "silu_and_mul_experts_quant_": (_silu_and_mul_experts_quant_, _fake_in_place),
}
"""Operator -> the kernel for CPU and CUDA, the fake one."""


def _define() -> torch.library.Library:
    library = torch.library.Library(NAMESPACE, "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    for name, (kernel, fake) in KERNELS.items():
        for dispatch_key in ("CPU", "CUDA"):
            library.impl(name, kernel, dispatch_key)
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
    return library


LIBRARY = _define()
"""Keeps the definitions alive."""
