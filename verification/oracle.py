"""The second oracle for NVFP4 quantization: slower, written apart from `reference`, sharing no arithmetic with it.

Two versions of everything. The definitions work on `Fraction`s, one number at a time: a code is found by searching
all decoded code points for the nearest, and a float32 operation is the exact rational result rounded once. The array
versions do the same on numpy float64, where every intermediate is exact before it is rounded once to float32:

- a product of two float32 has at most 48 significant bits and an exponent far inside float64's range: exact;
- a quotient 1/y is not exact, but rounding it to float64 and then to float32 gives the correctly rounded float32. A
  wrong second rounding needs the float64 quotient to land on or cross a midpoint m of two float32 neighbours. y has
  at most 24 significant bits and m at most 25, so m*y is a multiple of 2^-49 relative to 1 (m and y are within a
  factor of two of each other's reciprocal); unless it is 1 it differs from 1 by at least 2^-49, so 1/y differs from m
  by at least 2^-49 relative, more than the 2^-53 that float64 rounding moves it. Where m*y = 1, y is a power of two
  and 1/y is exact. Subnormal results have fewer bits in m, hence more room. (tests compare it with the definition)

Recipe (vLLM `nvfp4_utils.cuh`, arithmetic "ieee": every operation correctly rounded, 1/x one rounded division):

    a  = max |x| of 16 neighbouring columns; NaN is ignored unless all are NaN
    s  = g * (a * (1/6));                 SF = e4m3(s): nearest, ties to the even code, at most 448; NaN -> 0x7F
    m  = 0 if SF decodes to 0 else 1 / (SF * (1/g))
    code = e2m1(x * m): nearest, ties to the even code, at most 6; -0 is code 8; NaN -> code 7

Codes 2j and 2j+1 share byte j, the even column in the low nibble.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

BLOCK = 16
"""Columns that share a scale."""
NAN_SCALE = 0x7F
NAN_CODE = 7
MINUS_ZERO_CODE = 8
LARGEST_FLOAT32 = Fraction((2**24 - 1) * 2**104)

Float64 = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


# --- number formats, by their rule ----------------------------------------------------------------------------


def code_points(*, exponent_bits: int, mantissa_bits: int, bias: int) -> list[Fraction]:
    """Return the values of the codes with sign 0, in code order, as if no code were special."""
    points: list[Fraction] = []
    for exponent in range(2**exponent_bits):
        for mantissa in range(2**mantissa_bits):
            fraction = Fraction(mantissa, 2**mantissa_bits)
            if exponent == 0:
                points.append(fraction * Fraction(2) ** (1 - bias))
            else:
                points.append((1 + fraction) * Fraction(2) ** (exponent - bias))
    return points


E2M1_POINTS = code_points(exponent_bits=2, mantissa_bits=1, bias=1)
"""0, 0.5, 1, 1.5, 2, 3, 4, 6."""
E4M3_POINTS = code_points(exponent_bits=4, mantissa_bits=3, bias=7)[:NAN_SCALE]
"""0 to 448; code 0x7F is NaN."""


def decode_e2m1(code: int) -> float:
    """Return the value of an E2M1 code 0..15; code 8 is -0.0."""
    magnitude = float(E2M1_POINTS[code % MINUS_ZERO_CODE])
    return -magnitude if code >= MINUS_ZERO_CODE else magnitude


def decode_e4m3(code: int) -> float:
    """Return the value of an E4M3 byte 0..255 (a scale byte is one without sign)."""
    sign = -1.0 if code >= 128 else 1.0
    return float("nan") if code % 128 == NAN_SCALE else sign * float(E4M3_POINTS[code % 128])


def nearest_code(magnitude: Fraction, points: Sequence[Fraction]) -> int:
    """Return the code whose value is nearest to a magnitude >= 0, of two the even one. Searches all codes."""
    distances = [abs(point - magnitude) for point in points]
    least = min(distances)
    return min((code for code, d in enumerate(distances) if d == least), key=lambda code: code % 2)


def round_to_float32(value: Fraction) -> Fraction:
    """Return the float32 nearest to a rational, ties to even, as a rational.

    Raises:
        OverflowError: it rounds beyond the largest float32.
    """
    if value < 0:
        return -round_to_float32(-value)
    if value == 0:
        return value
    top, bottom = value.numerator, value.denominator
    exponent = top.bit_length() - bottom.bit_length()
    if _shifted(bottom, exponent) > _shifted(top, -exponent):
        exponent -= 1  # now 2^exponent <= value < 2^(exponent + 1)
    unit = max(exponent, -126) - 23  # the last place is worth 2^unit
    divisor = _shifted(bottom, unit)
    whole, rest = divmod(_shifted(top, -unit), divisor)
    if 2 * rest > divisor or (2 * rest == divisor and whole % 2):
        whole += 1
    rounded_value = Fraction(_shifted(whole, unit), _shifted(1, -unit))
    if rounded_value > LARGEST_FLOAT32:
        raise OverflowError(f"{float(value)} rounds beyond the largest float32")
    return rounded_value


def _shifted(value: int, by: int) -> int:
    """Return value * 2^by for by >= 0, else value: a quotient's two sides shifted by +n and -n keep their ratio."""
    return value << by if by > 0 else value


def quantize_block_exactly(values: Sequence[Fraction], encode_scale: Fraction) -> tuple[int, list[int]]:
    """Return scale byte and codes of 16 numbers (no NaN, Inf or -0) by rational arithmetic: the definition."""
    amax = max(abs(x) for x in values)
    scale = round_to_float32(encode_scale * round_to_float32(amax * round_to_float32(Fraction(1, 6))))
    byte = nearest_code(scale, E4M3_POINTS)
    decoded = E4M3_POINTS[byte]
    multiplier = Fraction(0)
    if decoded != 0:
        multiplier = round_to_float32(1 / round_to_float32(decoded * round_to_float32(1 / encode_scale)))
    codes = []
    for x in values:
        product = round_to_float32(x * multiplier)
        # a negative number that rounds to zero is -0, also where its product with the multiplier already is
        sign = MINUS_ZERO_CODE if x < 0 else 0
        codes.append(sign + nearest_code(abs(product), E2M1_POINTS))
    return byte, codes


# --- the same on arrays ----------------------------------------------------------------------------------------


def rounded(values: Float64) -> Float64:
    """Return float64 values rounded once to float32 (nearest, ties to even; overflow is Inf), as float64."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(np.float64)


def nearest_codes(magnitudes: Float64, points: Sequence[Fraction]) -> npt.NDArray[np.int64]:
    """Return for each magnitude (not NaN) the code of the nearest point, of two the even one.

    The midpoints between neighbours need one bit more than the points, so float64 holds them exactly and each
    comparison is exact: the code is the number of midpoints below the magnitude, plus one on the midpoint itself
    where that leads from an odd code to an even one.
    """
    exact = [(low + high) / 2 for low, high in itertools.pairwise(points)]
    midpoints = np.array([float(m) for m in exact])
    assert all(Fraction(float(m)) == m for m in exact)
    below = np.searchsorted(midpoints, magnitudes, side="left")
    through = np.searchsorted(midpoints, magnitudes, side="right")
    return np.where(below % 2 == 1, through, below)


def encode_e2m1(values: Float64) -> Bytes:
    """Return the E2M1 codes of float64 values."""
    codes = nearest_codes(np.abs(np.where(np.isnan(values), 0.0, values)), E2M1_POINTS)
    codes = np.where(np.signbit(values), codes + MINUS_ZERO_CODE, codes)
    return np.where(np.isnan(values), NAN_CODE, codes).astype(np.uint8)


def encode_e4m3(values: Float64) -> Bytes:
    """Return the scale bytes of float64 values; a negative value keeps its sign in bit 7, NaN is 0x7F."""
    codes = nearest_codes(np.abs(np.where(np.isnan(values), 0.0, values)), E4M3_POINTS)
    codes = np.where(np.signbit(values), codes + 128, codes)
    return np.where(np.isnan(values), NAN_SCALE, codes).astype(np.uint8)


def quantize(values: Float32, encode_scale: Float32 | np.float32 | float) -> tuple[Bytes, Bytes]:
    """Quantize a matrix.

    Args:
        values: float32 (R, K), K a multiple of 16; 16-bit inputs widened, which is exact.
        encode_scale: global encode scale, a float32 number or (R,) one per row; finite and positive.

    Returns:
        codes uint8 (R, K), not packed, and scale bytes uint8 (R, K/16) in row-major order.
    """
    rows, columns = values.shape
    with np.errstate(all="ignore"):
        x = values.astype(np.float64).reshape(rows, columns // BLOCK, BLOCK)
        g = np.broadcast_to(np.asarray(encode_scale, dtype=np.float32).astype(np.float64), (rows,))[:, None]
        amax = np.fmax.reduce(np.abs(x), axis=2)
        sixth = rounded(np.float64(1) / np.array([6.0]))
        scale = rounded(g * rounded(amax * sixth))
        scale_bytes = encode_e4m3(scale)
        decoded = np.array([decode_e4m3(code) for code in range(256)])[scale_bytes]
        inverse = rounded(1.0 / rounded(decoded * rounded(1.0 / g)))
        multiplier = np.where(decoded == 0, 0.0, inverse)
        codes = encode_e2m1(rounded(x * multiplier[:, :, None]))
    return codes.reshape(rows, columns), scale_bytes


def pack(codes: Bytes) -> Bytes:
    """Return codes (R, K) as bytes (R, K/2): the even column in the low nibble."""
    rows, columns = codes.shape
    packed = np.zeros((rows, columns // 2), dtype=np.uint8)
    for byte in range(columns // 2):
        packed[:, byte] = codes[:, 2 * byte] + 16 * codes[:, 2 * byte + 1]
    return packed
