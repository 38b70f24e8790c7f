"""A run of `verify` in words: its verdict, the three parts of its table, what each subject did, how to see it again.

The order is that of the terminal: the reader's own subjects, the formula, our own implementations. A run without a
subject that is not ours says so first and is never worded as a pass of anybody's kernel. Texts are as they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from nvfp4_moe.analysis.report.counterexamples import Counterexample, SpecsOf, counterexample_of
from nvfp4_moe.verification.claims import CLAIMS, Part
from nvfp4_moe.verification.conformance.subject import OWN_SUBJECTS
from nvfp4_moe.verification.result import EXIT_OK, PASSES, ClaimResult, Finding, Result, Verdict

OPEN = (Verdict.UNDECIDED, Verdict.SKIPPED)
MOST_COUNTEREXAMPLES = 50
"""Counterexamples that a page shows in full; the others are in the JSON."""


class Tone(StrEnum):
    """What a verdict amounts to."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"
    NONE = "none"
    """Nothing was judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The verdict of a run."""

    tone: Tone
    title: str
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One part of the table."""

    part: Part
    title: str
    summary: str
    claims: tuple[ClaimResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectView:
    """Conformance of one subject."""

    name: str
    own: bool
    claims: tuple[ClaimResult, ...]

    @property
    def refuted(self) -> list[ClaimResult]:
        """Return its refuted claims, the worst class first."""
        found = [claim for claim in self.claims if claim.verdict is Verdict.REFUTED]
        return sorted(found, key=lambda claim: _severity(claim.finding))

    def findings(self, finding: Finding) -> int:
        """Return how many of its claims are refuted by a finding of the class."""
        return sum(claim.finding is finding for claim in self.refuted)

    def count(self, *verdicts: Verdict) -> int:
        """Return how many of its claims have one of the verdicts."""
        return sum(claim.verdict in verdicts for claim in self.claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A whole run."""

    result: Result
    foreign: bool
    headline: Headline
    parts: tuple[PartView, ...]
    subjects: tuple[SubjectView, ...]
    counterexamples: tuple[Counterexample, ...]
    left_out: int
    """Counterexamples beyond `MOST_COUNTEREXAMPLES`."""
    notes: tuple[str, ...] = field(default=())

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of claims of each verdict that occurs."""
        found = {str(verdict): sum(c.verdict is verdict for c in self.result.claims) for verdict in Verdict}
        return {verdict: number for verdict, number in found.items() if number}

    def to_json(self) -> dict[str, Any]:
        """Return the verdict for programs; the run itself is verify.json."""
        return {
            "tone": str(self.headline.tone),
            "verdict": self.headline.title,
            "foreign_subject": self.foreign,
            "exit_code": self.result.exit_code,
            "counts": self.counts,
            "parts": {str(view.part): view.summary for view in self.parts},
            "replay": [
                {"claim": example.claim.id, "command": example.command} for example in self.counterexamples
            ],
        }


def view_run(
    result: Result,
    *,
    bound: str | None = None,
    foreign: bool | None = None,
    saved: Mapping[int, Path] | None = None,
    run_file: Path | None = None,
    specs: SpecsOf | None = None,
    notes: Sequence[str] = (),
) -> RunView:
    """Return a run in words.

    Args:
        result: the run.
        bound: what `--bound` was; None: not known.
        foreign: whether a subject was given that is not ours; None: as the claims' subjects say.
        saved: files of saved counterexamples, by the place of their claim in the run.
        run_file: JSON of the run, which `replay` takes where no file was saved.
        specs: what each subject was given by, see `counterexamples.SpecsOf`.
        notes: lines of the run beside its claims.
    """
    if foreign is None:
        foreign = any(_part(claim) is Part.SUBJECTS for claim in result.claims)
    refuted = [
        (place, claim)
        for place, claim in enumerate(result.claims)
        if claim.verdict is Verdict.REFUTED and claim.witness is not None
    ]
    files = saved or {}
    shown = refuted[:MOST_COUNTEREXAMPLES]
    return RunView(
        result=result,
        foreign=foreign,
        headline=_headline(result, foreign),
        parts=tuple(_parts(result, bound, foreign)),
        subjects=tuple(_subjects(result)),
        counterexamples=tuple(
            counterexample_of(claim, file=files.get(place, run_file), specs=specs or {})
            for place, claim in shown
        ),
        left_out=len(refuted) - len(shown),
        notes=tuple(notes),
    )


def _part(claim: ClaimResult) -> Part:
    if claim.subject is not None:
        return Part.OWN if claim.subject in OWN_SUBJECTS else Part.SUBJECTS
    return CLAIMS[claim.id].part if claim.id in CLAIMS else Part.OWN


def _severity(finding: Finding | None) -> int:
    return list(Finding).index(finding) if finding is not None else len(Finding)


# --- the verdict -------------------------------------------------------------------------------------------


def _headline(result: Result, foreign: bool) -> Headline:
    sentences = [_untested()] if not foreign else []
    if result.interrupted:
        sentences.append("The run was interrupted: what is listed was finished.")
    tone, title = _verdict(result, foreign)
    if known := sum(claim.expected is not None and not claim.fails for claim in result.claims):
        sentences.append(f"{_counted(known, 'refuted claim')} listed as known, which fails nothing.")
    return Headline(tone=tone, title=title, sentences=tuple(sentences))


def _verdict(result: Result, foreign: bool) -> tuple[Tone, str]:
    failing = [claim for claim in result.claims if claim.fails]
    refuted = {claim.id for claim in failing if claim.verdict is Verdict.REFUTED}
    if refuted:
        verb = "does" if len(refuted) == 1 else "do"
        return Tone.BAD, f"Refuted: {_counted(len(refuted), 'required claim')} {verb} not hold"
    if failing:
        return Tone.BAD, "Unexpected pass: a finding that is listed as known was found no longer"
    if not any(claim.verdict in PASSES for claim in result.claims):
        return Tone.OPEN, "Nothing was decided by this run"
    if result.exit_code != EXIT_OK:
        undecided = sum(claim.required and claim.verdict in OPEN for claim in result.claims)
        return Tone.OPEN, f"Undecided: {_counted(undecided, 'required check')} could not be decided or run"
    if result.interrupted:
        return Tone.OPEN, "Interrupted: what was finished holds"
    if not foreign:
        return Tone.GOOD, "The formula and our own implementations hold; no kernel of yours was tested"
    return Tone.GOOD, "All required claims hold"


def _untested() -> str:
    return "No foreign subject was given: this run says nothing about anybody's kernel."


def _parts(result: Result, bound: str | None, foreign: bool) -> list[PartView]:
    titles = {
        Part.SUBJECTS: "Subjects under test",
        Part.FORMULA: "The formula" if bound is None else f"Formula {bound}",
        Part.OWN: "Our own implementations",
    }
    found = []
    for part, title in titles.items():
        claims = tuple(claim for claim in result.claims if _part(claim) is part)
        none = (
            "None was given."
            if part is Part.SUBJECTS and not foreign
            else "No claim of this part was checked."
        )
        summary = _summary(claims) if claims else none
        found.append(PartView(part=part, title=title, summary=summary, claims=claims))
    return found


def _summary(claims: Sequence[ClaimResult]) -> str:
    """Return what became of the claims, bad things first."""
    refuted = [claim for claim in claims if claim.verdict is Verdict.REFUTED]
    failing = [claim for claim in refuted if claim.fails]
    said = []
    if failing:
        worst = min((claim.finding for claim in failing), key=_severity)
        said.append(f"{len(failing)} refuted" + (f" (worst finding: {worst})" if worst else ""))
    if others := len(refuted) - len(failing):
        said.append(f"{others} refuted, which fails nothing")
    if undecided := sum(claim.verdict in OPEN for claim in claims):
        said.append(f"{undecided} undecided or skipped")
    if held := sum(claim.verdict in PASSES for claim in claims):
        said.append(f"{held} hold")
    return f"Of {_counted(len(claims), 'check')}: {', '.join(said)}."


def _subjects(result: Result) -> list[SubjectView]:
    by_name: dict[str, list[ClaimResult]] = {}
    for claim in result.claims:
        if claim.subject is not None:
            by_name.setdefault(claim.subject, []).append(claim)
    views = [
        SubjectView(name=name, own=name in OWN_SUBJECTS, claims=tuple(claims))
        for name, claims in by_name.items()
    ]
    return sorted(views, key=lambda view: view.own)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
