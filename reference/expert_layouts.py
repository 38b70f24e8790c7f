"""Block-scale bytes of many experts in one buffer: ragged rows, and the masked (batched) form.

**Ragged.** Expert e owns the routed rows [expert_offsets[e], expert_offsets[e + 1]) and the buffer rows from
blockscale_offsets[e]; both vectors count rows. The row i of expert e has the scale of block b at byte

    blockscale_offsets[e] * columns(K) + scale_byte_index(i, b, k=K, layout=...)

of a buffer (scale_rows, columns(K)). Every start is a multiple of the layout's tile rows, and a tile row has
the same number of words whichever expert it belongs to, so the whole buffer is the layout of one tall matrix
in which expert e's rows begin at row blockscale_offsets[e]. Any placement without overlap is accepted: packed
prefix sums (vLLM, SGLang) as well as the closed forms (TensorRT-LLM, FlashInfer). In `linear` the same tall
matrix is stored row-major.

**Masked.** Expert e owns the rows [0, masked_m[e]) of its slab (M, K / 16) of a tensor (E, M, K / 16); its
buffer slab is `scale_shape(M, K, layout)`.

All bytes of a buffer that no row owns are zero. Both forms read the offset vectors on the host to check them:
a device-to-host copy of each, every call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.reference.checks import check_index_vector, check_offsets, check_row_counts, fits_int32
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.layouts import (
    BUFFER_DTYPES,
    LINEAR_DTYPES,
    Layout,
    bytes_of,
    from_layout,
    layout_by_name,
    swizzle_padded,
    to_layout,
    unswizzle_padded,
)
from nvfp4_moe.reference.padding import TILE, check_size, round_up


def packed_blockscale_offsets(expert_offsets: Tensor, *, tile: int = TILE) -> Tensor:
    """Return where packed experts begin: prefix sums of their rows rounded up to the tile.

    Args:
        expert_offsets: int32 or int64 (E + 1,), prefix sums of the routed rows.
        tile: rows of a scale tile.

    Returns:
        int32 (E + 1,), in rows; the last entry is S, the rows that the grouped GEMM reads.

    Raises:
        TypeError, ValueError: offsets of another dtype or shape, not starting at 0, or descending; `tile`
            below 1; an offset that int32 cannot hold.
    """
    fits_int32("tile", check_size("tile", tile, at_least=1))
    fits_int32("expert_offsets[E]", check_offsets("expert_offsets", expert_offsets)[-1])
    counts = expert_offsets.to(torch.int64).diff()
    offsets = torch.zeros(expert_offsets.shape, dtype=torch.int64, device=expert_offsets.device)
    torch.cumsum((counts + (tile - 1)) // tile * tile, 0, out=offsets[1:])
    fits_int32("blockscale_offsets[E]", int(offsets[-1]))
    return offsets.to(torch.int32)


def experts_to_layout(
    linear: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    *,
    layout: str,
    scale_rows: int | None = None,
) -> Tensor:
    """Return the scale buffer of ragged experts; bytes that no routed row owns are zero.

    Args:
        linear: uint8 or float8_e4m3fn (rows, K / 16), rows in expert order; those at or after
            expert_offsets[E] are not read.
        expert_offsets: int32 or int64 (E + 1,), prefix sums of the routed rows.
        blockscale_offsets: int32 or int64 (E + 1,), first buffer row of each expert; the last ends the last
            region.
        layout: a name of `LAYOUTS`.
        scale_rows: rows of the buffer, by default blockscale_offsets[E]. Need not be a multiple of the tile.

    Returns:
        uint8 (scale_rows, columns(K)).

    Raises:
        TypeError: another dtype.
        ValueError: shapes that do not fit, an expert outside `linear` or the buffer, start off the tile grid,
            overlap.
    """
    at = layout_by_name(layout)
    source = bytes_of("linear", linear, *LINEAR_DTYPES)
    if source.ndim != 2 or source.shape[1] == 0:
        raise ValueError(f"linear must be (rows, K/16) with K >= 16, got {tuple(source.shape)}")
    owned, end = _checked_regions(expert_offsets, blockscale_offsets, at)
    if owned > source.shape[0]:
        raise ValueError(f"expert_offsets own {owned} rows, linear has {source.shape[0]}")
    buffer_rows = _checked_scale_rows(scale_rows, end)
    blocks = source.shape[1]
    columns = at.columns(blocks * NVFP4.block_size)
    buffer = source.new_zeros((buffer_rows, columns))
    tall = torch.zeros_like(buffer[:end]) if at.swizzled else buffer
    tall[_buffer_row(expert_offsets, blockscale_offsets, owned), :blocks] = source[:owned]
    if at.swizzled:
        swizzle_padded(tall, at, out=buffer[:end])
    return buffer


def experts_from_layout(
    scales: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    *,
    k: int,
    layout: str,
    rows: int | None = None,
) -> Tensor:
    """Return the scales of ragged experts as one row-major matrix, rows in expert order.

    Args:
        scales: uint8 or float8_e4m3fn (scale_rows, columns(K)), or its int32 view (scale_rows, ceil(K / 64)).
        expert_offsets: int32 or int64 (E + 1,), prefix sums of the routed rows.
        blockscale_offsets: int32 or int64 (E + 1,), first buffer row of each expert; the last ends the last
            region.
        k: elements of a row, a multiple of 16.
        layout: a name of `LAYOUTS`.
        rows: rows of the result, by default expert_offsets[E]; those that no expert owns are zero.

    Returns:
        uint8 (rows, K / 16).

    Raises:
        TypeError, ValueError: as `experts_to_layout`.
    """
    at = layout_by_name(layout)
    buffer = bytes_of("scales", scales, *BUFFER_DTYPES)
    columns = at.columns(k)
    if buffer.ndim != 2 or buffer.shape[1] != columns:
        raise ValueError(
            f"scales for K = {k} in {layout} must be (scale_rows, {columns}) bytes, got {tuple(buffer.shape)} bytes"
        )
    owned, end = _checked_regions(expert_offsets, blockscale_offsets, at)
    _checked_scale_rows(buffer.shape[0], end)
    if rows is not None and rows < owned:
        raise ValueError(f"rows must be at least the {owned} that expert_offsets own, got {rows}")
    tall = unswizzle_padded(buffer[:end], at) if at.swizzled else buffer
    linear = buffer.new_zeros((owned if rows is None else rows, k // NVFP4.block_size))
    linear[:owned] = tall[_buffer_row(expert_offsets, blockscale_offsets, owned), : k // NVFP4.block_size]
    return linear


def masked_to_layout(linear: Tensor, masked_m: Tensor, *, layout: str) -> Tensor:
    """Return the scale buffers of the masked form; rows at or after masked_m[e] are padding, so zero.

    Args:
        linear: uint8 or float8_e4m3fn (E, M, K / 16).
        masked_m: int32 or int64 (E,), rows that each expert owns.
        layout: a name of `LAYOUTS`.

    Returns:
        uint8 (E, *scale_shape(M, K, layout)).

    Raises:
        TypeError, ValueError: as `to_layout`; `masked_m` of another dtype or shape, or outside [0, M].
    """
    source = bytes_of("linear", linear, *LINEAR_DTYPES)
    if source.ndim != 3:
        raise ValueError(f"linear must be (experts, M, K/16), got {tuple(source.shape)}")
    return to_layout(_without_masked_rows(source, masked_m), layout)


def masked_from_layout(scales: Tensor, masked_m: Tensor, *, rows: int, k: int, layout: str) -> Tensor:
    """Return the scales of the masked form in row-major order; rows at or after masked_m[e] are zero.

    Args:
        scales: uint8 or float8_e4m3fn (E, *scale_shape(rows, k, layout)), or its int32 view.
        masked_m: int32 or int64 (E,), rows that each expert owns.
        rows: M, rows of an expert's slab.
        k: elements of a row, a multiple of 16.
        layout: a name of `LAYOUTS`.

    Returns:
        uint8 (E, rows, K / 16).

    Raises:
        TypeError, ValueError: as `from_layout`; `masked_m` of another dtype or shape, or outside [0, rows].
    """
    linear = from_layout(scales, rows, k, layout)
    if linear.ndim != 3:
        raise ValueError(f"scales must be (experts, scale rows, columns), got {tuple(scales.shape)}")
    return _without_masked_rows(linear, masked_m)


# --- checks and index vectors --------------------------------------------------------------------------------


def _without_masked_rows(linear: Tensor, masked_m: Tensor) -> Tensor:
    """Return a copy of (E, M, KB) whose rows at or after masked_m[e] are zero."""
    experts, rows, _ = linear.shape
    check_row_counts("masked_m", masked_m, experts=experts, most=rows)
    owned = torch.arange(rows, device=linear.device) < masked_m.to(linear.device)[:, None]  # (E, M)
    return linear * owned[:, :, None]


def _buffer_row(expert_offsets: Tensor, blockscale_offsets: Tensor, owned: int) -> Tensor:
    """Return, int64 (owned,), the row of the tall matrix in which each routed row lies."""
    first = expert_offsets[:-1].to(torch.int64)
    shift = blockscale_offsets[:-1].to(torch.int64) - first
    counts = expert_offsets[1:].to(torch.int64) - first
    return torch.arange(owned, device=shift.device) + torch.repeat_interleave(
        shift, counts, output_size=owned
    )


def _checked_regions(expert_offsets: Tensor, blockscale_offsets: Tensor, layout: Layout) -> tuple[int, int]:
    """Return the routed rows and the end of the last region; regions must be whole tiles and apart."""
    rows = check_offsets("expert_offsets", expert_offsets)
    experts = len(rows) - 1
    check_index_vector("blockscale_offsets", blockscale_offsets, length=experts + 1)
    starts: list[int] = blockscale_offsets.tolist()
    end = 0
    for expert, start in enumerate(starts):
        if start % layout.tile_rows:
            raise ValueError(
                f"blockscale_offsets[{expert}] = {start} is no multiple of the {layout.tile_rows} tile rows "
                f"of {layout.name}"
            )
        if start < end:
            raise ValueError(
                f"blockscale_offsets[{expert}] = {start} lies before row {end}, where the expert before it ends"
            )
        if expert < experts:
            end = start + round_up(rows[expert + 1] - rows[expert], layout.tile_rows)
    return rows[-1], starts[-1]


def _checked_scale_rows(scale_rows: int | None, end: int) -> int:
    if scale_rows is None:
        return end
    if scale_rows < end:
        raise ValueError(
            f"the scale buffer must have at least blockscale_offsets[E] = {end} rows, got {scale_rows}"
        )
    return scale_rows
