"""SiLU: every 16-bit input against multiple precision where float64 could mislead, special values, the product."""

from __future__ import annotations

import mpmath
import pytest
import torch

from nvfp4_moe.reference import tables
from nvfp4_moe.reference.arithmetic import HardwareOperations
from nvfp4_moe.reference.silu import PIECE_ELEMENTS, SERIES_BELOW, silu, silu_and_mul, silu_table
from nvfp4_moe.reference.tables import Table, register_table
from nvfp4_moe.verification.counter import words

SIXTEEN_BIT = pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16], ids=lambda dtype: str(dtype).split(".")[1]
)
FLOAT32_PRECISION, FLOAT32_LEAST_EXPONENT = 24, -149
FLOAT64_ULP = 2.0**-52
NAN_BITS = {torch.bfloat16: 0x7FC0, torch.float16: 0x7E00}


def all_inputs(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)


def true_silu(value: float) -> float:
    """Return the real value rounded once to float32, by way of an exact integer."""
    with mpmath.workprec(200):
        exact = mpmath.mpf(value) / (1 + mpmath.exp(-mpmath.mpf(value)))
        exponent = max(mpmath.frexp(exact)[1] - FLOAT32_PRECISION, FLOAT32_LEAST_EXPONENT)
        return float(mpmath.ldexp(mpmath.nint(mpmath.ldexp(exact, -exponent)), exponent))


def ulps_to_middle(inputs: torch.Tensor) -> torch.Tensor:
    """Return how many float64 ulp lie between silu in float64 and the nearest middle between float32 numbers."""
    x = inputs.to(torch.float64)
    value = x / (1 + torch.exp(-x))
    nearest = value.to(torch.float32)
    infinity = torch.tensor(torch.inf)
    distances = [
        (value - (nearest.to(torch.float64) + torch.nextafter(nearest, to).to(torch.float64)) / 2).abs()
        for to in (infinity, -infinity)
    ]
    return torch.minimum(*distances) / value.abs() / FLOAT64_ULP


def near_a_middle(dtype: torch.dtype, within: float) -> torch.Tensor:
    inputs = all_inputs(dtype)
    inputs = inputs[inputs.isfinite() & (inputs != 0) & (inputs > -100)]
    return inputs[ulps_to_middle(inputs) < within]


@SIXTEEN_BIT
def test_inputs_near_a_middle_are_rounded_as_the_real_value(dtype: torch.dtype) -> None:
    """Within 2^20 float64 ulp; the error of the computation is a millionth of that."""
    inputs = near_a_middle(dtype, 2.0**20)
    assert 100 < len(inputs) < 5000
    true = [true_silu(value) for value in inputs.to(torch.float64).tolist()]
    assert silu(inputs).to(torch.float64).tolist() == true


@SIXTEEN_BIT
def test_a_sample_of_all_other_inputs(dtype: torch.dtype) -> None:
    inputs = all_inputs(dtype)
    inputs = inputs[inputs.isfinite() & (inputs != 0)][::97]
    true = [true_silu(value) if value > -200 else -0.0 for value in inputs.to(torch.float64).tolist()]
    assert silu(inputs).to(torch.float64).tolist() == true


@SIXTEEN_BIT
def test_no_middle_is_near_where_exp_is_used(dtype: torch.dtype) -> None:
    """So the table is the same whatever a machine's exp returns in its last bits."""
    assert near_a_middle(dtype, 800.0).to(torch.float32).abs().max() < SERIES_BELOW


@SIXTEEN_BIT
def test_special_values(dtype: torch.dtype) -> None:
    inputs = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, -200.0, torch.nan], dtype=dtype)
    bits = silu(inputs).view(torch.int32).tolist()
    assert [value & 0xFFFF_FFFF for value in bits] == [
        0,
        0x8000_0000,
        0x7F80_0000,
        0x8000_0000,
        0x8000_0000,
        0x7FC0_0000,
    ]


def test_float32_input_special_and_ordinary_values() -> None:
    inputs = torch.tensor([1.1, -3.3, 1e-3, -1e-7, 88.0, -87.0, 3e38])
    assert silu(inputs).tolist() == [true_silu(value) for value in inputs.to(torch.float64).tolist()]
    assert silu(torch.tensor([-torch.inf])).view(torch.int32).item() == -0x8000_0000


def test_float32_inputs_whose_half_is_a_tie() -> None:
    """Below 2^-125 x/2 may lie half-way between two subnormals, and x^2/4, which float64 cannot hold, decides."""
    low = torch.arange(1, 2**12, dtype=torch.int32)  # from 2^-149 on
    high = torch.tensor([1 << 24], dtype=torch.int32) + torch.arange(
        -(2**10), 2**10, dtype=torch.int32
    )  # at 2^-125
    raw = (words(9, "subnormal", 0, 2000) & 0x00FF_FFFF).to(torch.int32)
    positive = torch.cat((low, high, raw)).view(torch.float32)
    inputs = torch.cat((positive, -positive))
    true = torch.tensor([true_silu(value) for value in inputs.to(torch.float64).tolist()])
    wrong = silu(inputs).view(torch.int32) != torch.where(true == 0, true.copysign(inputs), true).view(
        torch.int32
    )
    assert not wrong.any(), inputs[wrong][:4]
    smallest = torch.tensor([1, -0x7FFF_FFFF], dtype=torch.int32).view(torch.float32)
    assert silu(smallest).view(torch.int32).tolist() == [1, -0x8000_0000]


def test_table_does_not_depend_on_a_flush_of_subnormals() -> None:
    true = silu_table(torch.bfloat16)
    assert ((true != 0) & (true.abs() < 2.0**-126)).any()
    silu_table.cache_clear()
    torch.set_flush_denormal(True)
    try:
        subject = silu_table(torch.bfloat16)
        assert torch.equal(subject.view(torch.int32), true.view(torch.int32))
    finally:
        torch.set_flush_denormal(False)
        silu_table.cache_clear()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_product_is_one_float32_product_then_one_rounding(dtype: torch.dtype) -> None:
    raw = words(3, "gate", 0, 64 * 64).view(64, 64)
    gate_up = (((raw >> 40) % 4096).to(torch.float32) / 256).to(dtype)
    gate, up = gate_up[:, :32], gate_up[:, 32:]
    subject = silu_and_mul(gate_up)
    assert (subject.dtype, subject.shape) == (dtype, (64, 32))
    exact = silu(gate).to(torch.float64) * up.to(torch.float64)  # 24 + 24 bits: exact
    assert torch.equal(subject, exact.to(torch.float32).to(dtype))


@SIXTEEN_BIT
def test_every_nan_result_is_the_positive_quiet_nan(dtype: torch.dtype) -> None:
    nan, inf = float("nan"), float("inf")
    gate = torch.tensor([nan, -nan, 1.0, inf, -inf, 0.0] + [1.0] * 10).to(dtype)
    up = torch.tensor([1.0, 1.0, -nan, 0.0, inf, -inf] + [1.0] * 10).to(dtype)
    result = silu_and_mul(torch.cat((gate, up)))
    assert result[:6].view(torch.int16).tolist() == [NAN_BITS[dtype]] * 6
    assert result[6:].isfinite().all()


@SIXTEEN_BIT
def test_hardware_silu_is_the_table_of_the_chip(dtype: torch.dtype) -> None:
    kind = {torch.bfloat16: "silu_bf16", torch.float16: "silu_f16"}[dtype]
    values = torch.arange(2**16, dtype=torch.int32) + 0x3F80_0000
    before = list(tables._registered)
    register_table(Table(kind=kind, chip="made up", sequence="made up", values=values))
    try:
        subject = silu(all_inputs(dtype), arithmetic=HardwareOperations("made up"))
    finally:
        tables._registered[:] = before
    assert torch.equal(subject.view(torch.int32), values)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rows_beyond_one_piece(dtype: torch.dtype) -> None:
    """More elements than a piece holds, with a last piece that is shorter; each row alone is the same."""
    rows, columns = 2 * PIECE_ELEMENTS // 512 + 3, 512
    gate_up = ((words(6, "pieces", 0, rows * columns) >> 40) % 2048).to(dtype).view(rows, columns) / 256
    subject = silu_and_mul(gate_up)
    for row in (0, PIECE_ELEMENTS // 512 - 1, PIECE_ELEMENTS // 512, rows - 1):
        assert torch.equal(subject[row], silu_and_mul(gate_up[row]))
    assert silu_and_mul(gate_up[:0]).shape == (0, columns // 2)


def test_a_row_wider_than_a_piece() -> None:
    gate_up = ((words(7, "wide", 0, 2 * 4 * PIECE_ELEMENTS) >> 40) % 2048).to(torch.bfloat16).view(
        2, -1
    ) / 256
    assert torch.equal(silu_and_mul(gate_up)[1], silu_and_mul(gate_up[1]))


def test_strided_input_and_leading_dimensions() -> None:
    raw = words(4, "strided", 0, 2 * 3 * 64)
    gate_up = (raw.view(2, 64, 3) >> 52).to(torch.bfloat16).transpose(1, 2)
    assert torch.equal(silu_and_mul(gate_up), silu_and_mul(gate_up.contiguous()))


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"2K must be a positive multiple of 32, got shape \(2, 48\)"):
        silu_and_mul(torch.zeros(2, 48))
    with pytest.raises(ValueError, match=r"gate_up must have a dimension of columns, got shape \(\)"):
        silu_and_mul(torch.zeros(()))
    with pytest.raises(TypeError, match=r"gate_up must be a tensor of .* got list"):
        silu_and_mul([0.0] * 32)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"bfloat16 or float16 inputs, got torch\.float32"):
        silu_and_mul(torch.zeros(2, 32), arithmetic=HardwareOperations())
    with pytest.raises(LookupError, match="silu_bf16 table for chip 'no such chip'"):
        silu(torch.zeros(2, dtype=torch.bfloat16), arithmetic=HardwareOperations("no such chip"))
