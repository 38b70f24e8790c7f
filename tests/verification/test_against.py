"""Two subjects compared: what is the same holds, and each kind of difference is found, named and classed."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.verification import against
from nvfp4_moe.verification.against import Comparison, common_cases, common_contract
from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import (
    Subject,
    SubjectError,
    SubjectUnavailable,
    load_subject,
)
from nvfp4_moe.verification.conformance.supervisor import Limits
from nvfp4_moe.verification.result import Finding, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.settings import Settings
from nvfp4_moe.verification.subject_jobs import against_job
from nvfp4_moe.verification.subject_outputs import ComparedCase
from nvfp4_moe.verification.task_child import TaskChild
from nvfp4_moe.verification.task_messages import Card

QUANT, ROUTE = "scaled_fp4_experts_quant", "get_cutlass_moe_mm_data"
REFERENCE = load_subject("reference")
IEEE = Contract(arithmetic="ieee", strided="honoured")
UNSPECIFIED = Contract(
    arithmetic="ieee", strided="honoured", k_padding="unspecified", row_padding="unspecified"
)
Operation = Callable[..., None]


def quant_case(**changes: Any) -> QuantCase:
    given: dict[str, Any] = {
        "operation": QUANT,
        "group": "test",
        "index": 1,
        "seed": 0,
        "tokens_per_expert": (3, 0, 5),
        "unrouted_rows": 2,
        "k": 48,
        "dtype": "bf16",
        "values": "windowed",
        "global_scales": "distinct",
        "extra_scale_rows": 128,
    }
    return QuantCase(**given | changes)


CASES: tuple[ComparedCase, ...] = (quant_case(), quant_case(tokens_per_expert=(7,), k=64, index=2))
ROUTING_CASES: tuple[ComparedCase, ...] = (
    RoutingCase(
        index=0,
        seed=0,
        tokens=9,
        topk=2,
        num_experts=4,
        ids="uniform",
        id_dtype="int32",
        is_gated=True,
        n=64,
        k=64,
    ),
)


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> list[ComparedCase]:
    """Compare on these few cases."""
    few = list(CASES)
    monkeypatch.setattr(against, "common_cases", lambda *cards, **unused: few)
    return few


def quantizer(change: Operation, name: str = "new", contract: Contract = IEEE) -> Subject:
    """Return the golden model's quantizer; `change(output, scale bytes, input)` spoils what it wrote."""

    def operation(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor, *rest: torch.Tensor) -> None:
        REFERENCE.operations[QUANT](output, scale, rows, *rest)
        change(output, scale.view(torch.uint8), rows)

    return Subject(name, contract=contract, **{QUANT: operation})


def nothing(*unused: Any) -> None: ...


OLD = quantizer(nothing, "old")


def compared(subject: Subject | str, other: Subject | str = OLD, **options: Any) -> dict[str, Row]:
    comparison = Comparison(subject, other, level=1, seed=0)
    try:
        return {row.claim_id: row for row in comparison.rows(**options)}
    finally:
        comparison.close()


def outcome(subject: Subject, other: Subject = OLD) -> Outcome:
    return compared(subject, other)["quant.against"].outcome


def flip(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor) -> None:
    output[4, 5] ^= 0x30


def unpadded(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor) -> None:
    scale.view(-1)[3] = 0xEE  # row 0, block 3: K padding of K = 48


def beyond(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor) -> None:
    scale[-1, -1] = 0xEE


@pytest.mark.usefixtures("cases")
def test_the_same_subject_holds() -> None:
    found = outcome(quantizer(nothing))
    assert (found.verdict, found.cases, found.finding) == (Verdict.HELD, len(CASES), None)


@pytest.mark.usefixtures("cases")
def test_a_different_byte_is_named_with_both_values_and_the_count() -> None:
    found = outcome(quantizer(flip))
    assert found.verdict is Verdict.REFUTED
    assert found.finding is Finding.BYTES
    assert found.witness is not None
    where = found.witness["where"]
    assert (where["expert"], where["row"], where["column"], where["count"]) == (2, 1, 10, 1)
    assert where["subject"] == where["against"] ^ 0x30
    assert f"output at expert 2 row 1 column 10: {where['subject']:#04x} against" in found.detail
    assert "2 of 2 cases differ" in found.detail


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        (IEEE, UNSPECIFIED, Verdict.REFUTED),
        (UNSPECIFIED, IEEE, Verdict.REFUTED),
        (UNSPECIFIED, UNSPECIFIED, Verdict.HELD),
    ],
)
def test_padding_counts_where_either_promises_it(
    one: Contract, other: Contract, verdict: Verdict, cases: list[ComparedCase]
) -> None:
    del cases[1:]
    found = outcome(quantizer(unpadded, contract=one), quantizer(nothing, "old", other))
    assert found.verdict is verdict
    assert found.finding is (Finding.CONTRACT if verdict is Verdict.REFUTED else None)


def test_a_byte_that_one_leaves_unwritten_is_different(cases: list[ComparedCase]) -> None:
    del cases[1:]

    def keep_stale(output: torch.Tensor, scale: torch.Tensor, *rest: torch.Tensor) -> None:
        stale = output[0, 0].clone()
        REFERENCE.operations[QUANT](output, scale, *rest)
        output[0, 0] = stale

    found = outcome(Subject("new", contract=IEEE, **{QUANT: keep_stale}))
    assert found.verdict is Verdict.REFUTED
    assert "expert 0 row 0 column 0: 0xff against" in found.detail


@pytest.mark.usefixtures("cases")
def test_a_write_where_neither_may_is_a_memory_finding() -> None:
    found = outcome(quantizer(beyond))
    assert found.finding is Finding.MEMORY
    assert "kind beyond: 0xee against" in found.detail


def test_a_crash_is_told_of_its_side_and_the_run_goes_on(cases: list[ComparedCase]) -> None:
    def crash(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor) -> None:
        if rows.shape[1] == 48:
            ctypes.string_at(0)

    found = outcome(quantizer(crash))
    assert found.finding is Finding.MEMORY
    assert "1 of 2 cases differ: the process of new died: SIGSEGV" in found.detail
    cases[:] = [quant_case(index=index) for index in range(6)]
    found = outcome(quantizer(crash))
    assert "4 of 4 cases differ" in found.detail
    assert "2 given up after 4 crashes" in found.detail


def test_a_hang_is_told_of_its_side(cases: list[ComparedCase], monkeypatch: pytest.MonkeyPatch) -> None:
    del cases[1:]
    monkeypatch.setattr(against, "LIMITS", Limits(case_seconds=0.2, first_case_seconds=0.2))

    def hang(*unused: Any) -> None:
        time.sleep(60)

    found = outcome(quantizer(hang))
    assert found.finding is Finding.MEMORY
    assert "the process of new died: no answer for 0.2 s; killed" in found.detail


def test_an_exception_that_is_no_refusal_is_told(cases: list[ComparedCase]) -> None:
    del cases[1:]

    def broken(*unused: Any) -> None:
        raise ZeroDivisionError("by zero")

    found = outcome(quantizer(broken))
    assert "new raised ZeroDivisionError: by zero" in found.detail


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (quant_case(row_gap=32), Verdict.SKIPPED),  # a strided view, which the contract lets it refuse
        (quant_case(), Verdict.REFUTED),
    ],
)
def test_a_refusal_of_one_side_is_a_difference_unless_its_contract_allows_it(
    case: QuantCase, verdict: Verdict, cases: list[ComparedCase]
) -> None:
    cases[:] = [case]

    def refuse(*unused: Any) -> None:
        raise ValueError("not this")

    strict = Contract(arithmetic="ieee", strided="refused")
    found = outcome(quantizer(refuse, contract=strict))
    assert found.verdict is verdict
    assert "1 refused (new: ValueError: not this)" in found.detail


def test_what_both_refuse_is_no_difference(cases: list[ComparedCase]) -> None:
    def refuse_one(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor) -> None:
        if rows.shape[1] == 64:
            raise ValueError("not this")

    found = outcome(quantizer(refuse_one), quantizer(refuse_one, "old"))
    assert (found.verdict, found.cases) == (Verdict.HELD, 1)


def test_an_operation_that_returns_its_outputs_is_compared_with_one_that_fills_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def returns(
        rows: torch.Tensor, g: torch.Tensor, offsets: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        true = quantize_experts(rows, g, offsets, blockscale_offsets=starts, scale_rows=int(starts[-1]))
        return true.packed, true.block_scale.view(torch.int32)

    some = against.common_cases
    tried: list[list[ComparedCase]] = []

    def few(*cards: Card, **options: Any) -> list[ComparedCase]:
        tried.append(some(*cards, **options)[:800:80])
        return tried[0]

    monkeypatch.setattr(against, "common_cases", few)
    functional = Subject("new", contract=IEEE, **{QUANT: returns})
    found = outcome(functional)
    assert (found.verdict, found.cases) == (Verdict.HELD, 10)
    assert any(isinstance(case, QuantCase) and case.unrouted_rows for case in tried[0])


def reordered(name: str, row_order: Any, *, reverse: bool) -> Subject:
    """Return routing metadata whose rows may be in reverse order inside each expert."""

    def route(*arguments: Any) -> None:
        REFERENCE.operations[ROUTE](*arguments)
        offsets, inputs, outputs = arguments[1], arguments[4], arguments[5]
        if reverse:
            for start, end in zip(offsets.tolist(), offsets.tolist()[1:], strict=False):
                inputs[start:end] = inputs[start:end].flip(0)
                inside = (outputs >= start) & (outputs < end)
                outputs[inside] = start + end - 1 - outputs[inside]

    return Subject(name, contract=Contract(arithmetic="ieee", row_order=row_order), **{ROUTE: route})


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [("any", "any", Verdict.HELD), ("stable", "any", Verdict.REFUTED), ("any", "stable", Verdict.REFUTED)],
)
def test_rows_in_any_order_are_the_same_if_neither_promises_one(
    one: str, other: str, verdict: Verdict, cases: list[ComparedCase]
) -> None:
    cases[:] = ROUTING_CASES
    pair = reordered("new", one, reverse=True), reordered("old", other, reverse=False)
    assert compared(*pair)["routing.against"].outcome.verdict is verdict


def test_another_token_in_an_experts_rows_is_found_in_any_order(cases: list[ComparedCase]) -> None:
    cases[:] = ROUTING_CASES

    def swapped(*arguments: Any) -> None:
        REFERENCE.operations[ROUTE](*arguments)
        inputs = arguments[4]
        inputs[[0, -1]] = inputs[[-1, 0]]

    loose = Contract(arithmetic="ieee", row_order="any")
    wrong = Subject("new", contract=loose, **{ROUTE: swapped})
    found = compared(wrong, reordered("old", "any", reverse=False))["routing.against"].outcome
    assert found.verdict is Verdict.REFUTED
    assert found.detail.startswith("1 of 1 cases differ: input_permutation[")


@pytest.mark.usefixtures("cases")
def test_a_dropped_operation_is_required_and_an_added_one_informs() -> None:
    operations = {op: REFERENCE.operations[op] for op in (QUANT, ROUTE)}
    both = Subject("both", contract=IEEE, **operations)
    for rows, required in (
        (compared(quantizer(nothing), both), True),
        (compared(both, quantizer(nothing)), False),
    ):
        assert rows["quant.against"].required
        lacking = rows["routing.against"]
        assert (lacking.outcome.verdict, lacking.required) == (Verdict.SKIPPED, required)
        assert f"new has no {ROUTE}" in lacking.outcome.detail


@pytest.mark.usefixtures("cases")
def test_most_of_the_domain_refused_is_required_whatever_the_class() -> None:
    def refuse(*tensors: Any) -> None:
        raise ValueError("not today")

    row = compared(quantizer(refuse), fail_on=Finding.BYTES)["quant.against"]
    assert (row.outcome.verdict, row.outcome.finding) == (Verdict.REFUTED, Finding.CONTRACT)
    assert row.required


def test_nothing_in_common_is_skipped_and_required(cases: list[ComparedCase]) -> None:
    cases.clear()
    rows = compared(quantizer(nothing), reordered("old", "any", reverse=False))
    assert {row.outcome.verdict for row in rows.values()} == {Verdict.SKIPPED}
    assert all(row.required for row in rows.values())


def test_fail_on_makes_a_milder_difference_inform(cases: list[ComparedCase]) -> None:
    del cases[1:]
    padding = quantizer(unpadded)
    assert compared(padding)["quant.against"].required
    assert not compared(padding, fail_on=Finding.BYTES)["quant.against"].required


class TestDomain:
    def test_the_common_contract_has_the_domain_of_both(self) -> None:
        one = Contract(k_multiple=32, max_experts=256, id_dtypes=("int32", "int64"))
        other = Contract(k_multiple=48, id_dtypes=("int32",), negative_ids="unsupported")
        common = common_contract(one, other)
        assert (common.k_multiple, common.max_experts) == (96, 256)
        assert (common.id_dtypes, common.negative_ids) == (("int32",), "unsupported")

    def test_cases_are_those_that_both_have(self) -> None:
        wide = Card("a", "cpu", (QUANT, ROUTE), Contract(k_multiple=64, id_dtypes=("int64",)))
        narrow = Card("b", "cpu", (ROUTE, QUANT), Contract(max_experts=8))
        found = common_cases(wide, narrow, level=1, seed=0)
        assert found
        assert all(isinstance(case, QuantCase) for case in found)  # no dtype of ids in common
        assert {case.k % 64 for case in found if isinstance(case, QuantCase)} == {0}
        assert max(len(c.tokens_per_expert) for c in found if isinstance(c, QuantCase)) == 8

    def test_a_card_survives_json(self) -> None:
        contract = Contract.preset("vllm")
        card = Card("a", "cuda", (QUANT,), contract)
        assert Card.from_json(json.loads(json.dumps(card.to_json()))) == card


TWO_BUILDS = """
import torch
library = torch.library.Library("nvfp4_moe_test_build", "DEF")
library.define("quantize(Tensor x) -> Tensor")  # a second definition in one process is an error
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject, load_subject
print("a talkative subject" * 10_000)
def quantize(output, *rest):
    load_subject("reference").operations["scaled_fp4_experts_quant"](output, *rest)
    output[0, 0] ^= {change}
contract = Contract(arithmetic="ieee", strided="honoured")
SUBJECT = Subject("{name}", contract=contract, scaled_fp4_experts_quant=quantize)
"""


@pytest.mark.usefixtures("cases")
def test_two_builds_that_cannot_share_a_process_are_compared(tmp_path: Path) -> None:
    for name, change in (("old", 0), ("new", 1)):
        (tmp_path / f"{name}.py").write_text(TWO_BUILDS.format(name=name, change=change))
    rows = compared(str(tmp_path / "new.py"), str(tmp_path / "old.py"))
    assert rows["quant.against"].subject == "new against old"
    assert "expert 0 row 0 column 0" in rows["quant.against"].outcome.detail


class TestDoor:
    def test_a_missing_file_is_wrong_usage(self, tmp_path: Path) -> None:
        with pytest.raises(SubjectError, match="no such file"):
            Comparison(OLD, str(tmp_path / "absent.py"), level=1, seed=0)

    def test_a_file_that_does_not_import_is_skipped_by_name(self, tmp_path: Path) -> None:
        file = tmp_path / "broken.py"
        file.write_text("import a_package_that_is_not_there\n")
        job = against_job(OLD, str(file), level=1, seed=0, fail_on=Finding.CONTRACT)
        (row,) = job.run(lambda cases: None)
        assert (row.claim_id, row.outcome.verdict, row.required) == ("quant.against", Verdict.SKIPPED, True)
        assert "a_package_that_is_not_there" in row.outcome.detail

    def test_an_object_on_a_gpu_cannot_be_forked(self) -> None:
        with pytest.raises(SubjectUnavailable, match="fresh process"):
            TaskChild(Subject("gpu", device="cuda", **{QUANT: nothing}), "outputs")

    def test_against_needs_a_subject(self) -> None:
        with pytest.raises(ValueError, match="against needs a subject"):
            Settings(against="reference")
