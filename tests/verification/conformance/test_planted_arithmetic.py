"""Arithmetic that is almost right: level 1 has values on which each of these subjects gives another byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.casts import encode_ue4m3
from nvfp4_moe.reference.expert_layouts import experts_to_layout
from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.reference.silu import silu_and_mul
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.subject import Subject

QUANT, FUSED = "scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"
Operation = Callable[..., Any]
SIXTH = torch.tensor(6.0).reciprocal()


def with_scales(
    amax_and_g_to_scale: Callable[[Tensor, Tensor], Tensor], *, fused: bool
) -> Callable[[Operation], Operation]:
    """Replace the scale bytes by those of another order of the same operations; the codes stay the right ones."""

    def wrap(operation: Operation) -> Operation:
        def faulty(
            output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, at: Tensor
        ) -> None:
            operation(output, scales, input, g, offsets, at)
            values = (silu_and_mul(input) if fused else input)[: offsets[-1]]
            amax = values.float().abs().nan_to_num(0.0, posinf=torch.inf).unflatten(-1, (-1, 16)).amax(-1)
            g_of_row = torch.repeat_interleave(g, offsets.diff())[:, None]
            right = experts_to_layout(
                encode_ue4m3(g_of_row * (amax * SIXTH)), offsets, at, layout="swizzled_128x4"
            )
            other = experts_to_layout(
                encode_ue4m3(amax_and_g_to_scale(amax, g_of_row)), offsets, at, layout="swizzled_128x4"
            )
            written = scales.view(torch.uint8)[: int(at[-1])]
            written.copy_(torch.where(right == written, other, written))  # leave blocks with NaN alone

        return faulty

    return wrap


def refuted_by(subject: Subject, checks: Callable[..., dict[str, str]], family: str, of: str) -> int:
    cases = [c for c in Plan.of(subject, level=1, seed=0).cases if getattr(c, of, "") == family]
    return sum(checks(subject, case) == {"golden": "bytes"} for case in cases if case.elements < 60_000)


@pytest.mark.parametrize("operation", [QUANT, FUSED])
@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        (lambda amax, g: g * (amax * SIXTH), False),
        (lambda amax, g: (amax / 6) * g, True),
        (lambda amax, g: amax * (g * SIXTH), True),
        (lambda amax, g: (g * amax) * SIXTH, True),
        (lambda amax, g: (g * amax) / 6, True),
    ],
    ids=["right", "divided", "scale_first", "product_first", "product_divided"],
)
def test_another_order_of_the_scale_is_refuted(
    operation: str,
    order: Callable[[Tensor, Tensor], Tensor],
    wrong: bool,
    planted: Callable[..., Subject],
    checks: Callable[..., dict[str, str]],
) -> None:
    subject = planted(operation, with_scales(order, fused=operation == FUSED))
    found = refuted_by(subject, checks, "edge", "global_scales")
    assert found >= 3 if wrong else found == 0


@pytest.mark.parametrize(("below", "factor"), [(-20, 1.02), (-80, 1.02), (-20, 1.0)])
def test_two_percent_in_the_tail_of_silu_are_refuted(
    below: int,
    factor: float,
    planted: Callable[..., Subject],
    checks: Callable[..., dict[str, str]],
) -> None:
    def wrap(operation: Operation) -> Operation:
        def faulty(
            output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, at: Tensor
        ) -> None:
            operation(output, scales, input, g, offsets, at)
            gate, up = input.chunk(2, dim=-1)
            more = torch.where(gate < below, factor, 1.0)
            one = silu_and_mul(torch.cat([gate.float(), torch.ones_like(up.float())], dim=-1))
            values = (one * more * up.float()).to(input.dtype)
            wrong = quantize_experts(values, g, offsets, blockscale_offsets=at)
            tail = (gate < below).unflatten(-1, (-1, 2)).any(-1)[: offsets[-1]]
            rows = output[: offsets[-1]]
            rows.copy_(torch.where(tail, wrong.packed[: offsets[-1]], rows))

        return faulty

    found = refuted_by(planted(FUSED, wrap), checks, "silu_tail", "values")
    assert found >= 3 if factor > 1 else found == 0


def test_a_tail_of_silu_that_is_cut_off_in_f16_is_refuted(
    planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    """Below -24 only an `up` near the largest f16 brings the product back, and it is subnormal."""

    def wrap(operation: Operation) -> Operation:
        def cut(output: Tensor, scales: Tensor, input: Tensor, *others: Tensor) -> None:
            if input.dtype == torch.float16:
                gate, up = input.chunk(2, dim=-1)
                input = torch.cat([torch.where(gate < -24, 0.0, gate), up], dim=-1)
            operation(output, scales, input, *others)

        return cut

    assert refuted_by(planted(FUSED, wrap), checks, "silu_tail", "values") >= 1


def test_a_global_scale_of_an_expert_without_rows_is_used_nowhere(
    planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    """A kernel that takes the largest of all scales, say, gets NaN, 0 and Inf in turn."""

    def wrap(operation: Operation) -> Operation:
        def faulty(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, *others: Tensor) -> None:
            if not bool(g.isfinite().all() & (g > 0).all()):
                output[:1] ^= 1
                return
            operation(output, scales, input, g, *others)

        return faulty

    subject = planted(QUANT, wrap)
    found = {}
    for case in Plan.of(subject, level=1, seed=0).cases:
        if getattr(case, "group", "") == "experts" and case.k == 16:
            found |= checks(subject, case)
    assert found


def test_one_scale_that_all_experts_share_is_not_one(
    planted: Callable[..., Subject], checks: Callable[..., dict[str, str]]
) -> None:
    def wrap(operation: Operation) -> Operation:
        def faulty(
            output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *others: Tensor
        ) -> None:
            used = g[offsets.diff() > 0]
            shared = len(used) > 1 and bool((used == used[0]).all())
            operation(output, scales, input, torch.ones_like(g) if shared else g, offsets, *others)

        return faulty

    assert refuted_by(planted(QUANT, wrap), checks, "same", "global_scales") >= 3
