"""Tensors as views: honoured or refused is right, taken for dense or written between is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.cases import (
    VIEWS,
    QuantCase,
    RoutingCase,
    masked_cases,
    quant_cases,
    routing_cases,
)
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.rows_check import SHUFFLE, SWIZZLE, rows_cases
from nvfp4_moe.verification.conformance.subject import Subject

QUANT, ROUTING = "scaled_fp4_experts_quant", "get_cutlass_moe_mm_data"
MASKED = "scaled_fp4_masked_quant"
Operation = Callable[..., Any]
IEEE = Contract(arithmetic="ieee")
CASES = {view: [c for c in quant_cases(QUANT, level=1, seed=0) if c.view == view] for view in VIEWS}
IDS = [c for c in routing_cases(level=1, seed=0, id_dtypes=("int32", "int64")) if c.id_gap]


def dense(tensor: Tensor) -> Tensor:
    """Return the elements that a kernel without strides reads."""
    strides = tuple(torch.empty(tensor.shape, device="meta").stride())
    return torch.as_strided(tensor, tensor.shape, strides, tensor.storage_offset())


def taking_for_dense(place: int) -> Callable[[Operation], Operation]:
    def wrap(operation: Operation) -> Operation:
        def faulty(*arguments: Any) -> None:
            given = list(arguments)
            needed = 1 + sum(
                (n - 1) * s for n, s in zip(given[place].shape, given[place].stride(), strict=True)
            )
            if needed >= given[place].numel():  # else an access outside, which ends the process
                given[place] = dense(given[place])
            else:
                given[place] = torch.cat([given[place][:1], torch.full_like(given[place][1:], 3.0)])
            operation(*given)

        return faulty

    return wrap


@pytest.mark.parametrize("view", VIEWS)
def test_right_strides_and_refusals_pass(
    view: str, planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    def refuse(*arguments: Any) -> None:
        raise ValueError("no")

    for case in CASES[view]:
        assert checks(planted(QUANT, lambda right: right, IEEE), case) == {}
        assert checks(planted(QUANT, lambda right: refuse, IEEE), case) == {}


@pytest.mark.parametrize(
    ("view", "place"),
    [
        *(("output_apart", 0), ("input_transposed", 2), ("global_scale_apart", 3)),
        *(("global_scale_expanded", 3), ("offsets_apart", 4)),
    ],
)
def test_a_view_taken_for_dense_is_found(
    view: str, place: int, planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    subject = planted(QUANT, taking_for_dense(place), IEEE)
    assert any(checks(subject, case) for case in CASES[view])  # one may refuse a scale that it misreads


def test_a_write_between_the_rows_of_the_output_is_found(
    planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    def wrap(operation: Operation) -> Operation:
        def faulty(output: Tensor, *others: Tensor) -> None:
            operation(output, *others)
            torch.as_strided(output, (1,), (1,), output.storage_offset() + output.shape[1]).fill_(0x5B)

        return faulty

    for case in CASES["output_apart"]:
        assert checks(planted(QUANT, wrap, IEEE), case) == {"guard": "memory"}


def test_ids_of_a_wider_tensor(
    right: Subject, planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    subject = planted(ROUTING, taking_for_dense(0), right.contract)
    for case in IDS:
        assert checks(right, case) == {}
    assert sum(bool(checks(subject, case)) for case in IDS) > len(IDS) // 2


@pytest.mark.parametrize(("view", "place"), [("global_scale_apart", 3), ("offsets_apart", 4)])
def test_masked_vectors_taken_for_dense_are_found(
    view: str, place: int, planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    cases = [case for case in masked_cases(MASKED, seed=0) if case.view == view]
    assert all(checks(planted(MASKED, lambda right: right, IEEE), case) == {} for case in cases)
    assert any(checks(planted(MASKED, taking_for_dense(place), IEEE), case) for case in cases)


@pytest.mark.parametrize(("operation", "place", "gap"), [
    (SHUFFLE, 0, "row_gap"), (SHUFFLE, 1, "map_gap"), (SWIZZLE, 0, "row_gap"),
])  # fmt: skip
def test_rows_and_maps_taken_for_dense_are_found(
    operation: str, place: int, gap: str, right: Subject, checks: Callable[..., dict[str, str]]
) -> None:
    function = right.operations[operation]

    def misread(*given: Tensor) -> Any:
        return function(*(dense(tensor) if at == place else tensor for at, tensor in enumerate(given)))

    def shuffle(input: Tensor, row_map: Tensor) -> Any:  # its arguments tell that it returns the rows
        return misread(input, row_map)

    wrong = {operation: shuffle if operation == SHUFFLE else misread}
    subject = Subject("planted", "cpu", right.contract, **wrong)
    cases = [case for case in rows_cases(operation, seed=0) if getattr(case, gap)]
    assert cases
    for case in cases:
        assert checks(right, case) == {}
        assert checks(subject, case)


def test_cases_are_what_they_say() -> None:
    assert all(isinstance(case, QuantCase) for cases in CASES.values() for case in cases)
    assert all(len(cases) == 3 for cases in CASES.values())
    assert all(isinstance(case, RoutingCase) for case in IDS)
