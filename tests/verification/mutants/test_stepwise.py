"""Quantizers and a GEMM made of steps: right as they are, so that a variant differs by its one step alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from nvfp4_moe.reference.recipes import VLLM
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.plan import Case, Plan, aspect_of
from nvfp4_moe.verification.conformance.refusal_check import RefusalCase
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.worker import answer, arena_for
from nvfp4_moe.verification.mutants.mutant import SubjectMutant
from nvfp4_moe.verification.mutants.recipe_parts import unless_scale_zero, with_step
from nvfp4_moe.verification.mutants.stepwise import Steps, right_steps, steps_with_state, target_of
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, wrong_gemm
from nvfp4_moe.verification.mutants.wrap import QUANT, before

MOST_ELEMENTS = 60_000


@pytest.fixture(autouse=True)
def _keep_torch_defaults() -> object:
    """`answer` runs here as it does in a child."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def faults_of(subject: Subject, cases: list[Case]) -> list[str]:
    """Return what is found, or refused against the contract, in the given cases."""
    arena, found = arena_for("cpu"), []
    for case in cases:
        told = answer(subject, case, arena)
        if told.get("faults") or told.get("raised") or told.get("legal") is False:
            found.append(f"{case}: {told}")
    return found


def sample(subject: Subject, *, step: int) -> list[Case]:
    """Return every so many of the small cases, and all laws and refusals."""
    cases = Plan.of(subject, level=1, seed=0).cases
    small = [c for c in cases if aspect_of(c) != "bytes" or c.elements <= MOST_ELEMENTS]  # type: ignore[union-attr]
    kinds = [case for case in small if aspect_of(case) != "bytes"]
    return [*[case for case in small if aspect_of(case) == "bytes"][::step], *kinds]


def test_right_steps_pass() -> None:
    subject = right_steps()
    cases = sample(subject, step=13)
    assert sum(isinstance(case, RefusalCase) for case in cases) == 30
    assert len(cases) > 120
    assert faults_of(subject, cases) == []


def test_the_right_gemm_of_steps_passes() -> None:
    subject = wrong_gemm(GemmSteps).factory(reference_subject())
    cases = sample(subject, step=5)
    assert len(cases) > 40
    assert faults_of(subject, cases) == []


@pytest.mark.parametrize(
    ("steps", "check"),
    [
        (Steps(pack=lambda codes: codes[:, 1::2] | codes[:, 0::2] << 4), "golden"),
        (Steps(padding=0x38), "golden"),
        (Steps(recipe=with_step("block_scale", lambda v, ops: v["scale"].to(torch.uint8))), "golden"),
    ],
)
def test_one_wrong_step_is_seen(steps: Steps, check: str) -> None:
    subject = target_of(steps).factory(reference_subject())
    (case,) = [case for case in Plan.of(subject, level=1, seed=0).cases if case.to_json().get("index") == 0][
        :1
    ]
    told = answer(subject, case, arena_for("cpu"))
    assert [fault["check"] for fault in told["faults"]][:1] == [check]


def test_state_begins_anew_with_each_subject() -> None:
    made: list[Steps] = []

    def make() -> Steps:
        made.append(Steps())
        return made[-1]

    target = steps_with_state(make)
    assert target.in_order
    assert [target.factory(reference_subject()).name for _ in range(2)] == ["stepwise"] * 2
    assert len(made) == 2


def test_targets() -> None:
    whole = SubjectMutant(factory=lambda right: right)
    assert target_of(whole) is whole
    change = before(QUANT, lambda call: replace(call))
    assert target_of(change).factory is change
    assert target_of(Steps()).base == "reference"


def test_a_recipe_keeps_its_other_steps() -> None:
    changed = with_step("multiplier", unless_scale_zero(lambda v, ops: v["decoded_scale"]))
    assert [step.writes for step in changed.steps] == [step.writes for step in VLLM.steps]
    assert changed.steps[:-1] == VLLM.steps[:-1]
    with pytest.raises(ValueError, match="has no step 'scales'"):
        with_step("scales", lambda v, ops: v["scale"])


def test_the_guard_of_the_multiplier_stays() -> None:
    decoded = torch.tensor([0.0, 2.0])
    compute: Callable[..., torch.Tensor] = unless_scale_zero(lambda v, ops: torch.full((2,), torch.inf))
    assert compute({"decoded_scale": decoded}, None).tolist() == [0.0, torch.inf]
