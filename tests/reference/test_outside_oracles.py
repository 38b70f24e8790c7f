"""The casts of `reference` against ml_dtypes and gfloat, every difference listed by name.

Both libraries are independent implementations of the formats. Agreement is required everywhere but on the listed
inputs, and the listed differences are asserted too, so that a new version that changes one is noticed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, encode_e2m1, encode_ue4m3

ml_dtypes = pytest.importorskip("ml_dtypes")
gfloat = pytest.importorskip("gfloat")
gfloat_formats = pytest.importorskip("gfloat.formats")

LARGEST_E4M3 = 448.0
OVERFLOW_E4M3 = 464.0
"""The tie between 448 and the next step; ml_dtypes, which does not saturate, gives NaN above it."""


def inputs() -> torch.Tensor:
    """Return float32: all bf16 and f16 inputs, and every tie of both formats with its neighbours."""
    patterns = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    sixteen = [patterns.view(dtype).to(torch.float32) for dtype in (torch.bfloat16, torch.float16)]
    points = [
        decode_e2m1(torch.arange(8, dtype=torch.uint8)),
        decode_ue4m3(torch.arange(127, dtype=torch.uint8)),
    ]
    ties = torch.cat([(p[:-1] + p[1:]) / 2 for p in points])
    near = [torch.nextafter(ties, torch.full_like(ties, side)) for side in (0.0, torch.inf)]
    return torch.cat([*sixteen, ties, -ties, *near, *(-n for n in near)])


VALUES = inputs()
NAN = VALUES.isnan()
FINITE = VALUES.isfinite()


def by_ml_dtypes(dtype: np.dtype) -> torch.Tensor:
    with np.errstate(invalid="ignore", over="ignore"):
        return torch.from_numpy(VALUES.numpy().astype(dtype).view(np.uint8).copy())


def by_gfloat(values: torch.Tensor, form: object) -> torch.Tensor:
    rounded = gfloat.round_ndarray(form, values.to(torch.float64).numpy(), sat=True)
    return torch.from_numpy(gfloat.encode_ndarray(form, rounded).astype(np.uint8))


def same_number(codes: torch.Tensor, other: torch.Tensor, decode) -> torch.Tensor:
    return decode(codes) == decode(other)


# --- ml_dtypes ----------------------------------------------------------------------------------------------------


def test_e2m1_agrees_with_ml_dtypes_but_for_nan() -> None:
    ours, theirs = encode_e2m1(VALUES), by_ml_dtypes(ml_dtypes.float4_e2m1fn)
    assert torch.equal(ours[~NAN], theirs[~NAN])  # Inf saturates in both; -0 kept in both
    assert set(ours[NAN].tolist()) == {7}  # as the GPU instruction: NaN is +6
    assert set(theirs[NAN].tolist()) <= {0, 8}  # ml_dtypes: a zero


def test_e4m3_agrees_with_ml_dtypes_but_for_nan_and_overflow() -> None:
    ours, theirs = encode_ue4m3(VALUES), by_ml_dtypes(ml_dtypes.float8_e4m3fn)
    overflow = VALUES.abs() > OVERFLOW_E4M3
    agree = ~NAN & ~overflow
    assert agree.sum() > 70_000
    assert torch.equal(ours[agree], theirs[agree])
    assert set(ours[overflow].tolist()) == {0x7E, 0xFE}  # saturates, sign kept
    assert set(theirs[overflow].tolist()) == {0x7F, 0xFF}  # ml_dtypes: NaN
    assert set(ours[NAN].tolist()) == {0x7F}  # the sign of a NaN is dropped
    assert set(theirs[NAN].tolist()) == {0x7F, 0xFF}  # ml_dtypes keeps it


@pytest.mark.parametrize(
    ("decode", "dtype", "codes"),
    [(decode_e2m1, "float4_e2m1fn", 16), (decode_ue4m3, "float8_e4m3fn", 256)],
    ids=["e2m1", "e4m3"],
)
def test_decoding_agrees_with_ml_dtypes(decode, dtype: str, codes: int) -> None:
    every = np.arange(codes, dtype=np.uint8)
    theirs = torch.from_numpy(every.view(getattr(ml_dtypes, dtype)).astype(np.float32))
    ours = decode(torch.from_numpy(every))
    assert torch.equal(ours.isnan(), theirs.isnan())
    real = ~ours.isnan()
    assert torch.equal(
        ours[real].view(torch.int32), theirs[real].view(torch.int32)
    )  # bits: -0 differs from +0


# --- gfloat -------------------------------------------------------------------------------------------------------


def test_e2m1_agrees_with_gfloat_where_gfloat_has_an_answer() -> None:
    ours = encode_e2m1(VALUES[~NAN])
    assert torch.equal(ours, by_gfloat(VALUES[~NAN], gfloat_formats.format_info_ocp_e2m1))


def test_gfloat_refuses_nan_in_e2m1() -> None:
    with pytest.raises(ValueError, match=r"(?i)nan"):
        gfloat.round_float(gfloat_formats.format_info_ocp_e2m1, float("nan"), sat=True)


def test_e4m3_agrees_with_gfloat_saturating_but_for_nan() -> None:
    ours = encode_ue4m3(VALUES)
    theirs = by_gfloat(VALUES, gfloat_formats.format_info_ocp_e4m3)
    assert torch.equal(ours[~NAN], theirs[~NAN])
    assert set(theirs[NAN].tolist()) <= {0x7F, 0xFF}


@pytest.mark.parametrize(
    ("decode", "form", "codes"),
    [(decode_e2m1, "format_info_ocp_e2m1", 16), (decode_ue4m3, "format_info_ocp_e4m3", 256)],
    ids=["e2m1", "e4m3"],
)
def test_decoding_agrees_with_gfloat(decode, form: str, codes: int) -> None:
    info = getattr(gfloat_formats, form)
    theirs = torch.tensor(
        [gfloat.decode_float(info, code).fval for code in range(codes)], dtype=torch.float32
    )
    ours = decode(torch.arange(codes, dtype=torch.uint8))
    assert torch.equal(ours.isnan(), theirs.isnan())
    real = ~ours.isnan()
    assert torch.equal(ours[real].view(torch.int32), theirs[real].view(torch.int32))
