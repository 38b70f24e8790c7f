"""Class L: scales at the ends of their range: a zero maximum, overflow, underflow, subnormals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.casts import decode_ue4m3, encode_ue4m3
from nvfp4_moe.reference.recipe_steps import Values, multiplier_unless_amax_zero
from nvfp4_moe.verification.mutants.mutant import ModelMutant, Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.recipe_parts import with_step
from nvfp4_moe.verification.mutants.stepwise import Steps, wrong_steps
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, wrong_gemm
from nvfp4_moe.verification.mutants.wrap import QUANT, QuantCall, after

FAULTS = (
    PublicFault(
        id="L1",
        links=("https://github.com/vllm-project/compressed-tensors/pull/595",),
        what="All-zero activations of a rare expert: its global scale is max / 0. 14 of 92,400 were Inf; one is enough"
        " to crash.",
        star=True,
    ),
    PublicFault(
        id="L2",
        links=(
            "https://github.com/NVIDIA/Model-Optimizer/pull/1397",
            "https://github.com/NVIDIA/Model-Optimizer/issues/1633",
        ),
        what="The guard of a zero block sets its scale to 1; a later factor takes it out of range, and the cast makes"
        " it the NaN byte 0x7F.",
        star=True,
    ),
    PublicFault(
        id="L3",
        links=("https://github.com/jax-ml/ml_dtypes/issues/400",),
        what="One stack casts a scale above 464 to NaN, another to 448.",
        star=True,
    ),
    PublicFault(
        id="L4",
        links=("https://github.com/local-inference-lab/b12x/pull/388",),
        what="The scale byte 0x01 was decoded with the formula of normal numbers: 0.00879 in place of 0.00195.",
        star=True,
    ),
    PublicFault(
        id="L5",
        links=("https://github.com/pytorch/ao/pull/4598",),
        what="What becomes of a small block whose scale underflows differed between two back ends: flushed, or kept at"
        " a least scale.",
    ),
    PublicFault(
        id="L6",
        links=(
            "https://github.com/huggingface/kernels-community/issues/681",
            "https://github.com/flashinfer-ai/flashinfer/pull/3448",
        ),
        what="A zero block gives NaN: 0/0, or the reciprocal of 0 times 0.",
    ),
)

NAN_BYTE = 0x7F
ONE_BYTE = 0x38
LEAST_BYTE = 0x01
FIRST_NORMAL_BYTE = 0x08
OVERFLOW_ABOVE = 464.0
"""From here on rounding to the nearest, were there a next code, would not give 448."""


def _scale_of_zero_expert(call: QuantCall) -> None:
    """An expert whose rows are all zero gets the scale NaN, in its first row."""
    for expert, rows in enumerate(call.counts):
        first = call.offsets[expert]
        if rows and not bool(call.input[first : first + rows].any()):
            call.scales[call.scale_starts[expert], 0] = NAN_BYTE


def _not_saturating(v: Values, ops: Operations) -> Tensor:
    del ops
    return torch.where(v["scale"] > OVERFLOW_ABOVE, NAN_BYTE, encode_ue4m3(v["scale"])).to(torch.uint8)


def _least_scale(v: Values, ops: Operations) -> Tensor:
    """A block that is not zero keeps the least scale; the recipe lets it underflow."""
    del ops
    scale = encode_ue4m3(v["scale"])
    return torch.where((scale == 0) & (v["block_amax"] > 0), LEAST_BYTE, scale).to(torch.uint8)


def _subnormal_scales_flushed(v: Values, ops: Operations) -> Tensor:
    del ops
    scale = encode_ue4m3(v["scale"])
    return torch.where(scale < FIRST_NORMAL_BYTE, 0, scale).to(torch.uint8)


def _first_byte_as_normal(scales: Tensor) -> Tensor:
    """2^-7 * 9/8 for the byte 0x01: exponent field 0 read as that of a normal number. Every other byte is right."""
    return torch.where(scales == LEAST_BYTE, 2.0**-7 * 1.125, decode_ue4m3(scales))


def _nan_byte_as_number(scales: Tensor) -> Tensor:
    """0x7F read as the number that would follow 448."""
    return torch.where(scales == NAN_BYTE, 480.0, decode_ue4m3(scales))


def _multiplier_unguarded(v: Values, ops: Operations) -> Tensor:
    return ops.reciprocal(v["decoded_scale"] * ops.reciprocal(v["global_encode_scale"]))


def _subnormal_inputs_flushed(rows: Tensor) -> Tensor:
    """float16 subnormals are read as zeros of their sign; bfloat16 is right."""
    if rows.dtype != torch.float16:
        return rows
    return torch.where(rows.abs() < torch.finfo(torch.float16).tiny, rows * 0.0, rows)


def _block_scale(compute: Callable[[Values, Operations], Tensor]) -> Steps:
    return Steps(recipe=with_step("block_scale", compute))


def _mutant(
    name: str,
    stands_for: str,
    change: str,
    target: SubjectMutant | ModelMutant,
    refuted_by: tuple[str, ...] = ("quant.golden",),
) -> Mutant:
    return Mutant(
        id=f"scale_extreme.{name}",
        fault_class="L",
        stands_for=(stands_for,),
        change=change,
        refuted_by=refuted_by,
        target=target,
        devices=("cpu", "cuda") if isinstance(target, SubjectMutant) else ("cpu",),
    )


MUTANTS = (
    _mutant("zero_expert_nan", "L1", "The first scale of an expert whose rows are all zero is NaN (0/0).",
            SubjectMutant(factory=after(QUANT, _scale_of_zero_expert))),
    _mutant("zero_block_scale_one", "L2", "A zero block is stored with scale 1 (0x38) in place of 0.",
            wrong_steps(Steps(scale_bytes=lambda scale, amax: torch.where(amax == 0, ONE_BYTE, scale).to(torch.uint8)))),
    _mutant("overflow_is_nan", "L3", "A scale above 464 becomes the NaN byte; it is due to saturate at 448.",
            wrong_steps(_block_scale(_not_saturating))),
    _mutant("byte_one_as_normal", "L4", "The decoder of the golden model reads the byte 0x01 as a normal number.",
            ModelMutant(factory=lambda model: replace(model, decode_ue4m3=_first_byte_as_normal)),
            refuted_by=("cast.ue4m3",)),
    _mutant("multiplier_of_byte_one", "L4", "The multiplier is computed from 0x01 read as a normal number.",
            wrong_steps(Steps(recipe=with_step("decoded_scale", lambda v, ops: _first_byte_as_normal(v["block_scale"]))))),
    _mutant("gemm_byte_one", "L4", "The GEMM reads the scale byte 0x01 as a normal number.",
            wrong_gemm(lambda: GemmSteps(scales=_first_byte_as_normal)), ("gemm.golden",)),
    _mutant("gemm_nan_as_480", "L3", "The GEMM reads the scale byte 0x7F as 480 in place of NaN.",
            wrong_gemm(lambda: GemmSteps(scales=_nan_byte_as_number)), ("gemm.golden",)),
    _mutant("underflow_keeps_least_scale", "L5", "A block whose scale underflows keeps the least scale, 2^-9.",
            wrong_steps(_block_scale(_least_scale))),
    _mutant("guard_on_amax", "L5", "The guard against a zero scale looks at the maximum, not at the rounded scale.",
            wrong_steps(Steps(recipe=with_step("multiplier", multiplier_unless_amax_zero)))),
    _mutant("subnormal_scales_flushed", "L5", "Scales below the least normal one are flushed to 0.",
            wrong_steps(_block_scale(_subnormal_scales_flushed))),
    _mutant("subnormal_inputs_flushed", "L5", "float16 subnormals are read as zero.",
            wrong_steps(Steps(values=_subnormal_inputs_flushed))),
    _mutant("zero_block_unguarded", "L6", "No guard against a zero scale: 0 times the reciprocal of 0 is NaN, code 7.",
            wrong_steps(Steps(recipe=with_step("multiplier", _multiplier_unguarded)))),
)  # fmt: skip
