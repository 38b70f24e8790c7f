"""Block amax and element codes of finite blocks, by a few in-place operations over scratch that stays in cache.

What makes it fast, and why it is exact for finite elements and multipliers:

- |x| of a 16-bit float is its bits without the sign, and magnitudes order as integers: amax is an integer maximum.
- With a = min(|x| * multiplier, 6), the sums 2a + 2^23, a + (2^23 + 2) and a/2 + (2^23 + 4) are rounded to integers,
  ties to even, by the one rounding of the addition (2a and a/2 are exact). They are the codes that E2M1 would have
  with the spacings 1/2, 1 and 2 everywhere; the true spacing is the widest that applies, so the smallest of the
  three is the code: min(2a, a + 2, a/2 + 4) has its corners at 2 and 4, where the spacing of E2M1 doubles, and
  rounding is monotone. The code is in the low bits of the float.
- The sign is the sign bit of x, since multipliers are not negative; -0 keeps it.
- Two codes are packed by one product: moved to the tops of the halves of an int32, the low code comes to lie beside
  the high one when the number is added to itself 12 bits higher.
"""

from __future__ import annotations

import torch

from nvfp4_moe.reference.casts import FLOAT32_MANTISSA_BITS, HALF_BITS, NIBBLE_BITS
from nvfp4_moe.reference.formats import NVFP4

ROUNDS_BEYOND_LARGEST = 7.0
"""Where a/2 + 4 first rounds to 8, past the largest code: half a spacing of 2 above 6."""
BYTE_BITS = 8
CODE_AT_TOP_OF_HALF = 1 << (HALF_BITS - NIBBLE_BITS)
"""Takes a code from the bottom of 16 bits to their top nibble, where the sign bit of a 16-bit float lies already."""
LOW_CODE_BESIDE_HIGH = (1 << (HALF_BITS - NIBBLE_BITS)) + 1
"""Copies the top nibble of the low half to below the top nibble of the high half."""


class PieceQuantizer:
    """Quantizes pieces, runs of blocks of one input dtype, with scratch of its own; for one thread.

    Args:
        dtype: bf16, f16 or f32.
        device: where the input lies.
        elements: the most elements of a piece, a multiple of the block size.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, *, elements: int) -> None:
        self.dtype = dtype
        self.bits_dtype = torch.int16 if dtype.itemsize == torch.int16.itemsize else torch.int32
        self.device = device
        # 0-dim tensors: an operation with a Python number makes one of these each time.
        self.magnitude_mask = self._constant((1 << (8 * dtype.itemsize - 1)) - 1, self.bits_dtype)
        self.infinity_bits = int(self._constant(torch.inf, dtype).view(self.bits_dtype))
        self.sign_mask = self._constant(-(1 << (HALF_BITS - 1)), torch.int16)
        self.half_bits = self._constant(HALF_BITS, torch.int32)
        self.low_beside_high = self._constant(LOW_CODE_BESIDE_HIGH, torch.int32)
        self.below_top_byte = self._constant(2 * HALF_BITS - BYTE_BITS, torch.int32)
        self.spacing_half, self.spacing_one, self.spacing_two = (
            self._constant(2.0**FLOAT32_MANTISSA_BITS + offset, torch.float32) for offset in (0, 2, 4)
        )
        self.scratch = Scratch.allocate(elements // NVFP4.block_size, self.bits_dtype, device)

    def _constant(self, value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(value, dtype=dtype, device=self.device)

    def amax_bits(self, blocks: torch.Tensor) -> torch.Tensor | None:
        """Return the largest magnitude of each block (B, 16) as its bits, (B,), or None if an element is not finite.

        Leaves the magnitudes of all elements in the scratch for `encode`.
        """
        scratch = self.scratch.first_blocks(len(blocks))
        torch.bitwise_and(blocks.view(self.bits_dtype), self.magnitude_mask, out=scratch.magnitudes)
        torch.amax(scratch.magnitudes, dim=-1, out=scratch.largest)
        if int(scratch.largest.amax()) >= self.infinity_bits:
            return None
        return scratch.largest

    def encode(
        self, blocks: torch.Tensor, multiplier: torch.Tensor, packed: torch.Tensor, *, saturates: bool
    ) -> None:
        """Write the packed codes uint8 (B, 8) of the blocks (B, 16) that `amax_bits` has just seen.

        Args:
            blocks: finite elements.
            multiplier: float32 (B, 1), finite.
            packed: where the codes go.
            saturates: whether a product may lie so far above the largest code that it must be cut off.
        """
        scratch = self.scratch.first_blocks(len(blocks))
        scratch.scaled.copy_(scratch.magnitudes.view(self.dtype))
        torch.mul(scratch.scaled, multiplier, out=scratch.scaled)
        if saturates:
            scratch.scaled.clamp_(max=NVFP4.element.max)
        self._magnitude_codes(scratch)
        self._add_signs(scratch, blocks.view(self.bits_dtype))
        self._pack(scratch, packed)

    def _magnitude_codes(self, scratch: Scratch) -> None:
        scaled, least, other = scratch.scaled, scratch.least, scratch.other
        torch.add(self.spacing_half, scaled, alpha=2, out=least)
        torch.add(scaled, self.spacing_one, out=other)
        torch.minimum(least, other, out=least)
        torch.add(self.spacing_two, scaled, alpha=0.5, out=other)
        torch.minimum(least, other, out=least)
        scratch.codes.copy_(scratch.least_bits)  # the lower halves

    def _add_signs(self, scratch: Scratch, bits: torch.Tensor) -> None:
        """Write code and sign into the top nibble of each 16 bits; the rest is zero."""
        if self.bits_dtype == torch.int32:
            torch.bitwise_right_shift(bits, self.half_bits, out=scratch.least_bits)
            scratch.signs.copy_(scratch.least_bits)
            bits = scratch.signs
        torch.bitwise_and(bits, self.sign_mask, out=scratch.signs)
        torch.add(scratch.signs, scratch.codes, alpha=CODE_AT_TOP_OF_HALF, out=scratch.codes)

    def _pack(self, scratch: Scratch, packed: torch.Tensor) -> None:
        """Write low code | high code << 4; a pair of codes is seen as one int32, the low one first."""
        torch.mul(scratch.pairs, self.low_beside_high, out=scratch.pairs)
        torch.bitwise_right_shift(scratch.pairs, self.below_top_byte, out=scratch.pairs)
        packed.copy_(scratch.pairs)  # the lowest bytes


class Scratch:
    """Scratch of one piece, all (blocks, 16) but `largest` (blocks,) and `pairs` (blocks, 8).

    `other` is done with before `signs` and `codes` are written, so they share its memory.
    """

    def __init__(
        self,
        magnitudes: torch.Tensor,
        largest: torch.Tensor,
        scaled: torch.Tensor,
        least: torch.Tensor,
        other: torch.Tensor,
    ) -> None:
        blocks = len(magnitudes)
        self.magnitudes, self.largest = magnitudes, largest
        self.scaled, self.least, self.other = scaled, least, other
        self.least_bits = least.view(torch.int32)
        self.signs, self.codes = other.view(torch.int16).view(2, blocks, NVFP4.block_size)
        self.pairs = self.codes.view(torch.int32)

    @classmethod
    def allocate(cls, blocks: int, bits_dtype: torch.dtype, device: torch.device) -> Scratch:
        """Return scratch of `blocks` blocks."""
        shape = (blocks, NVFP4.block_size)
        return cls(
            torch.empty(shape, dtype=bits_dtype, device=device),
            torch.empty(blocks, dtype=bits_dtype, device=device),
            *(torch.empty(shape, dtype=torch.float32, device=device) for _ in range(3)),
        )

    def first_blocks(self, blocks: int) -> Scratch:
        """Return the scratch cut to `blocks` blocks, itself if it has as many."""
        if blocks == len(self.scaled):
            return self
        tensors = (self.magnitudes, self.largest, self.scaled, self.least, self.other)
        return Scratch(*(tensor[:blocks] for tensor in tensors))
