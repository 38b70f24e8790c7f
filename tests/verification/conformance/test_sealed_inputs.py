"""Inputs are read-only while a CPU subject runs: a write is a memory finding that names the tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.supervisor import CaseReport, Limits, run_cases

RIGHT = reference_subject().operations
PATIENT = Limits(case_seconds=120, first_case_seconds=120, crashes=2)


def reports_of(subject: Subject, numbers: list[int], **options: Any) -> list[CaseReport]:
    reports = run_cases(subject, numbers, level=1, seed=0, limits=PATIENT, lanes=1, **options)
    return sorted(reports, key=lambda report: report.number)


def writes(name: str, change: Callable[[Tensor], object], **contract: Any) -> Subject:
    """Return a right `shuffle_rows` that does something to an input first."""

    def shuffle_rows(input: Tensor, map: Tensor) -> Tensor:
        returned = RIGHT["shuffle_rows"](input, map)
        change({"input": input, "map": map}[name])
        return returned  # type: ignore[no-any-return]

    return Subject("writes", "cpu", Contract(**contract), shuffle_rows=shuffle_rows)


def some_numbers(count: int = 3) -> list[int]:
    """Return cases with an input and a map."""
    cases = Plan.of(writes("map", id), level=1, seed=0).cases
    return [n for n, case in enumerate(cases) if getattr(case, "mapped_rows", 0) > 3][:count]


@pytest.mark.parametrize("name", ["input", "map"])
def test_a_write_names_the_tensor_and_the_run_goes_on(name: str) -> None:
    subject = writes(
        name, lambda tensor: tensor.view(-1)[-1:].bitwise_xor_(1) if name == "map" else tensor.fill_(1)
    )
    reports = reports_of(subject, some_numbers())
    assert len(reports) == 3
    for report in reports:
        (fault,) = report.faults
        assert (fault["check"], fault["finding"]) == ("inputs", "memory")
        assert f"the input {name} was changed" in fault["text"]
    assert "with read-only inputs: SIGSEGV" in reports[0].faults[0]["text"]


def test_a_write_of_what_is_there_is_seen_too() -> None:
    """Comparing bytes afterwards cannot see it, but another reader of the same tensor may."""
    subject = writes("map", lambda tensor: tensor.copy_(tensor.clone()))
    (number,) = some_numbers(1)
    (report,) = reports_of(subject, [number])
    assert (
        "an input was written, with what it held; with read-only inputs: SIGSEGV" in report.faults[0]["text"]
    )
    assert reports_of(subject, [number], sealed=False)[0].faults == ()


def test_inputs_that_a_subject_may_change_are_writable() -> None:
    subject = writes("map", lambda tensor: tensor.zero_(), mutates=("map",))
    assert not any(report.faults for report in reports_of(subject, some_numbers()))


def test_right_subjects_are_not_disturbed() -> None:
    assert not any(report.faults for report in reports_of(writes("map", id), some_numbers(20)))
