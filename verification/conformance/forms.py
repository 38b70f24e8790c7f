"""The two forms of a quantizer's outputs: ragged experts in one buffer, and the masked form with a slab for each.

A form places rows in expert order into the outputs and reads them back, and says what each byte is. Judgements work
on rows; only this module knows where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Protocol

import torch

from nvfp4_moe.reference.expert_layouts import (
    experts_from_layout,
    experts_to_layout,
    masked_from_layout,
    masked_to_layout,
)
from nvfp4_moe.reference.padding import TILE, ceil_div, round_up

SWIZZLED = "swizzled_128x4"


class Kind(IntEnum):
    """What a byte of the scale buffer is."""

    ROW_PADDING = 0
    """A row that rounds an expert up to the tile."""
    VALID = 1
    K_PADDING = 2
    """A column past the last block, in a row that an expert owns."""
    BEYOND = 3
    """A row past an expert's last tile (ragged: at or after row S): nothing may touch it."""


class Form(Protocol):
    """How the rows of the experts lie in a quantizer's outputs."""

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """uint8 shape of the codes."""

    @property
    def scale_shape(self) -> tuple[int, ...]:
        """int32 shape of the scale buffer."""

    @property
    def owned(self) -> torch.Tensor:
        """bool, `packed_shape` but for its last dimension: the row belongs to an expert."""

    @property
    def kinds(self) -> torch.Tensor:
        """uint8, the scale buffer's bytes: the `Kind` of each."""

    def place_scales(self, linear: torch.Tensor) -> torch.Tensor:
        """Return the buffer's bytes for linear scales (T, columns); bytes that no row owns are zero."""

    def read_scales(self, scales: torch.Tensor) -> torch.Tensor:
        """Return the linear scales (T, K/16) of a buffer's bytes."""

    def packed_position(self, row: int) -> tuple[int, int]:
        """Return (expert, row of the expert) of a row of the codes; expert -1: nobody's."""

    def scale_position(self, byte: int) -> tuple[int, int, int]:
        """Return (expert, row of the expert, scale column) of a byte of the buffer; expert -1: nobody's."""


@dataclass(frozen=True)
class Ragged:
    """Expert e owns the rows from expert_offsets[e] of the codes and from blockscale_offsets[e] of the scales."""

    tokens_per_expert: Sequence[int]
    k: int
    unrouted_rows: int = 0
    extra_scale_rows: int = 0

    @cached_property
    def expert_offsets(self) -> torch.Tensor:
        """int32 (E+1,)."""
        return _prefix_sums(self.tokens_per_expert)

    @cached_property
    def blockscale_offsets(self) -> torch.Tensor:
        """int32 (E+1,)."""
        return _prefix_sums([round_up(rows, TILE) for rows in self.tokens_per_expert])

    @property
    def routed_rows(self) -> int:
        return int(self.expert_offsets[-1])

    @property
    def padded_rows(self) -> int:
        return int(self.blockscale_offsets[-1])

    @property
    def scale_rows(self) -> int:
        return self.padded_rows + self.extra_scale_rows

    @property
    def packed_shape(self) -> tuple[int, ...]:
        return self.routed_rows + self.unrouted_rows, self.k // 2

    @property
    def scale_shape(self) -> tuple[int, ...]:
        return self.scale_rows, ceil_div(self.k, 64)

    @property
    def owned(self) -> torch.Tensor:
        return torch.arange(self.packed_shape[0]) < self.routed_rows

    @property
    def kinds(self) -> torch.Tensor:
        kinds = self.place_scales(_linear_kinds(self.routed_rows, self.k))
        kinds[self.padded_rows :] = int(Kind.BEYOND)
        return kinds

    def place_scales(self, linear: torch.Tensor) -> torch.Tensor:
        return experts_to_layout(
            linear, self.expert_offsets, self.blockscale_offsets, layout=SWIZZLED, scale_rows=self.scale_rows
        )

    def read_scales(self, scales: torch.Tensor) -> torch.Tensor:
        return experts_from_layout(
            scales, self.expert_offsets, self.blockscale_offsets, k=self.k, layout=SWIZZLED
        )

    def packed_position(self, row: int) -> tuple[int, int]:
        return _within(self.expert_offsets, row)

    def scale_position(self, byte: int) -> tuple[int, int, int]:
        row, column = _unswizzled(byte, self.k)
        return (*_within(self.blockscale_offsets, row), column)


@dataclass(frozen=True)
class Masked:
    """Expert e owns the first masked_m[e] rows of its slab, in the codes and in the scales."""

    tokens_per_expert: Sequence[int]
    k: int
    unrouted_rows: int = 0
    """Rows of a slab beyond the fullest expert's."""

    @cached_property
    def masked_m(self) -> torch.Tensor:
        """int32 (E,)."""
        return torch.tensor(self.tokens_per_expert, dtype=torch.int32)

    @property
    def slab_rows(self) -> int:
        return max(self.tokens_per_expert) + self.unrouted_rows

    @property
    def packed_shape(self) -> tuple[int, ...]:
        return len(self.tokens_per_expert), self.slab_rows, self.k // 2

    @property
    def scale_shape(self) -> tuple[int, ...]:
        return len(self.tokens_per_expert), round_up(self.slab_rows, TILE), ceil_div(self.k, 64)

    @cached_property
    def owned(self) -> torch.Tensor:
        return torch.arange(self.slab_rows) < self.masked_m[:, None]

    @property
    def kinds(self) -> torch.Tensor:
        kinds = self.place_scales(_linear_kinds(sum(self.tokens_per_expert), self.k))
        for expert, rows in enumerate(self.tokens_per_expert):
            kinds[expert, round_up(rows, TILE) :] = int(Kind.BEYOND)
        return kinds

    def place_scales(self, linear: torch.Tensor) -> torch.Tensor:
        whole = linear.new_zeros((*self.owned.shape, linear.shape[-1]))
        whole[self.owned] = linear
        return masked_to_layout(whole, self.masked_m, layout=SWIZZLED)

    def read_scales(self, scales: torch.Tensor) -> torch.Tensor:
        linear = masked_from_layout(scales, self.masked_m, rows=self.slab_rows, k=self.k, layout=SWIZZLED)
        return linear[self.owned]

    def packed_position(self, row: int) -> tuple[int, int]:
        expert, inside = divmod(row, self.slab_rows)
        return (expert if inside < self.tokens_per_expert[expert] else -1), inside

    def scale_position(self, byte: int) -> tuple[int, int, int]:
        _, rows, words = self.scale_shape
        expert, inside = divmod(byte, rows * words * 4)
        return (expert, *_unswizzled(inside, self.k))


def _prefix_sums(counts: Sequence[int]) -> torch.Tensor:
    sums = torch.zeros(len(counts) + 1, dtype=torch.int32)
    torch.cumsum(torch.tensor(counts, dtype=torch.int32), 0, dtype=torch.int32, out=sums[1:])
    return sums


def _linear_kinds(rows: int, k: int) -> torch.Tensor:
    blocks = k // 16
    kinds = torch.full((rows, round_up(blocks, 4)), int(Kind.K_PADDING), dtype=torch.uint8)
    kinds[:, :blocks] = int(Kind.VALID)
    return kinds


def _within(offsets: torch.Tensor, row: int) -> tuple[int, int]:
    if row >= int(offsets[-1]):
        return -1, row - int(offsets[-1])
    expert = int(torch.searchsorted(offsets, row, right=True)) - 1
    return expert, row - int(offsets[expert])


def _unswizzled(byte: int, k: int) -> tuple[int, int]:
    """Return (row, column) of a byte of a 128x4 buffer.

    The inverse of: byte = ((row/128)*KT + col/4)*512 + (row%32)*16 + ((row%128)/32)*4 + col%4, KT = ceil(K/64).
    """
    tile, inner = divmod(byte, 512)
    tile_row, tile_column = divmod(tile, ceil_div(k, 64))
    return tile_row * 128 + inner // 16 + inner % 16 // 4 * 32, tile_column * 4 + inner % 4
