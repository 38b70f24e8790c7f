"""The judgement of the quantizers: each planted fault is refuted by the check that it belongs to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.reference.silu import silu_and_mul
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.plan import may_refuse
from nvfp4_moe.verification.conformance.subject import Subject

QUANT, FUSED = "scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"
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
IEEE = Contract(arithmetic="ieee")


def then(change: Callable[..., None]) -> Callable[[Operation], Operation]:
    """Do something to the tensors after the right operation."""

    def wrap(operation: Operation) -> Operation:
        def faulty(*tensors: Tensor) -> None:
            operation(*tensors)
            change(*tensors)

        return faulty

    return wrap


def instead(body: Callable[..., None]) -> Callable[[Operation], Operation]:
    """Do something with the right operation and its tensors."""
    return lambda operation: lambda *tensors: body(operation, *tensors)


def poke(address: int) -> None:
    ctypes.c_uint8.from_address(address).value ^= 0xFF


def scale_bytes(scales: Tensor) -> Tensor:
    return scales.view(torch.uint8).view(-1)


# --- faults of the last bytes, one for each check ----------------------------------------------------------


def before_the_output(output: Tensor, *others: Tensor) -> None:
    poke(output.data_ptr() - 1)


def a_row_of_nobody(
    output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *_: Tensor
) -> None:
    output[offsets[-1], 0] = 0x11


def a_scale_beyond_s(output: Tensor, scales: Tensor, *others: Tensor) -> None:
    scales[-1, 0] = 1


def an_input(output: Tensor, scales: Tensor, input: Tensor, *others: Tensor) -> None:
    input[0, 0] = 1.0 - input[0, 0]


def a_global_scale(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, *others: Tensor) -> None:
    g[-1] = g[-1] + 1.0


def swapped_nibbles(
    output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *_: Tensor
) -> None:
    rows = output[: offsets[-1]]
    rows.copy_((rows << 4) | (rows >> 4))


def a_dirty_k_padding(output: Tensor, scales: Tensor, *others: Tensor) -> None:
    scale_bytes(scales)[3] = 0x38  # row 0, the fourth of four columns, K = 48 has three


def a_dirty_row_padding(output: Tensor, scales: Tensor, *others: Tensor) -> None:
    scale_bytes(scales)[5 * 16] = 0x38  # row 5 of expert 0, which has five


AFTER = {
    before_the_output: ("guard", "memory"),
    a_row_of_nobody: ("untouched", "memory"),
    a_scale_beyond_s: ("untouched", "memory"),
    an_input: ("inputs", "memory"),
    a_global_scale: ("inputs", "memory"),
    swapped_nibbles: ("golden", "bytes"),
    a_dirty_k_padding: ("golden", "contract"),
    a_dirty_row_padding: ("golden", "contract"),
}


def test_the_golden_model_passes(right: Subject, checks: Checks) -> None:
    for operation in (QUANT, FUSED):
        assert checks(right, replace(CASE, operation=operation)) == {}


@pytest.mark.parametrize("operation", [QUANT, FUSED])
@pytest.mark.parametrize(("change", "told"), AFTER.items(), ids=lambda it: getattr(it, "__name__", ""))
def test_faults_after_the_right_work(
    operation: str,
    change: Callable[..., None],
    told: tuple[str, str],
    planted: Planted,
    checks: Checks,
) -> None:
    found = checks(planted(operation, then(change)), replace(CASE, operation=operation))
    check, finding = told
    assert found == {check: finding}


def test_a_wrong_value_is_told_rather_than_the_padding_before_it(planted: Planted, checks: Checks) -> None:
    def both(output: Tensor, scales: Tensor, *others: Tensor) -> None:
        a_dirty_k_padding(output, scales)
        scale_bytes(scales)[16] ^= 1

    assert checks(planted(QUANT, then(both)), CASE) == {"golden": "bytes"}


# --- bytes that are not written ----------------------------------------------------------------------------


def keeping(where: Callable[[Tensor, Tensor], Any]) -> Callable[[Operation], Operation]:
    """Put back what some scale bytes held before the call: as if never written."""

    def body(operation: Operation, output: Tensor, scales: Tensor, *others: Tensor) -> None:
        stale = scale_bytes(scales).clone()
        operation(output, scales, *others)
        at = where(scale_bytes(scales), stale)
        scale_bytes(scales)[at] = stale[at]

    return instead(body)


@pytest.mark.parametrize(("byte", "finding"), [(0, "bytes"), (3, "contract"), (5 * 16, "contract")])
def test_a_byte_that_is_never_written(byte: int, finding: str, planted: Planted, checks: Checks) -> None:
    subject = planted(QUANT, keeping(lambda now, stale: byte))
    assert checks(subject, CASE) == {"coverage": finding}


@pytest.mark.parametrize(("promise", "byte"), [("k_padding", 3), ("row_padding", 5 * 16)])
def test_padding_that_is_not_promised_may_hold_anything(
    promise: str, byte: int, planted: Planted, checks: Checks
) -> None:
    loose = Contract(arithmetic="ieee", **{promise: "unspecified"})  # type: ignore[arg-type]
    assert checks(planted(QUANT, keeping(lambda now, stale: byte), loose), CASE) == {}
    other = 5 * 16 if byte == 3 else 3
    assert checks(planted(QUANT, keeping(lambda now, stale: other), loose), CASE) == {"coverage": "contract"}


def test_a_right_value_that_only_a_fill_left_behind_is_not_written(planted: Planted, checks: Checks) -> None:
    """A buffer that the caller happened to zero looks right: one fill would not do."""
    subject = planted(QUANT, keeping(lambda now, stale: now == 0))
    assert checks(subject, CASE) == {"coverage": "contract"}


# --- bytes that must not matter ----------------------------------------------------------------------------


def ors_into_the_output(operation: Operation, output: Tensor, *others: Tensor) -> None:
    stale = output.clone()
    operation(output, *others)
    output[:1] |= stale[:1]


def reads_a_row_of_nobody(
    operation: Operation,
    output: Tensor,
    scales: Tensor,
    input: Tensor,
    g: Tensor,
    offsets: Tensor,
    *more: Tensor,
) -> None:
    copy = input.clone()
    last = int(offsets[-1])
    copy[last - 1, 0] = torch.maximum(copy[last - 1, 0], copy[last, 0].abs())
    operation(output, scales, copy, g, offsets, *more)


def reads_past_the_global_scales(
    operation: Operation, output: Tensor, scales: Tensor, input: Tensor, g: Tensor, *more: Tensor
) -> None:
    one_more = torch.as_strided(g, (len(g) + 1,), (1,), g.storage_offset())
    operation(output, scales, input, torch.where(one_more[:-1] > 0, one_more[-1].abs(), g), *more)


@pytest.mark.parametrize(
    "body",
    [ors_into_the_output, reads_a_row_of_nobody, reads_past_the_global_scales],
    ids=lambda b: b.__name__,
)
def test_results_that_depend_on_what_must_not_matter(
    body: Callable[..., None], planted: Planted, checks: Checks
) -> None:
    found = checks(planted(QUANT, instead(body)), CASE)
    assert found["poison"] == "bytes"


# --- arithmetic: found somewhere among the small cases of level 1 ------------------------------------------


def plus_zero_for_minus_zero(
    output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *_: Tensor
) -> None:
    rows = output[: offsets[-1]]
    low, high = rows & 0x0F, rows >> 4
    rows.copy_(torch.where(low == 8, 0, low) | torch.where(high == 8, 0, high) << 4)


def flushed(operation: Operation, output: Tensor, scales: Tensor, input: Tensor, *more: Tensor) -> None:
    tiny = torch.finfo(input.dtype).tiny
    operation(output, scales, torch.where(input.abs() < tiny, 0.0, input), *more)


def no_nan(operation: Operation, output: Tensor, scales: Tensor, input: Tensor, *more: Tensor) -> None:
    operation(output, scales, input.nan_to_num(0.0, posinf=torch.inf, neginf=-torch.inf), *more)


def finite(operation: Operation, output: Tensor, scales: Tensor, input: Tensor, *more: Tensor) -> None:
    largest = torch.finfo(input.dtype).max
    operation(output, scales, input.clamp(-largest, largest), *more)


def the_next_experts_scale(
    operation: Operation, output: Tensor, scales: Tensor, input: Tensor, g: Tensor, *more: Tensor
) -> None:
    operation(output, scales, input, g.roll(1), *more)


def scale_of_one_ulp(
    operation: Operation, output: Tensor, scales: Tensor, input: Tensor, g: Tensor, *more: Tensor
) -> None:
    operation(output, scales, input, torch.nextafter(g, torch.zeros_like(g)), *more)


@pytest.mark.parametrize(
    "wrap",
    [
        then(plus_zero_for_minus_zero),
        *map(instead, (flushed, no_nan, finite, the_next_experts_scale, scale_of_one_ulp)),
    ],
    ids=["minus_zero", "flushed", "no_nan", "finite", "next_scale", "one_ulp"],
)
def test_faults_of_arithmetic(
    wrap: Callable[[Operation], Operation], planted: Planted, first_broken: Callable[..., dict[str, str]]
) -> None:
    assert first_broken(planted(QUANT, wrap)) == {"golden": "bytes"}


def silu_not_rounded(
    operation: Operation,
    output: Tensor,
    scales: Tensor,
    input: Tensor,
    g: Tensor,
    offsets: Tensor,
    *more: Tensor,
) -> None:
    operation(output, scales, input, g, offsets, *more)
    true = quantize_experts(silu_and_mul(input.float()), g, offsets, blockscale_offsets=more[0])
    output[: offsets[-1]] = true.packed[: offsets[-1]]


def test_silu_that_skips_a_rounding(planted: Planted, first_broken: Callable[..., dict[str, str]]) -> None:
    assert first_broken(planted(FUSED, instead(silu_not_rounded))) == {"golden": "bytes"}


# --- calls one after the other -----------------------------------------------------------------------------


def test_a_fault_from_the_second_call_on(planted: Planted, checks: Checks) -> None:
    calls: list[int] = []

    def body(operation: Operation, output: Tensor, *others: Tensor) -> None:
        operation(output, *others)
        calls.append(1)
        if len(calls) > 1:
            output[0, 0] ^= 1

    found = checks(planted(QUANT, instead(body)), CASE)
    assert found["golden"] == "bytes"


# --- pointers and strides ----------------------------------------------------------------------------------


def assumes_contiguous(
    operation: Operation, output: Tensor, scales: Tensor, input: Tensor, *more: Tensor
) -> None:
    dense = torch.as_strided(input, input.shape, (input.shape[1], 1), input.storage_offset())
    operation(output, scales, dense, *more)


@pytest.mark.parametrize("strided", ["refused", "honoured"])
def test_rows_that_lie_apart_are_never_misread(strided: str, planted: Planted, checks: Checks) -> None:
    contract = replace(IEEE, strided=strided)  # type: ignore[arg-type]
    case = replace(CASE, row_gap=32)
    assert checks(planted(QUANT, lambda right: right, contract), case) == {}
    found = checks(planted(QUANT, instead(assumes_contiguous), contract), case)
    assert found["golden"] == "bytes"


def refuses(operation: Operation, *tensors: Tensor) -> None:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("changes", "contract", "legal"),
    [
        ({}, {}, False),
        ({"row_gap": 32}, {"strided": "refused"}, True),
        ({"row_gap": 32}, {"strided": "honoured"}, False),
        ({"offset": 16, "offset_all": True}, {}, True),
        ({"offset": 16, "offset_all": True}, {"alignment": {"default": 16}}, False),
        ({"offset": 64, "offset_all": False}, {}, False),
    ],
)
def test_what_may_be_refused(
    changes: dict[str, Any], contract: dict[str, Any], legal: bool, planted: Planted, checks: Checks
) -> None:
    promises = Contract(arithmetic="ieee", **contract)
    case = replace(CASE, **changes)
    assert may_refuse(case, promises) is legal
    found = checks(planted(QUANT, instead(refuses), promises), case)
    assert found == ({} if legal else {"refused": "ValueError: no"})


def test_pointers_stand_where_the_case_says(planted: Planted, checks: Checks) -> None:
    seen: list[tuple[int, int]] = []

    def body(operation: Operation, output: Tensor, scales: Tensor, *others: Tensor) -> None:
        seen.append((output.data_ptr() % 128, scales.data_ptr() % 128))
        operation(output, scales, *others)

    subject = planted(QUANT, instead(body), IEEE)
    assert checks(subject, replace(CASE, offset=64, offset_all=True)) == {}
    assert set(seen) == {(64, 64)}
    seen.clear()
    assert checks(subject, replace(CASE, offset=64, offset_all=False)) == {}
    assert set(seen) == {(64, 0)}  # scales are declared to be aligned to 128


# --- calls that end without outputs ------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "golden"), [(ValueError, "contract"), (OSError, "bytes")])
def test_a_write_outside_before_an_exception_is_found(
    error: type[Exception], golden: str, planted: Planted, checks: Checks
) -> None:
    def spoils(operation: Operation, output: Tensor, *others: Tensor) -> None:
        poke(output.data_ptr() - 1)
        raise error("no")

    assert checks(planted(QUANT, instead(spoils)), CASE) == {"guard": "memory", "golden": golden}


def test_a_write_outside_before_a_legal_refusal_is_found(planted: Planted, checks: Checks) -> None:
    def spoils(operation: Operation, output: Tensor, *others: Tensor) -> None:
        poke(output.data_ptr() - 1)
        raise ValueError("strided")

    strided = replace(CASE, row_gap=32)
    assert checks(planted(QUANT, instead(spoils), IEEE), strided) == {"guard": "memory"}


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_exceptions_that_end_a_program_are_exceptions(
    error: type[BaseException], planted: Planted, checks: Checks
) -> None:
    def ends(operation: Operation, *tensors: Tensor) -> None:
        raise error(0)

    assert error.__name__ in checks(planted(QUANT, instead(ends)), CASE)["raised"]


# --- outputs that are returned -----------------------------------------------------------------------------


@pytest.mark.parametrize("spare", [0, 1, 128, 1000])
@pytest.mark.parametrize("case", [CASE, replace(CASE, tokens_per_expert=(0, 0, 0))])
def test_a_returned_scale_buffer_may_be_an_upper_bound(spare: int, case: QuantCase, checks: Checks) -> None:
    def quantize(input: Tensor, g: Tensor, offsets: Tensor, scale_offsets: Tensor) -> tuple[Tensor, Tensor]:
        true = quantize_experts(input, g, offsets, blockscale_offsets=scale_offsets)
        scales = torch.full(
            (len(true.block_scale) + spare, true.block_scale.shape[1]), 0x5A, dtype=torch.uint8
        )
        scales[: len(true.block_scale)] = true.block_scale
        return true.packed, scales.view(torch.int32)

    assert checks(Subject("returns", contract=IEEE, scaled_fp4_experts_quant=quantize), case) == {}


def test_a_returned_scale_buffer_that_is_too_short_is_not(checks: Checks) -> None:
    def quantize(input: Tensor, g: Tensor, offsets: Tensor, scale_offsets: Tensor) -> tuple[Tensor, Tensor]:
        true = quantize_experts(input, g, offsets, blockscale_offsets=scale_offsets)
        return true.packed, true.block_scale[:-1]

    said = checks(Subject("returns", contract=IEEE, scaled_fp4_experts_quant=quantize), CASE)["raised"]
    assert "(256, 1) of torch.int32 or more rows is due" in said
