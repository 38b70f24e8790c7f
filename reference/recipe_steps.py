"""The operations that recipes are made of: each computes one value per block from values computed before.

Float32 throughout, one rounding per written operation; `/` is always the IEEE quotient, `rcp` the reciprocal of the
arithmetic in use. Symbols: a block_amax, g global_encode_scale, p global_decode_scale, SF the decoded block scale.
Of NaN and a number, `min`, `max` and `clamp` return the number, as C fminf and PTX min do; `nan_min` and `nan_clamp`
return NaN, as torch does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.casts import decode_ue4m3, encode_ue4m3
from nvfp4_moe.reference.formats import NVFP4

Values = Mapping[str, torch.Tensor]
"""What has been computed so far, by name: float32 (R, K/16), block_scale uint8; the global scale () or (R, 1)."""

FLOAT32_MAX = torch.finfo(torch.float32).max


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on values per block."""

    writes: str
    formula: str
    compute: Callable[[Values, Operations], torch.Tensor]


def _constant(value: float, like: torch.Tensor) -> torch.Tensor:
    """Return `value` in every place of `like`: torch divides by a scalar as a product on some devices."""
    return torch.full_like(like, value, dtype=torch.float32)


def _largest_code(like: torch.Tensor) -> torch.Tensor:
    return _constant(NVFP4.element.max, like)


def _inverse(values: torch.Tensor) -> torch.Tensor:
    """Return the IEEE quotient 1 / values."""
    return torch.div(_constant(1.0, values), values)


def _at_most(values: torch.Tensor, most: float) -> torch.Tensor:
    """Return min(values, most), `most` where a value is NaN."""
    return torch.fmin(values, _constant(most, values))


def scale_amax_first(v: Values, ops: Operations) -> torch.Tensor:
    """Return g * (a * rcp(6))."""
    a, g = v["block_amax"], v["global_encode_scale"]
    return g * (a * ops.reciprocal(_largest_code(a)))


def scale_global_first(v: Values, ops: Operations) -> torch.Tensor:
    """Return min(a * (g * (1/6)), FLT_MAX)."""
    del ops
    a, g = v["block_amax"], v["global_encode_scale"]
    return _at_most(a * (g * _inverse(_largest_code(g))), FLOAT32_MAX)


def scale_global_first_approximate(v: Values, ops: Operations) -> torch.Tensor:
    """Return a * (g * rcp(6))."""
    a, g = v["block_amax"], v["global_encode_scale"]
    return a * (g * ops.reciprocal(_largest_code(g)))


def scale_quotient_times_encode(v: Values, ops: Operations) -> torch.Tensor:
    """Return (a / 6) * g."""
    del ops
    a, g = v["block_amax"], v["global_encode_scale"]
    return torch.div(a, _largest_code(a)) * g


def scale_quotient_over_decode(v: Values, ops: Operations) -> torch.Tensor:
    """Return (a / 6) / p."""
    del ops
    a, p = v["block_amax"], v["global_decode_scale"]
    return torch.div(torch.div(a, _largest_code(a)), p)


def nan_clamp_scale(least: float) -> Callable[[Values, Operations], torch.Tensor]:
    """Return the operation that limits `unclamped_scale` to [least, 448]; NaN stays NaN."""

    def clamp(v: Values, ops: Operations) -> torch.Tensor:
        del ops
        return v["unclamped_scale"].clamp(least, NVFP4.scale.max)

    return clamp


def clamp_scale(least: float) -> Callable[[Values, Operations], torch.Tensor]:
    """Return the operation that limits `unclamped_scale` to [least, 448]; NaN becomes `least`."""

    def clamp(v: Values, ops: Operations) -> torch.Tensor:
        del ops
        scale = v["unclamped_scale"]
        return _at_most(torch.fmax(scale, _constant(least, scale)), NVFP4.scale.max)

    return clamp


def encode_scale(v: Values, ops: Operations) -> torch.Tensor:
    """Return the UE4M3 byte of the scale."""
    del ops
    return encode_ue4m3(v["scale"])


def decode_scale(v: Values, ops: Operations) -> torch.Tensor:
    """Return SF, the value of the scale byte."""
    del ops
    return decode_ue4m3(v["block_scale"])


def _reciprocal_of_product(v: Values, ops: Operations) -> torch.Tensor:
    """Return rcp(SF * rcp(g))."""
    return ops.reciprocal(v["decoded_scale"] * ops.reciprocal(v["global_encode_scale"]))


def multiplier_unless_scale_zero(v: Values, ops: Operations) -> torch.Tensor:
    """Return rcp(SF * rcp(g)), or 0 where the rounded scale is zero."""
    return torch.where(v["decoded_scale"] == 0, 0.0, _reciprocal_of_product(v, ops))


def multiplier_unless_amax_zero(v: Values, ops: Operations) -> torch.Tensor:
    """Return rcp(SF * rcp(g)), or 0 where the block is zero."""
    return torch.where(v["block_amax"] == 0, 0.0, _reciprocal_of_product(v, ops))


def multiplier_ieee_bounded(v: Values, ops: Operations) -> torch.Tensor:
    """Return min(1 / (SF * (1/g)), FLT_MAX)."""
    del ops
    product = v["decoded_scale"] * _inverse(v["global_encode_scale"])
    return _at_most(_inverse(product), FLOAT32_MAX)


def multiplier_encode_times_reciprocal(v: Values, ops: Operations) -> torch.Tensor:
    """Return nan_min(g * rcp(SF), FLT_MAX)."""
    return (v["global_encode_scale"] * ops.reciprocal(v["decoded_scale"])).clamp(max=FLOAT32_MAX)


def multiplier_encode_over_scale(v: Values, ops: Operations) -> torch.Tensor:
    """Return g / SF."""
    del ops
    return torch.div(v["global_encode_scale"], v["decoded_scale"])


def multiplier_inverse_decode_over_scale(v: Values, ops: Operations) -> torch.Tensor:
    """Return (1/p) / SF."""
    del ops
    return torch.div(_inverse(v["global_decode_scale"]), v["decoded_scale"])
