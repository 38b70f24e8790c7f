"""Scale layouts against the published byte formulas, written out literally and walked one byte at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.layouts import (
    LAYOUTS,
    from_layout,
    scale_byte_index,
    scale_shape,
    to_layout,
)

SWIZZLED = ("swizzled_128x4", "swizzled_8x4")
ROWS = (0, 1, 2, 7, 8, 9, 31, 32, 33, 127, 128, 129, 255, 256, 257)
KS = range(16, 209, 16)


def published_128x4(row: int, block: int, tiles_of_row: int) -> int:
    return (
        ((row // 128) * tiles_of_row + block // 4) * 512
        + (row % 32) * 16
        + ((row % 128) // 32) * 4
        + block % 4
    )


def published_8x4(row: int, block: int, tiles_of_row: int) -> int:
    return ((row // 8) * tiles_of_row + block // 4) * 32 + (row % 8) * 4 + block % 4


PUBLISHED: dict[str, Callable[[int, int, int], int]] = {
    "swizzled_128x4": published_128x4,
    "swizzled_8x4": published_8x4,
}
PUBLISHED_TILE = {"swizzled_128x4": 128, "swizzled_8x4": 8}


def nonzero_bytes(*shape: int) -> Tensor:
    """Bytes 1..251 in an order that no power of two divides, so that neighbours and whole rows differ."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 37 % 251 + 1).to(torch.uint8).view(shape)


def walked(linear: Tensor, layout: str) -> Tensor:
    """The buffer of `linear` made one byte at a time from the published formula."""
    rows, blocks = linear.shape
    tile, tiles_of_row = PUBLISHED_TILE[layout], -(-blocks // 4)
    buffer = [0] * (-(-rows // tile) * tile * tiles_of_row * 4)
    for row, values in enumerate(linear.tolist()):
        for block, value in enumerate(values):
            buffer[PUBLISHED[layout](row, block, tiles_of_row)] = value
    return torch.tensor(buffer, dtype=torch.uint8).view(-1, tiles_of_row * 4)


# --- the formula ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", SWIZZLED)
@pytest.mark.parametrize("k", [16, 64, 80, 208])
def test_byte_index_is_the_published_formula(layout: str, k: int) -> None:
    tiles_of_row = -(-k // 64)
    for row in range(300):
        for block in range(tiles_of_row * 4):
            true = PUBLISHED[layout](row, block, tiles_of_row)
            assert scale_byte_index(row, block, k=k, layout=layout) == true


@pytest.mark.parametrize(
    ("row", "block", "byte"),
    [
        (0, 1, 1),  # blocks of a group of four are neighbours
        (1, 0, 16),  # the next row lies one lane on
        (32, 0, 4),  # 32 rows on is the next word of the same lane
        (31, 3, 499),
        (127, 3, 511),  # the last byte of the first atom
        (0, 4, 512),  # the next four blocks are the next atom
        (128, 0, 512 * 3),  # the next 128 rows follow after all atoms of this row of tiles
    ],
)
def test_facts_of_the_128x4_atom(row: int, block: int, byte: int) -> None:
    assert scale_byte_index(row, block, k=192, layout="swizzled_128x4") == byte


@pytest.mark.parametrize(("row", "block", "byte"), [(1, 0, 4), (7, 3, 31), (0, 4, 32), (8, 0, 96)])
def test_facts_of_the_8x4_tile(row: int, block: int, byte: int) -> None:
    assert scale_byte_index(row, block, k=192, layout="swizzled_8x4") == byte


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [16, 64, 80, 256])
@pytest.mark.parametrize("rows", [1, 8, 128, 130])
def test_every_byte_of_a_buffer_has_exactly_one_place(layout: str, k: int, rows: int) -> None:
    padded_rows, columns = scale_shape(rows, k, layout)
    index = scale_byte_index(torch.arange(padded_rows)[:, None], torch.arange(columns), k=k, layout=layout)
    assert index.shape == (padded_rows, columns)
    assert torch.equal(index.flatten().sort().values, torch.arange(padded_rows * columns))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensor_and_int_indices_agree_beyond_32_bits(layout: str) -> None:
    rows = [2**25 - 1, 2**25, 2**33 + 77]
    index = scale_byte_index(torch.tensor(rows), torch.tensor(5), k=7168, layout=layout)
    assert index.tolist() == [scale_byte_index(row, 5, k=7168, layout=layout) for row in rows]
    assert int(index[-1]) > 2**40


def test_linear_is_row_major() -> None:
    assert scale_byte_index(3, 2, k=80, layout="linear") == 3 * 5 + 2
    assert scale_shape(3, 80, "linear") == (3, 5)


@pytest.mark.parametrize(
    ("rows", "k", "layout", "shape"),
    [
        (0, 16, "swizzled_128x4", (0, 4)),
        (1, 16, "swizzled_128x4", (128, 4)),
        (128, 64, "swizzled_128x4", (128, 4)),
        (129, 80, "swizzled_128x4", (256, 8)),
        (9, 80, "swizzled_8x4", (16, 8)),
        (98048, 7168, "swizzled_128x4", (98048, 448)),
    ],
)
def test_scale_shape(rows: int, k: int, layout: str, shape: tuple[int, int]) -> None:
    assert scale_shape(rows, k, layout) == shape


# --- both directions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", SWIZZLED)
@pytest.mark.parametrize("k", KS)
def test_to_layout_is_the_walked_buffer_and_from_layout_its_inverse(layout: str, k: int) -> None:
    for rows in ROWS:
        linear = nonzero_bytes(rows, k // 16)
        scales = to_layout(linear, layout)
        assert torch.equal(scales, walked(linear, layout))
        assert scales.shape == scale_shape(rows, k, layout)
        assert scales.is_contiguous()
        assert torch.equal(from_layout(scales, rows, k, layout), linear)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_hot_probes_land_on_their_byte_and_no_other(layout: str) -> None:
    rows, k = 130, 80
    for row in (0, 1, 31, 32, 63, 96, 127, 128, 129):
        for block in range(k // 16):
            linear = torch.zeros(rows, k // 16, dtype=torch.uint8)
            linear[row, block] = 0xFF
            buffer = to_layout(linear, layout).flatten()
            assert buffer.nonzero().tolist() == [[scale_byte_index(row, block, k=k, layout=layout)]]


def test_128x4_is_the_blocked_format_of_torchao() -> None:
    """Cut into (128, 4) blocks, row-major; inside a block row r = 32 * g + l goes to line l, word g."""
    linear = nonzero_bytes(256, 12)
    blocks = [
        tile_column.reshape(4, 32, 4).transpose(0, 1).reshape(32, 16)
        for tile_row in linear.split(128)
        for tile_column in tile_row.split(4, dim=1)
    ]
    assert torch.equal(to_layout(linear, "swizzled_128x4").flatten(), torch.stack(blocks).flatten())


@pytest.mark.parametrize("layout", SWIZZLED)
def test_the_masked_form_lays_out_each_expert_on_its_own(layout: str) -> None:
    linear = nonzero_bytes(3, 130, 5)
    scales = to_layout(linear, layout)
    assert scales.shape == (3, *scale_shape(130, 80, layout))
    for expert in range(3):
        assert torch.equal(scales[expert], to_layout(linear[expert], layout))
    assert torch.equal(from_layout(scales, 130, 80, layout), linear)


def test_no_experts_is_an_empty_buffer() -> None:
    assert to_layout(torch.zeros(0, 3, 5, dtype=torch.uint8), "swizzled_8x4").shape == (0, 8, 8)


# --- padding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", SWIZZLED)
def test_padding_is_not_read_and_a_round_trip_shows_each_dirty_byte(layout: str) -> None:
    rows, k = 129, 80
    linear = nonzero_bytes(rows, k // 16)
    clean = to_layout(linear, layout)
    padding = (to_layout(torch.ones_like(linear), layout) == 0).flatten().nonzero().flatten().tolist()
    assert len(padding) == clean.numel() - linear.numel()
    for byte in padding[:: max(1, len(padding) // 97)]:
        dirty = clean.clone()
        dirty.view(-1)[byte] = 0x7F
        restored = from_layout(dirty, rows, k, layout)
        assert torch.equal(restored, linear)
        assert (to_layout(restored, layout) != dirty).flatten().nonzero().tolist() == [[byte]]


# --- tensors of other kinds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [16, 80, 128])
@pytest.mark.parametrize("rows", [1, 8, 130])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int32])
def test_engines_views_of_a_buffer_are_read(dtype: torch.dtype, rows: int, k: int) -> None:
    linear = nonzero_bytes(rows, k // 16)
    for layout in SWIZZLED:
        assert torch.equal(from_layout(to_layout(linear, layout).view(dtype), rows, k, layout), linear)


def test_float8_scales_are_taken_as_bytes() -> None:
    linear = nonzero_bytes(3, 5)
    assert torch.equal(
        to_layout(linear.view(torch.float8_e4m3fn), "swizzled_8x4"), to_layout(linear, "swizzled_8x4")
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_and_offsets_do_not_matter(layout: str) -> None:
    for rows, blocks in ((1, 4), (8, 4), (128, 8), (130, 5), (1, 1)):
        linear = nonzero_bytes(rows, blocks)
        true = to_layout(linear, layout)
        transposed = linear.t().contiguous().t()
        off_word = torch.zeros(rows * blocks + 1, dtype=torch.uint8)[1:].view(rows, blocks).copy_(linear)
        wide = torch.zeros(rows, blocks + 3, dtype=torch.uint8)[:, 1:-2].copy_(linear)
        strided = torch.zeros(rows, blocks, 2, dtype=torch.uint8)[..., 1].copy_(linear)
        for form in (transposed, off_word, wide, strided):
            assert torch.equal(to_layout(form, layout), true)
        buffer = torch.zeros(true.numel() + 1, dtype=torch.uint8)[1:].view(true.shape).copy_(true)
        assert torch.equal(from_layout(buffer, rows, blocks * 16, layout), linear)


def test_a_buffer_of_single_words_is_read_whatever_the_stride_of_its_one_column() -> None:
    linear = nonzero_bytes(8, 4)
    words = to_layout(linear, "swizzled_8x4").view(torch.int32)
    column = words.flatten().as_strided((8, 1), (1, 5))
    assert column.is_contiguous()
    assert torch.equal(from_layout(column, 8, 64, "swizzled_8x4"), linear)
    every_second = torch.zeros(8, 2, dtype=torch.int32)
    every_second[:, :1] = words
    assert torch.equal(from_layout(every_second[:, :1], 8, 64, "swizzled_8x4"), linear)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gpu_gives_the_same_bytes(layout: str) -> None:
    linear = nonzero_bytes(300, 13)
    scales = to_layout(linear.cuda(), layout)
    assert torch.equal(scales.cpu(), to_layout(linear, layout))
    assert torch.equal(from_layout(scales, 300, 208, layout).cpu(), linear)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_unknown_layouts_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"one of linear, swizzled_128x4, swizzled_8x4, got 'blocked'"):
        scale_shape(1, 16, "blocked")


@pytest.mark.parametrize("k", [0, -16, 8, 24, 100])
def test_k_must_be_a_positive_multiple_of_the_block(k: int) -> None:
    with pytest.raises(ValueError, match=rf"K must be a positive multiple of 16, got {k}"):
        scale_shape(1, k, "linear")
    with pytest.raises(ValueError, match="K must be"):
        scale_byte_index(0, 0, k=k, layout="swizzled_8x4")


def test_negative_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="rows must not be negative, got -1"):
        scale_shape(-1, 16, "linear")


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32, torch.int32])
def test_linear_scales_of_another_dtype_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(
        TypeError, match=r"linear must be a tensor of torch.uint8 or torch.float8_e4m3fn, got torch"
    ):
        to_layout(torch.zeros(1, 4, dtype=dtype), "linear")


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="got list"):
        to_layout([[1]], "linear")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4,), (2, 0), (1, 1, 1, 4)])
def test_linear_scales_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"linear must be \(rows, K/16\)"):
        to_layout(torch.zeros(shape, dtype=torch.uint8), "swizzled_128x4")


@pytest.mark.parametrize("shape", [(127, 8), (128, 4), (256, 8), (8, 128), (1024,)])
def test_buffers_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must be \(128, 8\) bytes"):
        from_layout(torch.zeros(shape, dtype=torch.uint8), 100, 80, "swizzled_128x4")
