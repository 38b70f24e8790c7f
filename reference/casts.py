"""Conversions between float32 and the codes of E2M1 and UE4M3, and the packing of two codes into a byte.

Encoding works on the bits of the float32 as an integer. No floating-point operation takes part, so the result
depends neither on the device nor on whether the process flushes subnormals. Rules, the same as the GPU instructions
`cvt.rn.satfinite.e2m1x2.f32` and `cvt.rn.satfinite.e4m3x2.f32`:

| input            | E2M1               | scale byte            |
|------------------|--------------------|-----------------------|
| tie              | even code          | even code             |
| above the max    | code of +-6        | 0x7E (448); 0xFE if < 0 |
| +-Inf            | code of +-6        | 0x7E; 0xFE            |
| -0, tiny negative| 8 (-0)             | 0x80 (-0)             |
| NaN, either sign | 7 (+6)             | 0x7F (NaN)            |

A recipe never gives a negative scale; the sign is kept so that the cast agrees with the instruction on every input.

Two codes share a byte: the even column in the low nibble.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from nvfp4_moe.reference.formats import E2M1, E4M3, ElementFormat

MAGNITUDE_MASK = 0x7FFF_FFFF
"""Everything but the sign of a float32."""
INFINITY_BITS = 0x7F80_0000
"""Bits of +Inf; a greater magnitude is a NaN."""
FLOAT32_MANTISSA_BITS = 23
FLOAT32_BIAS = 127
MANTISSA_MASK = (1 << FLOAT32_MANTISSA_BITS) - 1
IMPLICIT_BIT = 1 << FLOAT32_MANTISSA_BITS
"""The leading 1 of a normal significand. Subnormals have none, but all of them round to zero with it as well."""
LARGEST_SHIFT = 30
"""Takes all 24 bits of a significand and its rounding to zero, and leaves room for the sum in int32."""
HALF_BITS = 16
HALF_MASK = (1 << HALF_BITS) - 1
TABLE_ORIGIN = 1 << HALF_BITS
"""Makes the sum of two signed halves an index."""
NIBBLE_BITS = 4
NIBBLE_MASK = 0xF


def encode_e2m1(values: torch.Tensor) -> torch.Tensor:
    """Return the E2M1 codes 0..15 of float32 `values`, uint8 of the same shape.

    Raises:
        TypeError: not float32.
    """
    return _encode(values, E2M1, code_of_nan=E2M1.code_of_max)


def decode_e2m1(codes: torch.Tensor) -> torch.Tensor:
    """Return the float32 values of E2M1 `codes` (uint8, each 0..15); code 8 is -0.0.

    Raises:
        TypeError: not uint8.
        ValueError: a code above 15; the first is named.
    """
    _require_uint8(codes, "codes")
    _require_codes(codes)
    return _decode(codes, E2M1)


def encode_ue4m3(values: torch.Tensor) -> torch.Tensor:
    """Return the scale bytes of float32 `values`, uint8 of the same shape.

    Raises:
        TypeError: not float32.
    """
    assert E4M3.code_of_nan is not None
    return _encode(values, E4M3, code_of_nan=E4M3.code_of_nan)


def decode_ue4m3(scales: torch.Tensor) -> torch.Tensor:
    """Return the float32 values of scale bytes (uint8), for all 256 of them.

    Bytes 0x80..0xFF are no UE4M3 (bit 7 is padding there). They decode as torch.float8_e4m3fn reads them, to
    negative numbers, -0.0 and NaN, so that a stray bit shows instead of being masked.

    Raises:
        TypeError: not uint8.
    """
    _require_uint8(scales, "scales")
    return _decode(scales, E4M3)


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Return codes (..., K) as bytes (..., K/2): byte j holds column 2j in its low nibble, 2j + 1 in its high one.

    Raises:
        TypeError: not uint8.
        ValueError: an odd number of columns, or a code above 15; the first is named.
    """
    _require_uint8(codes, "codes")
    if codes.dim() == 0 or codes.shape[-1] % 2:
        raise ValueError(f"codes must have an even number of columns, got shape {tuple(codes.shape)}")
    _require_codes(codes)
    return pack_encoded(codes)


def pack_encoded(codes: torch.Tensor) -> torch.Tensor:
    """Pack codes that come from `encode_e2m1`, of an even number of columns: `pack` without its checks."""
    return codes[..., 0::2] | (codes[..., 1::2] << NIBBLE_BITS)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Return the codes (..., K) of packed bytes (..., K/2), both uint8: the inverse of `pack`.

    Raises:
        TypeError: not uint8.
    """
    _require_uint8(packed, "packed")
    return torch.stack((packed & NIBBLE_MASK, packed >> NIBBLE_BITS), dim=-1).flatten(-2)


def _encode(values: torch.Tensor, form: ElementFormat, *, code_of_nan: int) -> torch.Tensor:
    """Look each float32 up by its upper half and whether anything is set in its lower half.

    The formats keep at most three bits of the significand, far fewer than the upper half holds; of the lower half
    only "zero or not" can matter, next to a tie. With both halves of the sum below equal the lower half is zero,
    else they differ by one, so the sum tells all 2^17 cases apart.
    """
    if values.dtype != torch.float32:
        raise TypeError(f"values must be float32, got {values.dtype}")
    bits = values.contiguous().view(torch.int32).view(-1)
    index = (bits >> HALF_BITS).add_((bits + HALF_MASK) >> HALF_BITS).add_(TABLE_ORIGIN)
    return _code_table(form, code_of_nan, bits.device).index_select(0, index).view(values.shape)


@lru_cache(maxsize=16)
def _code_table(form: ElementFormat, code_of_nan: int, device: torch.device) -> torch.Tensor:
    """Return uint8 (2^17 + 1,): the code for each sum that `_encode` forms, from the rounding rule itself.

    Sum 2u is the float32 of upper half u and lower half zero, 2u + 1 any with a lower half that is not; u is signed.
    """
    sums = torch.arange(-TABLE_ORIGIN, TABLE_ORIGIN + 1, dtype=torch.int32)
    bits = ((sums >> 1) << HALF_BITS) | (sums & 1)
    return round_to_code(bits, form, code_of_nan=code_of_nan).to(device)


def round_to_code(bits: torch.Tensor, form: ElementFormat, *, code_of_nan: int) -> torch.Tensor:
    """Round float32 numbers, given as their int32 bits, to codes of `form`: the definition behind the encoders.

    The significand is shifted right, to nearest even, and the exponent put back. Below the format's smallest normal
    the exponent stops falling and the significand shifts further instead; what shifts out entirely (every float32
    subnormal among it) gives zero. A carry out of the significand moves on into the exponent, as the order of codes
    wants it.

    Args:
        bits: int32, any shape.
        form: the format.
        code_of_nan: code of every NaN, sign dropped.

    Returns:
        uint8, same shape.
    """
    magnitude = bits & MAGNITUDE_MASK
    above_min_normal = (magnitude >> FLOAT32_MANTISSA_BITS) - (FLOAT32_BIAS - form.bias + 1)
    dropped_bits = FLOAT32_MANTISSA_BITS - form.mantissa_bits
    shift = (dropped_bits - above_min_normal).clamp(dropped_bits, LARGEST_SHIFT)
    significand = (magnitude & MANTISSA_MASK) | IMPLICIT_BIT
    below_half = (1 << (shift - 1)) - 1
    is_odd = (significand >> shift) & 1
    rounded = (significand + below_half + is_odd) >> shift
    codes = rounded + (above_min_normal.clamp(min=0) << form.mantissa_bits)
    codes = codes.clamp(max=form.code_of_max) | torch.where(bits < 0, form.sign_code, 0)
    return torch.where(magnitude > INFINITY_BITS, code_of_nan, codes).to(torch.uint8)


def _decode(codes: torch.Tensor, form: ElementFormat) -> torch.Tensor:
    values = _value_table(form, codes.device)
    return values.index_select(0, codes.reshape(-1).to(torch.int32)).view(codes.shape)


@lru_cache(maxsize=16)
def _value_table(form: ElementFormat, device: torch.device) -> torch.Tensor:
    return torch.tensor(form.values, dtype=torch.float32, device=device)


def _require_uint8(tensor: torch.Tensor, name: str) -> None:
    if tensor.dtype != torch.uint8:
        raise TypeError(f"{name} must be uint8, got {tensor.dtype}")


def _require_codes(codes: torch.Tensor) -> None:
    """Refuse codes that E2M1 does not have; one pass and one scalar where all is well."""
    if codes.numel() and int(codes.max()) >= E2M1.num_codes:
        at = (codes >= E2M1.num_codes).nonzero()[0].tolist()
        value = int(codes[tuple(at)])
        raise ValueError(f"codes[{', '.join(map(str, at))}] = {value} is outside [0, {E2M1.num_codes})")
