"""Number formats as data: what each format is, and every number that follows from it.

An `ElementFormat` is a small floating-point format given by its parameters; its code points, extremes and NaN code
are derived, so that 6, 448 and 2688 are written nowhere else. A `BlockFormat` says how elements share a scale.

Value of a code with exponent field e, mantissa field m, M mantissa bits and bias b (no code is an infinity):

    e = 0:  m * 2^(1 - b - M)                 (zero and subnormals)
    e > 0:  (1 + m * 2^-M) * 2^(e - b)        (normals)

If `has_nan`, the code with all exponent and mantissa bits set is NaN (the "fn" rule of float8_e4m3fn); otherwise it
is the largest number (E2M1).

Source: OCP Microscaling Formats (MX) v1.0, section 5.3; PTX ISA, "Alternate floating-point data formats".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class ElementFormat:
    """A sign, exponent and mantissa layout with subnormals and without infinities."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_sign: bool
    """Whether codes have a sign bit above the exponent; -0 is then a code of its own."""
    has_nan: bool
    """Whether the largest magnitude code is NaN instead of a number."""

    @cached_property
    def magnitude_bits(self) -> int:
        """Bits of a code without its sign."""
        return self.exponent_bits + self.mantissa_bits

    @cached_property
    def sign_code(self) -> int:
        """The sign bit of a code, which is also the code of -0; 0 for an unsigned format."""
        return 1 << self.magnitude_bits if self.has_sign else 0

    @cached_property
    def num_codes(self) -> int:
        """Codes of the format, both signs."""
        return 1 << (self.magnitude_bits + int(self.has_sign))

    @cached_property
    def code_of_max(self) -> int:
        """The code of the largest number."""
        return (1 << self.magnitude_bits) - 1 - int(self.has_nan)

    @cached_property
    def code_of_nan(self) -> int | None:
        """The (positive) code of NaN, or None if the format has none."""
        return self.code_of_max + 1 if self.has_nan else None

    @cached_property
    def max(self) -> float:
        """The largest number."""
        return self.value(self.code_of_max)

    @cached_property
    def min_normal(self) -> float:
        """The smallest positive normal number."""
        return self.value(1 << self.mantissa_bits)

    @cached_property
    def smallest_subnormal(self) -> float:
        """The smallest positive number."""
        return self.value(1)

    @cached_property
    def magnitudes(self) -> tuple[float, ...]:
        """The non-negative numbers in the order of their codes, which is ascending."""
        return tuple(self.value(code) for code in range(self.code_of_max + 1))

    @cached_property
    def midpoints(self) -> tuple[float, ...]:
        """The `code_of_max` points half-way between neighbours: entry i lies between codes i and i + 1.

        They have one mantissa bit more than the format and are exact in float32.
        """
        return tuple(
            (low + high) / 2 for low, high in zip(self.magnitudes, self.magnitudes[1:], strict=False)
        )

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The value of each code, both signs, NaN where the format has it."""
        return tuple(self.value(code) for code in range(self.num_codes))

    def value(self, code: int) -> float:
        """Return the number that `code` stands for.

        Raises:
            ValueError: not a code of the format.
        """
        if not 0 <= code < self.num_codes:
            raise ValueError(f"a code of {self.name} lies in [0, {self.num_codes}), got {code}")
        magnitude = code & ((1 << self.magnitude_bits) - 1)
        sign = -1.0 if code & self.sign_code else 1.0
        if magnitude == self.code_of_nan:
            return math.copysign(math.nan, sign)
        exponent, mantissa = divmod(magnitude, 1 << self.mantissa_bits)
        significand = mantissa if exponent == 0 else mantissa + (1 << self.mantissa_bits)
        return sign * math.ldexp(significand, max(exponent, 1) - self.bias - self.mantissa_bits)


@dataclass(frozen=True, kw_only=True)
class BlockFormat:
    """Elements in blocks along the last axis, one scale code a block, one float32 scale over all."""

    name: str
    element: ElementFormat
    scale: ElementFormat
    block_size: int

    @cached_property
    def encode_numerator(self) -> float:
        """The amax that a global encode scale of 1 stands for: encode scale = numerator / amax.

        The largest block amax then has the largest scale, and its element the largest code.
        """
        return self.element.max * self.scale.max


E2M1 = ElementFormat(name="E2M1", exponent_bits=2, mantissa_bits=1, bias=1, has_sign=True, has_nan=False)
"""The 4-bit element: +-{0, 0.5, 1, 1.5, 2, 3, 4, 6}, code 8 is -0."""

E4M3 = ElementFormat(name="E4M3", exponent_bits=4, mantissa_bits=3, bias=7, has_sign=True, has_nan=True)
"""The byte that holds a scale, as torch.float8_e4m3fn reads it: bit 7 is the sign."""

UE4M3 = ElementFormat(name="UE4M3", exponent_bits=4, mantissa_bits=3, bias=7, has_sign=False, has_nan=True)
"""The block scale: the non-negative half of `E4M3`. Bit 7 of its byte is padding and is zero in every valid scale."""

NVFP4 = BlockFormat(name="NVFP4", element=E2M1, scale=UE4M3, block_size=16)
