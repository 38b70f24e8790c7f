"""Rows of a run become one line for each claim, method and subject."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.result import Finding, Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row, claim_results


def row(
    claim_id: str, verdict: Verdict, *, cases: int = 1, subject: str | None = None, **outcome: object
) -> Row:
    return Row(
        claim_id=claim_id,
        method=Method.FUZZ,
        outcome=Outcome(verdict=verdict, cases=cases, **outcome),  # type: ignore[arg-type]
        subject=subject,
        seconds=1.0,
    )


def bound_witness(*counts: int) -> dict[str, object]:
    return {"kind": "bound", "tokens_per_expert": list(counts)}


def test_rows_of_one_key_add_up_and_the_worst_verdict_stands() -> None:
    rows = [
        row("padding.bound", Verdict.HELD, cases=5, detail="counts"),
        row("padding.bound", Verdict.REFUTED, cases=3, detail="ids", witness=bound_witness(2)),
    ]
    (result,) = claim_results(rows)
    assert (result.verdict, result.cases, result.seconds) == (Verdict.REFUTED, 8, 2.0)
    assert result.witness == bound_witness(2)
    assert result.detail == "ids; counts"


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (Verdict.HELD, Verdict.UNDECIDED, Verdict.UNDECIDED),
        (Verdict.SKIPPED, Verdict.HELD, Verdict.SKIPPED),
        (Verdict.EXHAUSTED, Verdict.HELD, Verdict.HELD),
        (Verdict.PROVED, Verdict.PROVED, Verdict.PROVED),
        (Verdict.UNDECIDED, Verdict.REFUTED, Verdict.REFUTED),
    ],
)
def test_merging_never_makes_a_verdict_better(first: Verdict, second: Verdict, merged: Verdict) -> None:
    for pair in ((first, second), (second, first)):
        (result,) = claim_results([row("padding.bound", verdict) for verdict in pair])
        assert result.verdict is merged


def test_a_search_that_attains_nothing_does_not_undo_one_that_does() -> None:
    for verdicts, merged in (
        ((Verdict.HELD, Verdict.UNDECIDED), Verdict.HELD),
        ((Verdict.REFUTED, Verdict.HELD), Verdict.REFUTED),
        ((Verdict.UNDECIDED, Verdict.REFUTED), Verdict.REFUTED),
    ):
        (result,) = claim_results([row("padding.attained", verdict) for verdict in verdicts])
        assert result.verdict is merged


def test_the_witness_with_the_fewest_routed_rows_is_kept() -> None:
    rows = [row("padding.bound", Verdict.REFUTED, witness=bound_witness(n)) for n in (7, 2, 5)]
    (result,) = claim_results(rows)
    assert result.witness == bound_witness(2)


def test_subjects_and_methods_are_told_apart_in_the_order_of_the_claims() -> None:
    rows = [
        row("quant.golden", Verdict.HELD, subject="b"),
        row("quant.golden", Verdict.HELD, subject="a"),
        row("padding.bound", Verdict.HELD),
    ]
    assert [(c.id, c.subject) for c in claim_results(rows)] == [
        ("padding.bound", None),
        ("quant.golden", "a"),
        ("quant.golden", "b"),
    ]


def test_the_worst_finding_of_merged_rows_stands() -> None:
    rows = [
        row("quant.golden", Verdict.REFUTED, subject="a", finding=finding)
        for finding in (Finding.CONTRACT, Finding.MEMORY)
    ]
    (result,) = claim_results(rows)
    assert result.finding is Finding.MEMORY


def test_required_comes_from_the_claim_unless_the_row_says_otherwise() -> None:
    held = Outcome(verdict=Verdict.HELD, cases=1)
    plain = Row(claim_id="padding.attained", method=Method.FUZZ, outcome=held)
    tight = Row(claim_id="padding.attained", method=Method.SEARCH, outcome=held, required=True)
    assert [c.required for c in claim_results([plain, tight])] == [False, True]


@pytest.mark.parametrize(
    ("informs", "other", "required"),
    [(Verdict.REFUTED, Verdict.HELD, False), (Verdict.REFUTED, Verdict.UNDECIDED, True)],
)
def test_what_informs_is_not_made_to_fail_by_a_row_that_passes(
    informs: Verdict, other: Verdict, required: bool
) -> None:
    mild = replace(row("quant.golden", informs), required=False)
    rows = [mild, replace(row("quant.golden", other), required=True)]
    for order in (rows, rows[::-1]):
        (result,) = claim_results(order)
        assert (result.verdict, result.required) == (Verdict.REFUTED, required)


def test_claim_ids_are_dotted_and_unique() -> None:
    assert all("." in claim_id and claim_id == claim.id for claim_id, claim in CLAIMS.items())
