"""Block amax and element codes of finite blocks, by a few in-place operations over scratch that stays in cache.

What makes it fast, and why it is exact for finite elements and multipliers:

- |x| of a 16-bit float is its bits without the sign, and magnitudes order as integers: amax is an integer maximum.
- With a = min(|x| * multiplier, 6), the sums 2a + 2^23, a + (2^23 + 2) and a/2 + (2^23 + 4) are rounded to integers,
  ties to even, by the one rounding of the addition (2a and a/2 are exact). They are the codes that E2M1 would have
  with the spacings 1/2, 1 and 2 everywhere; the true spacing is the widest that applies, so the smallest of the
  three is the code: min(2a, a + 2, a/2 + 4) has its corners at 2 and 4, where the spacing of E2M1 doubles, and
  rounding is monotone. The code is in the low bits of the float.
- The sign is the sign bit of x, since multipliers are not negative; -0 keeps it.
"""

from __future__ import annotations

import torch

from nvfp4_moe.reference.casts import FLOAT32_MANTISSA_BITS, NIBBLE_BITS
from nvfp4_moe.reference.formats import NVFP4

ROUNDS_BEYOND_LARGEST = 7.0
"""Where a/2 + 4 first rounds to 8, past the largest code: half a spacing of 2 above 6."""


class PieceQuantizer:
    """Quantizes runs of blocks of one input dtype with scratch of its own; for one thread.

    Args:
        dtype: bf16, f16 or f32.
        device: where the input lies.
        group_elements: the most elements of a group.
        piece_elements: the most elements of a piece.
    """

    def __init__(
        self, dtype: torch.dtype, device: torch.device, *, group_elements: int, piece_elements: int
    ) -> None:
        self.piece_blocks = piece_elements // NVFP4.block_size
        self.dtype = dtype
        self.bits_dtype = torch.int16 if dtype.itemsize == torch.int16.itemsize else torch.int32
        self.device = device
        sign_position = 8 * dtype.itemsize - 1
        # 0-dim tensors: an operation with a Python number makes one of these each time.
        self.magnitude_mask = self._constant((1 << sign_position) - 1, self.bits_dtype)
        self.sign_shift = self._constant(sign_position - NVFP4.element.magnitude_bits, self.bits_dtype)
        self.sign_code = self._constant(NVFP4.element.sign_code, self.bits_dtype)
        self.infinity_bits = int(self._constant(torch.inf, dtype).view(self.bits_dtype))
        self.nibble_bits = self._constant(NIBBLE_BITS, torch.int16)
        self.spacing_half, self.spacing_one, self.spacing_two = (
            self._constant(2.0**FLOAT32_MANTISSA_BITS + offset, torch.float32) for offset in (0, 2, 4)
        )
        self.magnitudes = torch.empty(group_elements, dtype=self.bits_dtype, device=device).view(
            -1, NVFP4.block_size
        )
        self.scratch = Scratch(min(group_elements, piece_elements), self.bits_dtype, device)

    def _constant(self, value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(value, dtype=dtype, device=self.device)

    def block_amax(self, blocks: torch.Tensor) -> torch.Tensor | None:
        """Return float32 (B,) largest magnitudes of blocks (B, 16), or None if an element is not finite.

        Leaves the magnitudes of all elements in `magnitudes` for `encode`.
        """
        bits = blocks.view(self.bits_dtype)
        largest = torch.empty(len(bits), dtype=self.bits_dtype, device=self.device)
        pieces = (tensor.split(self.piece_blocks) for tensor in (bits, self.magnitudes[: len(bits)], largest))
        for piece_bits, magnitudes, piece_largest in zip(*pieces, strict=True):
            torch.bitwise_and(piece_bits, self.magnitude_mask, out=magnitudes)
            torch.amax(magnitudes, dim=-1, out=piece_largest)
        if int(largest.amax()) >= self.infinity_bits:
            return None
        return largest.view(self.dtype).to(torch.float32)

    def encode(
        self, blocks: torch.Tensor, multiplier: torch.Tensor, packed: torch.Tensor, *, saturates: bool
    ) -> None:
        """Write the packed codes uint8 (B, 8) of the blocks (B, 16) that `block_amax` has just seen.

        Args:
            blocks: finite elements.
            multiplier: float32 (B, 1), finite.
            packed: where the codes go.
            saturates: whether a product may lie so far above the largest code that it must be cut off.
        """
        bits = blocks.view(self.bits_dtype)
        magnitudes = self.magnitudes[: len(bits)].view(self.dtype)
        pieces = (tensor.split(self.piece_blocks) for tensor in (bits, magnitudes, multiplier, packed))
        for piece_bits, piece_magnitudes, piece_multiplier, piece_packed in zip(*pieces, strict=True):
            scratch = self.scratch.first_blocks(len(piece_bits))
            self._scale(scratch, piece_magnitudes, piece_multiplier)
            if saturates:
                scratch.scaled.clamp_(max=NVFP4.element.max)
            self._magnitude_codes(scratch)
            self._add_signs(scratch, piece_bits)
            self._pack(scratch, piece_packed)

    def _scale(self, scratch: Scratch, magnitudes: torch.Tensor, multiplier: torch.Tensor) -> None:
        if self.dtype == torch.float32:
            torch.mul(magnitudes, multiplier, out=scratch.scaled)
        else:
            scratch.scaled.copy_(magnitudes)
            torch.mul(scratch.scaled, multiplier, out=scratch.scaled)

    def _magnitude_codes(self, scratch: Scratch) -> None:
        scaled, least, other = scratch.scaled, scratch.least, scratch.other
        torch.add(self.spacing_half, scaled, alpha=2, out=least)
        torch.add(scaled, self.spacing_one, out=other)
        torch.minimum(least, other, out=least)
        torch.add(self.spacing_two, scaled, alpha=0.5, out=other)
        torch.minimum(least, other, out=least)
        scratch.codes.copy_(scratch.least_bits)

    def _add_signs(self, scratch: Scratch, bits: torch.Tensor) -> None:
        torch.bitwise_right_shift(bits, self.sign_shift, out=scratch.signs)
        torch.bitwise_and(scratch.signs, self.sign_code, out=scratch.signs)
        scratch.sign_codes.copy_(scratch.signs)
        torch.bitwise_or(scratch.codes, scratch.sign_codes, out=scratch.codes)

    def _pack(self, scratch: Scratch, packed: torch.Tensor) -> None:
        """Write low code | high code << 4; a pair of codes is seen as one int16, low byte first."""
        torch.bitwise_right_shift(scratch.pairs, self.nibble_bits, out=scratch.merged)
        torch.bitwise_or(scratch.merged, scratch.pairs, out=scratch.merged)
        packed.copy_(scratch.merged)


class Scratch:
    """Scratch of one piece, all (blocks, 16) but `merged`; views of its first blocks for a shorter last piece."""

    def __init__(self, elements: int, bits_dtype: torch.dtype, device: torch.device) -> None:
        blocks = elements // NVFP4.block_size

        def empty(dtype: torch.dtype, columns: int = NVFP4.block_size) -> torch.Tensor:
            return torch.empty((blocks, columns), dtype=dtype, device=device)

        self._use(
            *(empty(torch.float32) for _ in range(3)),
            signs=empty(bits_dtype),
            sign_codes=empty(torch.uint8),
            codes=empty(torch.uint8),
            merged=empty(torch.int16, NVFP4.block_size // 2),
        )

    def _use(
        self,
        scaled: torch.Tensor,
        least: torch.Tensor,
        other: torch.Tensor,
        *,
        signs: torch.Tensor,
        sign_codes: torch.Tensor,
        codes: torch.Tensor,
        merged: torch.Tensor,
    ) -> None:
        self.scaled, self.least, self.other = scaled, least, other
        self.signs, self.sign_codes, self.codes, self.merged = signs, sign_codes, codes, merged
        self.least_bits = least.view(torch.int32)
        self.pairs = codes.view(torch.int16)

    def first_blocks(self, blocks: int) -> Scratch:
        """Return the scratch cut to `blocks` blocks, itself if it has as many."""
        if blocks == len(self.scaled):
            return self
        shorter = object.__new__(Scratch)
        shorter._use(
            self.scaled[:blocks],
            self.least[:blocks],
            self.other[:blocks],
            signs=self.signs[:blocks],
            sign_codes=self.sign_codes[:blocks],
            codes=self.codes[:blocks],
            merged=self.merged[:blocks],
        )
        return shorter
