"""Conformance of subjects as jobs of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvfp4_moe.verification.against import Comparison
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.run import conform, conformance_claims
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.hardware_tables import tables_for
from nvfp4_moe.verification.job import Advance, Job
from nvfp4_moe.verification.result import Finding, Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.subject_card import card_of


def subject_job(
    spec: str | Subject, *, level: int, seed: int, fail_on: Finding, required: bool = True
) -> Job:
    """Return the job that runs a subject's cases; one that cannot be loaded becomes a SKIPPED claim.

    Raises:
        SubjectError: a file or attribute that does not exist.
    """
    try:
        card = card_of(spec)
    except SubjectUnavailable as error:
        return _skipped(_name(spec), str(error), required=required)
    plan = Plan.of(card, level=level, seed=seed)
    tables: list[str] = []

    def work(advance: Advance) -> Iterator[Row]:
        tables.extend(tables_for(card))
        yield from conform(spec, level=level, seed=seed, fail_on=fail_on, advance=advance, card=card)

    return Job(
        name=f"subject {card.name}",
        tells=conformance_claims(card),
        work=_or_skipped(work, card.name, required=required),
        cases=len(plan.cases),
        subject=card.name,
        tables=tables,
    )


def against_job(
    spec: str | Subject, against: str | Subject, *, level: int, seed: int, fail_on: Finding
) -> Job:
    """Return the job that compares two subjects, which it loads at once; where one cannot be, a SKIPPED claim.

    Raises:
        SubjectError: a file or attribute that does not exist.
    """
    try:
        comparison = Comparison(spec, against, level=level, seed=seed)
    except SubjectUnavailable as error:
        return _skipped(_name(spec), str(error), claim_id="quant.against", required=True)
    return Job(
        name=comparison.name,
        tells=comparison.claims,
        work=lambda advance: comparison.rows(fail_on=fail_on, advance=advance),
        cases=len(comparison.cases),
        subject=comparison.name,
        on_cancel=comparison.close,
    )


def _name(spec: str | Subject) -> str:
    return spec.name if isinstance(spec, Subject) else spec


def _or_skipped(
    work: Callable[[Advance], Iterator[Row]], name: str, *, required: bool
) -> Callable[[Advance], Iterator[Row]]:
    """A subject that loads here may still fail to load in its child."""

    def guarded(advance: Advance) -> Iterator[Row]:
        try:
            yield from work(advance)
        except SubjectUnavailable as error:
            yield _skipped_row(name, str(error), required=required)

    return guarded


def _skipped(name: str, reason: str, *, required: bool, claim_id: str = "quant.golden") -> Job:
    return Job(
        name=f"subject {name}",
        tells=[(claim_id, Method.CONFORMANCE)],
        work=lambda advance: [_skipped_row(name, reason, required=required, claim_id=claim_id)],
        subject=name,
    )


def _skipped_row(name: str, reason: str, *, required: bool, claim_id: str = "quant.golden") -> Row:
    outcome = Outcome(verdict=Verdict.SKIPPED, cases=0, detail=reason)
    return Row(claim_id=claim_id, method=Method.CONFORMANCE, outcome=outcome, subject=name, required=required)
