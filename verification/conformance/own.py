"""Our own implementations as subjects: the golden model behind the in-place signatures, host twin and CUDA kernels."""

from __future__ import annotations

from typing import Any

import torch

from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.permute import shuffle_rows
from nvfp4_moe.reference.routing import route
from nvfp4_moe.verification.conformance.contract import Contract
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
        scaled_fp4_experts_quant=_quant(quantize_experts),
        silu_and_mul_scaled_fp4_experts_quant=_quant(silu_and_mul_quantize_experts),
        get_cutlass_moe_mm_data=_routing,
        shuffle_rows=shuffle_rows,
    )


def _quant(quantize: Any) -> Any:
    def operation(
        output: torch.Tensor,
        output_scale: torch.Tensor,
        input: torch.Tensor,
        input_global_scale: torch.Tensor,
        input_offset_by_experts: torch.Tensor,
        output_scale_offset_by_experts: torch.Tensor,
    ) -> None:
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


def _kernel_subject(name: str) -> Subject:
    import importlib

    try:
        module = importlib.import_module(f"nvfp4_moe.cuda.{name}_ops")
    except Exception as error:
        raise SubjectUnavailable(f"{name}: {type(error).__name__}: {error}") from error
    if name == "cuda" and not torch.cuda.is_available():
        raise SubjectUnavailable("cuda: no CUDA device is present")
    contract = Contract(
        arithmetic="ieee" if name == "host" else "hardware", id_dtypes=("int32", "int64"), strided="refused"
    )
    found = {op: getattr(module, op) for op in OPERATIONS if callable(getattr(module, op, None))}
    return Subject(name, "cpu" if name == "host" else "cuda", contract, **found)
