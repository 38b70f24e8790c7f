"""The witness of a subject's fault: the case that shows it. A replay runs that case again, in a child process, after
the cases that it needs before it.

A witness has the subject's name alone: a replay runs no file that the witness names. Own subjects and entry points
are found by that name, anything else is given by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.verification.bound_witness import CannotReplay, Replay
from nvfp4_moe.verification.conformance.plan import Plan, case_from_json
from nvfp4_moe.verification.conformance.subject import SubjectUnavailable
from nvfp4_moe.verification.conformance.supervisor import CaseReport, run_cases
from nvfp4_moe.verification.result import Finding
from nvfp4_moe.verification.subject_card import card_of

KIND = "subject"


def replay(document: Mapping[str, Any], *, subject: str | None = None) -> Replay:
    """Run the case of the witness again; a fault of the same check, or any memory fault, reproduces it.

    Args:
        document: the witness.
        subject: what `verify --subject` takes; None: by the name in the witness, never a file.

    Raises:
        ValueError, TypeError: the document is no such witness, or `subject` is a missing file or attribute.
        CannotReplay: the subject cannot be loaded here, or its cases are no longer those of the witness.
    """
    name, check = _text(document, "subject"), _text(document, "check")
    level = check_size("level", document.get("level"), at_least=1)  # type: ignore[arg-type]  # it checks the type
    recorded = _object(document.get("case"), "case")
    before = document.get("before", [])
    if not isinstance(before, list):
        raise TypeError(f"before must be a list of cases, got {before!r:.60}")
    cases = [case_from_json(entry) for entry in (*(_object(e, "before") for e in before), recorded)]
    seed = check_size("seed", _seed(recorded), at_least=0)
    if subject is None and (".py" in name or "/" in name):
        raise CannotReplay(f"give the file of subject {name} with --subject")
    spec = subject or name
    try:
        plan = Plan.of(card_of(spec), level=level, seed=seed)
        if not all(case in plan.cases for case in cases):
            raise CannotReplay(f"level {level} has no such case for subject {spec} any more")
        numbers = [plan.cases.index(case) for case in cases]
        reports = {
            report.number: report
            for report in run_cases(spec, numbers, level=level, seed=seed, lanes=1, cases=plan.cases)
        }
    except SubjectUnavailable as error:
        hint = "" if subject else f"; if {name} is a file, give it with --subject FILE.py[:ATTR]"
        raise CannotReplay(f"{error}{hint}") from error
    if numbers[-1] not in reports:
        raise CannotReplay(f"subject {spec} died so often in the calls before it that the case was given up")
    return _judge(reports[numbers[-1]], check, what=f"{spec}: {_describe(recorded)}")


def _judge(report: CaseReport, check: str, *, what: str) -> Replay:
    if report.refused is not None:
        legal = "may refuse" if report.refusal_legal else "must accept"
        return Replay(not report.refusal_legal, (what, f"refused: {report.refused} (a case that it {legal})"))
    lines = [f"{fault['check']} ({fault['finding']}): {fault['text']}" for fault in report.faults]
    same = any(fault["check"] == check or fault["finding"] == Finding.MEMORY for fault in report.faults)
    if not same:
        lines.append(f"no fault of {check}")
    return Replay(same, (what, *lines))


def _seed(case: Mapping[str, Any]) -> Any:
    """Return the seed that a case depends on: its own, that of the call which a law changes, or none."""
    base = case.get("base", case)
    return base.get("seed", 0) if isinstance(base, dict) else 0


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object, got {value!r:.60}")
    return value


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be text, got {value!r:.60}")
    return value


def _describe(case: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in case.items() if key not in ("kind", "seed", "index"))
