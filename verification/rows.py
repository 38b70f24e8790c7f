"""From outcomes of checks to lines of the result: statements, times, and one line per (id, method, subject)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.result import PASSES, ClaimResult, Finding, Method, Outcome, Verdict, Witness

_WORST_FIRST = (
    Verdict.REFUTED,
    Verdict.UNDECIDED,
    Verdict.SKIPPED,
    Verdict.HELD,
    Verdict.EXHAUSTED,
    Verdict.PROVED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An outcome tied to its claim; `seconds` is the share of the job that made it."""

    claim_id: str
    method: Method
    outcome: Outcome
    subject: str | None = None
    seconds: float = 0.0
    required: bool | None = None
    """None: as the claim says; a tight run makes `padding.attained` required."""
    statement: str | None = None
    """None: as the claim says; otherwise the same claim said for this run's formula."""


_EXISTENTIAL = "padding.attained"
"""A claim that one routing decides: a method that found none does not undo one that did."""


def _rank(result: ClaimResult) -> int:
    if result.id == _EXISTENTIAL and result.verdict in (Verdict.UNDECIDED, Verdict.SKIPPED):
        return len(_WORST_FIRST) + _WORST_FIRST.index(result.verdict)
    return _WORST_FIRST.index(result.verdict)


def claim_results(rows: Iterable[Row]) -> list[ClaimResult]:
    """Return one `ClaimResult` for each (id, method, subject), in the order of `CLAIMS`.

    Rows of the same key are merged: cases and seconds add up, the worst verdict and its witness stand.
    """
    merged: dict[tuple[str, Method, str | None], ClaimResult] = {}
    for row in rows:
        result = _result(row)
        key = (result.id, result.method, result.subject)
        merged[key] = _merge(merged[key], result) if key in merged else result
    order = {claim_id: position for position, claim_id in enumerate(CLAIMS)}
    methods = list(Method)
    return sorted(merged.values(), key=lambda c: (order[c.id], c.subject or "", methods.index(c.method)))


def _result(row: Row) -> ClaimResult:
    claim = CLAIMS[row.claim_id]
    return ClaimResult(
        id=claim.id,
        statement=row.statement or claim.statement,
        method=row.method,
        verdict=row.outcome.verdict,
        required=claim.required if row.required is None else row.required,
        cases=row.outcome.cases,
        seconds=row.seconds,
        detail=row.outcome.detail,
        subject=row.subject,
        finding=row.outcome.finding,
        witness=row.outcome.witness,
    )


def _merge(first: ClaimResult, second: ClaimResult) -> ClaimResult:
    worst, other = sorted((first, second), key=_rank)
    details = [detail for detail in (worst.detail, other.detail) if detail]
    return replace(
        worst,
        required=_required(worst, other),
        cases=first.cases + second.cases,
        seconds=first.seconds + second.seconds,
        detail="; ".join(dict.fromkeys(details)),
        witness=_witness(worst, other),
        finding=_worst_finding(worst.finding, other.finding),
    )


def _required(worst: ClaimResult, other: ClaimResult) -> bool:
    """A fault that only informs is not made to fail the run by a row that passes."""
    if worst.verdict in PASSES or other.verdict not in PASSES:
        return worst.required or other.required
    return worst.required


def _witness(worst: ClaimResult, other: ClaimResult) -> Witness | None:
    if worst.verdict is other.verdict and worst.witness is not None and other.witness is not None:
        return min(worst.witness, other.witness, key=_routed_rows)
    return worst.witness if worst.witness is not None or worst.verdict is Verdict.REFUTED else other.witness


def _routed_rows(witness: Witness) -> float:
    counts = witness.get("tokens_per_expert")
    return sum(counts) if isinstance(counts, list) else float("inf")


def _worst_finding(first: Finding | None, second: Finding | None) -> Finding | None:
    found = [finding for finding in (first, second) if finding is not None]
    return min(found, key=list(Finding).index) if found else None
