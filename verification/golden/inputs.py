"""Inputs that both sides of a golden check read: bit patterns for torch, the same numbers by the oracle's own decoding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from nvfp4_moe.verification import oracle_silu

PATTERNS = 2**16


@dataclass(frozen=True)
class SixteenBits:
    """A 16-bit float type: every pattern as torch reads it, and its numbers as the oracle does."""

    name: str
    dtype: torch.dtype
    mantissa_bits: int

    @cached_property
    def numbers(self) -> npt.NDArray[np.float32]:
        """Return the number of each pattern, float32 (2^16,), exact."""
        return oracle_silu.numbers_of_16_bits(mantissa_bits=self.mantissa_bits).astype(np.float32)

    def tensor(self, patterns: npt.NDArray[np.uint16]) -> torch.Tensor:
        """Return patterns as a tensor of the type."""
        return torch.from_numpy(patterns.astype(np.uint16).view(np.int16).copy()).view(self.dtype)

    def patterns_of(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
        """Return the patterns of numbers, rounded where they are not of the type; no NaN."""
        rounded = oracle_silu.nearest_of_16_bits(numbers, mantissa_bits=self.mantissa_bits)
        positive = self.numbers[: PATTERNS // 2].astype(np.float64)
        end = int(np.argmax(np.isnan(positive)))  # ascending up to +Inf, NaN behind it
        found = np.searchsorted(positive[:end], np.abs(rounded))
        return np.where(np.signbit(rounded), found + PATTERNS // 2, found).astype(np.uint16)


BF16 = SixteenBits("bfloat16", torch.bfloat16, 7)
F16 = SixteenBits("float16", torch.float16, 10)
TYPES = (BF16, F16)


def around(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return each value, its two float32 neighbours and the negatives of all: values must be float32 numbers."""
    middle = values.astype(np.float32)
    above = np.nextafter(middle, np.float32(np.inf))
    below = np.nextafter(middle, np.float32(-np.inf))
    near = np.concatenate([middle, above, below])
    return np.concatenate([near, -near])


def midpoints(points: list[float]) -> npt.NDArray[np.float64]:
    """Return the tie between each two neighbouring points."""
    exact = np.array(points)
    return exact[:-1] + np.diff(exact) / 2


def bits_of(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    """Return the bits of float32 numbers, every NaN as one and the same: which NaN comes out is not promised."""
    return np.where(np.isnan(values), np.float32(np.nan), values).astype(np.float32).view(np.uint32)
