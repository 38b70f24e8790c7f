"""Formats: every derived number against the published one, and the laws that tie them together."""

from __future__ import annotations

import importlib
import math

import pytest

from nvfp4_moe.reference.formats import E2M1, E4M3, NVFP4, UE4M3, ElementFormat


def test_e2m1_numbers() -> None:
    assert E2M1.magnitudes == (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    assert (E2M1.max, E2M1.min_normal, E2M1.smallest_subnormal) == (6.0, 1.0, 0.5)
    assert (E2M1.code_of_max, E2M1.code_of_nan, E2M1.sign_code, E2M1.num_codes) == (7, None, 8, 16)
    assert E2M1.midpoints == (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


@pytest.mark.parametrize("form", [E4M3, UE4M3], ids=lambda form: form.name)
def test_e4m3_numbers(form: ElementFormat) -> None:
    assert (form.max, form.min_normal, form.smallest_subnormal) == (448.0, 2.0**-6, 2.0**-9)
    assert (form.code_of_max, form.code_of_nan) == (0x7E, 0x7F)


def test_signed_and_unsigned_scale_agree_below_bit_7() -> None:
    assert (E4M3.sign_code, UE4M3.sign_code) == (0x80, 0)
    assert UE4M3.num_codes == 128
    assert UE4M3.values[:-1] == E4M3.values[:127]


@pytest.mark.parametrize("form", [E2M1, E4M3], ids=lambda form: form.name)
def test_every_code_as_gfloat_decodes_it(form: ElementFormat) -> None:
    gfloat = pytest.importorskip("gfloat")  # a GPU machine without a package registry may lack it
    formats = importlib.import_module("gfloat.formats")
    other = getattr(formats, f"format_info_ocp_{form.name.lower()}")
    for code, value in enumerate(form.values):
        true = gfloat.decode_float(other, code).fval
        assert math.copysign(1.0, value) == math.copysign(1.0, true) or math.isnan(true)
        assert value == true or (math.isnan(value) and math.isnan(true))


def test_nvfp4() -> None:
    assert NVFP4.block_size == 16
    assert NVFP4.encode_numerator == 2688.0


@pytest.mark.parametrize("code", [-1, 16])
def test_a_foreign_code_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=rf"E2M1 lies in \[0, 16\), got {code}"):
        E2M1.value(code)
