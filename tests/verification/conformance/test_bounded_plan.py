"""GEMM and layer as operations of the harness: cases by JSON, claims of a run, comparison of exact cases."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from nvfp4_moe.verification.against import common_cases
from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.conformance import bounded_plan
from nvfp4_moe.verification.conformance.bounded_plan import (
    BOUNDED_PREFIXES,
    BoundedCase,
    bounded_aspect,
    bounded_cases,
    bounded_elements,
)
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.gemm_cases import GemmCase
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.plan import case_from_json, claims_of
from nvfp4_moe.verification.conformance.run import conform
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.result import Finding, Verdict
from nvfp4_moe.verification.subject_outputs import answer
from nvfp4_moe.verification.task_messages import Card

GEMM, LAYER = BOUNDED_PREFIXES
RIGHT = reference_subject()
IEEE = Contract(arithmetic="ieee")


def cases(operation: str) -> list[BoundedCase]:
    return list(bounded_cases(operation, IEEE, level=1, seed=0))


@pytest.mark.parametrize("operation", BOUNDED_PREFIXES)
def test_cases_survive_json_and_are_told_apart(operation: str) -> None:
    found = cases(operation)
    assert [case_from_json(case.to_json()) for case in found] == found
    assert len({str(case.to_json()) for case in found}) == len(found)
    assert {f"{BOUNDED_PREFIXES[operation]}.{bounded_aspect(case)}" for case in found} - set(CLAIMS) == {
        f"{BOUNDED_PREFIXES[operation]}.bytes"
    }
    assert all(bounded_elements(case) >= 0 for case in found)


@pytest.mark.parametrize(
    "entry", [{"kind": "gemm"}, {"kind": "layer", "tokens": 3}, {"kind": "gemm_law", "law": "rows"}]
)
def test_what_is_no_case_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a case"):
        case_from_json(entry)


def test_every_claim_of_an_operation_is_listed() -> None:
    assert claims_of(GEMM) == [
        f"gemm.{c}" for c in ("golden", "coverage", "guard", "poison", "laws", "refusal")
    ]
    assert claims_of(LAYER) == [f"layer.{c}" for c in ("golden", "coverage", "guard", "poison", "laws")]
    assert {*claims_of(GEMM), *claims_of(LAYER)} <= set(CLAIMS)


def few(operation: str, contract: Contract, *, level: int, seed: int) -> Any:
    """Some small cases of an operation, and all of its laws and refusals."""
    found = list(bounded_cases(operation, contract, level=level, seed=seed))
    small = [case for case in found if bounded_aspect(case) == "bytes" and bounded_elements(case) < 20_000]
    return iter(small[::3] + [case for case in found if bounded_aspect(case) != "bytes"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvfp4_moe.verification.conformance.plan.bounded_cases", few)


@pytest.mark.usefixtures("small")
def test_a_run_tells_each_claim() -> None:
    off = RIGHT.operations[GEMM]

    def doubled(
        out: Tensor, a: Tensor, b: Tensor, sa: Tensor, sb: Tensor, alphas: Tensor, *others: Tensor
    ) -> None:
        off(out, a, b, sa, sb, 2 * alphas, *others)

    right = Subject("right", "cpu", IEEE, **{name: RIGHT.operations[name] for name in BOUNDED_PREFIXES})
    verdicts = {row.claim_id: row.outcome.verdict for row in conform(right, level=1, seed=0)}
    assert verdicts == dict.fromkeys((*claims_of(GEMM), *claims_of(LAYER)), Verdict.HELD)
    rows = {
        row.claim_id: row for row in conform(Subject("off", "cpu", IEEE, **{GEMM: doubled}), level=1, seed=0)
    }
    golden = rows["gemm.golden"].outcome
    assert (golden.verdict, golden.finding) == (Verdict.REFUTED, Finding.BYTES)
    assert golden.witness is not None
    assert isinstance(case_from_json(golden.witness["case"]), GemmCase)
    assert {claim for claim, row in rows.items() if row.outcome.verdict is Verdict.HELD} == set(rows) - {
        "gemm.golden"
    }


def test_two_subjects_are_compared_on_exact_cases_alone() -> None:
    card = Card.of(Subject("one", "cpu", IEEE, **{name: RIGHT.operations[name] for name in BOUNDED_PREFIXES}))
    found = common_cases(card, card, level=1, seed=0)
    assert {type(case) for case in found} == {GemmCase, LayerCase}
    assert all(case.is_exact if isinstance(case, GemmCase) else case.values == "exact" for case in found)  # type: ignore[union-attr]


@pytest.mark.parametrize("operation", BOUNDED_PREFIXES)
def test_outputs_of_a_comparison_are_the_bytes(operation: str, arena: Any) -> None:
    subject = Subject("one", "cpu", IEEE, **{operation: RIGHT.operations[operation]})
    card = Card.of(subject)
    case = next(c for c in common_cases(card, card, level=1, seed=0) if getattr(c, "tokens", 1))
    told = answer(subject, case, arena)
    assert not told.faults
    first, second = (turn["output"] for turn in told.turns)
    assert first.shape == second.shape
    assert isinstance(case, GemmCase | LayerCase)
    owned = case.routed_rows if isinstance(case, GemmCase) else case.tokens
    assert first[:owned].equal(second[:owned])
    assert bounded_plan.bounded_aspect(case) == "bytes"
