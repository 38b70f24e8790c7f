"""Shared checks: what they refuse, and the words they refuse it with."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.checks import (
    INT32_MAX,
    check_index_dtype,
    check_index_vector,
    check_indices,
    fits_int32,
)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_index_tensors_pass(dtype: torch.dtype) -> None:
    check_index_dtype("ids", torch.zeros(2, 3, dtype=dtype))
    check_index_vector("offsets", torch.zeros(0, dtype=dtype))
    check_index_vector("offsets", torch.zeros(3, dtype=dtype), length=3)
    check_indices("rows", torch.tensor([0, 4, 2], dtype=dtype), below=5)
    check_indices("rows", torch.zeros(0, dtype=dtype), below=0)


@pytest.mark.parametrize(
    ("given", "name"),
    [(torch.zeros(1), "torch.float32"), (torch.zeros(1, dtype=torch.int16), "torch.int16"), ([0], "list")],
)
def test_another_kind_is_named(given: object, name: str) -> None:
    with pytest.raises(TypeError, match=f"^offsets must be an int32 or int64 tensor, got {name}$"):
        check_index_dtype("offsets", given)  # type: ignore[arg-type]


def test_another_shape_is_named() -> None:
    with pytest.raises(ValueError, match=r"^offsets must be \(4,\), got \(3,\)$"):
        check_index_vector("offsets", torch.zeros(3, dtype=torch.int32), length=4)
    with pytest.raises(ValueError, match=r"^offsets must be a vector, got \(1, 3\)$"):
        check_index_vector("offsets", torch.zeros(1, 3, dtype=torch.int32))
    with pytest.raises(ValueError, match=r"^offsets must be \(0,\), got \(1,\)$"):
        check_index_vector("offsets", torch.zeros(1, dtype=torch.int32), length=0)


@pytest.mark.parametrize(("indices", "at", "value"), [([0, 5, -1], 1, 5), ([0, -1, 5], 1, -1), ([6], 0, 6)])
def test_the_first_index_outside_is_named(indices: list[int], at: int, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^rows\[{at}\] = {value} is outside \[0, 5\)$"):
        check_indices("rows", torch.tensor(indices), below=5)


def test_int32_limits_are_exact() -> None:
    assert fits_int32("rows", INT32_MAX) == 2**31 - 1
    with pytest.raises(ValueError, match=r"rows = 2147483648 does not fit int32 \(at most 2147483647\)"):
        fits_int32("rows", 2**31)
