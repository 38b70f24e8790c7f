"""The oracle's SiLU against mpmath, its 16-bit tables against numpy and torch, its rounding against torch."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from nvfp4_moe.verification import oracle_silu

RANDOM = random.Random(7)
TYPES = [pytest.param(torch.bfloat16, 7, id="bf16"), pytest.param(torch.float16, 10, id="f16")]


def all_numbers(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)


@pytest.mark.parametrize(("dtype", "mantissa_bits"), TYPES)
def test_numbers_of_16_bits(dtype: torch.dtype, mantissa_bits: int) -> None:
    own = oracle_silu.numbers_of_16_bits(mantissa_bits=mantissa_bits)
    torch_numbers = all_numbers(dtype).to(torch.float64).numpy()
    assert np.array_equal(own, torch_numbers, equal_nan=True)
    finite = ~np.isnan(own)
    assert np.array_equal(np.signbit(own[finite]), np.signbit(torch_numbers[finite]))


@pytest.mark.parametrize(("dtype", "mantissa_bits"), TYPES)
def test_nearest_of_16_bits(dtype: torch.dtype, mantissa_bits: int) -> None:
    numbers = oracle_silu.numbers_of_16_bits(mantissa_bits=mantissa_bits)[: 2**15]
    points = numbers[np.isfinite(numbers)]
    ties = points[:-1] + np.diff(points) / 2
    overflow = points[-1] + (points[-1] - points[-2]) / 2
    values = np.concatenate([points, ties, [overflow, np.inf, np.nan]]).astype(
        np.float32
    )  # ties are float32 numbers
    values = np.concatenate(
        [values, np.nextafter(values, np.float32(0)), np.nextafter(values, np.float32(np.inf))]
    )
    values = np.concatenate([values, -values])
    own = oracle_silu.nearest_of_16_bits(values.astype(np.float64), mantissa_bits=mantissa_bits)
    true = torch.from_numpy(values).to(dtype).to(torch.float64).numpy()
    assert np.array_equal(own, true, equal_nan=True)
    assert np.array_equal(np.signbit(own[~np.isnan(own)]), np.signbit(true[~np.isnan(true)]))


def test_silu_equals_mpmath() -> None:
    mpmath = pytest.importorskip("mpmath")
    numbers = [x for dtype in (torch.bfloat16, torch.float16) for x in all_numbers(dtype)[::257].tolist()]
    numbers += [RANDOM.uniform(-110, 30) for _ in range(300)]
    with mpmath.workdps(80):
        for x in (float(np.float32(x)) for x in numbers):
            if not math.isfinite(x):
                continue
            true = mpmath.mpf(x) / (1 + mpmath.exp(-mpmath.mpf(x)))
            # round once, by hand: the neighbour whose distance is least
            guess = np.float32(float(true))
            near = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
            nearest = min((float(n) for n in near if np.isfinite(n)), key=lambda n: abs(mpmath.mpf(n) - true))
            assert oracle_silu.silu(x) == nearest, x


@pytest.mark.parametrize(
    ("x", "value"),
    [(0.0, 0.0), (-0.0, -0.0), (math.inf, math.inf), (-math.inf, -0.0), (-1e30, -0.0), (3e38, 3e38)],
)
def test_limits(x: float, value: float) -> None:
    found = oracle_silu.silu(x)
    assert (found, math.copysign(1, found)) == (value, math.copysign(1, value))


def test_nan_stays() -> None:
    assert math.isnan(oracle_silu.silu(math.nan))


def test_beyond_far_is_what_the_formula_says() -> None:
    """Just inside the limit the computed value already is x or -0, so the shortcut changes nothing."""
    assert oracle_silu.silu(127.5) == 127.5
    assert math.copysign(1, oracle_silu.silu(-127.5)) == -1
    assert oracle_silu.silu(-127.5) == 0.0


def test_digits_that_do_not_settle_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_silu, "_ERROR", oracle_silu.Fraction(1, 10**6))
    with pytest.raises(ArithmeticError, match="do not settle"):
        oracle_silu.silu(1.2345)


def test_product_is_rounded_once_to_float32_and_once_to_the_type() -> None:
    gate, up = np.array([[1.0]], dtype=np.float32), np.array([[3.0]], dtype=np.float32)
    product = np.float32(np.float32(1 / (1 + math.exp(-1))) * np.float32(3.0))
    assert oracle_silu.silu_and_mul(gate, up)[0, 0] == product
    bf16 = oracle_silu.silu_and_mul(gate, up, mantissa_bits=7)[0, 0]
    assert bf16 == float(torch.tensor(product).to(torch.bfloat16))
