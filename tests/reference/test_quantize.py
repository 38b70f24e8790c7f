"""`quantize`: contract of the result, strides, layouts, subnormals, and every error at the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from nvfp4_moe.reference import tables
from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations
from nvfp4_moe.reference.casts import unpack
from nvfp4_moe.reference.dequantize import dequantize
from nvfp4_moe.reference.layouts import from_layout, to_layout
from nvfp4_moe.reference.quantize import Quantized, quantize
from nvfp4_moe.reference.recipes import VLLM
from nvfp4_moe.reference.rows import quantize_rows_plainly
from nvfp4_moe.reference.tables import Table, register_table
from nvfp4_moe.verification.counter import words

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32], ids=lambda dtype: str(dtype).split(".")[1]
)


def ordinary(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    raw = words(2, "ordinary", 0, rows * columns).view(rows, columns)
    return torch.ldexp(((raw >> 40) % 4096).to(torch.float64), (raw & 7) - 14).to(dtype)


def assert_same(subject: Quantized, true: Quantized) -> None:
    assert torch.equal(subject.packed, true.packed)
    assert torch.equal(subject.block_scale, true.block_scale)


@DTYPES
@pytest.mark.parametrize("shape", [(1, 16), (3, 48), (130, 80), (0, 64)])
@pytest.mark.parametrize("layout", ["linear", "swizzled_128x4", "swizzled_8x4"])
def test_shapes_and_layouts(dtype: torch.dtype, shape: tuple[int, int], layout: str) -> None:
    input = ordinary(*shape, dtype)
    result = quantize(input, 3.0, layout=layout)
    linear = quantize(input, 3.0)
    assert (result.layout, result.intermediates) == (layout, None)
    assert result.packed.shape == (shape[0], shape[1] // 2)
    assert linear.block_scale.shape == (shape[0], shape[1] // 16)
    assert torch.equal(result.packed, linear.packed)
    assert torch.equal(result.block_scale, to_layout(linear.block_scale, layout))
    assert torch.equal(from_layout(result.block_scale, *shape, layout), linear.block_scale)


@DTYPES
def test_strides_are_honoured(dtype: torch.dtype) -> None:
    wide = ordinary(70, 384, dtype)
    for view in (wide[:, 64:192], wide[::2, :64], wide.t()[:, :64], wide[:, ::2], wide[:1].expand(5, -1)):
        assert_same(quantize(view, 5.0), quantize(view.clone(memory_format=torch.contiguous_format), 5.0))


def test_the_input_is_unchanged() -> None:
    input = ordinary(33, 64)
    before = input.clone()
    quantize(input, 2.0)
    assert torch.equal(input, before)


def test_an_input_that_requires_grad() -> None:
    input = ordinary(4, 32, torch.float32).requires_grad_()
    assert_same(quantize(input, 2.0), quantize(input.detach(), 2.0))
    assert not quantize(input, 2.0, intermediates=True).packed.requires_grad


def test_intermediates_have_block_shape_and_change_no_byte() -> None:
    input = ordinary(9, 96)
    result = quantize(input, 11.0, intermediates=True)
    assert_same(result, quantize(input, 11.0))
    assert result.intermediates is not None
    wanted = {"block_amax", "scale", "block_scale", "decoded_scale", "multiplier", "global_encode_scale"}
    assert set(result.intermediates) == wanted
    assert {tuple(value.shape) for value in result.intermediates.values()} == {(9, 6)}
    dtypes = {name: value.dtype for name, value in result.intermediates.items()}
    assert dtypes.pop("block_scale") == torch.uint8
    assert set(dtypes.values()) == {torch.float32}
    assert torch.equal(result.intermediates["block_scale"], result.block_scale)


@pytest.mark.parametrize(
    "scale", [700, 700.0, torch.tensor(700.0), torch.tensor([700.0]), torch.tensor([[700.0]])]
)
def test_forms_of_the_global_scale(scale: Any) -> None:
    input = ordinary(3, 32)
    assert_same(quantize(input, scale), quantize(input, torch.tensor(700.0)))


def test_subnormal_inputs_and_values_count_even_if_the_caller_flushes_them() -> None:
    """bf16 subnormals with a huge g, and SF * rcp(g) subnormal: both vanish under a flush to zero."""
    tiny = torch.arange(1, 65, dtype=torch.int16).view(torch.bfloat16).view(2, 32)
    large = torch.full((2, 32), 2.0**100, dtype=torch.bfloat16)
    true = [quantize(tiny, 2.0**120), quantize(large, 2.0**-101), quantize(large, 2.0**127)]
    assert (true[0].packed != 0).any()
    torch.set_flush_denormal(True)
    try:
        subject = [quantize(tiny, 2.0**120), quantize(large, 2.0**-101), quantize(large, 2.0**127)]
        flushes = bool(torch.full((), 1e-40) * 1.0 == 0)
        plain = quantize_rows_plainly(tiny, torch.tensor(2.0**120), recipe=VLLM, ops=IEEE)
    finally:
        torch.set_flush_denormal(False)
    assert flushes, "the caller's setting must survive the calls"
    for one, other in zip(subject, true, strict=True):
        assert_same(one, other)
    assert torch.equal(plain.packed, true[0].packed)


def test_thread_counts_change_no_byte() -> None:
    input = ordinary(600, 1024)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(quantize(input, 4.0))
    finally:
        torch.set_num_threads(threads)
    assert_same(results[0], results[1])


@DTYPES
def test_error_of_a_round_trip_is_within_half_a_code(dtype: torch.dtype) -> None:
    """|x - x'| <= amax/6: half of the widest spacing, 1 of 6, plus what the scale's rounding (1/16) cuts off."""
    input = ordinary(64, 256, dtype)
    amax = float(input.abs().max())
    result = quantize(input, 2688 / amax)
    back = dequantize(result.packed, result.block_scale, amax / 2688)
    blocks = input.to(torch.float32).view(64, 16, 16)
    error = (back.view(64, 16, 16) - blocks).abs().amax(-1)
    assert (error <= blocks.abs().amax(-1) * (1 / 6 + 1 / 16)).all()
    assert back[input.to(torch.float32).abs() == amax].abs() == pytest.approx(amax, rel=1e-6)


def test_zero_keeps_its_sign() -> None:
    input = torch.tensor([[0.0, -0.0] * 8], dtype=torch.bfloat16)
    assert unpack(quantize(input, 1.0).packed).tolist() == [[0, 8] * 8]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"input": torch.zeros(2, 32, dtype=torch.float64)}, TypeError, r"bfloat16 or .*got torch\.float64"),
        ({"input": [[0.0] * 16]}, TypeError, "got list"),
        ({"input": torch.zeros(32)}, ValueError, r"2 dimensions, got shape \(32,\)"),
        ({"input": torch.zeros(2, 24)}, ValueError, r"multiple of 16, got shape \(2, 24\)"),
        ({"input": torch.zeros(2, 0)}, ValueError, r"multiple of 16, got shape \(2, 0\)"),
        ({"global_encode_scale": math.nan}, ValueError, "finite and positive, got nan"),
        ({"global_encode_scale": math.inf}, ValueError, "finite and positive, got inf"),
        ({"global_encode_scale": 0.0}, ValueError, r"finite and positive, got 0\.0"),
        ({"global_encode_scale": -1.0}, ValueError, r"finite and positive, got -1\.0"),
        ({"global_encode_scale": 1e-60}, ValueError, r"finite and positive, got 0\.0"),
        ({"global_encode_scale": 1e60}, ValueError, "finite and positive, got inf"),
        ({"global_encode_scale": 10**400}, ValueError, "finite and positive, got inf"),
        ({"global_encode_scale": -(10**400)}, ValueError, "finite and positive, got -inf"),
        ({"global_encode_scale": torch.tensor(math.nan)}, ValueError, "finite and positive, got nan"),
        ({"global_encode_scale": torch.ones(2)}, ValueError, r"shape \(\), got \(2,\)"),
        (
            {"global_encode_scale": torch.ones((), dtype=torch.float64)},
            TypeError,
            r"float32, got torch\.float64",
        ),
        ({"global_encode_scale": "1"}, TypeError, "got str"),
        ({"global_encode_scale": None}, ValueError, "takes global_encode_scale"),
        ({"global_decode_scale": 1.0}, ValueError, "takes global_encode_scale"),
        ({"recipe": "torchao"}, ValueError, "takes global_decode_scale"),
        ({"recipe": "nobody"}, ValueError, "vllm, tensorrt_llm, .*got 'nobody'"),
        ({"arithmetic": "exact"}, ValueError, "ieee, hardware, got 'exact'"),
        ({"layout": "blocked"}, ValueError, "linear, swizzled_128x4, swizzled_8x4, got 'blocked'"),
        ({"global_encode_scale": torch.ones((), device="meta")}, ValueError, "on the meta device"),
    ],
)
def test_errors_name_what_was_given(change: dict[str, Any], error: type[Exception], text: str) -> None:
    arguments: dict[str, Any] = {"input": torch.zeros(2, 32), "global_encode_scale": 1.0}
    arguments |= change
    with pytest.raises(error, match=text):
        quantize(arguments.pop("input"), arguments.pop("global_encode_scale"), **arguments)


@pytest.fixture
def table_of() -> Iterator[Callable[[int], HardwareOperations]]:
    """Make operations of a chip whose reciprocal is always that many ulps off."""
    before = list(tables._registered)

    def make(ulps: int) -> HardwareOperations:
        values = torch.full((2**23,), ulps, dtype=torch.int8)
        chip = f"{ulps} ulps off"
        register_table(Table(kind="reciprocal", chip=chip, sequence="made up", values=values))
        return HardwareOperations(chip)

    yield make
    tables._registered[:] = before


def test_hardware_arithmetic_with_a_perfect_reciprocal_is_ieee(
    table_of: Callable[[int], HardwareOperations],
) -> None:
    input = ordinary(40, 256)
    assert_same(quantize(input, 3.3, arithmetic=table_of(0)), quantize(input, 3.3))


def test_hardware_arithmetic_uses_the_table_in_every_reciprocal(
    table_of: Callable[[int], HardwareOperations],
) -> None:
    """One ulp below everywhere: rcp(6), rcp(g) and the final one, in the fast path as word by word."""
    input, ops = ordinary(40, 256), table_of(-1)
    result = quantize(input, 3.3, arithmetic=ops, intermediates=True)
    assert_same(quantize(input, 3.3, arithmetic=ops), result)
    assert result.intermediates is not None
    a, g, six = result.intermediates["block_amax"], torch.tensor(3.3), torch.tensor(6.0)

    def below(values: torch.Tensor) -> torch.Tensor:
        return torch.nextafter(torch.div(torch.ones_like(values), values), torch.tensor(0.0))

    assert torch.equal(result.intermediates["scale"], g * (a * below(six)))
    product = result.intermediates["decoded_scale"] * below(g)
    owned = product != 0
    assert torch.equal(result.intermediates["multiplier"][owned], below(product)[owned])


def test_hardware_arithmetic_without_its_table_is_refused() -> None:
    with pytest.raises(LookupError, match="reciprocal table for chip 'no such chip'"):
        quantize(torch.ones(1, 16), 1.0, arithmetic=HardwareOperations("no such chip"))
