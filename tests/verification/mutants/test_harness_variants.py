"""The harness weakened: each habit that is left out is missed by the variants that need it, and by no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nvfp4_moe.verification.conformance import quant_check, quant_judge, routing_check
from nvfp4_moe.verification.conformance.call import TURNS
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.mutants.harness_variants import (
    HARNESS_VARIANTS,
    HarnessVariant,
    _first_value,
    _weakened,
    escapes_of,
)
from nvfp4_moe.verification.mutants.judge import judge
from nvfp4_moe.verification.mutants.mutant import Mutant, SubjectMutant
from nvfp4_moe.verification.mutants.wrap import ROUTING, after, around
from nvfp4_moe.verification.result import Verdict

BY_ID = {variant.id: variant for variant in HARNESS_VARIANTS}
CASES = Plan.of(reference_subject(), level=1, seed=0).cases


def test_ids_are_unique() -> None:
    assert len(BY_ID) == len(HARNESS_VARIANTS)


@pytest.mark.parametrize("variant", HARNESS_VARIANTS, ids=lambda variant: variant.id)
def test_each_leaves_something_out_and_not_everything(variant: HarnessVariant) -> None:
    kept = sum(map(variant.keeps_case, CASES))
    assert kept > 0
    padding = {"check": "coverage", "where": {"kind": "row_padding"}}
    outside = {"check": "untouched", "where": {}}
    drops = not variant.keeps_fault(padding) or not variant.keeps_fault(outside)
    assert drops or kept < len(CASES) or variant.runs_otherwise
    assert variant.keeps_fault({"check": "golden", "where": {"kind": "valid"}})


def test_turns_are_changed_and_restored() -> None:
    with _weakened(BY_ID["one_fill"]):
        assert {turn.fill for turn in quant_check.TURNS} == {0}
        assert {turn.index_fill for turn in routing_check.TURNS} == {0}
    with _weakened(BY_ID["nan_poison_alone"]):
        assert len({turn.poison for turn in quant_check.TURNS}) == 1
    assert quant_check.TURNS is routing_check.TURNS is TURNS


def test_values_alone_take_minus_zero_for_zero() -> None:
    ordinary = quant_judge._Buffer.first
    one, other = (torch.tensor([[byte]], dtype=torch.uint8) for byte in (0x85, 0x05))
    every = torch.ones(1, 1, dtype=torch.bool)
    buffer = quant_judge._Buffer("output", [one], [0], other, every, ~every, every)
    assert buffer.first(one, other, every) == (0, 1)
    assert _first_value(buffer, one, other, every) is None
    assert _first_value(buffer, one + 1, other, every) == (0, 1)
    with _weakened(BY_ID["values_not_bytes"]):
        assert quant_judge._Buffer.first is _first_value
    assert quant_judge._Buffer.first is ordinary


def wrong(change: Callable[[Any], None]) -> Mutant:
    return routing_mutant(after(ROUTING, change))


def routing_mutant(factory: Any, *, in_order: bool = False) -> Mutant:
    return Mutant(
        id="test.routing",
        fault_class="H",
        stands_for=("H1",),
        change="a change",
        refuted_by=("routing.golden", "routing.coverage"),
        target=SubjectMutant(factory=factory, base="reference", in_order=in_order),
    )


def escapes(mutant: Mutant, *names: str) -> list[str]:
    found = judge(mutant, device="cpu", seed=0)
    assert found.verdict is Verdict.REFUTED
    assert found.witness is not None
    return escapes_of(mutant, found.witness, seed=0, variants=[BY_ID[name] for name in names])


def test_what_needs_an_id_of_minus_1_escapes_without_it() -> None:
    def change(call: Any) -> None:
        skipped = (call.topk_ids.reshape(-1) < 0).nonzero()
        if len(skipped):
            call.output_permutation[skipped[-1]] += 1

    assert escapes(wrong(change), "no_skipped_slots", "few_experts", "one_fill") == ["no_skipped_slots"]


def test_what_writes_no_zero_escapes_one_fill() -> None:
    def make(right: Callable[[Any], None]) -> Callable[[Any], None]:
        def stale_zero(call: Any) -> None:
            held = call.expert_offsets[0].clone()
            right(call)
            call.expert_offsets[0] = held

        return stale_zero

    found = escapes(routing_mutant(around(ROUTING, make)), "one_fill", "no_skipped_slots")
    assert found == ["one_fill"]


def test_what_an_earlier_call_left_escapes_without_sequences() -> None:
    def make(right: Callable[[Any], None]) -> Callable[[Any], None]:
        first: list[int] = []

        def remembers(call: Any) -> None:
            right(call)
            first.append(int(call.num_experts))
            if call.num_experts != first[0]:
                call.problem_sizes1[0, 0] += 1

        return remembers

    mutant = routing_mutant(around(ROUTING, make), in_order=True)
    assert escapes(mutant, "no_sequences", "one_fill") == ["no_sequences"]
