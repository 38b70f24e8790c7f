"""A run in words: verdicts that promise no more than was checked, in the terminal's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nvfp4_moe.analysis.report import view_run
from nvfp4_moe.analysis.report.run_view import MOST_COUNTEREXAMPLES, Tone, _part
from nvfp4_moe.cli import render
from nvfp4_moe.verification.claims import CLAIMS, Part
from nvfp4_moe.verification.result import ClaimResult, Finding, Result, Verdict

UNTESTED = "No foreign subject was given: this run says nothing about anybody's kernel."
MINE = {"id": "quant.golden", "subject": "mine"}

CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Tone, str]] = {
    # claims, run, tone, title
    "all hold, own code": (
        [{}],
        {},
        Tone.GOOD,
        "The formula and our own implementations hold; no kernel of yours was tested",
    ),
    "all hold, a subject": ([{}, MINE], {}, Tone.GOOD, "All required claims hold"),
    "one refuted": ([{"verdict": Verdict.REFUTED}], {}, Tone.BAD, "Refuted: 1 required claim does not hold"),
    "two methods refute one": (
        [{"verdict": Verdict.REFUTED}, {"verdict": Verdict.REFUTED}],
        {},
        Tone.BAD,
        "Refuted: 1 required claim does not hold",
    ),
    "refuted, not required": (
        [MINE | {"verdict": Verdict.REFUTED, "required": False}, {}],
        {},
        Tone.GOOD,
        "All required claims hold",
    ),
    "undecided": (
        [{}, {"verdict": Verdict.UNDECIDED}],
        {},
        Tone.OPEN,
        "Undecided: 1 required check could not be decided or run",
    ),
    "skipped": (
        [{}, MINE | {"verdict": Verdict.SKIPPED}],
        {},
        Tone.OPEN,
        "Undecided: 1 required check could not be decided or run",
    ),
    "known finding gone": (
        [{"expected": "known"}],
        {},
        Tone.BAD,
        "Unexpected pass: a finding that is listed as known was found no longer",
    ),
    "nothing checked": ([], {}, Tone.OPEN, "Nothing was decided by this run"),
    "only a skip that is not required": (
        [{"verdict": Verdict.SKIPPED, "required": False}],
        {},
        Tone.OPEN,
        "Nothing was decided by this run",
    ),
    "interrupted": ([{}], {"interrupted": True}, Tone.OPEN, "Interrupted: what was finished holds"),
}


@pytest.mark.parametrize(("claims", "changes", "tone", "title"), CASES.values(), ids=CASES)
def test_headline(
    claims: list[dict[str, Any]],
    changes: dict[str, Any],
    tone: Tone,
    title: str,
    claim: Callable[..., ClaimResult],
    run_of: Callable[..., Result],
) -> None:
    view = view_run(run_of(*(claim(**fields) for fields in claims), **changes))
    assert (view.headline.tone, view.headline.title) == (tone, title)
    foreign = MINE["subject"] in [fields.get("subject") for fields in claims]
    assert (UNTESTED in view.headline.sentences) is not foreign
    assert (view.headline.tone is Tone.GOOD) <= (view.result.exit_code == 0)


def test_a_known_finding_is_counted(claim: Callable[..., ClaimResult], run_of: Callable[..., Result]) -> None:
    view = view_run(run_of(claim(), claim(**MINE, verdict=Verdict.REFUTED, expected="since May")))
    assert view.headline.title == "All required claims hold"
    assert view.headline.sentences == ("1 refuted claim listed as known, which fails nothing.",)


def test_parts_are_the_terminals(claim: Callable[..., ClaimResult]) -> None:
    subjects = (None, "reference", "host", "cuda", "mine", "host (./host.py)")
    claims = [claim(id=claim_id, subject=subject) for claim_id in CLAIMS for subject in subjects]
    assert [_part(one) for one in claims] == [render._part(one) for one in claims]


def test_an_unknown_claim_is_shown_with_our_own(claim: Callable[..., ClaimResult]) -> None:
    assert _part(claim(id="new.claim")) is Part.OWN


def test_parts_of_a_refuted_run(refuted_run: Result) -> None:
    view = view_run(refuted_run, bound="proposed")
    assert [(part.title, part.summary) for part in view.parts] == [
        ("Subjects under test", "Of 1 check: 1 refuted (worst finding: bytes)."),
        ("Formula proposed", "Of 2 checks: 1 refuted, 1 hold."),
        ("Our own implementations", "Of 1 check: 1 hold."),
    ]
    assert [(subject.name, subject.own) for subject in view.subjects] == [
        ("mine:WRONG", False),
        ("reference", True),
    ]
    assert view.subjects[0].findings(Finding.BYTES) == 1
    assert view.subjects[0].findings(Finding.MEMORY) == 0
    assert view.counts == {"PROVED": 1, "HELD": 1, "REFUTED": 2}


def test_without_a_subject_the_first_part_says_so(
    claim: Callable[..., ClaimResult], run_of: Callable[..., Result]
) -> None:
    view = view_run(run_of(claim()))
    assert view.parts[0].summary == "None was given."
    assert UNTESTED in view.headline.sentences


def test_refuted_claims_of_a_subject_stand_worst_first(
    claim: Callable[..., ClaimResult], run_of: Callable[..., Result]
) -> None:
    findings = (Finding.ADVISORY, Finding.MEMORY, Finding.BYTES)
    run = run_of(*(claim(**MINE, verdict=Verdict.REFUTED, finding=finding) for finding in findings))
    assert [one.finding for one in view_run(run).subjects[0].refuted] == [
        Finding.MEMORY,
        Finding.BYTES,
        Finding.ADVISORY,
    ]


def test_many_counterexamples_are_counted(
    claim: Callable[..., ClaimResult], run_of: Callable[..., Result]
) -> None:
    run = run_of(*[claim(verdict=Verdict.REFUTED, witness={"kind": "bound"})] * (MOST_COUNTEREXAMPLES + 2))
    view = view_run(run)
    assert (len(view.counterexamples), view.left_out) == (MOST_COUNTEREXAMPLES, 2)


def test_json(refuted_run: Result) -> None:
    document = view_run(refuted_run).to_json()
    assert document["exit_code"] == 1
    assert document["foreign_subject"] is True
    assert document["verdict"] == "Refuted: 2 required claims do not hold"
