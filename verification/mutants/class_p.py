"""Class P: a global scale that is missing, inverted, or another expert's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.recipe_steps import Values
from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.recipe_parts import unless_scale_zero, with_step
from nvfp4_moe.verification.mutants.stepwise import Steps, Wrong, target_of
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, alpha_of_row, wrong_gemm
from nvfp4_moe.verification.mutants.wrap import (
    LAYER,
    MASKED,
    QUANT,
    LayerCall,
    MaskedCall,
    QuantCall,
    around,
    before,
)

FAULTS = (
    PublicFault(
        id="P2",
        links=(
            "https://github.com/vllm-project/vllm/issues/45212",
            "https://github.com/vllm-project/vllm/pull/45320",
            "https://github.com/vllm-project/vllm/issues/54189",
            "https://github.com/sgl-project/sglang/pull/13162",
        ),
        what="Per-expert scales that a checkpoint lacks stay what torch.empty left, or 0: 1/0 and NaN tokens, depending"
        " on the prompt.",
        star=True,
    ),
    PublicFault(
        id="P3",
        links=("https://github.com/flashinfer-ai/flashinfer/pull/2977",),
        what="A kernel indexes its global scale by expert, the documentation says one element: it reads past the end.",
    ),
    PublicFault(
        id="P4",
        links=(
            "https://github.com/vllm-project/vllm/pull/55643",
            "https://github.com/modular/modular/issues/6600",
        ),
        what="A divisor is stored where a multiplier is expected: the global scale's direction.",
        star=True,
    ),
    PublicFault(
        id="P5",
        links=(
            "https://github.com/NVIDIA/TensorRT-LLM/pull/14199",
            "https://github.com/vllm-project/vllm/issues/54974",
        ),
        what="Gate and up have different global scales; the mismatch is seen, warned of and used anyway: one half is"
        " up to ten times too large.",
    ),
)

_VECTOR = 4
"""Floats of one 16-byte load."""
_PAIR = 2


def _whole_vectors(scales: Tensor, expert: Tensor) -> Tensor:
    """The scales come in vectors of four; those behind the last whole vector stay 0 in the kernel's copy."""
    copy = scales.clone()
    if len(scales) > _VECTOR:
        copy[len(scales) // _VECTOR * _VECTOR :] = 0
    return copy[expert]


def _never_set(scales: Tensor, expert: Tensor) -> Tensor:
    """The scale of the last of several experts was never set."""
    last = len(scales) - 1
    return torch.where((expert == last) & (last > 0), torch.nan, scales[expert])


def _larger_of_two(call: QuantCall) -> QuantCall:
    """The last two experts share the larger scale of both, where both have rows."""
    scales = call.input_global_scale.clone()
    if min(call.counts[-2:], default=0):
        scales[-2:] = scales[-2:].max()
    return replace(call, input_global_scale=scales)


def _unused_scales_count(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """A scale that is not finite makes the call write zeros, also that of an expert without rows."""

    def wrong(call: QuantCall) -> None:
        right(call)
        if not bool(call.input_global_scale.isfinite().all()):
            call.output[: call.routed_rows] = 0

    return wrong


def _one_for_all(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """A single scale is accepted for several experts, all of which then have it."""

    def wrong(call: QuantCall) -> None:
        experts = call.expert_offsets.numel() - 1
        one = call.input_global_scale.numel() == 1 < experts
        scales = call.input_global_scale
        right(replace(call, input_global_scale=scales.expand(experts).contiguous() if one else scales))

    return wrong


def _inverted(call: QuantCall) -> QuantCall:
    """The last of several experts came with its scale in decode direction."""
    scales = call.input_global_scale.clone()
    scales[1:][-1:] = scales[1:][-1:].reciprocal()
    return replace(call, input_global_scale=scales)


def _multiplier_without_scale(v: Values, ops: Operations) -> Tensor:
    return ops.reciprocal(v["decoded_scale"])


def _rank_among_filled(scales: Tensor, expert: Tensor) -> Tensor:
    """The scale is looked up by the number of the expert among those that have rows."""
    return scales[expert.unique(return_inverse=True)[1]]


def _expert_of_pair(scales: Tensor, expert: Tensor) -> Tensor:
    """Two neighbouring rows share one look-up: the second row of a pair has the first one's scale."""
    row = torch.arange(len(expert), device=expert.device)
    return scales[expert[row - row % _PAIR]]


def _last_block_of_next(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The last block of each row is coded with the scale of the next expert that has rows."""

    def wrong(call: QuantCall) -> None:
        right(call)
        filled = [expert for expert, rows in enumerate(call.counts) if rows]
        scales = call.input_global_scale.clone()
        scales[filled] = scales[filled[1:] + filled[:1]]
        other = replace(
            call,
            output=call.output.clone(),
            output_scale=call.output_scale.clone(),
            input_global_scale=scales,
        )
        right(other)
        call.output[: call.routed_rows, -8:] = other.output[: call.routed_rows, -8:]

    return wrong


def _masked_first(call: MaskedCall) -> MaskedCall:
    """Every expert has the scale of the first that has rows."""
    filled = [expert for expert, rows in enumerate(call.counts) if rows]
    scales = call.input_global_scale
    return replace(
        call, input_global_scale=scales[filled[0]].expand(len(scales)).contiguous() if filled else scales
    )


def _alpha_never_set(alphas: Tensor, ends: Tensor) -> Tensor:
    """The GEMM's factor of the last of several experts is still 1."""
    given = alphas.clone()
    given[1:][-1:] = 1
    return alpha_of_row(given, ends)


def _scale_of_first_gemm(call: LayerCall) -> LayerCall:
    """The last expert's intermediate is quantized with the first GEMM's scale: right where both are equal."""
    scales = call.a2_gscale.clone()
    scales[-1] = call.a1_gscale[-1]
    return replace(call, a2_gscale=scales)


def _alpha_of_first_gemm(call: LayerCall) -> LayerCall:
    factors = call.w2_alphas.clone()
    factors[-1] = call.w1_alphas[-1]
    return replace(call, w2_alphas=factors)


def _mutant(name: str, fault: str, change: str, wrong: Wrong, *refuted_by: str) -> Mutant:
    return Mutant(
        id=f"scale_wiring.{name}",
        fault_class="P",
        stands_for=(fault,),
        change=change,
        refuted_by=refuted_by or ("quant.golden",),
        target=target_of(wrong),
        devices=("cpu", "cuda"),
    )


MUTANTS = (
    _mutant("whole_vectors", "P2", "Scales behind the last whole vector of four experts are 0.",
            Steps(scale_of_row=_whole_vectors)),
    _mutant("never_set", "P2", "The last of several experts has the scale NaN.", Steps(scale_of_row=_never_set)),
    _mutant("unused_scale_counts", "P2", "A scale that is not finite makes the output 0, also one that no row uses.",
            around(QUANT, _unused_scales_count), "quant.poison", "quant.golden"),
    _mutant("alpha_never_set", "P2", "The GEMM's factor of the last of several experts is 1.",
            wrong_gemm(lambda: GemmSteps(alpha_of_row=_alpha_never_set)), "gemm.golden"),
    _mutant("scale_of_first_gemm", "P5", "The layer quantizes its last expert's intermediate with the first GEMM's scale.",
            SubjectMutant(factory=before(LAYER, _scale_of_first_gemm), base="reference"), "layer.golden"),
    _mutant("alpha_of_first_gemm", "P5", "The layer's second GEMM has the first one's factor for the last expert.",
            SubjectMutant(factory=before(LAYER, _alpha_of_first_gemm), base="reference"), "layer.golden"),
    _mutant("one_for_all", "P3", "A single scale for several experts is accepted and used for all.",
            around(QUANT, _one_for_all), "quant.refusal"),
    _mutant("inverted", "P4", "The last of several experts has its scale in decode direction.", before(QUANT, _inverted)),
    _mutant("multiplier_without_scale", "P4", "The multiplier is 1/SF: right where the global scale is 1.",
            Steps(recipe=with_step("multiplier", unless_scale_zero(_multiplier_without_scale)))),
    _mutant("larger_of_two", "P5", "The last two experts share the larger of their scales.",
            before(QUANT, _larger_of_two)),
    _mutant("last_block_of_next_expert", "P5", "The last block's codes are made with the scale of the next expert that has rows.",
            around(QUANT, _last_block_of_next)),
    _mutant("rank_among_filled", "P5", "The scale is that of the expert's rank among experts that have rows.",
            Steps(scale_of_row=_rank_among_filled), "quant.golden", "quant.poison"),
    _mutant("one_for_a_pair_of_rows", "P5", "The second of two neighbouring rows has the scale of the first one's expert.",
            Steps(scale_of_row=_expert_of_pair)),
    _mutant("masked_first", "P5", "In the masked form every expert has the scale of the first that has rows.",
            before(MASKED, _masked_first), "masked_quant.golden"),
)  # fmt: skip
