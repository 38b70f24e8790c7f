"""Class K: another rounding or another order of the same operations, which no tolerance sees."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, encode_e2m1, encode_ue4m3
from nvfp4_moe.reference.recipe_steps import (
    Values,
    multiplier_encode_over_scale,
    multiplier_encode_times_reciprocal,
    scale_global_first_approximate,
)
from nvfp4_moe.reference.silu import silu
from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault
from nvfp4_moe.verification.mutants.recipe_parts import unless_scale_zero, with_step
from nvfp4_moe.verification.mutants.stepwise import Steps, wrong_steps
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, finish, wrong_gemm

FAULTS = (
    PublicFault(
        id="K1",
        links=("https://github.com/radixark/miles/pull/1054",),
        what="A quantizer was not bit-exact with the training engine's: its block scales were not rounded to nearest"
        " even, and the formula had another order.",
        star=True,
    ),
    PublicFault(
        id="K2",
        links=(
            "https://github.com/arch-hdl-lang/arch-com/issues/905",
            "https://github.com/arch-hdl-lang/arch-com/pull/926",
        ),
        what="v * (1/X) in place of v / X: no difference in 504,000 random elements, 294 in 6,174 beside ties.",
        star=True,
    ),
    PublicFault(
        id="K3",
        links=("https://github.com/ROCm/aiter/pull/3992",),
        what="A helper called even rounded ties away from zero: >= where > is due, at 0.25, 1.25, 2.5 and 5.",
        star=True,
    ),
    PublicFault(
        id="K4",
        links=(
            "https://github.com/vllm-project/vllm/pull/24833",
            "https://github.com/vllm-project/vllm/pull/24370",
        ),
        what="Fused SiLU and quantization computed the sigmoid as tanh(x/2)/2 + 0.5: accuracy fell online, tests"
        " passed offline.",
        star=True,
    ),
    PublicFault(
        id="K5",
        links=("https://github.com/vllm-project/vllm/pull/43557", "https://github.com/pytorch/ao/pull/4725"),
        what="Block scales differ near thresholds: float32 is rounded to bfloat16 before it is rounded to the scale"
        " type, and rounding twice can cross one.",
    ),
)


def _low_sixth(v: Values, ops: Operations) -> Tensor:
    sixth = ops.reciprocal(torch.full_like(v["block_amax"], 6.0))
    return v["global_encode_scale"] * (v["block_amax"] * torch.nextafter(sixth, torch.zeros_like(sixth)))


def _scale_in_bf16(v: Values, ops: Operations) -> Tensor:
    scale = v["global_encode_scale"] * (
        v["block_amax"] * ops.reciprocal(torch.full_like(v["block_amax"], 6.0))
    )
    return scale.to(torch.bfloat16).to(torch.float32)


def _half_up(v: Values, ops: Operations) -> Tensor:
    """The scale byte with ties rounded up: only where the even code is the lower one does it differ."""
    del ops
    even = encode_ue4m3(v["scale"])
    above = (even + 1).clamp_(max=0x7E)
    middle = (decode_ue4m3(even) + decode_ue4m3(above)) / 2
    return torch.where((v["scale"] == middle) & (even < 0x7E), above, even)


def _coefficient_in_bf16(v: Values, ops: Operations) -> Tensor:
    return multiplier_encode_over_scale(v, ops).to(torch.bfloat16).to(torch.float32)


def _quotient(elements: Tensor, found: Values) -> Tensor:
    divisor = found["decoded_scale"] * torch.div(
        torch.ones_like(found["global_encode_scale"]), found["global_encode_scale"]
    )
    zero = (found["decoded_scale"] == 0).unsqueeze(-1)
    return torch.where(zero, elements * 0.0, torch.div(elements, divisor.unsqueeze(-1)))


def _away_at(tie: float, *, negative: bool = False) -> Callable[[Tensor], Tensor]:
    """Round one tie away from zero, for one sign where `negative` asks for it."""

    def codes(values: Tensor) -> Tensor:
        right = encode_e2m1(values)
        at = values == -tie if negative else values.abs() == tie
        lower = decode_e2m1(right).abs() < tie
        return torch.where(at & lower, right + 1, right)

    return codes


def _sigmoid_of_tanh(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return _rounded(gate * (torch.tanh(gate * 0.5) * 0.5 + 0.5) * up, gate_up.dtype)


def _silu_rounded_first(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return _rounded(silu(gate).to(gate.dtype).float() * up.float(), gate_up.dtype)


def _product_not_rounded(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    product: Tensor = silu(gate) * up.float()
    return torch.where(product.isnan(), torch.nan, product)


def _rounded(product: Tensor, dtype: torch.dtype) -> Tensor:
    return product.to(dtype).masked_fill_(product.isnan(), torch.nan)


def _rounded_before_alpha(accumulated: Tensor, alpha: Tensor, dtype: torch.dtype) -> Tensor:
    return finish(accumulated.to(dtype).to(torch.float32), alpha, dtype)


def _mutant(name: str, stands_for: str, change: str, steps: Steps, *, fused: bool = False) -> Mutant:
    return Mutant(
        id=f"recipe.{name}",
        fault_class="K",
        stands_for=(stands_for,),
        change=change,
        refuted_by=("silu_quant.golden",) if fused else ("quant.golden",),
        target=wrong_steps(steps, fused=fused),
        devices=("cpu", "cuda"),
    )


def _scale(compute: Callable[[Values, Operations], Tensor]) -> Steps:
    return Steps(recipe=with_step("scale", compute))


def _multiplier(compute: Callable[[Values, Operations], Tensor]) -> Steps:
    return Steps(recipe=with_step("multiplier", unless_scale_zero(compute)))


MUTANTS = (
    _mutant("scale_order", "K1", "The scale is amax * (g * 1/6) in place of g * (amax * 1/6).",
            _scale(scale_global_first_approximate)),
    _mutant("scale_ties_up", "K1", "A scale in the middle of two codes is rounded up, not to the even one.",
            Steps(recipe=with_step("block_scale", _half_up))),
    _mutant("low_sixth", "K1", "The constant 1/6 is one unit in the last place too small.", _scale(_low_sixth)),
    _mutant("quotient", "K2", "Elements are divided by SF * (1/g); the recipe multiplies by its reciprocal.",
            Steps(scaled=_quotient)),
    _mutant("multiplier_order", "K2", "The multiplier is g * (1/SF) in place of 1 / (SF * (1/g)).",
            _multiplier(multiplier_encode_times_reciprocal)),
    _mutant("multiplier_in_bf16", "K2", "The multiplier is rounded to bfloat16.", _multiplier(_coefficient_in_bf16)),
    _mutant("tie_away_at_5", "K3", "5 is rounded to 6, away from zero; every other tie goes to the even code.",
            Steps(codes=_away_at(5.0))),
    _mutant("tie_away_at_minus_quarter", "K3", "-0.25 is rounded to -0.5; +0.25 and every other tie to the even code.",
            Steps(codes=_away_at(0.25, negative=True))),
    _mutant("sigmoid_of_tanh", "K4", "The sigmoid is tanh(x/2)/2 + 0.5 in float32.",
            Steps(activation=_sigmoid_of_tanh), fused=True),
    _mutant("silu_rounded_first", "K4", "SiLU is rounded to the input type before it is multiplied by up.",
            Steps(activation=_silu_rounded_first), fused=True),
    _mutant("product_not_rounded", "K4", "silu(gate) * up stays float32; the recipe rounds it to the input type.",
            Steps(activation=_product_not_rounded), fused=True),
    _mutant("scale_in_bf16", "K5", "The scale is rounded to bfloat16 on its way to the scale byte.",
            _scale(_scale_in_bf16)),
    Mutant(id="recipe.gemm_rounded_twice", fault_class="K", stands_for=("K5",),
           change="The GEMM's sums are rounded to the output type before alpha, and again behind it.",
           refuted_by=("gemm.golden",), target=wrong_gemm(lambda: GemmSteps(finish=_rounded_before_alpha)),
           devices=("cpu", "cuda")),
)  # fmt: skip
