"""Class M: code points at zero: signed zeros, subnormal codes, and what has no code of its own."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.reference.casts import decode_e2m1, encode_e2m1
from nvfp4_moe.verification.mutants.mutant import ModelMutant, Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.stepwise import Steps, block_amax, wrong_steps
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, wrong_gemm

FAULTS = (
    PublicFault(
        id="M1",
        links=("https://github.com/tenstorrent/tt-metal/pull/47219",),
        what="A packer sets the sign bit of a zero, unconditionally; the hardware reads another value there. A round"
        " trip of values cannot see it: -0 equals 0.",
        star=True,
    ),
    PublicFault(
        id="M2",
        links=("https://github.com/tile-ai/tilelang/issues/2704",),
        what="The codes 0, 1, 8 and 9 are decoded as +-0.5 and +-0.75: exponent field 0 is read as that of a normal"
        " number.",
        star=True,
    ),
)

SIGN = 8
PLUS_SIX = 7


def _zero_without_sign(values: Tensor) -> Tensor:
    """Of an element that is -0.0 once scaled; one that rounds to zero keeps its sign."""
    codes = encode_e2m1(values)
    return torch.where((values == 0) & (codes == SIGN), 0, codes).to(torch.uint8)


def _tiny_without_sign(values: Tensor) -> Tensor:
    """Of an element that rounds to zero; one that is -0.0 keeps its sign."""
    codes = encode_e2m1(values)
    return torch.where((values != 0) & (codes == SIGN), 0, codes).to(torch.uint8)


def _sign_of_nan(values: Tensor) -> Tensor:
    """The sign bit is set from the input's, unconditionally: also that of a NaN, whose code is +6."""
    return encode_e2m1(values) | (values.signbit().to(torch.uint8) << 3)


def _nan_is_zero(values: Tensor) -> Tensor:
    return torch.where(values.isnan(), 0, encode_e2m1(values)).to(torch.uint8)


def _past_the_last_code(values: Tensor) -> Tensor:
    """A magnitude that would round to 8 takes the code behind 6, which is that of -0."""
    codes = encode_e2m1(values)
    past = (values.abs() >= 7) & values.isfinite()
    return torch.where(past, (codes & SIGN) ^ SIGN, codes)


def _code_one_as_normal(values: Tensor) -> Tensor:
    """The nearest of the magnitudes that a decoder knows in which code 1 is 0.75: up to 0.875 it is nearer than 1."""
    codes = encode_e2m1(values)
    return torch.where((values.abs() > 0.75) & (values.abs() < 0.875), codes - 1, codes)  # code 2 is 1


def _exponent_zero_as_normal(codes: Tensor) -> Tensor:
    """+-0.5 for the codes 0 and 8, +-0.75 for 1 and 9."""
    right = decode_e2m1(codes)
    magnitude = torch.where(codes & PLUS_SIX == 0, 0.5, 0.75)
    return torch.where(codes & PLUS_SIX <= 1, torch.copysign(magnitude, right), right)


def _zero_as_normal(codes: Tensor) -> Tensor:
    """The weaker form: -0 alone is read as -0.5."""
    return torch.where(codes == SIGN, -0.5, decode_e2m1(codes))


def _signed_amax(blocks: Tensor) -> Tensor:
    """The largest magnitude with the sign still on it where it is zero: of a block of -0.0 alone it is -0.0."""
    amax = block_amax(blocks)
    return torch.where((blocks == 0).all(-1) & blocks.signbit().all(-1), -0.0, amax)


def _mutant(
    name: str, fault: str, change: str, target: SubjectMutant | ModelMutant, check: str = "quant.golden"
) -> Mutant:
    return Mutant(
        id=f"code_table.{name}",
        fault_class="M",
        stands_for=(fault,),
        change=change,
        refuted_by=(check,),
        target=target,
        devices=("cpu", "cuda") if isinstance(target, SubjectMutant) else ("cpu",),
    )


MUTANTS = (
    _mutant("negative_zero_lost", "M1", "An element that is -0.0 once scaled gets code 0 in place of 8; what rounds to -0 is right.",
            wrong_steps(Steps(codes=_zero_without_sign))),
    _mutant("tiny_negative_lost", "M1", "A negative element that rounds to zero gets code 0 in place of 8.",
            wrong_steps(Steps(codes=_tiny_without_sign))),
    _mutant("sign_of_nan", "M1", "The sign bit is set also for a NaN, whose code is +6 whatever its sign.",
            wrong_steps(Steps(codes=_sign_of_nan))),
    _mutant("scale_of_minus_zero", "M1", "A block of -0.0 alone is stored with the scale byte 0x80 in place of 0x00.",
            wrong_steps(Steps(amax=_signed_amax))),
    _mutant("decoder_exponent_zero", "M2", "The golden model decodes 0, 1, 8 and 9 as +-0.5 and +-0.75.",
            ModelMutant(factory=lambda model: replace(model, decode_e2m1=_exponent_zero_as_normal)), "cast.e2m1"),
    _mutant("decoder_minus_zero", "M2", "The golden model decodes code 8 alone as -0.5.",
            ModelMutant(factory=lambda model: replace(model, decode_e2m1=_zero_as_normal)), "cast.e2m1"),
    _mutant("gemm_exponent_zero", "M2", "The GEMM decodes 0, 1, 8 and 9 as +-0.5 and +-0.75.",
            wrong_gemm(lambda: GemmSteps(codes=_exponent_zero_as_normal)), "gemm.golden"),
    _mutant("gemm_minus_zero", "M2", "The GEMM decodes code 8 alone as -0.5.",
            wrong_gemm(lambda: GemmSteps(codes=_zero_as_normal)), "gemm.golden"),
    _mutant("encoder_code_one", "M2", "Between 0.75 and 0.875 an element gets code 1 in place of 2.",
            wrong_steps(Steps(codes=_code_one_as_normal))),
    _mutant("past_the_last_code", "M2", "A finite element of 7 and more after scaling gets the code behind 6: a zero.",
            wrong_steps(Steps(codes=_past_the_last_code))),
    _mutant("nan_is_zero", "M2", "A NaN element gets code 0 in place of that of +6.",
            wrong_steps(Steps(codes=_nan_is_zero))),
)  # fmt: skip
