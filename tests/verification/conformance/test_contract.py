"""Contracts are closed sets; a wrong value is named."""

from __future__ import annotations

from typing import Any

import pytest

from nvfp4_moe.verification.conformance.contract import LEGAL_RECIPES, PRESETS, Contract


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("recipe", "trtllm", "one of vllm, tensorrt_llm.*got 'trtllm'"),
        ("recipe", "torchao", "one of vllm.*got 'torchao'"),
        ("arithmetic", "float", "'hardware', 'ieee', got 'float'"),
        ("k_padding", "none", "'zero', 'unspecified'"),
        ("row_padding", None, "'zero', 'unspecified'"),
        ("negative_ids", "raises", "'skipped', 'unsupported'"),
        ("row_order", "sorted", "'stable', 'any'"),
        ("strided", True, "'refused', 'honoured'"),
        ("placement", "closed", "'packed'"),
        ("deterministic", 1, "True or False"),
        ("batch_invariant", "yes", "True or False"),
        ("pdl", None, "True or False"),
        ("k_multiple", 8, "multiple of 16, got 8"),
        ("k_multiple", 40, "multiple of 16, got 40"),
        ("max_experts", 0, "at least 1 or None, got 0"),
        ("alignment", {"input": 24}, "alignment\\['input'\\] must be a power of two, got 24"),
        ("alignment", {"input": 0}, "power of two, got 0"),
        ("readable_slack", {"input": -1}, "must not be negative, got -1"),
        ("id_dtypes", (), "int32, int64 or both"),
        ("id_dtypes", ("int16",), "int32, int64 or both"),
    ],
)
def test_wrong_values_are_named(field: str, value: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        Contract(**{field: value})


def test_the_default_is_strict_and_presets_promise_no_more() -> None:
    strict = Contract()
    assert (strict.k_padding, strict.row_padding, strict.negative_ids) == ("zero", "zero", "skipped")
    assert (strict.row_order, strict.arithmetic, strict.deterministic) == ("stable", "hardware", True)
    for name, preset in PRESETS.items():
        assert Contract.preset(name) is preset
        assert preset.recipe in LEGAL_RECIPES
    with pytest.raises(ValueError, match="strict, vllm"):
        Contract.preset("none")


def test_alignment_of_a_tensor() -> None:
    assert [Contract().alignment_of(name) for name in ("output", "input", "output_scale")] == [16, 32, 128]
    assert Contract(alignment={"default": 4, "input": 8}).alignment_of("output") == 4
    assert Contract(alignment={"input": 8}).alignment_of("output") == 16


@pytest.mark.parametrize(
    "contract", [*PRESETS.values(), Contract(id_dtypes=("int64",), alignment={"input": 64})]
)
def test_the_code_of_a_contract_makes_it(contract: Contract) -> None:
    code = contract.as_code()
    made = eval(code, {"Contract": Contract})  # text that as_code wrote
    assert made == contract
