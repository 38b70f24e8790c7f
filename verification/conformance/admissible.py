"""Bytes that documented instruction errors can reach: the judgement where no table of the chip was measured.

The recipe's approximate instructions have documented errors (CUDA C++ Programming Guide, intrinsic functions; PTX ISA,
rcp.approx.ftz): `rcp.approx.ftz` 1 ulp, subnormal inputs and results flushed; `__expf` 2 + floor(|1.173 x|) ulp;
`__fdividef` 2 ulp. Every step of the recipe is monotone in the magnitudes, so a byte is reachable exactly when it
lies between the bytes of the two extreme chains; those chains are what this module computes:

    scale byte in [e4m3(g * (a_lo * r)), e4m3(g * (a_hi * r))],  r = rcp(6), a = block amax
    |code|     in [e2m1(|x|_lo * m_lo), e2m1(|x|_hi * m_hi)],  m = rcp(SF * rcp(g)), SF the subject's own scale byte

x and a are exact but for the fused form, where x = round(silu(gate) * up) and silu has an interval of its own. A byte
inside its interval is ADMISSIBLE, which is never called exact.

Two results are known exactly, and leave one byte where nothing else is open: the reciprocal of a power of two is a power
of two, and rcp(6) is the float32 nearest to 1/6. Every measured table has both (a test holds the shipped ones to it); a
chip that had them otherwise would be judged by its own table.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nvfp4_moe.reference.casts import decode_ue4m3, encode_e2m1, encode_ue4m3, unpack
from nvfp4_moe.reference.formats import NVFP4

RECIPES = ("vllm", "tensorrt_llm")
"""Recipes whose approximate steps this module knows."""

_SMALLEST_NORMAL = torch.finfo(torch.float32).tiny
_DIVISOR_OF_ZERO = 2.0**126 * (1 - 2.0**-12)
"""Where `__fdividef` may give 0; `__expf` is off by less than 2^-12 there."""
_LARGEST = torch.finfo(torch.float32).max
_EXP_ULPS, _EXP_ULPS_PER_X = 2, 1.173
_DIVIDE_ULPS = 2
_ULP = 2.0**-23
"""Largest ulp of a float32 relative to its value."""
_POWER_OF_TWO = 0.5
"""Mantissa of one, as `frexp` gives it."""
_CODE_MAGNITUDE = 0x07
_NAN_CODE, _SCALE_NAN = 0x07, 0x7F
"""NaN becomes the code +6, and the scale byte of a block of NaN alone."""


@dataclass(frozen=True, eq=False)
class Interval:
    """Magnitudes that lie between two float32 tensors; both are NaN where the value must be."""

    low: torch.Tensor
    high: torch.Tensor
    may_be_nan: torch.Tensor
    """bool: NaN is possible besides."""

    def blocks(self) -> Interval:
        """Return it with the last dimension cut into blocks."""
        cut = [part.unflatten(-1, (-1, NVFP4.block_size)) for part in (self.low, self.high, self.may_be_nan)]
        return Interval(*cut)


def exact_interval(values: torch.Tensor) -> Interval:
    """Return the magnitudes of exactly known 16-bit inputs (rows, K)."""
    magnitude = values.to(torch.float32).abs()
    return Interval(magnitude, magnitude, magnitude.isnan())


def silu_interval(gate_up: torch.Tensor) -> Interval:
    """Return |round(silu(gate) * up)| for (rows, 2K) inputs, over the documented errors of the SiLU sequence.

    The relative error of e = exp(-x) is at most (2 + 1.173 |x|) ulp; 1 + e adds half an ulp, the division two.
    """
    gate, up = (half.to(torch.float64) for half in gate_up.chunk(2, dim=-1))
    exponential = torch.exp(-gate)
    error = (_EXP_ULPS + _EXP_ULPS_PER_X * gate.abs()) * exponential / (1 + exponential)
    relative = ((error + _DIVIDE_ULPS + 1) * _ULP).nan_to_num(1.0).clamp_(max=1.0)
    silu = (gate / (1 + exponential)).abs()
    product = silu * up.abs()
    low = (product * (1 - 2 * relative)).clamp_(min=0)
    high = product * (1 + 2 * relative)
    # Results near the bottom of float32 may be flushed on the way: from there any smaller magnitude is reachable,
    # and zero times infinity is NaN. silu(-Inf) is the limit -0 or, computed as -Inf / Inf, NaN.
    # `__fdividef` gives 0 for divisors above 2^126, which 1 + e is from about x = -87.3 down.
    tiny = (silu < 2 * _SMALLEST_NORMAL) | (1 + exponential > _DIVISOR_OF_ZERO)
    tiny &= gate.isfinite() & ~up.isnan()
    limit = (gate == -torch.inf) & up.isfinite()
    low = torch.where(tiny | limit, 0.0, low)
    high = torch.where(limit, 0.0, torch.where(tiny & up.isinf(), torch.inf, high))
    rounded = [bound.to(torch.float32).to(gate_up.dtype).to(torch.float32) for bound in (low, high)]
    return Interval(rounded[0], rounded[1], limit | (tiny & up.isinf()) | rounded[0].isnan())


def admissible(
    packed: torch.Tensor,
    scales: torch.Tensor,
    *,
    magnitudes: Interval,
    signs: torch.Tensor,
    global_scale: torch.Tensor,
    recipe: str = "vllm",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which of a subject's bytes are reachable, as bool tensors of the shapes of `packed` and `scales`.

    Args:
        packed: uint8 (rows, K/2), the subject's.
        scales: uint8 (rows, K/16), the subject's, linear.
        magnitudes: of the elements, (rows, K).
        signs: bool (rows, K): the element is negative (or -0).
        global_scale: float32 (rows, 1), encode direction.
        recipe: a name of `RECIPES`.
    """
    blocks = magnitudes.blocks()
    dropped = torch.where(blocks.may_be_nan, 0.0, blocks.low)  # NaN elements do not count
    smallest, largest = dropped.amax(-1), torch.where(blocks.high.isnan(), 0.0, blocks.high).amax(-1)
    sixth = torch.tensor(6.0).reciprocal()
    low = encode_ue4m3(global_scale * (smallest * sixth))
    high = encode_ue4m3(global_scale * (largest * sixth))
    nothing_else = blocks.may_be_nan.all(-1) & (scales == _SCALE_NAN)
    scales_ok = ((scales >= low) & (scales <= high)) | nothing_else
    # The multiplier is zero where the scale byte is (vllm), or where the block is (tensorrt_llm).
    zero = decode_ue4m3(scales) == 0 if recipe == "vllm" else largest == 0
    codes_ok = _codes_reachable(unpack(packed), scales, zero, blocks, signs, global_scale)
    return codes_ok[..., 0::2] & codes_ok[..., 1::2], scales_ok


def _codes_reachable(
    codes: torch.Tensor,
    scales: torch.Tensor,
    zero: torch.Tensor,
    blocks: Interval,
    signs: torch.Tensor,
    global_scale: torch.Tensor,
) -> torch.Tensor:
    decoded = decode_ue4m3(scales)
    inverse_low, inverse_high = _reciprocal(global_scale)
    smallest, _ = _reciprocal(decoded * inverse_high)
    _, largest = _reciprocal(decoded * inverse_low)
    below, above = (torch.where(zero, 0.0, multiplier)[..., None] for multiplier in (smallest, largest))
    low, high = (
        encode_e2m1(product.flatten(-2)) & _CODE_MAGNITUDE
        for product in (blocks.low * below, blocks.high * above)
    )
    magnitude = codes & _CODE_MAGNITUDE
    inside = (magnitude >= low) & (magnitude <= high) & ((codes > _CODE_MAGNITUDE) == signs)
    must_be_nan = blocks.low.isnan() | (blocks.low * below).isnan() & (blocks.high * above).isnan()
    may_be_nan = blocks.may_be_nan | (blocks.low * below).isnan() | (blocks.high * above).isnan()
    return (inside & ~must_be_nan.flatten(-2)) | (may_be_nan.flatten(-2) & (codes == _NAN_CODE))


def _reciprocal(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and the greatest rcp.approx.ftz of non-negative values."""
    exact = torch.ones_like(values) / values
    known = torch.frexp(values).mantissa == _POWER_OF_TWO
    low = torch.where(known, exact, torch.nextafter(exact, torch.zeros_like(exact)))
    high = torch.where(known, exact, torch.nextafter(exact, torch.full_like(exact, torch.inf)))
    low = torch.where(low < _SMALLEST_NORMAL, 0.0, low)  # a subnormal result is flushed
    flushed = values < _SMALLEST_NORMAL  # a subnormal input counts as zero
    low = torch.where(flushed | exact.isinf(), torch.inf, low)
    high = torch.where(flushed | exact.isinf(), torch.inf, high)
    return torch.where(values.isinf(), 0.0, low), torch.where(values.isinf(), 0.0, high)
