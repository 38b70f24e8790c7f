"""Contracts are closed sets; a wrong value is named."""

from __future__ import annotations

from typing import Any

import pytest

from nvfp4_moe.verification.conformance.contract import LEGAL_RECIPES, PRESETS, Contract


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("recipe", "trtllm", "one of 'vllm', 'tensorrt_llm'.*got 'trtllm'"),
        ("recipe", "torchao", "one of 'vllm'.*got 'torchao'"),
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
        ("k_multiple", 8, "must be between 16 and.*got 8"),
        ("k_multiple", 40, "multiple of 16.*got 40"),
        ("max_experts", 0, "at least 1 or None, got 0"),
        ("alignment", {"input": 24}, "alignment\\['input'\\] must be a power of two.*got 24"),
        ("alignment", {"input": 0}, "must be between 1 and.*got 0"),
        ("readable_slack", {"input": -1}, "must be between 0 and.*got -1"),
        ("id_dtypes", (), "int32, int64 or both"),
        ("id_dtypes", ("int16",), "'int32', 'int64', got 'int16'"),
        ("id_dtypes", ["int32"], "id_dtypes must be a tuple of names"),
        ("id_dtypes", "int32", "id_dtypes must be a tuple of names"),
        ("recipe", 5, "recipe must be one of 'vllm'.*got 5"),
        ("recipe", ["vllm"], "recipe must be one of"),
        ("arithmetic", ["ieee"], "arithmetic must be one of"),
        ("mutates", "input", "mutates must be a tuple of names, got 'input'"),
        ("mutates", ("nosuch",), "mutates.*'output'.*got 'nosuch'"),
        ("mutates", ([],), r"mutates.*got \[\]"),
        ("max_experts", 1.5, "must be an integer or None, got 1.5"),
        ("max_experts", True, "must be an integer or None, got True"),
        ("k_multiple", 16.0, "k_multiple must be an integer, got 16.0"),
        ("k_multiple", 10**30, "k_multiple must be between"),
        ("k_multiple", 16 * 10**9, "at most 1,048,576"),
        ("alignment", 5, "alignment must map tensor names to bytes, got 5"),
        ("alignment", None, "alignment must map tensor names to bytes, got None"),
        ("alignment", {3: 16}, "names of tensors as keys, got 3"),
        ("alignment", {"nosuch": 16}, "must name tensors of default, input.*got 'nosuch'"),
        ("alignment", {"input": 16.0}, "must be an integer, got 16.0"),
        ("alignment", {"input": 1 << 40}, "at most 1,048,576"),
        ("readable_slack", [1], r"must map tensor names to bytes, got \[1\]"),
        ("readable_slack", {"default": 16}, "must name tensors of input.*got 'default'"),
        ("readable_slack", {"input": True}, "must be an integer, got True"),
        ("readable_slack", {"input": 1 << 40}, "at most 1,048,576"),
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


def test_operands_of_a_gemm_are_aligned_as_what_quantizers_write() -> None:
    aligned = Contract().alignment_of
    assert [aligned(name) for name in ("a_blockscale", "w2_blockscale", "output_scale")] == [128] * 3
    assert [aligned(name) for name in ("a", "workspace13", "workspace2", "input")] == [32] * 4
    assert [aligned(name) for name in ("b", "out", "alphas")] == [16] * 3
    named = Contract(
        alignment={"default": 8, "input": 64, "output_scale": 256, "a_blockscale": 512}
    ).alignment_of
    assert [named(name) for name in ("a_blockscale", "b_blockscale", "a", "b")] == [512, 256, 64, 8]
