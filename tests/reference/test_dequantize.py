"""Dequantization: every code under every scale byte, shapes, errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from nvfp4_moe.reference.casts import pack
from nvfp4_moe.reference.dequantize import dequantize
from nvfp4_moe.reference.formats import E2M1, E4M3


def every_code_and_scale() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 256 rows, one for each scale byte, that hold the 16 codes."""
    codes = torch.arange(16).to(torch.uint8).expand(256, 16)
    return pack(codes), torch.arange(256).to(torch.uint8).view(256, 1)


@pytest.mark.parametrize("decode_scale", [1.0, 0.0123, 2.0**-140])
def test_every_code_under_every_scale(decode_scale: float) -> None:
    packed, scales = every_code_and_scale()
    subject = dequantize(packed, scales, decode_scale)
    rounded = torch.tensor(decode_scale, dtype=torch.float32).to(torch.float64)
    exact = torch.outer(torch.tensor(E4M3.values).double(), torch.tensor(E2M1.values).double()) * rounded
    true = exact.to(torch.float32)
    is_nan = true.isnan()
    assert torch.equal(subject.isnan(), is_nan)
    assert torch.equal(subject[~is_nan].view(torch.int32), true[~is_nan].view(torch.int32))


def test_subnormal_results_survive_a_flush() -> None:
    packed, scales = every_code_and_scale()
    smallest_times_512 = torch.tensor(1 << 9, dtype=torch.int32).view(torch.float32)
    true = dequantize(packed[:0x7F], scales[:0x7F], 2.0**-140)
    torch.set_flush_denormal(True)
    try:
        subject = dequantize(packed[:0x7F], scales[:0x7F], smallest_times_512)
    finally:
        torch.set_flush_denormal(False)
    assert ((true != 0) & (true.abs() < 2.0**-126)).any()
    assert torch.equal(subject.view(torch.int32), true.view(torch.int32))


def test_one_scale_per_row_and_leading_dimensions() -> None:
    packed, scales = every_code_and_scale()
    per_row = torch.arange(1, 257, dtype=torch.float32).view(4, 64, 1)
    subject = dequantize(packed.view(4, 64, 8), scales.view(4, 64, 1), per_row)
    true = dequantize(packed, scales, 1.0).view(4, 64, 16) * per_row
    assert torch.equal(subject.nan_to_num(-1.0), true.nan_to_num(-1.0))
    assert subject.shape == (4, 64, 16)


def test_minus_zero() -> None:
    value = dequantize(
        torch.full((1, 8), 0x88, dtype=torch.uint8), torch.full((1, 1), 0x38, dtype=torch.uint8), 1.0
    )
    assert math.copysign(1.0, value[0, 0].item()) == -1.0


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((torch.zeros(2, 8), torch.zeros(2, 1, dtype=torch.uint8), 1.0), TypeError, "uint8"),
        ((torch.zeros(2, 8, dtype=torch.uint8), torch.zeros(2, 1), 1.0), TypeError, "uint8"),
        (
            (torch.zeros(2, 8, dtype=torch.uint8), torch.zeros(2, 2, dtype=torch.uint8), 1.0),
            ValueError,
            r"got \(2, 2\)",
        ),
        (
            (torch.zeros(2, 9, dtype=torch.uint8), torch.zeros(2, 1, dtype=torch.uint8), 1.0),
            ValueError,
            "K = 18",
        ),
        (
            (
                torch.zeros(2, 8, dtype=torch.uint8),
                torch.zeros(2, 1, dtype=torch.uint8),
                torch.ones(1).double(),
            ),
            TypeError,
            "float64",
        ),
    ],
)
def test_errors(arguments: tuple[Any, Any, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dequantize(*arguments)
