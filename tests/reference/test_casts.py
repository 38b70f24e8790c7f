"""Casts: every threshold and its neighbours, all 16-bit inputs, all codes, against outside oracles."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch

from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, encode_e2m1, encode_ue4m3, pack, unpack
from nvfp4_moe.reference.formats import E2M1, E4M3, ElementFormat

ENCODERS = {"E2M1": encode_e2m1, "E4M3": encode_ue4m3}
FORMS = pytest.mark.parametrize("form", [E2M1, E4M3], ids=lambda form: form.name)
ML_DTYPES = {"E2M1": ml_dtypes.float4_e2m1fn, "E4M3": ml_dtypes.float8_e4m3fn}


def from_bits(*bits: int) -> torch.Tensor:
    return torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32)


def all_of(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype).to(torch.float32)


def nearest_even(value: float, form: ElementFormat) -> int:
    """Search the code nearest to a number, ties to the even code: no bits, no thresholds."""
    distances = [abs(abs(value) - magnitude) for magnitude in form.magnitudes]
    least = min(distances)
    nearest = [code for code, distance in enumerate(distances) if distance == least]
    code = nearest[0] if len(nearest) == 1 else next(code for code in nearest if code % 2 == 0)
    return code + (form.sign_code if math.copysign(1.0, value) < 0 else 0)


@FORMS
def test_thresholds_and_their_neighbours(form: ElementFormat) -> None:
    bits = torch.tensor(form.midpoints, dtype=torch.float32).view(torch.int32)
    for offset in (-1, 0, 1):
        near = (bits + offset).view(torch.float32)
        for values in (near, -near):
            true = [nearest_even(value, form) for value in values.tolist()]
            assert ENCODERS[form.name](values).tolist() == true


@FORMS
def test_every_code_survives_the_round_trip(form: ElementFormat) -> None:
    codes = [code for code in range(form.num_codes) if not math.isnan(form.value(code))]
    values = torch.tensor([form.value(code) for code in codes], dtype=torch.float32)
    assert ENCODERS[form.name](values).tolist() == codes


@FORMS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_16_bit_input_as_ml_dtypes(form: ElementFormat, dtype: torch.dtype) -> None:
    """ml_dtypes differs by documented choice: its E4M3 overflows to NaN, and its NaN codes are its own."""
    values = all_of(dtype)
    values = values[values.isfinite()]
    true = values.numpy().clip(-form.max, form.max).astype(ML_DTYPES[form.name]).view(np.uint8)
    assert torch.equal(ENCODERS[form.name](values), torch.from_numpy(true))


@FORMS
def test_float32_between_16_bit_inputs(form: ElementFormat) -> None:
    """Every float32 exponent and leading mantissa, with trailing bits that decide near-ties: 1, all ones, half."""
    top = torch.arange(2**16, dtype=torch.int64) << 16
    for trailing in (0x0001, 0x7FFF, 0x8000, 0xFFFF):
        values = (top | trailing).to(torch.int32).view(torch.float32)
        values = values[values.isfinite()]
        true = values.numpy().clip(-form.max, form.max).astype(ML_DTYPES[form.name]).view(np.uint8)
        assert torch.equal(ENCODERS[form.name](values), torch.from_numpy(true))


@pytest.mark.parametrize(
    ("bits", "element", "scale"),
    [
        pytest.param(0x7F800000, 7, 0x7E, id="inf"),
        pytest.param(0xFF800000, 15, 0xFE, id="-inf"),
        pytest.param(0x7F7FFFFF, 7, 0x7E, id="largest"),
        pytest.param(0x7FC00000, 7, 0x7F, id="nan"),
        pytest.param(0xFFC00000, 7, 0x7F, id="nan-with-sign"),
        pytest.param(0x7F800001, 7, 0x7F, id="signalling-nan"),
        pytest.param(0xFFFFFFFF, 7, 0x7F, id="nan-all-ones"),
        pytest.param(0x00000000, 0, 0x00, id="zero"),
        pytest.param(0x80000000, 8, 0x80, id="-zero"),
        pytest.param(0x00000001, 0, 0x00, id="subnormal"),
        pytest.param(0x80000001, 8, 0x80, id="-subnormal"),
    ],
)
def test_edges(bits: int, element: int, scale: int) -> None:
    assert encode_e2m1(from_bits(bits)).item() == element
    assert encode_ue4m3(from_bits(bits)).item() == scale


def test_encoders_ignore_the_flush_of_subnormals() -> None:
    values = from_bits(0x00000001, 0x80000001, 0x007FFFFF, 0x3E800000, 0x3E800001)
    true_element, true_scale = encode_e2m1(values), encode_ue4m3(values)
    torch.set_flush_denormal(True)
    try:
        assert torch.equal(encode_e2m1(values), true_element)
        assert torch.equal(encode_ue4m3(values), true_scale)
    finally:
        torch.set_flush_denormal(False)


def test_decode_scale_as_torch_views_all_256_bytes() -> None:
    scales = torch.arange(256).to(torch.uint8)
    true = scales.view(torch.float8_e4m3fn).to(torch.float32)
    subject = decode_ue4m3(scales)
    assert torch.equal(subject.isnan(), true.isnan())
    finite = ~true.isnan()
    assert torch.equal(subject[finite].view(torch.int32), true[finite].view(torch.int32))


def test_decode_e2m1_keeps_minus_zero() -> None:
    values = decode_e2m1(torch.arange(16).to(torch.uint8))
    assert values.tolist() == list(E2M1.values)
    assert math.copysign(1.0, values[8].item()) == -1.0


def test_pack_puts_the_even_column_low() -> None:
    assert pack(torch.tensor([[0x1, 0x2, 0xF, 0x0]], dtype=torch.uint8)).tolist() == [[0x21, 0x0F]]


def test_pack_and_unpack_are_inverse_for_every_byte() -> None:
    packed = torch.arange(256).to(torch.uint8).view(2, 128)
    assert torch.equal(pack(unpack(packed)), packed)


@pytest.mark.parametrize(
    "values", [torch.zeros(2, 3, 4), torch.zeros(0), torch.zeros(()), torch.zeros(4, 2).t()]
)
def test_shapes_are_kept(values: torch.Tensor) -> None:
    assert encode_e2m1(values).shape == values.shape
    assert decode_ue4m3(encode_ue4m3(values)).shape == values.shape


def test_wrong_dtypes_and_shapes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"float32, got torch\.bfloat16"):
        encode_e2m1(torch.zeros(2, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match=r"uint8, got torch\.int32"):
        decode_ue4m3(torch.zeros(2, dtype=torch.int32))
    with pytest.raises(ValueError, match="even number of columns"):
        pack(torch.zeros(2, 3, dtype=torch.uint8))


@pytest.mark.parametrize("take", [decode_e2m1, pack])
def test_the_first_code_that_is_none_is_named(take: Callable[[torch.Tensor], torch.Tensor]) -> None:
    codes = torch.zeros(3, 4, dtype=torch.uint8)
    codes[1, 2], codes[2, 0] = 16, 255
    with pytest.raises(ValueError, match=r"codes\[1, 2\] = 16 is outside \[0, 16\)"):
        take(codes)
    assert take(codes[:1]).sum() == 0
    assert take(codes[:0]).numel() == 0
