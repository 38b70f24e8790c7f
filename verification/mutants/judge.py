"""Judges one variant with the ordinary harness, up to its first refutation, and one right implementation in full.

A wrong subject runs the cases of `verify` at level 1, smallest first, so that the first one that refutes it is the
smallest input; a variant whose fault depends on earlier calls runs them in `verify`'s own order. Only a finding of a
claim that the variant names refutes it. An exception, a refusal or a dead process counts for those alone whose fault it
is: otherwise a variant with a mistake in its own lines would pass for refuted.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.bounds import check_attained, find_counterexample
from nvfp4_moe.verification.conformance.case_report import CaseReport, report_of
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.own import own_subject
from nvfp4_moe.verification.conformance.plan import Case, Plan, elements_of, prefix_of
from nvfp4_moe.verification.conformance.run import claim_of
from nvfp4_moe.verification.conformance.sequence import shortest_sequence
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.conformance.supervisor import LANES, Limits, run_cases
from nvfp4_moe.verification.conformance.worker import answer, arena_for
from nvfp4_moe.verification.exhaustive import exhaust_routing
from nvfp4_moe.verification.fuzz import fuzz_ids
from nvfp4_moe.verification.golden import CHECKS as GOLDEN_CHECKS
from nvfp4_moe.verification.golden.model import REFERENCE, Model
from nvfp4_moe.verification.golden.tally import Tally
from nvfp4_moe.verification.mutants.mutant import (
    BoundMutant,
    CheckMutant,
    ModelMutant,
    Mutant,
    RightSubject,
    SubjectMutant,
)
from nvfp4_moe.verification.result import PASSES, Outcome, Verdict, Witness
from nvfp4_moe.verification.routing_check import ROUTING_CLAIMS

LEVEL = 1
_LIMITS = Limits(case_seconds=60.0)
"""Other judgements run beside: a case gets twice its usual time."""
_MOST_TRIALS = 16
"""Children that may be spent on finding out which earlier calls a fault needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of a variant, or of a right implementation."""

    id: str
    device: str
    verdict: Verdict
    """REFUTED; HELD: it survived, or is right; SKIPPED: it needs something that is not here; UNDECIDED."""
    check: str | None = None
    """The claim that refuted it."""
    cases: int = 0
    """Cases, configurations, or bytes compared until then."""
    seconds: float = 0.0
    witness: Witness | None = None
    """The smallest input that refuted it."""
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        entry = {**asdict(self), "verdict": str(self.verdict), "seconds": round(self.seconds, 3)}
        return entry if self.detail else {key: value for key, value in entry.items() if key != "detail"}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Judged:
        """Return what `to_json` gave."""
        return cls(**{**entry, "verdict": Verdict(entry["verdict"])})


def judge(entry: Mutant | RightSubject, *, device: str, seed: int) -> Judged:
    """Judge a variant or a right implementation.

    Args:
        entry: of the catalogue.
        device: "cpu" or "cuda".
        seed: of the cases.
    """
    begin = time.perf_counter()
    try:
        found = _judge(entry, device, seed)
    except SubjectUnavailable as error:
        found = Judged(id=entry.id, device=device, verdict=Verdict.SKIPPED, detail=str(error))
    return replace(found, seconds=time.perf_counter() - begin)


def _judge(entry: Mutant | RightSubject, device: str, seed: int) -> Judged:
    if device not in entry.devices:
        needs = " or ".join(entry.devices)
        return Judged(id=entry.id, device=device, verdict=Verdict.SKIPPED, detail=f"it runs on {needs} alone")
    if isinstance(entry, RightSubject):
        return _pass(entry, device, seed)
    if isinstance(entry.target, SubjectMutant):
        return _refute(entry, entry.target, device, seed)
    judged = Judged(id=entry.id, device=device, verdict=Verdict.SKIPPED)
    for claim, outcome in _outcomes(entry, seed):
        cases = judged.cases + outcome.cases
        if outcome.verdict is Verdict.REFUTED:
            return replace(
                judged,
                verdict=Verdict.REFUTED,
                check=claim,
                cases=cases,
                witness=outcome.witness,
                detail=outcome.detail,
            )
        verdict = Verdict.HELD if outcome.verdict in PASSES else outcome.verdict
        judged = replace(judged, verdict=verdict, cases=cases, detail=outcome.detail)
    return judged


# --- bounds, models, other checks --------------------------------------------------------------------------


def _outcomes(mutant: Mutant, seed: int) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcomes of the claims that the variant names."""
    target = mutant.target
    if isinstance(target, CheckMutant):
        yield mutant.refuted_by[0], target.check(seed)
    elif isinstance(target, BoundMutant):
        for claim in mutant.refuted_by:
            yield claim, _bound_outcome(target, claim)
    elif isinstance(target, ModelMutant):
        yield from _model_outcomes(target.factory(REFERENCE), mutant.refuted_by, seed)


def _bound_outcome(target: BoundMutant, claim: str) -> Outcome:
    """Return the outcome of a bound; one that is judged as loose must be large enough."""
    if claim == "padding.bound.written":
        return _written_bound_outcome(target)
    ranks = target.expert_parallel_size
    enough = find_counterexample(target.bound, target.grid, expert_parallel_size=ranks)
    if claim == "padding.bound":
        return enough
    if enough.verdict is Verdict.REFUTED:
        return replace(enough, verdict=Verdict.HELD, detail=f"not loose but short: {enough.detail}")
    return check_attained(target.bound, target.grid, expert_parallel_size=ranks, tight=target.tight)


def _written_bound_outcome(target: BoundMutant) -> Outcome:
    from nvfp4_moe.verification.proofs.expression import prove_expression

    if target.bound.expression is None:
        raise ValueError(f"{target.bound.name} is no expression: nothing can be proved of it")
    return prove_expression(target.bound.expression, tile=TILE)


def _model_outcomes(model: Model, claims: Sequence[str], seed: int) -> Iterator[tuple[str, Outcome]]:
    for claim in claims:
        if claim in GOLDEN_CHECKS:
            yield claim, _golden_outcome(model, claim, seed)
    invariants = [claim for claim in claims if claim in ROUTING_CLAIMS]
    if not invariants:
        return
    exhausted = dict(exhaust_routing(_ignored, _never, route=model.route))
    yield from ((claim, exhausted[claim]) for claim in invariants)
    fuzzed = dict(fuzz_ids(LEVEL, seed, [], _ignored, _never, route=model.route))
    yield from ((claim, fuzzed[claim]) for claim in invariants)


def _golden_outcome(model: Model, claim: str, seed: int) -> Outcome:
    """Compare with the second oracle up to the first difference."""
    tally = Tally(
        level=LEVEL,
        seed=seed,
        progress=_ignored,
        should_stop=lambda: tally.first is not None,
        model=model,
    )
    GOLDEN_CHECKS[claim](tally)
    return tally.outcome()


def _ignored(done: int) -> None:
    del done


def _never() -> bool:
    return False


# --- subjects ----------------------------------------------------------------------------------------------


def subject_of(entry: Mutant | RightSubject, device: str) -> Subject:
    """Return the subject of a variant or a right implementation, under the entry's id.

    Raises:
        SubjectUnavailable: no compiler for the host twin, no GPU for the kernels.
        TypeError: the entry is no subject.
    """
    target = entry.target
    if not isinstance(target, SubjectMutant):
        raise TypeError(f"{entry.id} is no subject")
    made = target.factory(own_subject("cuda" if device == "cuda" else target.base))
    return Subject(entry.id, made.device, made.contract, **made.operations)


def _spec(entry: Mutant | RightSubject, subject: Subject) -> str | Subject:
    """Return what children are given: a fork holds the object, a fresh process for a GPU finds it by its id."""
    if subject.device == "cpu":
        return subject
    return f"{Path(__file__).with_name('cuda_subjects.py')}:{entry.id}"


def _refute(mutant: Mutant, target: SubjectMutant, device: str, seed: int) -> Judged:
    subject = subject_of(mutant, device)
    spec = _spec(mutant, subject)
    cases = Plan.of(subject, level=LEVEL, seed=seed).cases
    judged = Judged(id=mutant.id, device=device, verdict=Verdict.HELD)
    odd = ""
    here = subject.device != "cpu" and not target.dies
    found = (
        _reports_here(subject, cases, device_arena(), in_order=target.in_order)
        if here
        else _reports(spec, cases, seed=seed, in_order=target.in_order)
    )
    with closing(found) as reports:
        for report in reports:
            judged = replace(judged, cases=judged.cases + 1)
            for claim, fault in faults_of(cases, report):
                if claim in mutant.refuted_by and (target.dies or not is_death(fault)):
                    witness = _witness(mutant, cases, report, fault)
                    if target.in_order and not here:
                        witness |= _calls_before(spec, cases, report, seed)
                    return replace(
                        judged, verdict=Verdict.REFUTED, check=claim, witness=witness, detail=fault["text"]
                    )
                odd = odd or f"{claim}: {fault['text']}"
            odd = odd or report.not_run or ""
    return replace(
        judged, detail=f"not refuted by {' or '.join(mutant.refuted_by)}" + (odd and f", but {odd}")
    )


def _pass(entry: RightSubject, device: str, seed: int) -> Judged:
    """Run every case and tell the first finding, or refusal inside the domain."""
    subject = subject_of(entry, device)
    cases = Plan.of(subject, level=LEVEL, seed=seed).cases
    judged = Judged(id=entry.id, device=device, verdict=Verdict.HELD)
    with closing(_reports(_spec(entry, subject), cases, seed=seed, in_order=True)) as reports:
        for report in reports:
            judged = replace(judged, cases=judged.cases + (report.refused is None))
            for claim, fault in faults_of(cases, report):
                witness = _witness(entry, cases, report, fault)
                return replace(
                    judged, verdict=Verdict.REFUTED, check=claim, witness=witness, detail=fault["text"]
                )
            if report.not_run is not None:
                judged = replace(judged, verdict=Verdict.UNDECIDED, detail=report.not_run)
    undecided = judged.verdict is Verdict.UNDECIDED
    if judged.cases or undecided:
        return judged
    return replace(judged, verdict=Verdict.SKIPPED, detail="no case was accepted")


def _reports(
    spec: str | Subject, cases: list[Case], *, seed: int, in_order: bool
) -> Generator[CaseReport, None, None]:
    """Run the cases, smallest first in one child, or as `verify` deals them out."""
    yield from run_cases(
        spec,
        _numbers(cases, in_order=in_order),
        level=LEVEL,
        seed=seed,
        group_of=lambda number: prefix_of(cases[number]),
        limits=_LIMITS,
        lanes=LANES if in_order else 1,
        cases=cases,
    )


@cache
def device_arena() -> Arena:
    """Return the guarded memory of the GPU that this process keeps."""
    return arena_for("cuda")


def _reports_here(
    subject: Subject, cases: list[Case], arena: Arena, *, in_order: bool
) -> Generator[CaseReport, None, None]:
    """Run the cases in this process: a context of a GPU takes seconds to make, and serves one variant after another.

    Raises:
        DeviceFault: the device reported an error of a variant that may not die; this process is of no more use.
    """
    for number in _numbers(cases, in_order=in_order):
        yield report_of({"done": number, **answer(subject, cases[number], arena)})


def _numbers(cases: Sequence[Case], *, in_order: bool) -> list[int]:
    numbers = list(range(len(cases)))
    return numbers if in_order else sorted(numbers, key=lambda number: (*_size(cases[number]), number))


def _size(case: Case) -> tuple[int, int]:
    """Return what makes a case small: few elements, then few experts."""
    experts = len(case.tokens_per_expert) if isinstance(case, QuantCase) else 0
    return elements_of(case), experts


def faults_of(cases: Sequence[Case], report: CaseReport) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (claim, fault) of a report; a refusal inside the domain is one."""
    case = cases[report.number]
    if report.refused is not None and not report.refusal_legal:
        text = f"refused inside its domain: {report.refused}"
        fault = {"check": "golden", "text": text, "where": {"refused": report.refused}}
        yield claim_of(case, "golden"), fault
    for found in report.faults:
        yield claim_of(case, found["check"]), found


def is_death(fault: dict[str, Any]) -> bool:
    """Return whether a fault is an exception, a refusal or a dead process, not what was left in memory."""
    return not {"refused", "traceback", "ending"}.isdisjoint(fault["where"])


def _witness(
    entry: Mutant | RightSubject, cases: list[Case], report: CaseReport, fault: dict[str, Any]
) -> dict[str, Any]:
    return {
        "kind": "subject",
        "subject": entry.id,
        "level": LEVEL,
        "number": report.number,
        "case": cases[report.number].to_json(),
        **{key: value for key, value in fault.items() if key != "finding"},
    }


def _calls_before(spec: str | Subject, cases: list[Case], report: CaseReport, seed: int) -> dict[str, Any]:
    found = shortest_sequence(spec, report, level=LEVEL, seed=seed, limits=_LIMITS, most_trials=_MOST_TRIALS)
    return {"before": [cases[number].to_json() for number in found.before]} if found.before else {}
