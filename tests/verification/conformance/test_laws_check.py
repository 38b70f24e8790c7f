"""Laws: the golden model keeps them; faults that a tolerance could hide break them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from nvfp4_moe.verification.conformance.cases import QuantCase, law_bases
from nvfp4_moe.verification.conformance.laws_check import CUDA_LAWS, LAWS, LawCase, laws_of
from nvfp4_moe.verification.conformance.subject import Subject

QUANT, FUSED = "scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"
Checks = Callable[[Subject, LawCase], dict[str, str]]


def cases(law: str, operation: str = QUANT) -> list[LawCase]:
    return [LawCase(law=law, base=base) for base in law_bases(operation, seed=0)]


@pytest.mark.parametrize("operation", [QUANT, FUSED])
@pytest.mark.parametrize("law", LAWS)
def test_the_golden_model_keeps_them(law: str, operation: str, right: Subject, checks: Checks) -> None:
    for case in cases(law, operation):
        assert checks(right, case) == {}


def by_row_number(operation: Any, output: Tensor, *others: Tensor) -> None:
    """A rounding that depends on where a row lies."""
    operation(output, *others)
    output[1::2, 0] ^= 1


def by_expert_number(
    operation: Any, output: Tensor, scales: Tensor, input: Tensor, g: Tensor, *more: Tensor
) -> None:
    operation(output, scales, input, g * 2.0 if len(g) % 2 else g, *more)


def last_expert(
    operation: Any, output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *more: Tensor
) -> None:
    operation(output, scales, input, g, offsets, *more)
    output[int(offsets[-2]) : int(offsets[-1]), 0] ^= 1


@pytest.mark.parametrize(
    ("law", "body"),
    [("rows", by_row_number), ("experts", last_expert), ("alone", by_expert_number), ("alone", last_expert)],
)
def test_what_breaks_them(law: str, body: Callable[..., None], planted: Any, checks: Checks) -> None:
    subject = planted(QUANT, lambda operation: lambda *tensors: body(operation, *tensors))
    assert any(checks(subject, case) == {"laws": "bytes"} for case in cases(law))


def test_a_call_that_changes_after_a_larger_one(planted: Any, checks: Checks) -> None:
    most = [0]

    def wrap(operation: Any) -> Any:
        def grown(output: Tensor, *others: Tensor) -> None:
            operation(output, *others)
            if len(output) < most[0]:
                output[0, 0] ^= 1
            most[0] = max(most[0], len(output))

        return grown

    assert checks(planted(QUANT, wrap), cases("again")[0]) == {"laws": "bytes"}


def test_memory_faults_are_found_there_too(planted: Any, checks: Checks) -> None:
    def wrap(operation: Any) -> Any:
        def dirty(output: Tensor, scales: Tensor, input: Tensor, *others: Tensor) -> None:
            operation(output, scales, input, *others)
            input[0, 0] = 3.0

        return dirty

    assert checks(planted(QUANT, wrap), cases("rows")[0]) == {"inputs": "memory"}


def test_laws_of_devices() -> None:
    assert laws_of("cpu", in_place=True) == tuple(LAWS)
    assert laws_of("cuda", in_place=False) == tuple(LAWS)
    assert laws_of("cuda", in_place=True) == (*LAWS, *CUDA_LAWS)


def test_a_law_is_tried_on_legal_calls() -> None:
    for base in law_bases(QUANT, seed=0):
        assert isinstance(base, QuantCase)
        assert base.k % 16 == 0
        assert len(base.tokens_per_expert) > 1
