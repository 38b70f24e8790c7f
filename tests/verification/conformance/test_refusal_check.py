"""Calls outside the domain: refusing is right, running and odd exceptions are found; legal calls are legal."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.memory import HostArena
from nvfp4_moe.verification.conformance.refusal_check import (
    QUANT_WRONGS,
    WRONG_IDS,
    RefusalCase,
    check_refusal,
    refusal_cases,
)
from nvfp4_moe.verification.conformance.subject import Subject

QUANT, FUSED = "scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"
ROUTING = "get_cutlass_moe_mm_data"
STRICT = Contract(id_dtypes=("int32",), max_experts=5)
ALL = [case for operation in (QUANT, FUSED, ROUTING) for case in refusal_cases(operation, STRICT)]


def subject(body: Callable[..., Any], contract: Contract = STRICT) -> Subject:
    return Subject("s", "cpu", contract, **dict.fromkeys((QUANT, FUSED, ROUTING), body))


def faults(
    body: Callable[..., Any], case: RefusalCase, contract: Contract = STRICT
) -> list[tuple[str, str, str]]:
    judged = check_refusal(subject(body, contract), case, HostArena())
    return [(fault.check, str(fault.finding), fault.text) for fault in judged.faults]


def names(case: RefusalCase) -> str:
    return f"{case.operation[:4]}-{case.wrong}"


@pytest.mark.parametrize("case", ALL, ids=names)
@pytest.mark.parametrize("error", [ValueError, TypeError, NotImplementedError, RuntimeError])
def test_refusing_is_right(case: RefusalCase, error: type[Exception]) -> None:
    def refuses(*arguments: Any) -> None:
        raise error("no")

    assert faults(refuses, case) == []


@pytest.mark.parametrize("case", ALL, ids=names)
def test_running_is_found(case: RefusalCase) -> None:
    ((check, finding, text),) = faults(lambda *arguments: None, case)
    assert (check, finding) == ("refusal", "contract")
    assert f"outside its domain ({case.wrong}) it ran and raised nothing" in text


def test_another_exception_is_found() -> None:
    def asserts(*arguments: Any) -> None:
        raise AssertionError("odd")

    ((check, finding, text),) = faults(asserts, ALL[0])
    assert (check, finding) == ("refusal", "contract")
    assert "raised AssertionError: odd" in text


def test_what_it_writes_meanwhile_is_found() -> None:
    def spoils(output: Tensor, scales: Tensor, input: Tensor, *others: Tensor) -> None:
        input.view(torch.uint8)[0] = 7

    assert [(check, finding) for check, finding, _ in faults(spoils, ALL[0])] == [
        ("inputs", "memory"),
        ("refusal", "contract"),
    ]


@pytest.mark.parametrize("error", [ValueError, AssertionError, SystemExit, KeyboardInterrupt])
def test_what_it_writes_before_it_raises_is_found(error: type[BaseException]) -> None:
    def spoils(output: Tensor, scales: Tensor, input: Tensor, *others: Tensor) -> None:
        input.view(torch.uint8)[0] = 7
        ctypes.c_uint8.from_address(output.data_ptr() - 1).value ^= 0xFF
        raise error("no")

    found = [(check, finding) for check, finding, _ in faults(spoils, ALL[0])]
    refused = error is ValueError
    assert found == [
        ("guard", "memory"),
        ("inputs", "memory"),
        *([] if refused else [("refusal", "contract")]),
    ]


def test_the_golden_model_refuses_them_all(right: Subject) -> None:
    arena = HostArena()
    for operation in (QUANT, FUSED, ROUTING):
        for case in refusal_cases(operation, right.contract):
            assert check_refusal(right, case, arena).faults == [], case


@pytest.mark.parametrize("wrong", ["none", *QUANT_WRONGS])
def test_only_one_thing_is_wrong(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case differs from the legal call in one tensor."""
    calls: list[list[tuple[torch.Size, torch.dtype]]] = []

    def sees(*tensors: Tensor) -> None:
        calls.append([(tensor.shape, tensor.dtype) for tensor in tensors])

    monkeypatch.setitem(QUANT_WRONGS, "none", lambda call: None)
    for name in ("none", wrong):
        faults(sees, RefusalCase(operation=QUANT, wrong=name))
    legal, changed = calls
    assert sum(one != other for one, other in zip(legal, changed, strict=True)) == (wrong != "none")


@pytest.mark.parametrize(("multiple", "k"), [(16, 24), (32, 48), (64, 96)])
def test_widths_off_the_declared_multiple(multiple: int, k: int) -> None:
    seen: list[int] = []

    def sees(output: Tensor, scales: Tensor, input: Tensor, *others: Tensor) -> None:
        seen.append(input.shape[1])

    faults(sees, RefusalCase(operation=QUANT, wrong="k"), Contract(k_multiple=multiple))
    assert seen == [k]


def test_cases_follow_the_contract() -> None:
    wrongs = {case.wrong for case in refusal_cases(ROUTING, Contract(id_dtypes=("int32", "int64")))}
    assert "ids int64" not in wrongs
    on_a_gpu = {case.wrong for case in refusal_cases(QUANT, Contract(), device="cuda")}
    assert "scale rows too few" not in on_a_gpu
    assert "experts" not in {case.wrong for case in refusal_cases(QUANT, Contract())}
    assert refusal_cases("shuffle_rows", Contract()) == []
    on_host, on_device = (
        {case.wrong for case in refusal_cases(ROUTING, Contract(), device=device)}
        for device in ("cpu", "cuda")
    )
    assert on_host - on_device == set(WRONG_IDS)
    assert on_device <= on_host


@pytest.mark.parametrize(("wrong", "value"), WRONG_IDS.items())
def test_ids_outside_the_experts(wrong: str, value: int) -> None:
    seen: list[list[int]] = []
    faults(
        lambda ids, *others: seen.append(ids.view(-1).tolist()), RefusalCase(operation=ROUTING, wrong=wrong)
    )
    assert seen[0].count(value) == 1
    assert sum(not 0 <= one < 4 for one in seen[0]) == 1
