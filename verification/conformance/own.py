"""Our own implementations as subjects: the golden model behind the in-place signatures, host twin and CUDA kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nvfp4_moe.reference.experts import quantize_experts, quantize_masked, silu_and_mul_quantize_experts
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.reference.padding import TILE, round_up
from nvfp4_moe.reference.permute import shuffle_rows
from nvfp4_moe.reference.routing import route
from nvfp4_moe.reference.silu import silu_and_mul
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.own_layer import golden_gemm, golden_layer
from nvfp4_moe.verification.conformance.subject import OPERATIONS, Subject, SubjectUnavailable


def own_subject(name: str) -> Subject:
    """Return `reference`, `host` or `cuda`.

    Raises:
        SubjectUnavailable: no compiler for the host twin, no GPU for the kernels.
    """
    if name == "reference":
        return reference_subject()
    return _kernel_subject(name)


def reference_subject() -> Subject:
    """Return the golden model behind the subject protocol, to show that the harness passes what is right."""
    return Subject(
        "reference",
        "cpu",
        Contract(arithmetic="ieee", id_dtypes=("int32", "int64"), strided="honoured"),
        scaled_fp4_experts_quant=_quant(quantize_experts, halves=1),
        silu_and_mul_scaled_fp4_experts_quant=_quant(silu_and_mul_quantize_experts, halves=2),
        get_cutlass_moe_mm_data=_routing,
        scaled_fp4_masked_quant=_masked(lambda input: input),
        silu_and_mul_scaled_fp4_masked_quant=_masked(silu_and_mul),
        shuffle_rows=shuffle_rows,
        swizzle=lambda linear: to_layout(linear, "swizzled_128x4"),
        cutlass_fp4_moe_mm=golden_gemm,
        run_cutlass_moe_fp4=golden_layer,
    )


def _quant(quantize: Any, *, halves: int) -> Any:
    def operation(
        output: torch.Tensor,
        output_scale: torch.Tensor,
        input: torch.Tensor,
        input_global_scale: torch.Tensor,
        input_offset_by_experts: torch.Tensor,
        output_scale_offset_by_experts: torch.Tensor,
    ) -> None:
        _refuse_other_types(
            input, input_global_scale, input_offset_by_experts, output_scale_offset_by_experts
        )
        if output.shape != (input.shape[0], input.shape[-1] // halves // 2) or output.dtype != torch.uint8:
            raise ValueError(f"output must be uint8 (rows, K/2), got {output.dtype} {tuple(output.shape)}")
        true = quantize(
            input,
            input_global_scale,
            input_offset_by_experts,
            blockscale_offsets=output_scale_offset_by_experts,
        )
        routed, padded = int(input_offset_by_experts[-1]), int(output_scale_offset_by_experts[-1])
        output[:routed] = true.packed[:routed]
        output_scale.view(torch.uint8)[:padded] = true.block_scale

    return operation


def _refuse_other_types(input: torch.Tensor, global_scale: torch.Tensor, *offsets: torch.Tensor) -> None:
    """The golden model takes more types than the protocol knows.

    Raises:
        TypeError: another type than the protocol's.
    """
    if input.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"input must be bfloat16 or float16, got {input.dtype}")
    if global_scale.dtype != torch.float32:
        raise TypeError(f"input_global_scale must be float32, got {global_scale.dtype}")
    for vector in offsets:
        if vector.dtype != torch.int32:
            raise TypeError(f"offsets must be int32, got {vector.dtype}")


def _masked(before: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    def operation(
        output: torch.Tensor,
        output_scale: torch.Tensor,
        input: torch.Tensor,
        input_global_scale: torch.Tensor,
        masked_m: torch.Tensor,
    ) -> None:
        true = quantize_masked(before(input), input_global_scale, masked_m)
        scale_bytes = output_scale.view(torch.uint8)
        for expert, rows in enumerate(masked_m.tolist()):
            output[expert, :rows] = true.packed[expert, :rows]
            padded = round_up(rows, TILE)
            scale_bytes[expert, :padded] = true.block_scale[expert, :padded]

    return operation


def _routing(
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
    true = route(topk_ids, num_experts, n=n, k=k, is_gated=is_gated)
    expert_offsets.copy_(true.expert_offsets)
    blockscale_offsets.copy_(true.blockscale_offsets)
    problem_sizes1.copy_(true.problem_sizes1)
    problem_sizes2.copy_(true.problem_sizes2)
    input_permutation.copy_(true.input_permutation)
    output_permutation.copy_(true.output_permutation)


_HOPPER = (9, 0)
"""The compute capability that the GEMM kernel of `cuda` runs on; elsewhere it refuses."""


def _kernel_subject(name: str) -> Subject:
    import importlib

    if name == "cuda" and not torch.cuda.is_available():
        raise SubjectUnavailable("cuda: no CUDA device is present")
    try:
        module = importlib.import_module(f"nvfp4_moe.cuda.{name}_ops")
        build = importlib.import_module("nvfp4_moe.cuda.build")
        # Built here, where it has time and an error is told as such, not inside the first case of a child.
        build.host_library() if name == "host" else build.cuda_library()
        gemm = importlib.import_module("nvfp4_moe.cuda.gemm_build")
        if name == "host":
            gemm.host_gemm_library()
        elif torch.cuda.get_device_capability() == _HOPPER:
            gemm.hopper_gemm_library()
    except Exception as error:
        raise SubjectUnavailable(f"{name}: {type(error).__name__}: {error}") from error
    contract = Contract(
        arithmetic="ieee" if name == "host" else "hardware",
        id_dtypes=("int32", "int64"),
        strided="honoured",
        pdl=name == "cuda",
    )
    found = {op: getattr(module, op) for op in OPERATIONS if callable(getattr(module, op, None))}
    return Subject(name, "cpu" if name == "host" else "cuda", contract, **found)
