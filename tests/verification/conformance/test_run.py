"""From case reports to rows: verdicts, classes, witnesses, and the sequence of calls that a fault needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.plan import Plan, case_from_json
from nvfp4_moe.verification.conformance.run import conform, conformance_claims
from nvfp4_moe.verification.conformance.sequence import shortest_sequence
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.supervisor import CaseReport, Limits, run_cases
from nvfp4_moe.verification.result import Finding, Verdict
from nvfp4_moe.verification.rows import Row

RIGHT = reference_subject().operations
QUICK = Limits(case_seconds=5, first_case_seconds=5, crashes=2)


def rows_of(subject: Subject, **options: Any) -> dict[str, Row]:
    found = conform(subject, level=1, seed=0, limits=QUICK, **options)
    return {row.claim_id: row for row in found}


def refuse(*tensors: Tensor) -> None:
    raise NotImplementedError("not on this machine")


def shuffling(shuffle_rows: Callable[[Tensor, Tensor], Tensor], **more: Any) -> Subject:
    return Subject("shuffling", "cpu", shuffle_rows=shuffle_rows, **more)


def test_right_operations_hold_and_others_are_named() -> None:
    subject = shuffling(RIGHT["shuffle_rows"], swizzle=RIGHT["swizzle"])
    rows = rows_of(subject)
    assert [(claim, row.method) for claim, row in rows.items()] == conformance_claims(subject)
    assert {row.outcome.verdict for row in rows.values()} == {Verdict.HELD}
    assert all(
        row.outcome.cases > 50 and row.subject == "shuffling" and row.required for row in rows.values()
    )
    assert rows["shuffle.golden"].outcome.detail == ""
    assert "writes outside them cannot be seen" in rows["shuffle.guard"].outcome.detail


@pytest.mark.parametrize(
    ("subject", "claims"),
    [
        (
            Subject("gemm", contract=Contract(k_multiple=32768), cutlass_fp4_moe_mm=refuse),
            [f"gemm.{check}" for check in ("golden", "coverage", "guard", "poison", "laws")],
        ),
        (
            Subject("layer", contract=Contract(recipe="tensorrt_llm"), run_cutlass_moe_fp4=refuse),
            [f"layer.{check}" for check in ("golden", "coverage", "guard", "poison", "laws")],
        ),
        (
            Subject("masked", contract=Contract(k_multiple=32768), scaled_fp4_masked_quant=print),
            [f"masked_quant.{check}" for check in ("golden", "coverage", "guard", "poison")],
        ),
        (
            Subject("wide", contract=Contract(k_multiple=32768), scaled_fp4_experts_quant=refuse),
            [f"quant.{check}" for check in ("golden", "coverage", "guard", "poison", "laws")],
        ),
    ],
)
def test_what_no_case_tells_is_skipped_and_required(subject: Subject, claims: list[str]) -> None:
    rows = rows_of(subject)
    assert list(rows)[: len(claims)] == claims
    for claim in claims:
        assert (rows[claim].outcome.verdict, rows[claim].required) == (Verdict.SKIPPED, True)
        assert rows[claim].outcome.detail


SIZE = len(Plan.of(shuffling(RIGHT["shuffle_rows"]), level=1, seed=0).cases)


def off_by_one(input: Tensor, map: Tensor) -> Tensor:
    out = RIGHT["shuffle_rows"](input, map)
    if len(map) >= 16:
        out.view(torch.uint8)[-1, -1] ^= 1
    return out  # type: ignore[no-any-return]


def test_a_refuted_claim_has_the_smallest_case_as_its_witness() -> None:
    outcome = rows_of(shuffling(off_by_one))["shuffle.golden"].outcome
    assert (outcome.verdict, outcome.finding) == (Verdict.REFUTED, Finding.BYTES)
    assert outcome.witness is not None
    assert outcome.witness["kind"] == "subject"
    assert "before" not in outcome.witness
    case = case_from_json(outcome.witness["case"])
    assert case.mapped_rows == 16  # type: ignore[union-attr]
    assert outcome.witness["where"]["row"] == 15
    assert f" of {SIZE} cases: shuffle_rows: row 15" in outcome.detail


def test_the_mildest_failing_class_says_what_is_required() -> None:
    for fail_on, required in ((Finding.MEMORY, False), (Finding.BYTES, True), (Finding.CONTRACT, True)):
        row = rows_of(shuffling(off_by_one), fail_on=fail_on)["shuffle.golden"]
        assert row.required is required


def refuses(input: Tensor, map: Tensor) -> Tensor:
    raise NotImplementedError("not on this machine")


def test_a_claim_without_an_accepted_case_is_skipped() -> None:
    rows = rows_of(shuffling(refuses))
    golden = rows["shuffle.golden"].outcome
    assert (golden.verdict, golden.finding) == (Verdict.REFUTED, Finding.CONTRACT)
    assert "refused inside its domain: NotImplementedError: not on this machine" in golden.detail
    for claim in ("shuffle.coverage", "shuffle.guard"):
        assert rows[claim].outcome.verdict is Verdict.SKIPPED
        assert f"no case was accepted; {SIZE} refused" in rows[claim].outcome.detail


def picky(input: Tensor, map: Tensor) -> Tensor:
    if len(map) > 3:
        raise ValueError("too many rows")
    return RIGHT["shuffle_rows"](input, map)  # type: ignore[no-any-return]


def test_most_of_the_domain_refused_is_no_claim_held() -> None:
    rows = rows_of(shuffling(picky), fail_on=Finding.BYTES)
    assert not rows["shuffle.golden"].required
    for claim in ("shuffle.coverage", "shuffle.guard"):
        outcome = rows[claim].outcome
        assert (outcome.verdict, rows[claim].required) == (Verdict.SKIPPED, True)
        assert 0 < outcome.cases < SIZE / 2
        assert "most of the domain was refused" in outcome.detail


def crashes(input: Tensor, map: Tensor) -> Tensor:
    import os

    os._exit(9)


def test_operations_that_keep_crashing_are_given_up_alone() -> None:
    rows = rows_of(shuffling(crashes, swizzle=RIGHT["swizzle"]))
    guard = rows["shuffle.guard"].outcome
    assert (guard.verdict, guard.finding) == (Verdict.REFUTED, Finding.MEMORY)
    assert "exit code 9" in guard.detail
    golden = rows["shuffle.golden"].outcome
    assert golden.verdict is Verdict.UNDECIDED
    assert "given up after 2 crashes" in golden.detail
    assert rows["swizzle.golden"].outcome.verdict is Verdict.HELD


# --- sequences ---------------------------------------------------------------------------------------------


class Stateful:
    """Right, until it has seen wide rows and then a map of three rows: a workspace that is kept."""

    def __init__(self) -> None:
        self.seen_wide = False

    def shuffle_rows(self, input: Tensor, map: Tensor) -> Tensor:
        self.seen_wide |= input.shape[1] == 2880
        out = RIGHT["shuffle_rows"](input, map)
        if self.seen_wide and len(map) == 3:
            out.view(torch.uint8)[0, 0] ^= 1
        return out  # type: ignore[no-any-return]


def stateful() -> Subject:
    return shuffling(Stateful().shuffle_rows)


def test_the_calls_that_a_fault_needs_are_cut_down_to_one() -> None:
    subject = stateful()
    cases = Plan.of(subject, level=1, seed=0).cases
    reports = list(run_cases(subject, range(SIZE), level=1, seed=0, lanes=1))
    first = next(report for report in reports if report.faults)
    assert len(first.before) >= 6
    found = shortest_sequence(subject, first, level=1, seed=0, limits=QUICK)
    assert len(found.before) == 1
    assert cases[found.before[0]].columns == 2880  # type: ignore[union-attr]
    assert found.remark == "only after 1 earlier call"


def test_the_sequence_is_in_the_witness() -> None:
    outcome = rows_of(stateful())["shuffle.golden"].outcome
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.witness is not None
    (before,) = outcome.witness["before"]
    assert before["columns"] == 2880
    assert "only after 1 earlier call" in outcome.detail


def test_a_case_that_fails_alone_needs_nothing() -> None:
    subject = shuffling(off_by_one)
    reports = run_cases(subject, range(SIZE), level=1, seed=0, lanes=1)
    last = [report for report in reports if report.faults][-1]
    assert last.before
    assert shortest_sequence(subject, last, level=1, seed=0, limits=QUICK).before == ()


def test_a_fault_that_does_not_come_back_is_told_so() -> None:
    subject = shuffling(RIGHT["shuffle_rows"])
    report = CaseReport(
        5, faults=({"check": "golden", "finding": "bytes", "text": "", "where": {}},), before=(1, 2)
    )
    assert (
        shortest_sequence(subject, report, level=1, seed=0, limits=QUICK).remark
        == "the case passed when it ran again"
    )


def test_the_number_of_trials_is_bounded() -> None:
    subject = stateful()
    report = next(r for r in run_cases(subject, range(SIZE), level=1, seed=0, lanes=1) if r.faults)
    found = shortest_sequence(subject, report, level=1, seed=0, limits=QUICK, most_trials=3)
    assert 1 <= len(found.before) < len(report.before)


# --- aspects -----------------------------------------------------------------------------------------------


def test_claims_follow_the_operations() -> None:
    quantizer = Subject("q", "cpu", scaled_fp4_experts_quant=print)
    assert {claim for claim, _ in conformance_claims(quantizer)} == {
        f"quant.{check}" for check in ("golden", "coverage", "guard", "poison", "laws", "refusal")
    }


def test_missing_refusals_go_to_their_claim(planted: Any) -> None:
    """A quantizer that never raises: bytes right wherever legal, all refusals missing."""

    def wrap(operation: Any) -> Any:
        def lax(*tensors: Tensor) -> None:
            try:
                operation(*tensors)
            except (TypeError, ValueError, RuntimeError):
                return

        return lax

    contract = Contract(arithmetic="ieee", max_experts=4, k_multiple=256, strided="honoured")
    subject = planted("scaled_fp4_experts_quant", wrap, contract)
    rows = {
        row.claim_id: row for row in conform(subject, level=1, seed=0, limits=replace(QUICK, case_seconds=30))
    }
    refusal = rows["quant.refusal"].outcome
    assert (refusal.verdict, refusal.finding) == (Verdict.REFUTED, Finding.CONTRACT)
    assert refusal.witness is not None
    assert refusal.witness["case"]["kind"] == "refusal"
    assert rows["quant.golden"].outcome.verdict is Verdict.HELD
