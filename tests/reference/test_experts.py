"""Experts: their bytes are those of `quantize` on each expert's rows alone; everything else is zero."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nvfp4_moe.reference.experts import quantize_experts, quantize_masked, silu_and_mul_quantize_experts
from nvfp4_moe.reference.layouts import scale_byte_index, scale_shape
from nvfp4_moe.reference.quantize import Quantized, quantize
from nvfp4_moe.reference.silu import silu_and_mul
from nvfp4_moe.verification.counter import words

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32], ids=lambda dtype: str(dtype).split(".")[1]
)
LAYOUTS = pytest.mark.parametrize("layout", ["linear", "swizzled_128x4", "swizzled_8x4"])
COUNTS = pytest.mark.parametrize(
    "counts",
    [[0], [1], [3, 0, 129, 1, 0, 128], [0, 0, 0], [127, 1], [5] * 7],
    ids=lambda counts: "-".join(map(str, counts)),
)


def ordinary(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    raw = words(5, "experts", 0, rows * columns).view(rows, columns)
    return torch.ldexp(((raw >> 40) % 4096).to(torch.float64), (raw & 7) - 14).to(dtype)


def offsets_of(counts: list[int], *, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=dtype)


def scales_of(experts: int) -> torch.Tensor:
    """Return encode scales of which no two agree, none of them a power of two."""
    return torch.tensor([3.7 * 1.9**expert for expert in range(experts)], dtype=torch.float32)


def assembled(
    input: torch.Tensor,
    scales: torch.Tensor,
    counts: list[int],
    layout: str,
    starts: list[int],
    scale_rows: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Build both buffers byte by byte from single-expert results and the layout's formula."""
    rows, k = input.shape
    packed = torch.zeros(rows, k // 2, dtype=torch.uint8)
    buffer = torch.zeros(scale_rows * scale_shape(0, k, layout)[1], dtype=torch.uint8)
    first = 0
    for expert, count in enumerate(counts):
        alone = quantize(input[first : first + count], scales[expert])
        packed[first : first + count] = alone.packed
        row, block = torch.meshgrid(torch.arange(count), torch.arange(k // 16), indexing="ij")
        base = starts[expert] * scale_shape(0, k, layout)[1]
        index: torch.Tensor = base + scale_byte_index(row, block, k=k, layout=layout)
        buffer[index.reshape(-1)] = alone.block_scale.reshape(-1)
        first += count
    return packed, buffer.view(scale_rows, scale_shape(0, k, layout)[1])


@LAYOUTS
@COUNTS
@pytest.mark.parametrize(
    ("dtype", "columns", "spare_rows"),
    [(torch.bfloat16, 80, 5), (torch.float16, 16, 0), (torch.float32, 128, 2)],
)
def test_all_experts_at_once_as_each_alone(
    dtype: torch.dtype, layout: str, counts: list[int], columns: int, spare_rows: int
) -> None:
    input = ordinary(sum(counts) + spare_rows, columns, dtype)
    scales = scales_of(len(counts))
    result = quantize_experts(input, scales, offsets_of(counts), layout=layout)
    starts = offsets_of([-(-count // 128) * 128 for count in counts]).tolist()
    packed, block_scale = assembled(input, scales, counts, layout, starts, starts[-1])
    assert torch.equal(result.packed, packed)
    assert torch.equal(result.block_scale, block_scale)
    assert (result.layout, result.intermediates) == (layout, None)


@LAYOUTS
def test_given_offsets_and_a_larger_buffer(layout: str) -> None:
    """A closed-form placement that leaves gaps, in a buffer with spare rows."""
    counts, starts = [3, 130, 0, 1], [128, 256, 640, 640, 1024]
    input, scales = ordinary(134, 64), scales_of(4)
    result = quantize_experts(
        input,
        scales,
        offsets_of(counts, dtype=torch.int64),
        blockscale_offsets=torch.tensor(starts, dtype=torch.int32),
        layout=layout,
        scale_rows=1200,
    )
    packed, block_scale = assembled(input, scales, counts, layout, starts, 1200)
    assert torch.equal(result.packed, packed)
    assert torch.equal(result.block_scale, block_scale)


@pytest.mark.parametrize("tile", [128, 256])
def test_tile_sets_where_experts_begin(tile: int) -> None:
    counts = [1, 129, 0, 2]
    result = quantize_experts(ordinary(132, 64), scales_of(4), offsets_of(counts), tile=tile)
    assert len(result.block_scale) == sum(-(-count // tile) * tile for count in counts)


def test_no_experts_and_no_rows() -> None:
    result = quantize_experts(ordinary(3, 32), torch.ones(0), torch.zeros(1, dtype=torch.int32))
    assert result.block_scale.shape == (0, 4)
    assert torch.equal(result.packed, torch.zeros(3, 16, dtype=torch.uint8))


def test_a_nan_of_one_expert_changes_no_byte_of_another() -> None:
    counts = [40, 40]
    input, scales = ordinary(80, 64), scales_of(2)
    true = quantize_experts(input, scales, offsets_of(counts))
    input[:40] = torch.nan
    subject = quantize_experts(input, scales, offsets_of(counts))
    assert torch.equal(subject.packed[40:], true.packed[40:])
    assert torch.equal(subject.block_scale[128:], true.block_scale[128:])
    assert not torch.equal(subject.packed[:40], true.packed[:40])


def test_intermediates_of_unowned_rows_are_zero() -> None:
    result = quantize_experts(ordinary(9, 32), scales_of(2), offsets_of([3, 4]), intermediates=True)
    assert result.intermediates is not None
    for value in result.intermediates.values():
        assert value.shape == (9, 2)
        assert (value[7:] == 0).all()
    assert result.intermediates["global_encode_scale"][:7, 0].tolist() == [
        *[scales_of(2)[0]] * 3,
        *[scales_of(2)[1]] * 4,
    ]


@pytest.mark.parametrize("scale", [float("inf"), float("nan"), 0.0, -1.0])
def test_an_expert_without_rows_needs_no_legal_scale(scale: float) -> None:
    """One that calibration never saw has encode scale 2688 / 0; no byte depends on it."""
    counts, input = [3, 0, 4], ordinary(9, 32)
    legal, illegal = scales_of(3), scales_of(3)
    illegal[1] = scale
    for run in (quantize_experts, lambda *given: silu_and_mul_quantize_experts(*given, layout="linear")):
        rows = input if run is quantize_experts else ordinary(9, 64)
        subject, true = (run(rows, scales, offsets_of(counts)) for scales in (illegal, legal))
        assert torch.equal(subject.packed, true.packed)
        assert torch.equal(subject.block_scale, true.block_scale)
    slabs, masked_m = input.view(3, 3, 32), torch.tensor([3, 0, 1])
    masked, true = (quantize_masked(slabs, scales, masked_m) for scales in (illegal, legal))
    assert torch.equal(masked.packed, true.packed)
    assert torch.equal(masked.block_scale, true.block_scale)
    with pytest.raises(ValueError, match=r"global_encode_scale\[1\] must be finite and positive"):
        quantize_experts(input, illegal, offsets_of([3, 1, 4]))
    with pytest.raises(ValueError, match=r"global_encode_scale\[1\] must be finite and positive"):
        quantize_masked(slabs, illegal, torch.tensor([3, 1, 1]))


def test_strided_rows_as_their_copy() -> None:
    wide = ordinary(60, 256)
    for view in (wide[:, 64:128], wide[::3, :64]):
        counts = [len(view) - 4, 4]
        subject = quantize_experts(view, scales_of(2), offsets_of(counts))
        true = quantize_experts(view.clone(), scales_of(2), offsets_of(counts))
        assert torch.equal(subject.packed, true.packed)
        assert torch.equal(subject.block_scale, true.block_scale)


@DTYPES
@LAYOUTS
def test_fused_silu_is_the_rounded_product_quantized(dtype: torch.dtype, layout: str) -> None:
    counts, input = [5, 0, 130], ordinary(140, 160, dtype)
    subject = silu_and_mul_quantize_experts(input, scales_of(3), offsets_of(counts), layout=layout)
    true = quantize_experts(silu_and_mul(input), scales_of(3), offsets_of(counts), layout=layout)
    assert subject.packed.shape == (140, 40)
    assert torch.equal(subject.packed, true.packed)
    assert torch.equal(subject.block_scale, true.block_scale)


@DTYPES
@LAYOUTS
def test_masked_form_as_each_expert_alone(dtype: torch.dtype, layout: str) -> None:
    counts, most, columns = [0, 3, 130, 129], 130, 80
    input, scales = ordinary(4 * most, columns, dtype).view(4, most, columns), scales_of(4)
    result = quantize_masked(input, scales, torch.tensor(counts, dtype=torch.int32), layout=layout)
    assert result.packed.shape == (4, most, columns // 2)
    assert result.block_scale.shape == (4, *scale_shape(most, columns, layout))
    for expert, count in enumerate(counts):
        rows = scale_shape(most, columns, layout)[0]
        packed, block_scale = assembled(
            input[expert, :count], scales[expert : expert + 1], [count], layout, [0], rows
        )
        assert torch.equal(result.packed[expert, :count], packed)
        assert (result.packed[expert, count:] == 0).all()
        assert torch.equal(result.block_scale[expert], block_scale)


def test_torchao_recipe_takes_decode_scales() -> None:
    counts, input = [3, 4], ordinary(7, 32)
    decode = torch.tensor([0.01, 0.02])
    result: Quantized = quantize_experts(
        input, None, offsets_of(counts), global_decode_scale=decode, recipe="torchao", layout="linear"
    )
    alone = quantize(input[3:], global_decode_scale=decode[1], recipe="torchao")
    assert torch.equal(result.packed[3:], alone.packed)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            {"expert_offsets": torch.tensor([0.0, 2.0, 4.0])},
            TypeError,
            r"int32 or int64 tensor, got torch\.float32",
        ),
        (
            {"expert_offsets": torch.tensor([[0, 2, 4]])},
            ValueError,
            r"expert_offsets must be a vector, got \(1, 3\)",
        ),
        ({"expert_offsets": [0, 2, 4]}, TypeError, "int32 or int64 tensor, got list"),
        ({"expert_offsets": torch.zeros(0).int()}, ValueError, "must start with 0, got no entries"),
        ({"expert_offsets": torch.zeros(3, device="meta").int()}, ValueError, "on the meta device"),
        ({"expert_offsets": torch.tensor([1, 2, 4])}, ValueError, "expert_offsets must start with 0, got 1"),
        ({"expert_offsets": torch.tensor([0, 3, 2])}, ValueError, "must not descend, got 3, 2 at expert 1"),
        ({"expert_offsets": torch.tensor([0, 3, 5])}, ValueError, "at most the 4 input rows, got 5"),
        (
            {"expert_offsets": torch.tensor([0, 4])},
            ValueError,
            r"global_encode_scale must have shape \(1,\), got \(2,\)",
        ),
        (
            {"global_encode_scale": torch.tensor([1.0, -2.0])},
            ValueError,
            r"scale\[1\] must be finite and positive, got -2",
        ),
        (
            {"global_encode_scale": torch.tensor([float("nan"), 1.0])},
            ValueError,
            r"scale\[0\] must be .* got nan",
        ),
        ({"global_encode_scale": 1.0}, TypeError, "float32 tensor, got float"),
        ({"blockscale_offsets": torch.tensor([0, 64, 256])}, ValueError, "no multiple of the 128 tile rows"),
        ({"blockscale_offsets": torch.tensor([0, 0, 128])}, ValueError, "lies before row 128"),
        ({"blockscale_offsets": torch.tensor([0, 128])}, ValueError, "blockscale_offsets must be"),
        ({"scale_rows": 200}, ValueError, "256 rows, got 200"),
        ({"tile": 64}, ValueError, "multiple of the 128 tile rows of swizzled_128x4, got 64"),
        ({"layout": "blocked"}, ValueError, "got 'blocked'"),
        ({"input": torch.zeros(4, 20)}, ValueError, "multiple of 16"),
    ],
)
def test_errors_name_what_was_given(change: dict[str, Any], error: type[Exception], text: str) -> None:
    arguments: dict[str, Any] = {
        "input": torch.zeros(4, 32),
        "global_encode_scale": torch.ones(2),
        "expert_offsets": torch.tensor([0, 2, 4]),
    }
    arguments |= change
    with pytest.raises(error, match=text):
        quantize_experts(**arguments)


@pytest.mark.parametrize(
    ("masked_m", "text"),
    [
        (torch.tensor([1, 5]), r"masked_m\[1\] must be in \[0, 4\], got 5"),
        (torch.tensor([-1, 4]), r"masked_m\[0\] must be in \[0, 4\], got -1"),
        (torch.tensor([1]), r"masked_m must be \(2,\), got \(1,\)"),
    ],
)
def test_masked_errors(masked_m: torch.Tensor, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        quantize_masked(torch.zeros(2, 4, 32), torch.ones(2), masked_m)
