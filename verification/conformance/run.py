"""Conformance of one subject: run its cases and turn what was found into one outcome for each claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nvfp4_moe.verification.conformance.plan import Plan, prefix_of
from nvfp4_moe.verification.conformance.subject import Subject, load_subject
from nvfp4_moe.verification.conformance.supervisor import CaseReport, run_cases
from nvfp4_moe.verification.result import Finding, Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row

CHECKS = {
    "quant": ("golden", "coverage", "guard", "poison"),
    "silu_quant": ("golden", "coverage", "guard", "poison"),
    "routing": ("golden", "coverage", "guard"),
}
"""Checks of each operation; with the prefix they make the claim ids."""

_CLAIM_OF = {"untouched": "guard", "inputs": "guard"}
"""Checks that belong to another's claim: all are about memory that the subject may not change."""


@dataclass
class _Tally:
    cases: int = 0
    refused: int = 0
    first_refusal: str = ""
    admissible: int = 0
    faults: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)


def conformance_claims(subject: Subject) -> list[tuple[str, Method]]:
    """Return (claim id, method) of every row that a run of the subject gives."""
    plan = Plan.of(subject, level=1, seed=0)
    prefixes = [prefix for op, prefix in _prefixes(plan)]
    return [(f"{prefix}.{check}", Method.CONFORMANCE) for prefix in prefixes for check in CHECKS[prefix]]


def _prefixes(plan: Plan) -> list[tuple[str, str]]:
    from nvfp4_moe.verification.conformance.plan import PREFIXES

    return [(operation, PREFIXES[operation]) for operation in plan.operations]


def conform(
    spec: str | Subject,
    *,
    level: int,
    seed: int,
    fail_on: Finding = Finding.CONTRACT,
    advance: Callable[[int], None] = lambda cases: None,
) -> Iterator[Row]:
    """Run every case of a subject in children and yield its rows.

    Args:
        spec: a name for `load_subject`, or a Subject.
        level: 1 or more.
        seed: of the cases.
        fail_on: the mildest class of finding that makes a claim required.
        advance: told of finished cases.

    Raises:
        SubjectError, SubjectUnavailable: see `load_subject`.
    """
    subject = spec if isinstance(spec, Subject) else load_subject(spec)
    plan = Plan.of(subject, level=level, seed=seed)
    tallies = {prefix: _Tally() for _, prefix in _prefixes(plan)}
    for report in run_cases(spec, range(len(plan.cases)), level=level, seed=seed):
        _count(tallies[prefix_of(plan.cases[report.number])], report)
        advance(1)
    for prefix, tally in tallies.items():
        yield from _rows(subject, plan, prefix, tally, fail_on)


def _count(tally: _Tally, report: CaseReport) -> None:
    if report.refused is not None:
        tally.refused += 1
        tally.first_refusal = tally.first_refusal or report.refused
        if not report.refusal_legal:
            fault = {
                "check": "golden",
                "finding": str(Finding.CONTRACT),
                "text": f"refused inside its domain: {report.refused}",
                "where": {},
            }
            tally.faults.setdefault("golden", []).append((report.number, fault))
        return
    tally.cases += 1
    tally.admissible += report.admissible
    for fault in report.faults:
        check = str(fault["check"])
        check = _CLAIM_OF.get(check, check)
        tally.faults.setdefault(check, []).append((report.number, fault))


def _rows(subject: Subject, plan: Plan, prefix: str, tally: _Tally, fail_on: Finding) -> Iterable[Row]:
    for check in CHECKS[prefix]:
        found = tally.faults.get(check, [])
        outcome = _outcome(subject, plan, tally, found)
        severity = list(Finding)
        counts = outcome.finding is None or severity.index(outcome.finding) <= severity.index(fail_on)
        yield Row(
            claim_id=f"{prefix}.{check}",
            method=Method.CONFORMANCE,
            outcome=outcome,
            subject=subject.name,
            required=counts,
        )


def _outcome(subject: Subject, plan: Plan, tally: _Tally, found: list[tuple[int, dict[str, Any]]]) -> Outcome:
    said = [f"{tally.refused} refused ({tally.first_refusal})"] if tally.refused else []
    if tally.admissible:
        said.append(f"{tally.admissible:,} bytes ADMISSIBLE, not exact: no table of this chip")
    remarks = "; ".join(said)
    if found:
        number, fault = min(found, key=lambda item: _size(plan, item))
        witness = {
            "kind": "subject",
            "subject": subject.name,
            "level": plan.level,
            "number": number,
            "case": plan.cases[number].to_json(),
            **fault,
        }
        detail = f"{len(found)} of {tally.cases} cases: {fault['text']}"
        return Outcome(
            verdict=Verdict.REFUTED,
            cases=tally.cases,
            detail=detail,
            witness=witness,
            finding=Finding(fault["finding"]),
        )
    if not tally.cases:
        return Outcome(verdict=Verdict.SKIPPED, cases=0, detail=f"no case was accepted; {remarks}")
    return Outcome(verdict=Verdict.HELD, cases=tally.cases, detail=remarks)


def _size(plan: Plan, item: tuple[int, dict[str, Any]]) -> tuple[int, int, int]:
    """Order of faults: worst class first, then the smallest case."""
    number, fault = item
    case = plan.cases[number]
    elements = getattr(case, "elements", None)
    size = elements if elements is not None else getattr(case, "tokens", 0) * getattr(case, "topk", 0)
    return list(Finding).index(Finding(fault["finding"])), size, number
