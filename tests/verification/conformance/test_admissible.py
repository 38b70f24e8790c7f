"""What documented errors excuse: exactly the bytes that some reciprocal within its error gives, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference import tables
from nvfp4_moe.reference.casts import decode_ue4m3, encode_e2m1, encode_ue4m3, pack
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.verification.conformance.admissible import admissible, exact_interval, silu_interval
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.values import make_global_scales, make_values
from nvfp4_moe.verification.conformance.worker import answer

QUANT = "scaled_fp4_experts_quant"
ROWS, COLUMNS = 96, 64


def ulps(value: Tensor, steps: int) -> Tensor:
    """Return the float32 value moved by so many ulp; non-negative values."""
    return torch.where(
        value.isfinite() & (value > 0), (value.view(torch.int32) + steps).view(torch.float32), value
    )


def reciprocal(value: Tensor, steps: int) -> Tensor:
    exact = torch.ones_like(value) / value
    return torch.where(torch.frexp(value).mantissa == 0.5, exact, ulps(exact, steps))


def chain(
    rows: Tensor, g: Tensor, sixth: int, inner: int, outer: int, *, recipe: str = "vllm"
) -> tuple[Tensor, Tensor]:
    """Return codes and scale bytes of the recipe with each reciprocal so many ulp off, those of powers of two exact."""
    blocks = rows.float().unflatten(-1, (-1, 16))
    amax = blocks.abs().amax(-1)
    scales = encode_ue4m3(g * (amax * ulps(torch.tensor(6.0).reciprocal(), sixth)))
    decoded = decode_ue4m3(scales)
    multiplier = reciprocal(decoded * reciprocal(g, inner), outer)
    zero = decoded == 0 if recipe == "vllm" else amax == 0
    multiplier = torch.where(zero, 0.0, multiplier)
    return encode_e2m1(blocks * multiplier[..., None]).flatten(-2), scales


def inputs(family: str, dtype: str, index: int) -> tuple[Tensor, Tensor]:
    rows = make_values(family, seed=5, index=index, rows=ROWS, columns=COLUMNS, dtype=dtype)
    g = make_global_scales("powers" if index % 2 else "distinct", seed=5, index=index, experts=ROWS)[:, None]
    return rows, g


def judged(
    rows: Tensor, g: Tensor, codes: Tensor, scales: Tensor, recipe: str = "vllm"
) -> tuple[Tensor, Tensor]:
    return admissible(
        pack(codes),
        scales,
        magnitudes=exact_interval(rows),
        signs=rows.signbit(),
        global_scale=g,
        recipe=recipe,
    )


WITHIN = [(0, inner, outer) for inner, outer in product((-1, 0, 1), repeat=2)]
MIDDLE = WITHIN.index((0, 0, 0))


@pytest.mark.parametrize("recipe", ["vllm", "tensorrt_llm"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("family", ["windowed", "ties", "scales", "scale_ties", "distinct", "one_hot"])
def test_every_reciprocal_within_its_error_is_admitted(family: str, dtype: str, recipe: str) -> None:
    for index in range(2):
        rows, g = inputs(family, dtype, index)
        for sixth, inner, outer in WITHIN:
            codes, scales = chain(rows, g, sixth, inner, outer, recipe=recipe)
            packed_ok, scales_ok = judged(rows, g, codes, scales, recipe)
            assert bool(packed_ok.all())
            assert bool(scales_ok.all())


@pytest.mark.parametrize("family", ["windowed", "ties", "scale_ties"])
def test_no_other_byte_is_admitted(family: str) -> None:
    """Brute force over the 9 combinations gives the bytes that can occur; of all 256 others each is rejected."""
    rows, g = inputs(family, "bf16", 0)
    reached = [chain(rows, g, *steps) for steps in WITHIN]
    codes, scales = reached[MIDDLE]
    for wrong in range(0, 256, 1 if family == "ties" else 5):
        tried = torch.full_like(scales, wrong)
        possible = torch.stack([scale == tried for _, scale in reached]).any(0)
        _, scales_ok = judged(rows, g, codes, tried)
        assert torch.equal(scales_ok, possible)
    for wrong in range(16):
        tried = torch.full_like(codes, wrong)
        same_scale = [code for code, scale in reached if torch.equal(scale, scales)]
        possible = torch.stack([code == tried for code in same_scale]).any(0)
        packed_ok, _ = judged(rows, g, tried, scales)
        both = possible[..., 0::2] & possible[..., 1::2]
        assert not bool((packed_ok & ~both).any())


@pytest.mark.parametrize(
    ("family", "steps"),
    [("scale_ties", (1, 0, 0)), ("scale_ties", (4, 0, 0)), ("ties", (0, 4, 0)), ("ties", (0, 0, -4))],
)
def test_larger_errors_are_not_excused(family: str, steps: tuple[int, int, int]) -> None:
    """Global scales some ulp off a power of two put values at that distance from a rounding boundary."""
    rejected = 0
    for index in range(6):
        rows, _ = inputs(family, "bf16", index)
        g = make_global_scales("near_powers", seed=5, index=index, experts=ROWS)[:, None]
        codes, scales = chain(rows, g, *steps)
        packed_ok, scales_ok = judged(rows, g, codes, scales)
        rejected += int((~packed_ok).sum()) + int((~scales_ok).sum())
    assert rejected > 0


def test_measured_tables_have_the_results_that_are_known_exactly() -> None:
    """Mantissa 0 is a power of two, 0x400000 is that of six."""
    paths = sorted((Path(tables.__file__).parent / "data").glob("reciprocal-*.table"))
    assert paths
    for table in map(tables.load_table, paths):
        assert int(table.values[0]) == int(table.values[0x400000]) == 0


def half_up(right: Callable[..., None]) -> Callable[..., None]:
    """Round ties away from zero, as a comparison with `>=` does: 0.25, 1.25, 2.5 and 5 give the larger code."""

    def quantize(
        output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *more: Tensor
    ) -> None:
        right(output, scales, input, g, offsets, *more)
        routed = int(offsets[-1])
        row_scale = torch.repeat_interleave(g, offsets.diff())[:, None]
        codes, scale_bytes = chain(input[:routed], row_scale, 0, 0, 0)
        multiplier = torch.where(
            decode_ue4m3(scale_bytes) == 0, 0.0, 1 / (decode_ue4m3(scale_bytes) * (1 / row_scale))
        )
        value = (input[:routed].float().unflatten(-1, (-1, 16)) * multiplier[..., None]).flatten(-2).abs()
        tie = torch.isin(value, torch.tensor([0.25, 1.25, 2.5, 5.0]))
        output[:routed] = pack(codes + tie.to(torch.uint8))

    return quantize


def test_ties_of_exact_multipliers_are_not_excused(planted: Callable[..., Subject], arena: Any) -> None:
    subject = planted(QUANT, half_up, Contract())
    assert any(
        fault["check"] == "golden"
        for case in some(subject)
        for fault in answer(subject, case, arena).get("faults", ())
    )


def test_a_wrong_sign_is_not_excused() -> None:
    rows, g = inputs("windowed", "bf16", 0)
    codes, scales = chain(rows, g, 0, 0, 0)
    packed_ok, _ = judged(rows, g, codes ^ 8, scales)
    assert not bool(packed_ok.any())


def test_silu_lies_in_its_interval_and_the_interval_is_narrow() -> None:
    patterns = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    gate = patterns[patterns.isfinite()].view(-1, 1)
    up = torch.full_like(gate, 1.0)
    interval = silu_interval(torch.cat([gate, up], dim=1))
    exact = gate.double() / (1 + torch.exp(-gate.double()))
    true = exact.float().to(torch.bfloat16).float().abs()
    assert bool(((interval.low <= true) & (true <= interval.high)).all())
    ordinary = exact.abs() > 1e-30
    low, high = (bound.to(torch.bfloat16).view(torch.int16).int() for bound in (interval.low, interval.high))
    assert int((high - low)[ordinary].max()) <= 1


# --- in the judgement of a case ----------------------------------------------------------------------------

CASE = QuantCase(
    operation=QUANT,
    group="test",
    index=0,
    seed=0,
    tokens_per_expert=(40, 3),
    unrouted_rows=1,
    k=80,
    dtype="bf16",
    values="ties",
    global_scales="powers",
    extra_scale_rows=128,
)


def moved(steps: int, planted: Callable[..., Subject], also: Callable[..., None] | None = None) -> Subject:
    """Return the golden model with its outer reciprocal some ulp off, promising the chip's own arithmetic."""

    def wrap(operation: Any) -> Any:
        def approximate(
            output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *more: Tensor
        ) -> None:
            operation(output, scales, input, g, offsets, *more)
            routed = int(offsets[-1])
            row_scale = torch.repeat_interleave(g, offsets.diff())[:, None]
            output[:routed] = pack(chain(input[:routed], row_scale, 0, 0, steps)[0])
            if also is not None:
                also(output, scales)

        return approximate

    return planted(QUANT, wrap, Contract())


def some(subject: Subject) -> Iterator[QuantCase]:
    for case in Plan.of(subject, level=1, seed=0).cases:
        if (
            isinstance(case, QuantCase)
            and case.values == "ties"
            and case.elements < 20_000
            and not case.offset
        ):
            yield case


def test_a_case_tells_admissible_bytes_and_never_calls_them_exact(
    planted: Callable[..., Subject], arena: Any
) -> None:
    subject = moved(1, planted)
    told = [answer(subject, case, arena) for case in list(some(subject))[:60]]
    assert not any(one["faults"] for one in told)
    assert sum(one["admissible"] for one in told) > 0


def test_a_larger_error_is_found_in_some_case(planted: Callable[..., Subject], arena: Any) -> None:
    subject = moved(-4, planted)
    assert any(
        fault["check"] == "golden"
        for case in some(subject)
        for fault in answer(subject, case, arena)["faults"]
    )


def dirty_padding(output: Tensor, scales: Tensor) -> None:
    scales.view(torch.uint8).view(-1)[512 + 1] = 1  # K = 80: the second column tile holds one block


def test_padding_is_never_excused(planted: Callable[..., Subject], arena: Any) -> None:
    assert answer(moved(1, planted), CASE, arena)["faults"] == []
    (fault,) = answer(moved(1, planted, dirty_padding), CASE, arena)["faults"]
    assert (fault["check"], fault["finding"], fault["where"]["kind"]) == ("golden", "contract", "k_padding")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_block_of_silu_of_minus_infinity_may_be_nan_or_zero(dtype: torch.dtype) -> None:
    """A chip computes -Inf / Inf; the real value is the limit -0. Nothing between or beside them is reachable."""
    gate_up = torch.cat([torch.full((1, 16), -torch.inf), torch.full((1, 16), 2.0)], dim=1).to(dtype)
    for scale, code, ok in ((0x7F, 0x77, True), (0x00, 0x88, True), (0x00, 0x00, False), (0x7F, 0xFF, False)):
        packed_ok, _ = admissible(
            torch.full((1, 8), code, dtype=torch.uint8),
            torch.full((1, 1), scale, dtype=torch.uint8),
            magnitudes=silu_interval(gate_up),
            signs=torch.ones((1, 16), dtype=torch.bool),
            global_scale=torch.full((1, 1), 3.0),
        )
        assert bool(packed_ok.all()) is ok
    scales = torch.arange(256, dtype=torch.uint8)[:, None]
    _, scales_ok = admissible(
        torch.zeros((256, 8), dtype=torch.uint8),
        scales,
        magnitudes=silu_interval(gate_up.expand(256, 32)),
        signs=torch.ones((256, 16), dtype=torch.bool),
        global_scale=torch.full((256, 1), 3.0),
    )
    assert scales_ok.view(-1).nonzero().view(-1).tolist() == [0x00, 0x7F]


MOST_ELEMENTS = 60_000


@pytest.mark.parametrize("operation", [QUANT, "silu_and_mul_scaled_fp4_experts_quant"])
def test_what_a_measured_chip_computes_is_admitted_on_an_unmeasured_one(
    operation: str, planted: Callable[..., Subject], arena: Any
) -> None:
    """Bytes of the H200's own reciprocal and SiLU, from its tables, without telling the judgement of them."""
    quantize = quantize_experts if operation == QUANT else silu_and_mul_quantize_experts

    def as_the_chip(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, *offsets: Tensor) -> None:
        true = quantize(input, g, offsets[0], blockscale_offsets=offsets[1], arithmetic="hardware")
        output[: offsets[0][-1]] = true.packed[: offsets[0][-1]]
        scales.view(torch.uint8)[: offsets[1][-1]] = true.block_scale

    subject = planted(operation, lambda right: as_the_chip, Contract(strided="honoured"))
    told = []
    for case in Plan.of(subject, level=1, seed=0).cases:
        # Most multipliers are the same in both arithmetics: rows of activations have enough of the others.
        if isinstance(case, QuantCase) and case.group == "values" and case.elements < MOST_ELEMENTS:
            told.append(answer(subject, case, arena))
    assert [one["faults"] for one in told if one["faults"]] == []
    assert sum(one["admissible"] for one in told) > 0
