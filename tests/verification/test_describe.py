"""Measured contracts: planted properties are found, what cannot be determined says so, and the verdict is no guess."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest
import torch

from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations, Operations
from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.verification import contract_probes, describe
from nvfp4_moe.verification.conformance.contract import LEGAL_RECIPES, Contract
from nvfp4_moe.verification.conformance.memory import HostArena
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable, load_subject
from nvfp4_moe.verification.contract_probes import Attempt, Prober, most_accepted
from nvfp4_moe.verification.describe import Description, Line
from nvfp4_moe.verification.task_messages import Card

QUANT, ROUTE = "scaled_fp4_experts_quant", "get_cutlass_moe_mm_data"
REFERENCE = load_subject("reference")
MOST = 200
H200 = "NVIDIA H200"


@pytest.fixture
def few_recipe_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the recipe on one small case: these tests are about the other properties."""
    case = Prober(REFERENCE, HostArena()).case()
    monkeypatch.setattr(contract_probes, "_recipe_cases", lambda prober: [replace(case, operation=QUANT)])


def described(**operations: Any) -> Description:
    return describe.describe(Subject("planted", contract=Contract(arithmetic="ieee"), **operations))


def right(*arguments: Any) -> None:
    REFERENCE.operations[QUANT](*arguments)


def told(found: Description) -> dict[str, str]:
    return {line.name: line.told for line in found.lines}


@pytest.mark.usefixtures("few_recipe_cases")
def test_planted_limits_of_a_quantizer_are_measured() -> None:
    def operation(
        output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor, g: torch.Tensor, *rest: torch.Tensor
    ) -> None:
        if rows.shape[1] % 32 or not rows.is_contiguous():
            raise ValueError(f"rows of {rows.shape[1]} elements {rows.stride()} apart")
        if rows.data_ptr() % 64:
            raise ValueError("rows are not aligned to 64 bytes")
        if len(g) > MOST:
            raise ValueError(f"{len(g)} experts")
        right(output, scale, rows, g, *rest)
        g.mul_(2)

    found = described(**{QUANT: operation})
    assert found.measured["k_multiple"] == 32
    assert found.measured["max_experts"] == MOST
    assert found.measured["strided"] == "refused"
    assert found.measured["alignment"]["input"] == 64
    assert found.measured["alignment"]["output_scale"] == Contract().alignment["output_scale"]
    assert found.measured["mutates"] == ("input_global_scale",)
    assert "input 64 (below: refused)" in told(found)["alignment"]
    assert found.undetermined == []
    assert "k_multiple=32" in found.contract.as_code()


@pytest.mark.usefixtures("few_recipe_cases")
@pytest.mark.parametrize("unwritten", [True, False])
def test_padding_that_is_not_zero_is_unspecified(unwritten: bool) -> None:
    def operation(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor, *rest: torch.Tensor) -> None:
        stale = scale.clone()
        right(output, scale, rows, *rest)
        columns, old = scale.view(torch.uint8), stale.view(torch.uint8)
        if rows.shape[1] == 48:  # one tile of four blocks; the last byte of each word is K padding
            columns[..., 3] = old[..., 3] if unwritten else 0x5A

    found = described(**{QUANT: operation})
    assert found.measured["k_padding"] == "unspecified"
    assert told(found)["k_padding"] == ("unwritten" if unwritten else "other")


@pytest.mark.usefixtures("few_recipe_cases")
class TestUndetermined:
    """What is no word of the contract is told and counts as undetermined."""

    def test_rows_that_lie_apart_are_misread(self) -> None:
        def operation(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor, *rest: Any) -> None:
            flat = torch.as_strided(rows, rows.shape, (rows.shape[1], 1))
            right(output, scale, flat, *rest)

        found = described(**{QUANT: operation})
        assert "misread" in told(found)["strided"]
        assert found.undetermined == ["strided"]
        assert "strided" not in found.measured

    def test_a_crash_is_told_and_the_other_properties_are_measured(self) -> None:
        def operation(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor, *rest: Any) -> None:
            if not rows.is_contiguous():
                ctypes.string_at(0)
            right(output, scale, rows, *rest)

        found = described(**{QUANT: operation})
        assert told(found)["strided"].startswith("its process died: SIGSEGV")
        assert found.undetermined == ["strided"]
        assert found.measured["deterministic"] is True

    def test_a_width_in_between_that_fails(self) -> None:
        def operation(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor, *rest: Any) -> None:
            if rows.shape[1] == 112:
                raise ValueError("not 112")
            right(output, scale, rows, *rest)

        found = described(**{QUANT: operation})
        assert "but not K = 112: ValueError: not 112" in told(found)["k_multiple"]
        assert "k_multiple" in found.undetermined

    def test_misaligned_rows_that_are_misread(self) -> None:
        def operation(output: torch.Tensor, scale: torch.Tensor, rows: torch.Tensor, *rest: Any) -> None:
            right(output, scale, rows, *rest)
            if rows.data_ptr() % 16:
                output[0, 0] ^= 1

        found = described(**{QUANT: operation})
        assert "input 16 (below: other bytes)" in told(found)["alignment"]
        assert "alignment" in found.undetermined

    def test_nothing_is_accepted(self) -> None:
        def operation(*unused: Any) -> None:
            raise NotImplementedError("no device")

        found = described(**{QUANT: operation})
        assert {"recipe", "padding", "k_multiple", "deterministic"} <= set(found.undetermined)


def quantizer(recipe: str, ops: Operations) -> Subject:
    def operation(
        output: torch.Tensor,
        scale: torch.Tensor,
        rows: torch.Tensor,
        g: torch.Tensor,
        offsets: torch.Tensor,
        starts: torch.Tensor,
    ) -> None:
        true = quantize_experts(rows, g, offsets, blockscale_offsets=starts, recipe=recipe, arithmetic=ops)
        routed, padded = int(offsets[-1]), int(starts[-1])
        output[:routed] = true.packed[:routed]
        scale.view(torch.uint8)[:padded] = true.block_scale

    return Subject("one", **{QUANT: operation})


def measured_recipe(subject: Subject) -> Line:
    answer = contract_probes.recipe(Prober(subject, HostArena()))
    (line,) = describe._recipe(answer, Card.of(subject))
    return line


class TestRecipe:
    @pytest.mark.parametrize("recipe", LEGAL_RECIPES)
    def test_each_recipe_is_told_from_all_others(self, recipe: str) -> None:
        line = measured_recipe(quantizer(recipe, IEEE))
        assert line.promises["recipe"] == recipe

    def test_the_vectors_tell_the_arithmetics_apart(self) -> None:
        assert measured_recipe(quantizer("vllm", IEEE)).promises["arithmetic"] == "ieee"
        assert (
            measured_recipe(quantizer("vllm", HardwareOperations(H200))).promises["arithmetic"] == "hardware"
        )

    @pytest.mark.usefixtures("few_recipe_cases")
    def test_an_unknown_recipe_is_not_guessed(self) -> None:
        def operation(output: torch.Tensor, scale: torch.Tensor, *rest: Any) -> None:
            right(output, scale, *rest)
            output[0, 0] ^= 0x77

        line = measured_recipe(Subject("one", **{QUANT: operation}))
        assert not line.determined
        assert line.promises == {}
        assert line.told.startswith("none that is known; nearest vllm")


class TestRouting:
    def test_the_golden_model_is_stable_and_skips(self) -> None:
        found = described(**{ROUTE: REFERENCE.operations[ROUTE]})
        assert found.measured == {
            "id_dtypes": ("int32", "int64"),
            "row_order": "stable",
            "negative_ids": "skipped",
        }

    def test_planted_limits_are_measured(self) -> None:
        def operation(ids: torch.Tensor, *rest: Any) -> None:
            if ids.dtype is not torch.int32 or bool((ids < 0).any()) or rest[5] > MOST:
                raise ValueError("not such ids")
            REFERENCE.operations[ROUTE](ids, *rest)
            offsets, inputs, outputs = rest[0], rest[3], rest[4]
            for start, end in zip(offsets.tolist(), offsets.tolist()[1:], strict=False):
                inputs[start:end] = inputs[start:end].flip(0)
                inside = (outputs >= start) & (outputs < end)
                outputs[inside] = start + end - 1 - outputs[inside]

        found = described(**{ROUTE: operation})
        assert found.measured == {
            "id_dtypes": ("int32",),
            "row_order": "any",
            "deterministic": True,
            "negative_ids": "unsupported",
            "max_experts": MOST,
        }
        assert found.undetermined == []

    def test_wide_ids_that_are_misread_are_undetermined(self) -> None:
        def operation(ids: torch.Tensor, *rest: Any) -> None:
            narrow = ids.view(torch.int32)[: ids.shape[0], : ids.shape[1]]
            REFERENCE.operations[ROUTE](narrow.clamp(0, rest[5] - 1), *rest)

        found = described(**{ROUTE: operation})
        assert found.measured["id_dtypes"] == ("int32",)
        assert "id_dtypes" in found.undetermined


@pytest.mark.parametrize(("most", "answer"), [(1, "refused"), (37, "refused"), (1023, "raised")])
def test_the_most_that_is_accepted_is_found(most: int, answer: str) -> None:
    found = most_accepted(lambda count: Attempt("ran") if count <= most else Attempt(answer, f"{count}"))
    assert found == {"most": most, "refused_above": answer == "refused", "text": str(most + 1)}


class TestDescription:
    CARD = Card("mine", "cpu", (QUANT,), Contract())

    def test_two_operations_have_the_narrower_limit(self) -> None:
        lines = [
            Line("max_experts", "", {"max_experts": 256, "deterministic": False}),
            Line("max_experts", "", {"max_experts": 512, "deterministic": True}),
        ]
        found = Description(self.CARD, lines)
        assert found.measured == {"max_experts": 256, "deterministic": False}

    def test_the_closest_presets_are_named_with_what_differs(self) -> None:
        vllm = {"k_padding": "unspecified", "row_padding": "unspecified", "row_order": "any"}
        found = Description(self.CARD, [Line("all", "", {**vllm, "strided": "honoured"})])
        assert found.closest == ["vllm", "sglang"]
        assert found.to_json()["differs_from_preset"] == ["strided"]
        assert found.differs_from(Contract())["row_order"] == ("any", "stable")

    def test_a_subject_with_nothing_to_measure(self) -> None:
        with pytest.raises(SubjectUnavailable, match="no quantizer"):
            described(shuffle_rows=REFERENCE.operations["shuffle_rows"])
