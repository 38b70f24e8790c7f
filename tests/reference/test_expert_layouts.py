"""Ragged and masked expert scales against the byte formula, region by region."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.expert_layouts import (
    experts_from_layout,
    experts_to_layout,
    masked_from_layout,
    masked_to_layout,
    packed_blockscale_offsets,
)
from nvfp4_moe.reference.layouts import LAYOUTS, from_layout, scale_byte_index, scale_shape, to_layout
from nvfp4_moe.reference.padding import PLACEMENTS, expert_starts, padded_rows

SWIZZLED = ("swizzled_128x4", "swizzled_8x4")


def int32(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def offsets_of(counts: list[int]) -> Tensor:
    return int32([0, *itertools.accumulate(counts)])


def nonzero_bytes(*shape: int) -> Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 37 % 251 + 1).to(torch.uint8).view(shape)


def placed(linear: Tensor, counts: list[int], starts: list[int], scale_rows: int, layout: str) -> Tensor:
    """The buffer with every owned byte put where the formula says, one expert at a time."""
    k = linear.shape[1] * 16
    columns = scale_shape(0, k, layout)[1]
    buffer = torch.zeros(scale_rows * columns, dtype=torch.uint8)
    row = 0
    for count, start in zip(counts, starts, strict=False):
        index = scale_byte_index(
            torch.arange(count)[:, None], torch.arange(linear.shape[1]), k=k, layout=layout
        )
        buffer[start * columns + index] = linear[row : row + count]
        row += count
    return buffer.view(scale_rows, columns)


RAGGED = [
    [0],
    [1],
    [0, 0, 0],
    [3, 0, 130, 1, 0],
    [0, 127, 128, 129, 0],
    [256, 1, 255, 257],
    [1] * 9,
]


@pytest.mark.parametrize("counts", RAGGED, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_placement_puts_each_row_into_its_experts_region(layout: str, counts: list[int]) -> None:
    offsets = offsets_of(counts)
    for placement, k in itertools.product(PLACEMENTS, (16, 80, 128)):
        starts = expert_starts(counts, placement=placement)
        linear = nonzero_bytes(sum(counts), k // 16)
        scales = experts_to_layout(linear, offsets, int32(starts), layout=layout)
        assert torch.equal(scales, placed(linear, counts, starts, starts[-1], layout))
        assert torch.equal(experts_from_layout(scales, offsets, int32(starts), k=k, layout=layout), linear)


@pytest.mark.parametrize("layout", SWIZZLED)
def test_all_small_count_vectors_around_a_tile(layout: str) -> None:
    tile = LAYOUTS[layout].tile_rows
    for counts in itertools.product((0, 1, tile - 1, tile, tile + 1), repeat=3):
        offsets, starts = offsets_of([*counts]), expert_starts(counts, tile=tile)
        linear = nonzero_bytes(sum(counts), 5)
        scales = experts_to_layout(linear, offsets, int32(starts), layout=layout)
        assert torch.equal(scales, placed(linear, [*counts], starts, starts[-1], layout))
        assert torch.equal(experts_from_layout(scales, offsets, int32(starts), k=80, layout=layout), linear)


@pytest.mark.parametrize("layout", SWIZZLED)
def test_an_expert_region_is_the_layout_of_its_rows_alone(layout: str) -> None:
    counts = [130, 0, 7]
    linear = nonzero_bytes(137, 5)
    scales = experts_to_layout(linear, offsets_of(counts), int32([0, 256, 256, 384]), layout=layout)
    alone = to_layout(linear[130:], layout)
    assert torch.equal(scales[256 : 256 + len(alone)], alone)
    assert torch.equal(from_layout(scales[:256], 256, 80, layout)[:130], linear[:130])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("extra", [0, 1, 127, 128, 300])
def test_a_larger_buffer_is_zero_behind_the_last_region(layout: str, extra: int) -> None:
    counts = [5, 0, 129]
    offsets, linear = offsets_of(counts), nonzero_bytes(134, 5)
    starts = packed_blockscale_offsets(offsets)
    scales = experts_to_layout(linear, offsets, starts, layout=layout, scale_rows=384 + extra)
    assert len(scales) == 384 + extra
    assert not scales[384:].any()
    assert torch.equal(scales[:384], experts_to_layout(linear, offsets, starts, layout=layout))
    scales[384:] = 0x7F  # nor is it read
    assert torch.equal(experts_from_layout(scales, offsets, starts, k=80, layout=layout), linear)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_no_expert_owns_touch_nothing(layout: str) -> None:
    counts = [5, 0, 129]
    offsets, linear = offsets_of(counts), nonzero_bytes(140, 5)
    starts = packed_blockscale_offsets(offsets)
    scales = experts_to_layout(linear, offsets, starts, layout=layout)
    assert torch.equal(scales, experts_to_layout(linear[:134], offsets, starts, layout=layout))
    assert int((scales != 0).sum()) == 134 * 5
    restored = experts_from_layout(scales, offsets, starts, k=80, layout=layout, rows=140)
    assert torch.equal(restored[:134], linear[:134])
    assert not restored[134:].any()


def test_64_bit_offsets_and_views_of_the_buffer_are_taken() -> None:
    counts = [5, 129]
    offsets, linear = offsets_of(counts), nonzero_bytes(134, 5)
    starts = packed_blockscale_offsets(offsets)
    scales = experts_to_layout(linear, offsets, starts, layout="swizzled_128x4")
    wide = experts_to_layout(linear, offsets.long(), starts.long(), layout="swizzled_128x4")
    assert torch.equal(scales, wide)
    for dtype in (torch.int32, torch.float8_e4m3fn):
        view = scales.view(dtype)
        assert torch.equal(experts_from_layout(view, offsets, starts, k=80, layout="swizzled_128x4"), linear)


def test_no_experts_own_nothing() -> None:
    none = int32([0])
    scales = experts_to_layout(nonzero_bytes(3, 4), none, none, layout="swizzled_128x4", scale_rows=2)
    assert torch.equal(scales, torch.zeros(2, 4, dtype=torch.uint8))


# --- packed offsets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [1, 2, 8, 128])
def test_packed_offsets_are_the_prefix_sums_of_rounded_counts(tile: int) -> None:
    for counts in RAGGED:
        packed = packed_blockscale_offsets(offsets_of(counts), tile=tile)
        assert packed.dtype == torch.int32
        assert packed.tolist() == expert_starts(counts, tile=tile)
        assert int(packed[-1]) == padded_rows(counts, tile=tile)


def test_packed_offsets_that_int32_cannot_hold_are_refused() -> None:
    rows = 2**31 - 1
    assert packed_blockscale_offsets(torch.tensor([0, rows - 127])).tolist() == [0, 2**31 - 128]
    with pytest.raises(ValueError, match=r"blockscale_offsets\[E\] = 2147483648 does not fit int32"):
        packed_blockscale_offsets(int32([0, rows]))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 2], "must start with 0, got 1"),
        ([], "must start with 0, got no entries"),
        ([0, 5, 4], "must not descend, got 5, 4 at expert 1"),
    ],
)
def test_what_is_no_prefix_sum_is_refused(offsets: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        packed_blockscale_offsets(int32(offsets))


def test_a_tile_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="tile must be"):
        packed_blockscale_offsets(int32([0, 1]), tile=0)


# --- masked form -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [1, 8, 130])
def test_masked_rows_are_padding(layout: str, rows: int) -> None:
    linear = nonzero_bytes(4, rows, 5)
    masked_m = int32([0, 1, rows // 2, rows])
    scales = masked_to_layout(linear, masked_m, layout=layout)
    assert scales.shape == (4, *scale_shape(rows, 80, layout))
    for expert, count in enumerate(masked_m.tolist()):
        assert torch.equal(scales[expert], placed(linear[expert], [count], [0], scales.shape[1], layout))
    full = to_layout(linear, layout)
    restored = masked_from_layout(full, masked_m, rows=rows, k=80, layout=layout)
    for expert, count in enumerate(masked_m.tolist()):
        assert torch.equal(restored[expert, :count], linear[expert, :count])
        assert not restored[expert, count:].any()


@pytest.mark.parametrize(
    ("masked_m", "message"),
    [([0, 6], r"masked_m\[1\] must be in \[0, 5\], got 6"), ([-1, 0], "got -1"), ([1], r"\(2,\)")],
)
def test_masked_m_outside_the_slab_is_refused(masked_m: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masked_to_layout(nonzero_bytes(2, 5, 1), int32(masked_m), layout="linear")


def test_masked_tensors_need_three_dimensions() -> None:
    with pytest.raises(ValueError, match=r"\(experts, M, K/16\), got \(5, 1\)"):
        masked_to_layout(nonzero_bytes(5, 1), int32([5]), layout="linear")
    with pytest.raises(ValueError, match="scales must be"):
        masked_from_layout(nonzero_bytes(5, 1), int32([5]), rows=5, k=16, layout="linear")


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "starts", "scale_rows", "message"),
    [
        ([1, 1], [0, 64, 192], None, r"blockscale_offsets\[1\] = 64 is no multiple of the 128 tile rows"),
        ([129, 1], [0, 128, 256], None, r"blockscale_offsets\[1\] = 128 lies before row 256"),
        ([1, 129], [0, 128, 256], None, r"blockscale_offsets\[2\] = 256 lies before row 384"),
        ([1, 1], [-128, 128, 256], None, r"blockscale_offsets\[0\] = -128 lies before row 0"),
        ([1, 1], [0, 128], None, r"blockscale_offsets must be \(3,\), got \(2,\)"),
        ([1, 1], [0, 128, 256], 255, "at least blockscale_offsets"),
        ([1, 3], [0, 128, 256], None, "expert_offsets own 4 rows, linear has 3"),
    ],
)
def test_regions_that_do_not_fit_are_refused(
    counts: list[int], starts: list[int], scale_rows: int | None, message: str
) -> None:
    linear = nonzero_bytes(3 if sum(counts) == 4 else sum(counts), 4)
    with pytest.raises(ValueError, match=message):
        experts_to_layout(
            linear, offsets_of(counts), int32(starts), layout="swizzled_128x4", scale_rows=scale_rows
        )


def test_a_buffer_that_is_too_small_or_of_another_width_is_refused() -> None:
    offsets, starts = int32([0, 1, 2]), int32([0, 128, 256])
    with pytest.raises(ValueError, match="= 256 rows, got 255"):
        experts_from_layout(nonzero_bytes(255, 4), offsets, starts, k=64, layout="swizzled_128x4")
    with pytest.raises(ValueError, match=r"must be \(scale_rows, 8\) bytes, got \(256, 4\)"):
        experts_from_layout(nonzero_bytes(256, 4), offsets, starts, k=80, layout="swizzled_128x4")
    with pytest.raises(ValueError, match="rows must be at least the 2"):
        experts_from_layout(nonzero_bytes(256, 4), offsets, starts, k=64, layout="swizzled_128x4", rows=1)


def test_a_row_major_matrix_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"linear must be \(rows, K/16\)"):
        experts_to_layout(nonzero_bytes(1, 1, 4), int32([0, 1]), int32([0, 128]), layout="linear")


def test_offsets_of_another_dtype_are_refused() -> None:
    with pytest.raises(
        TypeError, match=r"expert_offsets must be an int32 or int64 tensor, got torch.float32"
    ):
        packed_blockscale_offsets(torch.zeros(2))


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gpu_gives_the_same_bytes(layout: str) -> None:
    counts = [3, 0, 130, 1, 0]
    offsets, linear = offsets_of(counts), nonzero_bytes(134, 5)
    starts = packed_blockscale_offsets(offsets.cuda())
    scales = experts_to_layout(linear.cuda(), offsets.cuda(), starts, layout=layout)
    assert torch.equal(scales.cpu(), experts_to_layout(linear, offsets, starts.cpu(), layout=layout))
    restored = experts_from_layout(scales, offsets.cuda(), starts, k=80, layout=layout)
    assert torch.equal(restored.cpu(), linear)
    slabs, masked_m = linear.view(2, 67, 5), int32([3, 67])
    masked = masked_to_layout(slabs.cuda(), masked_m.cuda(), layout=layout)
    assert torch.equal(masked.cpu(), masked_to_layout(slabs, masked_m, layout=layout))
