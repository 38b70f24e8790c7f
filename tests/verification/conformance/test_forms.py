"""The other forms of the quantizers: outputs that are returned, and the masked form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject

QUANT, MASKED = "scaled_fp4_experts_quant", "scaled_fp4_masked_quant"
IEEE = Contract(arithmetic="ieee")
Operation = Callable[..., Any]
Checks = Callable[[Subject, QuantCase], dict[str, str]]
Planted = Callable[..., Subject]

CASE = QuantCase(
    operation=QUANT,
    group="test",
    index=1,
    seed=0,
    tokens_per_expert=(5, 0, 2),
    unrouted_rows=3,
    k=48,
    dtype="bf16",
    values="windowed",
    global_scales="distinct",
    extra_scale_rows=128,
)


def then(change: Callable[..., None]) -> Callable[[Operation], Operation]:
    """Do something to the tensors after the right operation."""

    def wrap(operation: Operation) -> Operation:
        def faulty(*tensors: Tensor) -> None:
            operation(*tensors)
            change(*tensors)

        return faulty

    return wrap


def returning(wrong: int = 0, spare: int = 128) -> Callable[[Operation], Operation]:
    def wrap(operation: Operation) -> Operation:
        def functional(
            input: Tensor, g: Tensor, offsets: Tensor, scale_offsets: Tensor
        ) -> tuple[Tensor, Tensor]:
            output = torch.zeros((len(input), input.shape[1] // 2), dtype=torch.uint8)
            scales = torch.zeros(
                (int(scale_offsets[-1]) + spare, -(-input.shape[1] // 64)), dtype=torch.int32
            )
            if spare >= 0:
                operation(output, scales, input, g, offsets, scale_offsets)
            output[0, 0] ^= wrong
            return output, scales

        return functional

    return wrap


def test_outputs_that_are_returned(planted: Planted, checks: Checks) -> None:
    assert checks(planted(QUANT, returning(), IEEE), CASE) == {}
    assert checks(planted(QUANT, returning(wrong=1), IEEE), CASE) == {"golden": "bytes"}
    assert checks(planted(QUANT, returning(spare=0), IEEE), replace(CASE, extra_scale_rows=0)) == {}
    found = checks(planted(QUANT, returning(spare=-1), IEEE), replace(CASE, extra_scale_rows=0))
    assert "due" in found["raised"]


MASKED_CASE = replace(CASE, operation=MASKED, unrouted_rows=130, extra_scale_rows=0)


def a_masked_row(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, masked_m: Tensor) -> None:
    output[0, masked_m[0], 0] = 1


def a_scale_past_the_last_tile(output: Tensor, scales: Tensor, *others: Tensor) -> None:
    scales[1, 0, 0] = 1  # expert 1 has no rows


def a_masked_scale(output: Tensor, scales: Tensor, *others: Tensor) -> None:
    scales.view(torch.uint8)[2].view(-1)[0] ^= 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (a_masked_row, {"untouched": "memory"}),
        (a_scale_past_the_last_tile, {"untouched": "memory"}),
        (a_masked_scale, {"golden": "bytes"}),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_the_masked_form(
    change: Callable[..., None], told: dict[str, str], right: Subject, planted: Planted, checks: Checks
) -> None:
    assert checks(right, MASKED_CASE) == {}
    assert checks(planted(MASKED, then(change)), MASKED_CASE) == told
