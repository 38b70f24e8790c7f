"""Layouts of block-scale bytes: where the scale of (row, block) lies, and both directions between layouts.

A row of K elements has KB = K / 16 scale bytes. A layout cuts the (rows, KB) matrix into tiles of `tile_rows`
rows by `tile_blocks` blocks and stores the tiles in row-major order, each tile contiguous.
With G = tile_rows / lane_rows:

    byte = ((row // tile_rows) * ceil(KB / tile_blocks) + block // tile_blocks) * tile_rows * tile_blocks
         + ((row % lane_rows) * G + (row % tile_rows) // lane_rows) * tile_blocks
         + block % tile_blocks

| layout           | tile_rows | lane_rows | tile_blocks | read by                                                 |
|------------------|-----------|-----------|-------------|---------------------------------------------------------|
| `linear`         | 1         | 1         | 1           | row-major (rows, KB), no padding                        |
| `swizzled_128x4` | 128       | 32        | 4           | CUTLASS and tcgen05 scale-factor atoms of 512 bytes     |
| `swizzled_8x4`   | 8         | 8         | 4           | FlashInfer trtllm-gen for small row tiles               |

Rows are padded to whole tiles and columns to whole groups of `tile_blocks`; **every padding byte is zero**. A
swizzled buffer of S rows is uint8 (S, 4 * ceil(K / 64)): the shape counts bytes, it does not say where a row
lies. A swizzle moves whole 4-byte words, so the buffer may as well be seen as int32 (S, ceil(K / 64)).

`to_layout(from_layout(scales))` differs from `scales` exactly where a padding byte is not zero.

Sources: CUTLASS `Sm1xxBlockScaledConfig` (atom 32x4x4), torchao `to_blocked`, TransformerEngine, FlashInfer
and TensorRT-LLM `quantization_utils.cuh` (128x4, 8x4) agree on these formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.padding import round_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One arrangement of scale bytes; the fields are the parameters of the module's formula."""

    name: str
    tile_rows: int
    """Rows of a tile: a buffer holds a multiple of it."""
    lane_rows: int
    """Rows of a lane group. Neighbouring rows of a group lie `tile_rows // lane_rows` words apart."""
    tile_blocks: int
    """Neighbouring blocks of a row that stay neighbours in memory."""

    @property
    def groups(self) -> int:
        """Lane groups of a tile."""
        return self.tile_rows // self.lane_rows

    @property
    def swizzled(self) -> bool:
        """False only for row-major order: no byte moves, and a row need not be whole words."""
        return self.tile_blocks > 1

    def columns(self, k: int) -> int:
        """Return the scale bytes of a row of `k` elements, padding included."""
        return round_up(check_k(k) // NVFP4.block_size, self.tile_blocks)


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout(name="linear", tile_rows=1, lane_rows=1, tile_blocks=1),
        Layout(name="swizzled_128x4", tile_rows=128, lane_rows=32, tile_blocks=4),
        Layout(name="swizzled_8x4", tile_rows=8, lane_rows=8, tile_blocks=4),
    )
}
"""Every layout by its name."""

LINEAR_DTYPES = (torch.uint8, torch.float8_e4m3fn)
"""Legal dtypes of row-major scales: the bytes, or the same bytes under their number format."""
BUFFER_DTYPES = (*LINEAR_DTYPES, torch.int32)
"""Legal dtypes of a buffer in some layout: engines also hand it over as words of four scales."""

IntOrTensor = TypeVar("IntOrTensor", int, Tensor)


def scale_byte_index(row: IntOrTensor, block: IntOrTensor, *, k: int, layout: str) -> IntOrTensor:
    """Return the byte that holds the scale of (row, block), counted from the buffer's start.

    The one statement of the module's formula; everything else is tested against it. Pure integer arithmetic:
    give Python ints, or int64 tensors of shapes that broadcast (int32 tensors wrap beyond 2^31 bytes). For a
    ragged buffer add the expert's base, `blockscale_offsets[e] * columns(k)` bytes, to the index of the row
    inside the expert.

    Args:
        row: row, from 0.
        block: scale block inside the row, from 0; those from K / 16 up to the padded width address padding.
        k: elements of a row, a multiple of 16.
        layout: a name of `LAYOUTS`.

    Raises:
        ValueError: unknown layout, or `k` no positive multiple of 16.
    """
    at = layout_by_name(layout)
    tiles_of_row = at.columns(k) // at.tile_blocks
    tile = row // at.tile_rows * tiles_of_row + block // at.tile_blocks
    word = tile * at.tile_rows + row % at.lane_rows * at.groups + row % at.tile_rows // at.lane_rows
    return word * at.tile_blocks + block % at.tile_blocks


def scale_shape(rows: int, k: int, layout: str) -> tuple[int, int]:
    """Return the shape in bytes of the scale buffer of `rows` rows of `k` elements.

    Raises:
        ValueError: unknown layout, `rows` negative, or `k` no positive multiple of 16.
    """
    at = layout_by_name(layout)
    if rows < 0:
        raise ValueError(f"rows must not be negative, got {rows}")
    return round_up(rows, at.tile_rows), at.columns(k)


def to_layout(linear: Tensor, layout: str) -> Tensor:
    """Return row-major scales in `layout`, padding bytes zero.

    Args:
        linear: uint8 or float8_e4m3fn (rows, K / 16), or (E, rows, K / 16) for the masked form, in which
            every expert is padded to whole tiles on its own.
        layout: a name of `LAYOUTS`.

    Returns:
        uint8 `scale_shape(rows, K, layout)`, or (E, *that); for `linear` a view of the input where it is
        contiguous.

    Raises:
        TypeError: another dtype.
        ValueError: unknown layout, wrong number of dimensions, or no columns.
    """
    at = layout_by_name(layout)
    source = bytes_of("linear", linear, *LINEAR_DTYPES)
    if source.ndim not in (2, 3) or source.shape[-1] == 0:
        raise ValueError(
            f"linear must be (rows, K/16) or (experts, rows, K/16) with K >= 16, got {tuple(source.shape)}"
        )
    rows, blocks = source.shape[-2:]
    padded = _zero_padded(source, round_up(rows, at.tile_rows), round_up(blocks, at.tile_blocks))
    return swizzle_padded(padded, at) if at.swizzled else padded


def from_layout(scales: Tensor, rows: int, k: int, layout: str) -> Tensor:
    """Return the scales of `rows` rows in row-major order; what lies in padding is not looked at.

    Args:
        scales: uint8 or float8_e4m3fn `scale_shape(rows, k, layout)`, or its int32 view (S, ceil(K / 64))
            where swizzled; with a leading dimension E for the masked form.
        rows: rows of the tensor (of each expert in the masked form), without padding.
        k: elements of a row, a multiple of 16.
        layout: a name of `LAYOUTS`.

    Returns:
        uint8 (rows, K / 16) or (E, rows, K / 16), contiguous; for `linear` a view of the input where it is.

    Raises:
        TypeError: another dtype.
        ValueError: unknown layout, or a buffer of another shape.
    """
    at = layout_by_name(layout)
    padded = bytes_of("scales", scales, *BUFFER_DTYPES)
    shape = scale_shape(rows, k, layout)
    if padded.ndim not in (2, 3) or tuple(padded.shape[-2:]) != shape:
        raise ValueError(
            f"scales of {rows} rows, K = {k}, in {layout} must be {shape} bytes, or a stack of such, "
            f"got {tuple(padded.shape)} bytes"
        )
    linear = unswizzle_padded(padded, at) if at.swizzled else padded
    return linear[..., :rows, : k // NVFP4.block_size].contiguous()


# --- shared with expert_layouts ------------------------------------------------------------------------------


def layout_by_name(name: str) -> Layout:
    """Return the layout called `name`.

    Raises:
        ValueError: there is none; the text lists the names.
    """
    try:
        return LAYOUTS[name]
    except (KeyError, TypeError):
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {name!r}") from None


def check_k(k: int) -> int:
    """Return `k` if it is a positive multiple of the block size.

    Raises:
        ValueError: it is not.
    """
    if k < NVFP4.block_size or k % NVFP4.block_size:
        raise ValueError(f"K must be a positive multiple of {NVFP4.block_size}, got {k}")
    return k


def swizzle_padded(padded: Tensor, layout: Layout, *, out: Tensor | None = None) -> Tensor:
    """Return contiguous uint8 (..., S, columns), whole tiles, rearranged from row-major order to swizzled.

    `out`, of the same shape and contiguous, receives the bytes in place of a new tensor.
    """
    rows_first, tiles_first = _word_shapes(padded, layout)
    return _permuted_words(padded, rows_first, tiles_first, out)


def unswizzle_padded(padded: Tensor, layout: Layout) -> Tensor:
    """Return contiguous uint8 (..., S, columns), whole tiles, rearranged from swizzled to row-major order."""
    rows_first, tiles_first = _word_shapes(padded, layout)
    return _permuted_words(padded, tiles_first, rows_first, None)


def bytes_of(name: str, scales: Tensor, *legal: torch.dtype) -> Tensor:
    """Return a scale tensor of a legal dtype as contiguous uint8; words become four times as wide.

    Raises:
        TypeError: no tensor, or another dtype; the text lists the legal ones.
    """
    if not isinstance(scales, Tensor) or scales.dtype not in legal:
        given = scales.dtype if isinstance(scales, Tensor) else type(scales).__name__
        raise TypeError(f"{name} must be a tensor of {' or '.join(map(str, legal))}, got {given}")
    scales = scales.contiguous()
    if scales.itemsize == 1:
        return scales.view(torch.uint8)
    # The stride of a dimension of size 1 is arbitrary, and a view to narrower elements insists on 1.
    dense = scales if scales.stride(-1) == 1 else scales.clone(memory_format=torch.contiguous_format)
    return dense.view(torch.uint8)


def _word_shapes(padded: Tensor, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of the words, by row: (tile, group, lane, tile column); in memory: the last 3 reversed."""
    tiles_of_row = padded.shape[-1] // layout.tile_blocks
    tile_rows = padded.shape[:-1].numel() // layout.tile_rows
    return (
        (tile_rows, layout.groups, layout.lane_rows, tiles_of_row),
        (tile_rows, tiles_of_row, layout.lane_rows, layout.groups),
    )


def _permuted_words(
    padded: Tensor, source_shape: tuple[int, ...], shape: tuple[int, ...], out: Tensor | None
) -> Tensor:
    """Return `padded` with the last three dimensions of its words reversed: the swizzle and its inverse."""
    flat = padded.reshape(-1)
    if flat.storage_offset() % torch.int32.itemsize:
        flat = flat.clone()  # a slice that starts inside a word cannot be seen as words
    moved = torch.empty_like(flat) if out is None else out.reshape(-1)
    moved.view(torch.int32).view(shape).copy_(flat.view(torch.int32).view(source_shape).permute(0, 3, 2, 1))
    return moved.view(padded.shape)


def _zero_padded(source: Tensor, rows: int, columns: int) -> Tensor:
    """Return `source` in the corner of a zero tensor (..., rows, columns), or itself if it fills it."""
    if source.shape[-2:] == (rows, columns):
        return source
    padded = source.new_zeros((*source.shape[:-2], rows, columns))
    padded[..., : source.shape[-2], : source.shape[-1]] = source
    return padded
