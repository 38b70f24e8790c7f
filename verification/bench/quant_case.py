"""One timed shape of the expert quantizers: inputs, rotated buffers, true bytes, and what a call moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import Arithmetic, Operations
from nvfp4_moe.reference.expert_layouts import (
    experts_from_layout,
    experts_to_layout,
    packed_blockscale_offsets,
)
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.verification.counter import below, words

FILL = 0xA5
LAYOUT = "swizzled_128x4"
EXPERTS = 256
SECTOR = 32
"""Bytes that the memory reads or writes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Routed rows, K of the output, and whether the input is gate and up."""

    rows: int
    k: int
    fused: bool = False
    experts: int = EXPERTS

    @property
    def name(self) -> str:
        return f"{'silu_quant' if self.fused else 'quant'} {self.rows:,} x {self.k:,}"

    @property
    def words(self) -> int:
        """32-bit words of a row of scales."""
        return -(-self.k // (4 * NVFP4.block_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """What differs from call to call: a copy of the input, and outputs of its own."""

    input: Tensor
    packed: Tensor
    block_scale: Tensor


class WrongBytesError(RuntimeError):
    """A timed call wrote other bytes than the golden model."""


class QuantCase:
    """A shape on a device. The vectors by expert are one copy: in an engine the routing has just written them."""

    def __init__(self, shape: Shape, *, seed: int, device: torch.device, sets: int) -> None:
        self.shape = shape
        family = f"bench.{shape.name}"
        owner = below(words(seed, f"{family} experts", 0, shape.rows, device=device), shape.experts)
        counts = torch.bincount(owner, minlength=shape.experts)
        self.expert_offsets = torch.cat((counts.new_zeros(1), counts.cumsum(0))).to(torch.int32)
        self.blockscale_offsets = packed_blockscale_offsets(self.expert_offsets)
        # As calibration gives them: no block scale beyond the largest E4M3 number. Magnitudes reach 8, products 64.
        most = NVFP4.encode_numerator / (64 if shape.fused else 8)
        spread = torch.arange(shape.experts, dtype=torch.float32, device=device) / shape.experts
        self.global_encode_scale = most * (0.5 + 0.5 * spread)
        self.scale_rows = int(self.blockscale_offsets[-1])
        input = bell_shaped(seed, family, (shape.rows, shape.k * (2 if shape.fused else 1)), device)
        self.sets = [self._buffers(input if number == 0 else input.clone()) for number in range(sets)]

    def _buffers(self, input: Tensor) -> Buffers:
        return Buffers(
            input=input,
            packed=input.new_empty((self.shape.rows, self.shape.k // 2), dtype=torch.uint8),
            block_scale=input.new_empty((self.scale_rows, self.shape.words), dtype=torch.int32),
        )

    def arguments(self, buffers: Buffers) -> tuple[Tensor, ...]:
        """Return the arguments of the op, in the order of the protocol."""
        return (
            buffers.packed, buffers.block_scale, buffers.input, self.global_encode_scale, self.expert_offsets,
            self.blockscale_offsets,
        )  # fmt: skip

    def calls(self, op: Callable[..., Any], *extra: Any) -> list[Callable[[], object]]:
        """Return one call of `op` for each set of buffers."""
        return [_bound(op, self.arguments(buffers), extra) for buffers in self.sets]

    def fill(self) -> None:
        """Make every output byte `FILL`."""
        for buffers in self.sets:
            buffers.packed.fill_(FILL)
            buffers.block_scale.view(torch.uint8).fill_(FILL)

    def true_bytes(self, arithmetic: Arithmetic | str | Operations) -> tuple[Tensor, Tensor]:
        """Return the golden codes and scales, row padding zero."""
        quantize = silu_and_mul_quantize_experts if self.shape.fused else quantize_experts
        true = quantize(
            self.sets[0].input, self.global_encode_scale, self.expert_offsets, arithmetic=arithmetic
        )
        return true.packed, true.block_scale.view(torch.uint8)

    def written_scale_bytes(self) -> Tensor:
        """Return which scale bytes lie in a sector with those of an owned row, as bool (scale rows, 4 * words).

        With row padding unwritten these are the bytes that are written all the same.
        """
        ones = torch.ones(
            (self.shape.rows, 4 * self.shape.words), dtype=torch.uint8, device=self.sets[0].input.device
        )
        owned = experts_to_layout(ones, self.expert_offsets, self.blockscale_offsets, layout=LAYOUT) != 0
        return owned.view(-1, SECTOR).any(1, keepdim=True).expand(-1, SECTOR).reshape(owned.shape)

    def linear_scales(self, block_scale: Tensor) -> Tensor:
        """Return scales of the buffer in row-major order, uint8 (rows, K/16)."""
        return experts_from_layout(
            block_scale, self.expert_offsets, self.blockscale_offsets, k=self.shape.k, layout=LAYOUT
        )

    def check(self, name: str, packed: Tensor, block_scale: Tensor) -> None:
        """Compare the outputs of every set with the true bytes.

        Raises:
            WrongBytesError: they differ.
        """
        for number, buffers in enumerate(self.sets):
            for output, true in (
                (buffers.packed, packed),
                (buffers.block_scale.view(torch.uint8), block_scale),
            ):
                if not torch.equal(output, true):
                    differ = int((output != true).sum())
                    raise WrongBytesError(
                        f"{self.shape.name}, {name}: {differ:,} of {true.numel():,} bytes differ from the golden "
                        f"model in buffer set {number}"
                    )

    def places(self, *, dense: bool = False) -> tuple[Tensor, Tensor]:
        """Return what the plain roof is told of each row, int32 (rows,) both; `dense`: as if one expert owned all rows.

        First the row of the scale buffer that its scales go to, then the row padding that is zeroed with them: words
        behind its own in its 16 bytes, and 4 more for the next 16 bytes (`PaddingBeside` in cuda/include).
        """
        rows = torch.arange(self.shape.rows, device=self.expert_offsets.device)
        if dense:
            return rows.to(torch.int32), _padding_beside(rows, torch.full_like(rows, self.shape.rows))
        counts = self.expert_offsets.diff()
        expert = torch.repeat_interleave(counts, output_size=self.shape.rows)
        scale_rows = rows + (self.blockscale_offsets - self.expert_offsets)[expert]
        beside = _padding_beside(rows - self.expert_offsets[expert], counts[expert])
        return scale_rows.to(torch.int32), beside

    def scale_of_row(self) -> Tensor:
        """Return float32 (rows, 1): the global encode scale of each row's expert."""
        return torch.repeat_interleave(
            self.global_encode_scale, self.expert_offsets.diff(), output_size=self.shape.rows
        ).unsqueeze(1)

    def bytes_moved(self, *, padding: bool) -> int:
        """Return the bytes that a call reads and writes; `padding`: row padding is written as well."""
        shape, first = self.shape, self.sets[0]
        vectors = sum(
            t.nbytes for t in (self.global_encode_scale, self.expert_offsets, self.blockscale_offsets)
        )
        scale_rows = self.scale_rows if padding else shape.rows
        return first.input.nbytes + first.packed.nbytes + 4 * shape.words * scale_rows + vectors


def bell_shaped(seed: int, family: str, size: Sequence[int], device: torch.device) -> Tensor:
    """Return bf16 sums of four uniform 12-bit numbers, between -8 and 8, the same on every machine."""
    rows, columns = size
    input = torch.empty((rows, columns), dtype=torch.bfloat16, device=device)
    step = max(1, _MOST_WORDS // columns)
    for first in range(0, rows, step):
        last = min(first + step, rows)
        raw = words(seed, family, first * columns, (last - first) * columns, device=device)
        total = sum((((raw >> shift) & 0xFFF) for shift in (12, 24, 36)), raw & 0xFFF)
        input[first:last] = ((total - 4 * 2048) / 1024).to(torch.bfloat16).view(-1, columns)
    return input


def _padding_beside(row: Tensor, owned: Tensor) -> Tensor:
    """Return int32 for rows of experts that own `owned` rows each; see `QuantCase.places`."""
    in_tile = row % 128
    left = owned - (row - in_tile)
    words = torch.where(in_tile + 32 >= left, 3 - in_tile // 32, 0)
    next_piece = (in_tile % 2 == 0) & (in_tile + 1 == left) & (in_tile < 32)
    return (words + 4 * next_piece).to(torch.int32)


_MOST_WORDS = 2**26
"""Random words made at a time: half a gigabyte."""


def _bound(
    op: Callable[..., Any], arguments: tuple[Any, ...], extra: tuple[Any, ...]
) -> Callable[[], object]:
    return lambda: op(*arguments, *extra)
