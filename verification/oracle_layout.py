"""The second oracle for scale layouts and padded rows: plain loops over tiles, written from the layout's picture.

A 128x4 tile holds the scales of 128 rows and 4 neighbouring blocks; its 512 bytes are an array [32][4][4]: 32 lanes,
then 4 groups of 32 rows, then the 4 blocks. An 8x4 tile is [8][4]. Tiles of one tile row follow each other, tile rows
follow each other. Source: CUTLASS sm100_blockscaled_layout.hpp; cuBLAS documentation, "1D block scaling factors layout".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

BYTES_ACROSS = 4
"""Scale blocks in one tile row."""


def whole_tiles(count: int, tile: int) -> int:
    """Return how many tiles hold `count` things, by adding tiles until they do."""
    tiles = 0
    while tiles * tile < count:
        tiles += 1
    return tiles


def scale_positions(rows: int, blocks: int, *, layout: str) -> tuple[npt.NDArray[np.int64], int]:
    """Return the byte of each scale, int64 (rows, blocks), and the bytes of the buffer."""
    where = np.full((rows, blocks), -1, dtype=np.int64)
    if layout == "linear":
        return np.arange(rows * blocks, dtype=np.int64).reshape(rows, blocks), rows * blocks
    lanes, groups = {"swizzled_128x4": (32, 4), "swizzled_8x4": (8, 1)}[layout]
    byte = 0
    for tile_row in range(whole_tiles(rows, lanes * groups)):
        for tile_column in range(whole_tiles(blocks, BYTES_ACROSS)):
            for lane in range(lanes):
                for group in range(groups):
                    row = tile_row * lanes * groups + group * lanes + lane
                    for across in range(BYTES_ACROSS):
                        block = tile_column * BYTES_ACROSS + across
                        if row < rows and block < blocks:
                            where[row, block] = byte
                        byte += 1
    return where, byte


def place_scales(
    linear: npt.NDArray[np.uint8],
    counts: Sequence[int],
    starts: Sequence[int],
    *,
    layout: str,
    scale_rows: int,
) -> npt.NDArray[np.uint8]:
    """Return the flat buffer of ragged experts: each expert's rows in a layout of its own, at its start row.

    Args:
        linear: uint8 (rows, K/16), rows in expert order.
        counts: rows of each expert.
        starts: buffer row at which each expert begins.
        layout: "linear", "swizzled_128x4" or "swizzled_8x4".
        scale_rows: rows of the buffer.

    Returns:
        uint8 (scale_rows * bytes of a row,); what no row owns is zero.
    """
    blocks = linear.shape[1]
    row_bytes = blocks if layout == "linear" else whole_tiles(blocks, BYTES_ACROSS) * BYTES_ACROSS
    buffer = np.zeros(scale_rows * row_bytes, dtype=np.uint8)
    first = 0
    for count, start in zip(counts, starts, strict=True):
        where, _ = scale_positions(count, blocks, layout=layout)
        for row in range(count):
            for block in range(blocks):
                buffer[start * row_bytes + where[row, block]] = linear[first + row, block]
        first += count
    return buffer


def packed_starts(counts: Sequence[int], *, tile: int) -> list[int]:
    """Return the start row of each expert when padded regions follow each other, and behind them their end."""
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + whole_tiles(count, tile) * tile)
    return starts
