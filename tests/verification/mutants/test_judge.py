"""Verdicts: what refutes a variant, what does not, and that right code survives every judgement."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.conformance.worker import arena_for
from nvfp4_moe.verification.expressions import formula_bound, parse_bound
from nvfp4_moe.verification.mutants import judge as module
from nvfp4_moe.verification.mutants.judge import Judged, judge, subject_of
from nvfp4_moe.verification.mutants.mutant import (
    BoundMutant,
    CheckMutant,
    ModelMutant,
    Mutant,
    RightSubject,
    SubjectMutant,
    Target,
)
from nvfp4_moe.verification.mutants.wrap import QUANT, ROUTING, SWIZZLE, after, around, flip, returning
from nvfp4_moe.verification.result import Outcome, Verdict


def variant(target: Target, *claims: str, devices: tuple[str, ...] = ("cpu",)) -> Mutant:
    return Mutant(
        id="test.variant",
        fault_class="A",
        stands_for=("A1",),
        change="a change",
        refuted_by=claims,
        target=target,
        devices=devices,
    )


def wrong(factory: Callable[[Subject], Subject], **options: Any) -> SubjectMutant:
    return SubjectMutant(factory=factory, base="reference", **options)


def judged(target: Target, *claims: str) -> Judged:
    return judge(variant(target, *claims), device="cpu", seed=0)


# --- subjects -----------------------------------------------------------------------------------------------------


def flip_one(call: Any) -> None:
    if call.routed_rows:
        flip(call.output, 0, 0)


def test_a_wrong_byte_is_refuted_by_the_smallest_case() -> None:
    found = judged(wrong(after(QUANT, flip_one)), "quant.golden")
    assert (found.verdict, found.check) == (Verdict.REFUTED, "quant.golden")
    assert found.witness is not None
    assert found.witness["case"]["k"] * sum(found.witness["case"]["tokens_per_expert"]) == 16
    assert found.seconds > 0
    assert Judged.from_json(found.to_json()) == replace(found, seconds=round(found.seconds, 3))


def test_a_finding_of_another_claim_is_no_refutation() -> None:
    found = judged(wrong(returning(SWIZZLE, lambda right: lambda linear: right(linear) ^ 1)), "swizzle.guard")
    assert found.verdict is Verdict.HELD
    assert found.check is None
    assert found.detail.startswith("not refuted by swizzle.guard, but swizzle.golden: ")


def raises(linear: torch.Tensor) -> None:
    raise IndexError("a mistake in the variant itself")


def refuses(linear: torch.Tensor) -> None:
    raise ValueError("too many columns")


def dies(linear: torch.Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize("fault", [raises, refuses, dies])
def test_a_death_refutes_those_whose_fault_it_is_alone(fault: Callable[[torch.Tensor], None]) -> None:
    def make(right: Callable[..., torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        def swizzle(linear: torch.Tensor) -> torch.Tensor:
            if linear.shape[-1] > 100:
                fault(linear)
            return right(linear)

        return swizzle

    claims = ("swizzle.golden", "swizzle.guard")
    factory = returning(SWIZZLE, make)
    held = judged(wrong(factory), *claims)
    assert held.verdict is Verdict.HELD
    assert ", but swizzle." in held.detail
    assert judged(wrong(factory, dies=True), *claims).verdict is Verdict.REFUTED


def second_call(right: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrong in any call behind one with many more ids."""
    most = [0]

    def wrong_call(call: Any) -> None:
        right(call)
        slots = call.topk_ids.numel()
        if 0 < slots < 64 and most[0] > 4096:
            flip(call.output_permutation, 0)
        most[0] = max(most[0], slots)

    return wrong_call


def test_what_depends_on_earlier_calls_is_judged_in_order() -> None:
    """Smallest first, no larger call comes before a smaller one."""
    factory = around(ROUTING, second_call)
    assert judged(wrong(factory), "routing.golden").verdict is Verdict.HELD
    found = judged(wrong(factory, in_order=True), "routing.golden")
    assert found.verdict is Verdict.REFUTED
    assert found.witness is not None
    assert found.witness["before"]


def unavailable(right: Subject) -> Subject:
    raise SubjectUnavailable("no compiler")


def test_what_cannot_run_here_is_skipped() -> None:
    found = judged(wrong(unavailable), "quant.golden")
    assert (found.verdict, found.detail) == (Verdict.SKIPPED, "no compiler")
    on_gpu = variant(wrong(unavailable), "quant.golden", devices=("cuda",))
    assert judge(on_gpu, device="cpu", seed=0).detail == "it runs on cuda alone"


def test_a_bound_is_no_subject() -> None:
    with pytest.raises(TypeError, match="is no subject"):
        subject_of(variant(BoundMutant(bound=parse_bound("1")), "padding.bound"), "cpu")


def test_a_process_that_keeps_its_memory_finds_what_a_child_does() -> None:
    """As on a GPU, where a child for each variant would take seconds to start."""
    mutant = variant(wrong(after(QUANT, flip_one)), "quant.golden")
    subject = subject_of(mutant, "cpu")
    cases = Plan.of(subject, level=module.LEVEL, seed=0).cases
    reports = module._reports_here(subject, cases, arena_for("cpu"), in_order=False)
    first = next(report for report in reports if report.faults)
    found = judge(mutant, device="cpu", seed=0)
    assert found.witness is not None
    assert first.number == found.witness["number"]
    assert next(module.faults_of(cases, first))[0] == "quant.golden"


# --- right implementations ----------------------------------------------------------------------------------------


def right(factory: Callable[[Subject], Subject]) -> Judged:
    entry = RightSubject(id="test.right", change="nothing", target=wrong(factory))
    return judge(entry, device="cpu", seed=0)


def test_a_right_subject_runs_every_case_and_passes() -> None:
    found = right(returning(SWIZZLE, lambda swizzle: lambda linear: swizzle(linear).clone()))
    assert (found.verdict, found.check) == (Verdict.HELD, None)
    assert found.cases > 50


def test_a_false_alarm_is_told_with_its_finding() -> None:
    found = right(returning(SWIZZLE, lambda swizzle: lambda linear: swizzle(linear) ^ 1))
    assert (found.verdict, found.check) == (Verdict.REFUTED, "swizzle.golden")
    assert found.witness is not None


# --- bounds, models, checks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", ["padding.bound", "padding.attained"])
def test_the_exact_bound_survives(claim: str) -> None:
    bound = formula_bound(FORMULAS["exact_any"])
    assert judged(BoundMutant(bound=bound, tight=True), claim).verdict is Verdict.HELD


def test_a_short_bound_is_not_taken_for_a_loose_one() -> None:
    target = BoundMutant(bound=parse_bound("max_num_batched_tokens * topk"), tight=True)
    found = judged(target, "padding.attained")
    assert found.verdict is Verdict.HELD
    assert found.detail.startswith("not loose but short: ")
    assert judged(target, "padding.bound").verdict is Verdict.REFUTED


def test_a_written_bound_is_proved_or_refuted_for_sizes_on_no_grid() -> None:
    right = BoundMutant(bound=parse_bound("max_num_batched_tokens * topk + (tile - 1) * num_experts"))
    assert judged(right, "padding.bound.written").verdict is Verdict.HELD
    wrong_bound = BoundMutant(bound=formula_bound(FORMULAS["proposed"]))
    with pytest.raises(ValueError, match="proposed is no expression"):
        judged(wrong_bound, "padding.bound.written")


def test_the_golden_model_itself_survives() -> None:
    found = judged(ModelMutant(factory=lambda model: model), "quant.layout", "cast.e2m1")
    assert found.verdict is Verdict.HELD
    assert found.cases > 400_000


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome(verdict=Verdict.PROVED, cases=2), Verdict.HELD),
        (Outcome(verdict=Verdict.REFUTED, cases=2, witness={"kind": "index"}), Verdict.REFUTED),
        (Outcome(verdict=Verdict.UNDECIDED, cases=2), Verdict.UNDECIDED),
        (Outcome(verdict=Verdict.SKIPPED, cases=0), Verdict.SKIPPED),
    ],
)
def test_a_check_gives_its_verdict(outcome: Outcome, verdict: Verdict) -> None:
    found = judged(CheckMutant(check=lambda seed: outcome), "index.no_wrap")
    assert (found.verdict, found.cases) == (verdict, outcome.cases)


def test_the_seed_reaches_the_check() -> None:
    seen: list[int] = []

    def check(seed: int) -> Outcome:
        seen.append(seed)
        return Outcome(verdict=Verdict.HELD, cases=1)

    judge(variant(CheckMutant(check=check), "index.no_wrap"), device="cpu", seed=7)
    assert seen == [7]
    assert module.LEVEL == 1
