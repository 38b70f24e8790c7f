"""Checks at the door, called directly; texts that users see are pinned in the tests of the operations as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from nvfp4_moe.reference.checks import (
    INT32_MAX,
    check_device,
    check_global_scale,
    check_index_dtype,
    check_index_vector,
    check_indices,
    check_input,
    check_offsets,
    check_row_counts,
    fits_int32,
)
from nvfp4_moe.reference.quantize import quantize
from nvfp4_moe.reference.routing import route

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_index_tensors_pass(dtype: torch.dtype) -> None:
    check_index_dtype("ids", torch.zeros(2, 3, dtype=dtype))
    check_index_vector("offsets", torch.zeros(0, dtype=dtype))
    check_index_vector("offsets", torch.zeros(3, dtype=dtype), length=3)
    check_indices("rows", torch.tensor([0, 4, 2], dtype=dtype), below=5)
    check_indices("rows", torch.zeros(0, dtype=dtype), below=0)


@pytest.mark.parametrize(
    ("operation", "dtype"),
    [
        (lambda tensor: check_index_dtype("x", tensor), torch.int32),
        (lambda tensor: check_input("x", tensor), torch.bfloat16),
        (lambda tensor: check_global_scale("x", tensor, device=tensor.device), torch.float32),
        (lambda tensor: quantize(tensor, 1.0), torch.bfloat16),
        (lambda tensor: route(tensor, 4, n=8, k=16), torch.int64),
    ],
)
def test_tensors_without_values_in_place_are_refused(
    operation: Callable[[torch.Tensor], object], dtype: torch.dtype
) -> None:
    with pytest.raises(ValueError, match="must hold values, got a tensor on the meta device"):
        operation(torch.ones(1, 16, dtype=dtype, device="meta"))
    with pytest.raises(TypeError, match=r"must be a dense \(strided\) tensor, got layout torch.sparse_coo"):
        operation(torch.ones(1, 16, dtype=dtype).to_sparse())


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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("shape", "gated"), [((0, 16), False), ((3, 48), False), ((1, 32), True)])
def test_legal_inputs(dtype: torch.dtype, shape: tuple[int, int], gated: bool) -> None:
    check_input("input", torch.zeros(shape, dtype=dtype), dims=2, gated=gated)


def test_gated_width_counts_both_halves() -> None:
    with pytest.raises(ValueError, match=r"input: 2K must be a positive multiple of 32, got shape \(1, 16\)"):
        check_input("input", torch.zeros(1, 16), dims=2, gated=True)


def test_global_scale_comes_back_in_its_shape() -> None:
    assert check_global_scale("g", 2, device=CPU).shape == ()
    assert check_global_scale("g", torch.ones(1, 1), device=CPU).shape == ()
    assert check_global_scale("g", torch.ones(1), device=CPU, rows_of_experts=[3]).shape == (1,)
    assert check_global_scale("g", torch.ones(0), device=CPU, rows_of_experts=[]).shape == (0,)


@pytest.mark.parametrize("scale", [True, None, "1"])
def test_what_is_no_number_is_no_scale(scale: object) -> None:
    with pytest.raises(TypeError, match=f"g must be a float32 tensor, got {type(scale).__name__}"):
        check_global_scale("g", scale, device=CPU)  # type: ignore[arg-type]


def test_counts_and_offsets_as_ints() -> None:
    assert check_row_counts("masked_m", torch.tensor([0, 4]), experts=2, most=4) == [0, 4]
    assert check_offsets("offsets", torch.tensor([0, 0, 4])) == [0, 0, 4]


def test_device_mismatch_names_both() -> None:
    with pytest.raises(ValueError, match="offsets must be on the input's device cpu, got meta"):
        check_device("offsets", torch.zeros(2, device="meta"), CPU)
