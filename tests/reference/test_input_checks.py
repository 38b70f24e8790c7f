"""Checks at the door, called directly; the texts that users see are pinned in the tests of the quantizers."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.input_checks import (
    check_device,
    check_global_scale,
    check_input,
    check_offsets,
    check_row_counts,
)

CPU = torch.device("cpu")


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
    assert check_global_scale("g", torch.ones(1), device=CPU, experts=1).shape == (1,)
    assert check_global_scale("g", torch.ones(0), device=CPU, experts=0).shape == (0,)


@pytest.mark.parametrize("scale", [True, None, "1"])
def test_what_is_no_number_is_no_scale(scale: object) -> None:
    with pytest.raises(TypeError, match=f"g must be a float32 tensor, got {type(scale).__name__}"):
        check_global_scale("g", scale, device=CPU)  # type: ignore[arg-type]


def test_counts_and_offsets_as_ints() -> None:
    assert check_row_counts("masked_m", torch.tensor([0, 4]), experts=2, most=4) == [0, 4]
    assert check_offsets("offsets", torch.tensor([0, 0, 4]), experts=2, most=4) == [0, 0, 4]


def test_device_mismatch_names_both() -> None:
    with pytest.raises(ValueError, match="offsets must be on the input's device cpu, got meta"):
        check_device("offsets", torch.zeros(2, device="meta"), CPU)
