"""Conversions between float32 and the codes of E2M1 and UE4M3, and the packing of two codes into a byte.

Encoding works on the bits of the float32 as an integer: a magnitude goes to the number of midpoints (`formats`)
that lie below it, a tie going to the even code. No floating-point operation takes part, so the result depends
neither on the device nor on whether the process flushes subnormals. Rules, the same as the GPU instructions
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

import torch

from nvfp4_moe.reference.formats import E2M1, E4M3, ElementFormat

MAGNITUDE_MASK = 0x7FFF_FFFF
"""Everything but the sign of a float32."""
INFINITY_BITS = 0x7F80_0000
"""Bits of +Inf; a greater magnitude is a NaN."""
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
        ValueError: a code above 15.
    """
    _require_uint8(codes, "codes")
    if codes.numel() and int(codes.max()) >= E2M1.num_codes:
        raise ValueError(f"a code of E2M1 lies in [0, {E2M1.num_codes}), got {int(codes.max())}")
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
        ValueError: an odd number of columns.
    """
    _require_uint8(codes, "codes")
    if codes.dim() == 0 or codes.shape[-1] % 2:
        raise ValueError(f"codes must have an even number of columns, got shape {tuple(codes.shape)}")
    return codes[..., 0::2] | (codes[..., 1::2] << NIBBLE_BITS)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Return the codes (..., K) of packed bytes (..., K/2), both uint8: the inverse of `pack`.

    Raises:
        TypeError: not uint8.
    """
    _require_uint8(packed, "packed")
    return torch.stack((packed & NIBBLE_MASK, packed >> NIBBLE_BITS), dim=-1).flatten(-2)


def _encode(values: torch.Tensor, form: ElementFormat, *, code_of_nan: int) -> torch.Tensor:
    if values.dtype != torch.float32:
        raise TypeError(f"values must be float32, got {values.dtype}")
    bits = values.contiguous().view(torch.int32)
    magnitude = bits & MAGNITUDE_MASK
    is_nan = magnitude > INFINITY_BITS
    codes = torch.bucketize(magnitude, _last_bits_below_step(form, bits.device), out_int32=True)
    codes |= torch.where(bits < 0, form.sign_code, 0)
    return torch.where(is_nan, code_of_nan, codes).to(torch.uint8)


def _last_bits_below_step(form: ElementFormat, device: torch.device) -> torch.Tensor:
    """Return, for each code but the last, the bits of the largest float32 that does not round up past it.

    Float32 magnitudes order as their bits do. A midpoint above an even code still rounds down to it; a midpoint
    above an odd code rounds up, so the last one that does not is the float just below.
    """
    midpoints = torch.tensor(form.midpoints, dtype=torch.float32).view(torch.int32)
    is_odd = torch.arange(form.code_of_max, dtype=torch.int32) % 2
    return (midpoints - is_odd).to(device)


def _decode(codes: torch.Tensor, form: ElementFormat) -> torch.Tensor:
    values = torch.tensor(form.values, dtype=torch.float32).to(codes.device)
    return values[codes.to(torch.int64)]


def _require_uint8(tensor: torch.Tensor, name: str) -> None:
    if tensor.dtype != torch.uint8:
        raise TypeError(f"{name} must be uint8, got {tensor.dtype}")
