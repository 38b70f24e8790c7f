"""Conformance of one subject: run its cases and turn what was found into one outcome for each claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from nvfp4_moe.verification.conformance.plan import (
    ALL_PREFIXES,
    ASPECTS,
    Case,
    Plan,
    aspect_of,
    checks_of,
    elements_of,
    prefix_of,
)
from nvfp4_moe.verification.conformance.sequence import Sequence, shortest_sequence
from nvfp4_moe.verification.conformance.sequence_task import SequenceFinder
from nvfp4_moe.verification.conformance.subject import OWN_SUBJECTS, Subject, load_subject
from nvfp4_moe.verification.conformance.supervisor import CaseReport, Limits, run_cases
from nvfp4_moe.verification.result import Finding, Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.subject_card import card_of
from nvfp4_moe.verification.task_messages import Card

_CLAIM_OF = {"untouched": "guard", "inputs": "guard"}
"""Checks that belong to another's claim: all are about memory that the subject may not change."""

_SEVERITY = list(Finding)


@dataclass(frozen=True)
class _Found:
    """A fault and the case that showed it."""

    report: CaseReport
    fault: dict[str, Any]

    @property
    def finding(self) -> Finding:
        return Finding(self.fault["finding"])


@dataclass
class _Tally:
    """What the cases of one operation and aspect came to."""

    cases: int = 0
    not_run: list[CaseReport] = field(default_factory=list)
    refused: list[CaseReport] = field(default_factory=list)
    admissible: int = 0


@dataclass
class _Tallies:
    """Counts by (prefix, aspect), faults by claim id."""

    plan: Plan
    counts: dict[tuple[str, str], _Tally] = field(default_factory=dict)
    faults: dict[str, list[_Found]] = field(default_factory=dict)

    def count(self, report: CaseReport) -> None:
        case = self.plan.cases[report.number]
        prefix, aspect = prefix_of(case), aspect_of(case)
        tally = self.counts.setdefault((prefix, aspect), _Tally())
        if report.not_run is not None:
            tally.not_run.append(report)
            return
        if report.refused is not None:
            tally.refused.append(report)
            if not report.refusal_legal:
                self._add(prefix, aspect, report, _illegal_refusal(report.refused))
            return
        tally.cases += 1
        tally.admissible += report.admissible
        for fault in report.faults:
            self._add(prefix, aspect, report, fault)

    def _add(self, prefix: str, aspect: str, report: CaseReport, fault: dict[str, Any]) -> None:
        claim = _claim_told(prefix, aspect, fault["check"])
        self.faults.setdefault(claim, []).append(_Found(report, fault))


def claim_of(case: Case, check: str) -> str:
    """Return the id of the claim that a fault with this check, found in this case, refutes."""
    return _claim_told(prefix_of(case), aspect_of(case), check)


def _claim_told(prefix: str, aspect: str, check: str) -> str:
    check = _CLAIM_OF.get(check, check)
    if check == "golden" and aspect != "bytes":
        check = aspect  # an exception or a refusal where a law was tried
    if check not in (aspect, *checks_of(prefix, "bytes")):
        raise ValueError(f"no claim of {prefix} tells the check {check!r}")
    return f"{prefix}.{check}"


def _illegal_refusal(text: str) -> dict[str, Any]:
    return {
        "check": "golden",
        "finding": str(Finding.CONTRACT),
        "text": f"refused inside its domain: {text}",
        "where": {},
    }


def conformance_claims(subject: Subject | Card) -> list[tuple[str, Method]]:
    """Return (claim id, method) of every row that a run of the subject gives."""
    plan = Plan.of(subject, level=1, seed=0)
    return [(claim, Method.CONFORMANCE) for claim in plan.claims()]


def conform(
    spec: str | Subject,
    *,
    level: int,
    seed: int,
    fail_on: Finding = Finding.CONTRACT,
    advance: Callable[[int], None] = lambda cases: None,
    limits: Limits | None = None,
    card: Card | None = None,
) -> Iterator[Row]:
    """Run every case of a subject in children and yield its rows.

    Args:
        spec: a name for `load_subject`, or a Subject.
        level: 1 or more.
        seed: of the cases.
        fail_on: the mildest class of finding that makes a claim required.
        advance: told of finished cases.
        limits: of time and crashes.
        card: the subject's, where the caller has it already.

    Raises:
        SubjectError, SubjectUnavailable: see `load_subject`.
        HarnessFault: the harness itself failed.
    """
    card = card or card_of(spec)
    plan = Plan.of(card, level=level, seed=seed)
    limits = limits or Limits()
    tallies = _Tallies(plan)
    reports = run_cases(
        spec,
        range(len(plan.cases)),
        level=level,
        seed=seed,
        group_of=lambda number: prefix_of(plan.cases[number]),
        limits=limits,
        cases=plan.cases,
    )
    for report in reports:
        tallies.count(report)
        advance(1)
    sequences = _Sequences(spec, card, level, seed, limits)
    with closing(sequences):
        yield from _rows(card, tallies, sequences, fail_on)


def _rows(card: Card, tallies: _Tallies, sequences: _Sequences, fail_on: Finding) -> Iterator[Row]:
    for claim in tallies.plan.claims():
        outcome = _outcome(card, tallies, claim, sequences)
        counts = outcome.finding is None or _SEVERITY.index(outcome.finding) <= _SEVERITY.index(fail_on)
        yield Row(
            claim_id=claim,
            method=Method.CONFORMANCE,
            outcome=outcome,
            subject=card.name,
            required=counts,
        )


@dataclass
class _Sequences:
    """Finds what a failing case needs before it, once for each case."""

    spec: str | Subject
    card: Card
    level: int
    seed: int
    limits: Limits
    known: dict[int, Sequence] = field(default_factory=dict)
    finder: SequenceFinder | None = None

    def of(self, report: CaseReport) -> Sequence:
        if report.number not in self.known:
            self.known[report.number] = self._search(report)
        return self.known[report.number]

    def close(self) -> None:
        if self.finder is not None:
            self.finder.close()

    def _search(self, report: CaseReport) -> Sequence:
        """Run trials in forks, which start in milliseconds, of a process where the subject may live.

        Ours may live here, a stranger's in a child; one on a GPU needs a fresh process for every trial.
        """
        spec, level, seed, limits = self.spec, self.level, self.seed, self.limits
        if isinstance(spec, str) and self.card.device == "cpu":
            if spec not in OWN_SUBJECTS:
                self.finder = self.finder or SequenceFinder(spec, level=level, seed=seed, limits=limits)
                return self.finder.find(report)
            spec = load_subject(spec)
        return shortest_sequence(spec, report, level=level, seed=seed, limits=limits)


def _outcome(card: Card, tallies: _Tallies, claim: str, sequences: _Sequences) -> Outcome:
    prefix, check = claim.split(".")
    aspect = check if check in ASPECTS else "bytes"
    tally = tallies.counts.get((prefix, aspect))
    if tally is None:
        detail = "no case of this level lies in the domain that the contract leaves"
        return Outcome(verdict=Verdict.SKIPPED, cases=0, detail=detail)
    found = tallies.faults.get(claim, [])
    if found:
        return _refuted(card, tallies.plan, tally, found, sequences)
    remarks = _remarks(card, prefix, check, tally)
    if tally.not_run:
        reason = (
            f"{len(tally.not_run)} of {tally.cases + len(tally.not_run)} cases {tally.not_run[0].not_run}"
        )
        return Outcome(verdict=Verdict.UNDECIDED, cases=tally.cases, detail="; ".join([reason, *remarks]))
    if not tally.cases:
        detail = "; ".join(["no case was accepted", *remarks])
        return Outcome(verdict=Verdict.SKIPPED, cases=0, detail=detail)
    illegal = sum(not report.refusal_legal for report in tally.refused)
    if (
        illegal > tally.cases
    ):  # what was accepted says little of the domain, whatever --fail-on makes of refusals
        detail = "; ".join(["most of the domain was refused", *remarks])
        return Outcome(verdict=Verdict.SKIPPED, cases=tally.cases, detail=detail)
    return Outcome(verdict=Verdict.HELD, cases=tally.cases, detail="; ".join(remarks))


def _remarks(card: Card, prefix: str, check: str, tally: _Tally) -> list[str]:
    said = []
    if tally.refused:
        first = min(tally.refused, key=lambda report: report.number)
        said.append(f"{len(tally.refused)} refused ({first.refused})")
    if tally.admissible:
        said.append(f"{tally.admissible:,} bytes ADMISSIBLE, not exact: no table of this chip")
    operation = next(operation for operation, name in ALL_PREFIXES.items() if name == prefix)
    if check == "guard" and (operation == "swizzle" or operation in card.functional):
        said.append("outputs are returned: writes outside them cannot be seen")
    return said


def _refuted(card: Card, plan: Plan, tally: _Tally, found: list[_Found], sequences: _Sequences) -> Outcome:
    smallest = min(found, key=lambda one: _order(plan, one))
    number, fault = smallest.report.number, smallest.fault
    witness: dict[str, Any] = {
        "kind": "subject",
        "subject": card.name,
        "level": plan.level,
        "number": number,
        "case": plan.cases[number].to_json(),
        **fault,
    }
    if getattr(plan.cases[number], "operation", None) in card.functional:
        witness["functional"] = True
    sequence = sequences.of(smallest.report)
    if sequence.before:
        witness["before"] = [plan.cases[earlier].to_json() for earlier in sequence.before]
    failing = len({one.report.number for one in found})
    detail = "; ".join(
        filter(None, [f"{failing} of {max(tally.cases, failing)} cases: {fault['text']}", sequence.remark])
    )
    return Outcome(
        verdict=Verdict.REFUTED,
        cases=max(tally.cases, failing),
        detail=detail,
        witness=witness,
        finding=min((one.finding for one in found), key=_SEVERITY.index),
    )


def _order(plan: Plan, found: _Found) -> tuple[int, int, int]:
    """Order of faults: worst class first, then the smallest case."""
    number = found.report.number
    return _SEVERITY.index(found.finding), elements_of(plan.cases[number]), number
