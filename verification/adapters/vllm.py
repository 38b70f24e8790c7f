"""vLLM: csrc torch bindings of `_C` (quantizers, routing metadata) and `_moe_C` (row shuffle).

The protocol follows these operations, so most are passed through. Before `get_cutlass_moe_mm_data` took `is_gated` it
always spoke of gated experts; that schema is known and not tested.
"""

from __future__ import annotations

import torch

from nvfp4_moe.verification.adapters.binding import Engine, Operation, Schema, importing

_QUANT = (
    "(Tensor output, Tensor output_scale, Tensor input, Tensor input_global_scale, Tensor input_offset_by_experts, "
    "Tensor output_scale_offset_by_experts) -> ()"
)
_ROUTING = (
    "(Tensor topk_ids, Tensor expert_offsets, Tensor problem_sizes1, Tensor problem_sizes2, Tensor input_permutation, "
    "Tensor output_permutation, int num_experts, int n, int k, Tensor? blockscale_offsets"
)
_SHUFFLE = "(Tensor input_tensor, Tensor dst2src_map, Tensor output_tensor) -> ()"


def quantizer(registered: Operation) -> Operation:
    """Return the in-place quantizer of ragged experts."""

    def quantize(
        output: torch.Tensor,
        output_scale: torch.Tensor,
        input: torch.Tensor,
        input_global_scale: torch.Tensor,
        input_offset_by_experts: torch.Tensor,
        output_scale_offset_by_experts: torch.Tensor,
    ) -> None:
        registered(
            output,
            output_scale,
            input,
            input_global_scale,
            input_offset_by_experts,
            output_scale_offset_by_experts,
        )

    return quantize


def _routing(registered: Operation) -> Operation:
    def route(
        topk_ids: torch.Tensor,
        expert_offsets: torch.Tensor,
        problem_sizes1: torch.Tensor,
        problem_sizes2: torch.Tensor,
        input_permutation: torch.Tensor,
        output_permutation: torch.Tensor,
        num_experts: int,
        n: int,
        k: int,
        blockscale_offsets: torch.Tensor,
        is_gated: bool,
    ) -> None:
        registered(
            topk_ids,
            expert_offsets,
            problem_sizes1,
            problem_sizes2,
            input_permutation,
            output_permutation,
            num_experts,
            n,
            k,
            blockscale_offsets,
            is_gated,
        )

    return route


def shuffler(registered: Operation) -> Operation:
    """Return the gather of rows into the caller's output."""

    def shuffle_rows(input: torch.Tensor, map: torch.Tensor, output: torch.Tensor) -> None:
        registered(input, map, output)

    return shuffle_rows


ENGINE = Engine(
    name="vllm",
    package="vllm",
    registers=(importing("vllm._custom_ops"), importing("vllm._C"), importing("vllm._moe_C")),
    preset="vllm",
    known={
        "_C::scaled_fp4_experts_quant": (Schema(_QUANT, {"scaled_fp4_experts_quant": quantizer}),),
        "_C::silu_and_mul_scaled_fp4_experts_quant": (
            Schema(_QUANT, {"silu_and_mul_scaled_fp4_experts_quant": quantizer}),
        ),
        "_C::get_cutlass_moe_mm_data": (
            Schema(f"{_ROUTING}, bool is_gated) -> ()", {"get_cutlass_moe_mm_data": _routing}),
            Schema(f"{_ROUTING}) -> ()", {}),
        ),
        "_moe_C::shuffle_rows": (Schema(_SHUFFLE, {"shuffle_rows": shuffler}),),
    },
)
"""vLLM."""
