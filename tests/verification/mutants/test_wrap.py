"""A wrapped subject is the right one but for its change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.mutants import wrap


def quantized(subject: Subject) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes and scale bytes of one small call: two experts of one and two rows, K = 32."""
    output = torch.zeros(3, 16, dtype=torch.uint8)
    scales = torch.zeros(256, 1, dtype=torch.int32)
    values = torch.arange(96, dtype=torch.float32).reshape(3, 32).to(torch.bfloat16)
    offsets = (torch.tensor([0, 1, 3], dtype=torch.int32), torch.tensor([0, 128, 256], dtype=torch.int32))
    subject.operations[wrap.QUANT](output, scales, values, torch.ones(2), *offsets)
    return output, scales.view(torch.uint8)


@pytest.fixture(scope="module")
def right() -> Subject:
    return reference_subject()


def test_after_sees_what_the_call_left(right: Subject) -> None:
    def change(call: wrap.QuantCall) -> None:
        assert (call.k, call.counts, call.offsets, call.scale_starts) == (
            32,
            [1, 2],
            [0, 1, 3],
            [0, 128, 256],
        )
        assert call.routed_rows == 3
        wrap.flip(call.output, 2, 0)
        call.scales[128, 0] ^= 1

    true, wrong = quantized(right), quantized(wrap.after(wrap.QUANT, change)(right))
    assert (wrong[0] != true[0]).nonzero().tolist() == [[2, 0]]
    assert (wrong[1] != true[1]).nonzero().tolist() == [[128, 0]]


def test_before_changes_what_the_call_is_given(right: Subject) -> None:
    subject = wrap.before(
        wrap.QUANT, lambda call: replace(call, input_global_scale=call.input_global_scale * 2)
    )
    assert not torch.equal(quantized(subject(right))[1], quantized(right)[1])


def test_state_begins_anew_with_each_subject(right: Subject) -> None:
    def make(function: Callable[[wrap.QuantCall], None]) -> Callable[[wrap.QuantCall], None]:
        calls = []

        def wrong(call: wrap.QuantCall) -> None:
            calls.append(call)
            function(call)
            if len(calls) > 1:
                wrap.flip(call.output, 0, 0)

        return wrong

    factory = wrap.around(wrap.QUANT, make)
    true = quantized(right)[0]
    for _ in range(2):
        subject = factory(right)
        assert torch.equal(quantized(subject)[0], true)
        assert not torch.equal(quantized(subject)[0], true)


def test_returning_replaces_an_operation_that_returns(right: Subject) -> None:
    subject = wrap.returning(wrap.SWIZZLE, lambda swizzle: lambda linear: swizzle(linear) ^ 1)(right)
    assert tuple(subject.operations) == (wrap.SWIZZLE,)
    linear = torch.zeros(1, 1, dtype=torch.uint8)
    assert bool((subject.operations[wrap.SWIZZLE](linear) == 1).all())
