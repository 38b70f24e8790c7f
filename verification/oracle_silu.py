"""The second oracle for the gated activation: round(float32(silu(gate)) * up) in the input type.

silu(x) = x / (1 + e^-x) is computed with 60 decimal digits (`decimal`, whose exp is correctly rounded) and rounded
once to float32 on integers. That is the correctly rounded value unless 60 digits cannot tell on which side of a
rounding boundary the true value lies; `silu` checks this for each input and raises if it ever happens.
"""

from __future__ import annotations

import decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from nvfp4_moe.verification.oracle import Float32, Float64, round_to_float32, rounded

DIGITS = 60
_CONTEXT = decimal.Context(prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_ERROR = Fraction(1, 10 ** (DIGITS - 4))
"""Bound on the relative error of the decimal result: three operations of half a unit in the last of 60 digits each, and
e^-x enlarges the rounding of its argument by at most |x| < 128."""

FAR = 128
"""Beyond it silu(x) is x, or rounds to -0: x differs from it by x*e^-128, below 2^-184 relative; and 128*e^-128 is below
2^-177 < 2^-150, half the smallest float32; |x|*e^x falls as x falls."""


def silu(x: float) -> float:
    """Return silu of a float32 number, the real value rounded once to float32; silu(-Inf) is the limit -0.0.

    Raises:
        ArithmeticError: 60 digits do not settle the rounding.
    """
    if x != x or x >= FAR or x == 0:
        return x
    if x <= -FAR:
        return -0.0
    exact = Fraction(x)
    argument = _CONTEXT.divide(decimal.Decimal(exact.numerator), decimal.Decimal(exact.denominator))
    grown = _CONTEXT.add(1, _CONTEXT.exp(-argument))
    value = Fraction(_CONTEXT.divide(argument, grown))
    low, high = round_to_float32(value * (1 - _ERROR)), round_to_float32(value * (1 + _ERROR))
    if low != high:
        raise ArithmeticError(f"{DIGITS} digits do not settle silu({x!r})")
    return float(low) if low else float(np.copysign(0.0, x))


def silu_and_mul(
    gate: Float32, up: Float32, *, silu_of_gate: Float64 | None = None, mantissa_bits: int | None = None
) -> Float64:
    """Return silu(gate) * up, one float32 product, rounded to bf16 or f16 where `mantissa_bits` says so.

    Args:
        gate, up: float32, same shape; 16-bit inputs widened.
        silu_of_gate: `silu` of each gate, if at hand.
        mantissa_bits: 7 (bf16), 10 (f16) or None (float32: no second rounding).

    Returns:
        float64 of the same shape, each a number of the type.
    """
    if silu_of_gate is None:
        silu_of_gate = np.array([silu(float(x)) for x in gate.reshape(-1)]).reshape(gate.shape)
    with np.errstate(all="ignore"):
        product = rounded(silu_of_gate * up.astype(np.float64))
    if mantissa_bits is None:
        return product
    return nearest_of_16_bits(product, mantissa_bits=mantissa_bits)


def numbers_of_16_bits(*, mantissa_bits: int) -> Float64:
    """Return the value of each of the 2^16 bit patterns of bf16 (7 mantissa bits) or f16 (10), by the IEEE 754 rule."""
    exponent_bits = 15 - mantissa_bits
    bias = 2 ** (exponent_bits - 1) - 1
    patterns = np.arange(2**16)
    mantissa = patterns % 2**mantissa_bits
    exponent = patterns // 2**mantissa_bits % 2**exponent_bits
    fraction = mantissa / 2**mantissa_bits
    magnitude = np.where(exponent == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, exponent - bias))
    special = np.where(mantissa == 0, np.inf, np.nan)
    magnitude = np.where(exponent == 2**exponent_bits - 1, special, magnitude)
    return np.where(patterns >= 2**15, -magnitude, magnitude)


def nearest_of_16_bits(values: Float64, *, mantissa_bits: int) -> Float64:
    """Return each value rounded to bf16 or f16: the nearest number by search, ties to the even pattern.

    Inf stands one step above the largest number, so what lies halfway to it or beyond becomes Inf.
    """
    positive = numbers_of_16_bits(mantissa_bits=mantissa_bits)[: 2**15]
    points = positive[np.isfinite(positive)]
    step = points[-1] - points[-2]
    points = np.append(points, points[-1] + step)
    midpoints = points[:-1] + np.diff(points) / 2  # one bit more than the points: exact in float64
    magnitudes = np.abs(values)
    below: npt.NDArray[np.int64] = np.searchsorted(midpoints, magnitudes, side="left")
    through = np.searchsorted(midpoints, magnitudes, side="right")
    pattern = np.minimum(np.where(below % 2 == 1, through, below), len(points) - 1)
    nearest = np.where(pattern == len(points) - 1, np.inf, points[pattern])
    return np.where(np.isnan(values), np.nan, np.copysign(nearest, values))
