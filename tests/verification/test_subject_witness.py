"""The case of a subject's fault is run again, in a child, and only on what the caller names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.verification import subject_witness
from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.plan import Plan, case_from_json
from nvfp4_moe.verification.conformance.subject import load_subject
from nvfp4_moe.verification.conformance.supervisor import CaseReport
from nvfp4_moe.verification.witness import replay

RIGHT = str(Path(__file__).parents[2] / "examples" / "subjects" / "torch_quant.py")
WRONG = f"{RIGHT}:WRONG"


def witness(**changes: Any) -> dict[str, Any]:
    """Return the witness of a case that shows the example's planted fault: a width that is no multiple of 64."""
    plan = Plan.of(load_subject(WRONG), level=1, seed=3)
    case = next(
        case
        for case in plan.cases
        if isinstance(case, QuantCase)
        and case.k == 80
        and max(case.tokens_per_expert) > 128
        and not case.offset
    )
    document = {
        "kind": "subject",
        "subject": "torch_quant",
        "level": 1,
        "case": case.to_json(),
        "check": "golden",
    }
    return document | changes


def test_the_wrong_one_reproduces_and_the_right_one_does_not() -> None:
    wrong = replay(witness(), subject=WRONG)
    assert wrong.reproduces
    assert any("golden (bytes): output_scale wrong at" in line for line in wrong.lines)
    right = replay(witness(), subject=RIGHT)
    assert not right.reproduces
    assert right.lines[-1] == "no fault of golden"


def test_another_fault_of_the_case_is_told_but_is_not_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"check": "golden", "finding": "bytes", "text": "output wrong", "where": {}}

    def answers(spec: str, numbers: list[int], **unused: object) -> list[CaseReport]:
        return [CaseReport(numbers[0], faults=(fault,))]

    monkeypatch.setattr(subject_witness, "run_cases", answers)
    assert replay(witness(check="golden"), subject=WRONG).reproduces
    done = replay(witness(check="coverage"), subject=WRONG)
    assert not done.reproduces
    assert done.lines[1:] == ("golden (bytes): output wrong", "no fault of coverage")


def test_a_crash_reproduces_any_fault(tmp_path: Path) -> None:
    path = tmp_path / "crashes.py"
    path.write_text(
        "import os, signal\n\n\ndef scaled_fp4_experts_quant(*arguments):\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    done = replay(witness(check="coverage"), subject=str(path))
    assert done.reproduces
    assert "guard (memory): the subject's process died" in done.lines[1]


def test_the_calls_before_it_are_made_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []

    def answers(spec: str, numbers: list[int], **unused: object) -> list[CaseReport]:
        asked.append(numbers)
        return [CaseReport(number) for number in numbers[: 2 if len(asked) == 1 else 1]]

    monkeypatch.setattr(subject_witness, "run_cases", answers)
    plan = Plan.of(load_subject(WRONG), level=1, seed=3)
    document = witness(before=[plan.cases[0].to_json()])
    assert not replay(document, subject=WRONG).reproduces
    assert asked == [[0, plan.cases.index(case_from_json(document["case"]))]]
    with pytest.raises(CannotReplay, match="the case was given up"):
        replay(document, subject=WRONG)


def test_a_refusal_inside_the_domain_reproduces(tmp_path: Path) -> None:
    path = tmp_path / "refuses.py"
    path.write_text("def scaled_fp4_experts_quant(*arguments):\n    raise ValueError('not this shape')\n")
    done = replay(witness(), subject=str(path))
    assert done.reproduces
    assert "not this shape" in done.lines[-1]


@pytest.mark.parametrize("name", [WRONG, RIGHT, "../torch_quant"])
def test_a_file_named_by_the_witness_is_not_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(spec: str) -> None:
        raise AssertionError(f"{spec} was loaded")

    monkeypatch.setattr(subject_witness, "card_of", loads)
    with pytest.raises(CannotReplay, match="give the file of subject"):
        replay(witness(subject=name))


def test_unknown_names_and_cases_cannot_be_run() -> None:
    with pytest.raises(CannotReplay, match=r"unknown subject 'torch_quant'.*give it with --subject FILE.py"):
        replay(witness())
    case = witness()["case"] | {"k": 96, "index": 10**6}
    with pytest.raises(CannotReplay, match="level 1 has no such case"):
        replay(witness(case=case), subject=WRONG)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"subject": None}, "subject must be text, got None"),
        ({"check": 3}, "check must be text, got 3"),
        ({"level": "1"}, "level must be an integer, got '1'"),
        ({"case": []}, "case must be an object"),
        ({"before": {}}, "before must be a list of cases"),
        ({"before": [3]}, "before must be an object, got 3"),
        ({"case": {"kind": "dance"}}, "case must be quant"),
        ({"case": {"kind": "quant"}}, "not a case"),
    ],
)
def test_no_value_is_trusted(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        replay(witness(**changes), subject=WRONG)
