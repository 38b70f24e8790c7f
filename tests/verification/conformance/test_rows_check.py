"""Gathers and scale layouts: every byte judged, both ways of giving the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.rows_check import (
    DTYPES,
    MAPS,
    RowsCase,
    make_map,
    make_rows,
    rows_cases,
)
from nvfp4_moe.verification.conformance.subject import Subject

SHUFFLE, SWIZZLE = "shuffle_rows", "swizzle"
CASE = RowsCase(operation=SHUFFLE, index=0, seed=0, rows=7, columns=48, dtype="bf16", mapped_rows=12)
SCALES = RowsCase(operation=SWIZZLE, index=0, seed=0, rows=130, columns=5)
Checks = Callable[[Subject, RowsCase], dict[str, str]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("map", MAPS)
def test_a_right_gather_passes_and_its_result_is_what_the_map_says(
    dtype: str, map: str, right: Subject, checks: Checks
) -> None:
    case = replace(CASE, dtype=dtype, map=map)
    assert checks(right, case) == {}
    rows = make_map(case)
    assert rows.shape == (12,)
    assert bool(((rows >= 0) & (rows < 7)).all())
    assert make_rows(case).shape == (7, 48)


def in_place(input: Tensor, map: Tensor, output: Tensor) -> None:
    output.copy_(input[map.long()])


def last_row_missing(input: Tensor, map: Tensor, output: Tensor) -> None:
    output[:-1] = input[map.long()][:-1]


def through_float(input: Tensor, map: Tensor, output: Tensor) -> None:
    """Quietens NaN, which a gather must not."""
    output.copy_((input.float() + 0.0).to(input.dtype)[map.long()])


def writes_the_map(input: Tensor, map: Tensor, output: Tensor) -> None:
    in_place(input, map, output)
    map[0] += 1


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (in_place, {}),
        (last_row_missing, {"coverage": "bytes"}),
        (writes_the_map, {"inputs": "memory"}),
        (lambda input, map: input[map.long()], {}),
        (lambda input, map: input[map.long().flip(0)], {"golden": "bytes"}),
    ],
)
def test_both_forms(operation: Callable[..., Any], told: dict[str, str], checks: Checks) -> None:
    assert checks(Subject("s", "cpu", shuffle_rows=operation), CASE) == told


@pytest.mark.parametrize("returned", [None, torch.zeros(3), (torch.zeros(3), torch.zeros(3))])
def test_a_result_of_another_shape(returned: Any, checks: Checks) -> None:
    found = checks(Subject("s", "cpu", shuffle_rows=lambda input, map: returned), CASE)
    assert "returned" in found["raised"]


def test_a_gather_that_computes(checks: Checks) -> None:
    subject = Subject("s", "cpu", shuffle_rows=through_float)
    assert any(
        checks(subject, replace(case, dtype="f16")) == {"golden": "bytes"}
        for case in rows_cases(SHUFFLE, seed=0)
        if case.columns == 2048
    )


def unpadded(linear: Tensor, right: Subject) -> Tensor:
    out = right.operations[SWIZZLE](linear)
    out.view(-1)[-1] = 1
    return out  # type: ignore[no-any-return]


def test_scale_layouts(right: Subject, checks: Checks) -> None:
    assert checks(right, SCALES) == {}
    for wrong in (
        lambda linear: unpadded(linear, right),
        lambda linear: right.operations[SWIZZLE](linear.flip(0)),
    ):
        assert checks(Subject("s", "cpu", swizzle=wrong), SCALES) == {"golden": "bytes"}


def test_cases_cover_rows_and_widths() -> None:
    cases = list(rows_cases(SHUFFLE, seed=0))
    assert {case.mapped_rows for case in cases} >= {0, 1, 33, 129}
    for name in ("dtype", "map", "columns", "rows"):
        assert len({getattr(case, name) for case in cases}) >= 4
    assert {case.columns for case in cases} >= {5, 45, 180, 4096, 7168}
    assert max(case.mapped_rows for case in cases) > 65_535
    assert {(case.columns, case.dtype) for case in cases if case.columns <= 2880 and case.columns > 8} == set(
        product((16, 45, 48, 64, 180, 272, 2048, 2880), DTYPES)
    )
    swizzled = list(rows_cases(SWIZZLE, seed=0))
    assert {(case.rows % 4, case.columns % 4) for case in swizzled} == set(product(range(4), repeat=2))
    assert max(case.rows for case in swizzled) > 1028
    assert max(case.columns for case in swizzled) > 180
    assert swizzled[0].rows == 33
    for all_of_one in (cases, swizzled):
        assert sum(case.elements for case in all_of_one) < 5e6
