"""The cases are a covering array, and case number n is a function of the settings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.conformance.cases import (
    EXPERT_COUNTS,
    ID_FAMILIES,
    MODEL_WIDTHS,
    ROUTED_EXPERT_COUNTS,
    SMALL_ROUTINGS,
    SMALL_WIDTHS,
    WIDTH_CLASSES,
    QuantCase,
    RoutingCase,
    law_bases,
    masked_cases,
    quant_cases,
    routing_cases,
)
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.forms import Kind
from nvfp4_moe.verification.conformance.laws_check import LAWS, LawCase
from nvfp4_moe.verification.conformance.plan import PREFIXES, Plan, case_from_json, may_refuse, prefix_of
from nvfp4_moe.verification.conformance.quant_data import form_of, make_inputs
from nvfp4_moe.verification.conformance.routing_check import make_topk_ids
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.values import GLOBAL_SCALES, VALUES, make_values

QUANT, FUSED = "scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"
DTYPES = ("bf16", "f16")
CASES = {op: list(quant_cases(op, level=1, seed=0)) for op in (QUANT, FUSED)}
ROUTING = list(routing_cases(level=1, seed=0, id_dtypes=("int32", "int64")))


@pytest.mark.parametrize("operation", CASES)
def test_every_small_routing_meets_every_class_of_widths(operation: str) -> None:
    met: dict[tuple[int, ...], set[int]] = {}
    for case in CASES[operation]:
        met.setdefault(case.tokens_per_expert, set()).add(case.k)
    for routing in SMALL_ROUTINGS:
        assert all(met[routing] & set(widths) for widths in WIDTH_CLASSES)
    for k in SMALL_WIDTHS:
        assert sum(k in widths for widths in met.values()) >= len(SMALL_ROUTINGS) // 6
    assert {case.k for case in CASES[operation]} >= {*SMALL_WIDTHS, *MODEL_WIDTHS}
    assert {len(case.tokens_per_expert) for case in CASES[operation]} >= set(EXPERT_COUNTS)


def test_classes_of_widths_are_what_is_left_of_them() -> None:
    assert [{k % 64 for k in widths} for widths in WIDTH_CLASSES[:3]] == [{16}, {48}, {32}]
    assert [{k % 128 for k in widths} for widths in WIDTH_CLASSES[3:]] == [{64}, {0}]


@pytest.mark.parametrize("operation", CASES)
@pytest.mark.parametrize("experts", EXPERT_COUNTS)
def test_experts_with_rows_stand_far_from_each_other(operation: str, experts: int) -> None:
    met = {
        k: {tuple(c.tokens_per_expert) for c in CASES[operation] if c.k == k and c.group == "sparse"}
        for k in (16, 80)
    }
    for routings in met.values():
        filled = [
            [expert for expert, rows in enumerate(routing) if rows]
            for routing in routings
            if len(routing) == experts
        ]
        assert [experts - 1] in filled
        assert sorted({0, experts - 1}) in filled
        assert list(range(0, experts, 17)) in filled
        assert (0,) * (experts // 2) + (130,) + (0,) * ((experts - 1) // 2) in routings


def loses_experts_behind_empty_ones(operation: Callable[..., None]) -> Callable[..., None]:
    """A scan that looks at 16 experts at once and stops at the first sixteen without rows."""

    def faulty(
        output: Tensor, scales: Tensor, input: Tensor, g: Tensor, offsets: Tensor, *rest: Tensor
    ) -> None:
        operation(output, scales, input, g, offsets, *rest)
        counts = offsets.diff().tolist()
        for first in range(0, len(counts) - 16, 16):
            if not any(counts[first : first + 16]):
                output[int(offsets[first + 16]) : int(offsets[-1])] ^= 0x11
                return

    return faulty


def caps_the_grid(operation: Callable[..., None]) -> Callable[..., None]:
    def faulty(output: Tensor, *others: Tensor) -> None:
        before = output[65_535:].clone()
        operation(output, *others)
        output[65_535:] = before

    return faulty


@pytest.mark.parametrize(
    ("fault", "group"), [(loses_experts_behind_empty_ones, "sparse"), (caps_the_grid, "launch")]
)
def test_kernels_that_lose_rows_far_away_are_refuted(
    fault: Callable[..., Any],
    group: str,
    planted: Callable[..., Subject],
    checks: Callable[..., dict[str, str]],
) -> None:
    subject = planted(QUANT, fault)
    assert any(checks(subject, case) for case in CASES[QUANT] if case.group == group and case.k == 16)


def test_the_first_call_has_more_rows_than_a_warp() -> None:
    for cases in CASES.values():
        assert cases[0].tokens_per_expert == (33, 1)


def chosen(case: QuantCase, name: str) -> object:
    if name != "width_class":
        return getattr(case, name)
    return next((number for number, widths in enumerate(WIDTH_CLASSES) if case.k in widths), None)


@pytest.mark.parametrize("operation", CASES)
@pytest.mark.parametrize(
    ("one", "values_one", "two", "values_two"),
    [
        ("width_class", (0, 1, 2, 3, 4), "values", tuple(VALUES)),
        ("k", SMALL_WIDTHS, "dtype", DTYPES),
        ("tokens_per_expert", SMALL_ROUTINGS, "dtype", DTYPES),
        ("values", tuple(VALUES), "dtype", DTYPES),
        ("values", tuple(VALUES), "global_scales", GLOBAL_SCALES),
        ("width_class", (0, 1, 2, 3, 4), "offset", (0, 4, 8, 16, 32, 64)),
        ("width_class", (0, 1, 2, 3, 4), "extra_scale_rows", (0, 128, 256, 384)),
        ("width_class", (0, 1, 2, 3, 4), "unrouted_rows", (0, 1, 5, 130)),
        ("offset", (4, 8, 16, 32, 64), "offset_all", (True, False)),
    ],
)
def test_pairs_of_choices_meet(
    operation: str, one: str, values_one: tuple[object, ...], two: str, values_two: tuple[object, ...]
) -> None:
    met = {(chosen(case, one), chosen(case, two)) for case in CASES[operation]}
    assert set(product(values_one, values_two)) <= met


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("operation", "part"), [(QUANT, "all"), (FUSED, "gate"), (FUSED, "up")])
def test_all_16_bit_patterns_are_quantized(operation: str, part: str, dtype: str) -> None:
    seen = torch.zeros(1 << 16, dtype=torch.bool)
    for case in CASES[operation]:
        if case.dtype == dtype and case.values == "every" and case.group == "values":
            rows = make_inputs(case).rows
            rows = {"all": rows, "gate": rows[:, : case.k], "up": rows[:, case.k :]}[part]
            seen[rows.contiguous().view(torch.int16).to(torch.int64).view(-1) & 0xFFFF] = True
    assert int((~seen).sum()) == 0


def test_level_1_stays_small_and_level_2_adds_to_it() -> None:
    for cases in CASES.values():
        assert sum(case.elements for case in cases) < 40e6
    more = list(quant_cases(QUANT, level=2, seed=0))
    assert set(more) >= {case for case in CASES[QUANT] if case.group != "views"}
    assert [case for case in more if case.group == "views"] == [c for c in CASES[QUANT] if c.group == "views"]
    assert max(case.rows for case in more) >= 262_141
    one_by_one = {case.tokens_per_expert[0] for case in more if case.k == 256 and case.group == "rows"}
    assert one_by_one == set(range(1, 321))
    near = {case.tokens_per_expert[0] for case in more if case.group == "near_tiles"}
    assert near >= {128 * tiles + step for tiles in range(1, 9) for step in (-1, 0, 1)}


def test_the_seed_moves_the_cases() -> None:
    assert list(quant_cases(QUANT, level=1, seed=0)) == CASES[QUANT]
    assert list(quant_cases(QUANT, level=1, seed=1)) != CASES[QUANT]


@pytest.mark.parametrize("operation", ["scaled_fp4_masked_quant", "silu_and_mul_scaled_fp4_masked_quant"])
def test_masked_cases_cover_experts_widths_slabs_offsets_and_strides(operation: str) -> None:
    cases = list(masked_cases(operation, seed=0))
    assert cases[0].tokens_per_expert == (33, 1)
    assert {len(case.tokens_per_expert) for case in cases} >= {1, 2, 36, 37, 64, 257}
    assert {case.k for case in cases} >= {*SMALL_WIDTHS, 512, 1056, 2880, 7168}
    assert max(max(case.tokens_per_expert) for case in cases) > 512
    assert max(max(case.tokens_per_expert) + case.unrouted_rows for case in cases) > 262
    assert {case.offset for case in cases} == {0, 4, 8, 16, 32, 64}
    assert len({case.row_gap for case in cases}) > 3
    assert {(case.values, case.dtype) for case in cases} == set(product(VALUES, DTYPES))
    assert {case.global_scales for case in cases} == set(GLOBAL_SCALES)
    assert sum(case.elements for case in cases) < 22e6


def test_ids_of_a_wider_tensor_are_calls_of_their_own() -> None:
    apart = [case for case in ROUTING if case.id_gap]
    assert {case.id_gap for case in apart} == {1, 6}
    assert all(may_refuse(case, Contract()) for case in apart)
    assert len(apart) < len(ROUTING) / 50


def test_routing_cases_cover_experts_families_tokens_and_types() -> None:
    met = {(case.num_experts, case.ids) for case in ROUTING}
    assert met == set(product(ROUTED_EXPERT_COUNTS, ID_FAMILIES))
    assert {(case.ids, case.id_dtype) for case in ROUTING} == set(product(ID_FAMILIES, ("int32", "int64")))
    tokens = {0, 1, 2, 3, 5, 17, 64, 127, 128, 129, 255, 257, 384, 512, 2048}
    assert {(case.ids, case.tokens) for case in ROUTING} >= set(product(ID_FAMILIES, tokens))
    assert {case.topk for case in ROUTING} == {*range(1, 11), 12, 16, 22}
    assert {case.n % 2 for case in ROUTING} == {0, 1}
    assert {(case.tokens, case.topk) for case in ROUTING} >= {(65_536, 1), (8193, 8), (65_537, 1)}
    launched = {(case.num_experts, case.ids) for case in ROUTING if case.tokens * case.topk > 65_536}
    assert launched >= {(8, "uniform"), (1, "negative"), (257, "negative"), (1025, "last_expert")}
    for name in ("is_gated", "n", "k"):
        assert len({getattr(case, name) for case in ROUTING}) > 1
    assert {case.id_dtype for case in routing_cases(level=1, seed=0, id_dtypes=("int32",))} == {"int32"}


def test_two_experts_get_whole_tiles_in_one_batch() -> None:
    found = set()
    for case in ROUTING:
        if case.ids == "whole_tiles" and case.num_experts > 2 and case.tokens * case.topk >= 256:
            counts = torch.bincount(make_topk_ids(case).view(-1).long(), minlength=case.num_experts)
            whole = ((counts > 0) & (counts % 128 == 0)).nonzero().view(-1).tolist()
            found.add(len(whole))
            if case.num_experts > 257:
                assert {128, 256} <= set(whole)
    assert 2 in found


def test_id_minus_one_stands_in_many_single_positions() -> None:
    positions = set()
    for case in ROUTING:
        ids = make_topk_ids(case)
        assert ids.shape == (case.tokens, case.topk)
        assert bool(((ids >= -1) & (ids < case.num_experts)).all())
        if case.ids == "one_negative" and ids.numel():
            (at,) = (ids.view(-1) < 0).nonzero().view(-1).tolist()
            positions.add(at)
    assert len(positions) > 20
    assert {0, 1} <= positions


@pytest.mark.parametrize("operation", [QUANT, "scaled_fp4_masked_quant"])
def test_the_harness_keeps_its_own_preconditions(operation: str) -> None:
    """Offsets are prefix sums, starts lie on tiles, tables agree with the shapes: a fault here would blame a subject."""
    cases = CASES[QUANT][::7] if operation == QUANT else list(masked_cases(operation, seed=0))[::5]
    for case in cases:
        form, counts = form_of(case), torch.tensor(case.tokens_per_expert)
        assert int(form.owned.sum()) == int(counts.sum())
        kinds = form.kinds
        assert kinds.shape == (*form.scale_shape[:-1], form.scale_shape[-1] * 4)
        assert int((kinds == int(Kind.VALID)).sum()) == int(counts.sum()) * case.k // 16
        padded = (counts + 127) // 128 * 128
        beyond = int((kinds == int(Kind.BEYOND)).sum())
        assert kinds.numel() - beyond == int(padded.sum()) * form.scale_shape[-1] * 4
        if not case.masked:
            assert form.expert_offsets.diff().tolist() == counts.tolist()  # type: ignore[attr-defined]
            assert form.blockscale_offsets.diff().tolist() == padded.tolist()  # type: ignore[attr-defined]
            assert not bool((form.blockscale_offsets % 128).any())  # type: ignore[attr-defined]


@pytest.mark.parametrize("operation", [QUANT, "scaled_fp4_masked_quant"])
def test_positions_are_the_inverse_of_placing(operation: str) -> None:
    case = QuantCase(
        operation=operation, group="test", index=0, seed=0, tokens_per_expert=(130, 0, 3), unrouted_rows=2, k=80,
        dtype="bf16", values="any", global_scales="one",
    )  # fmt: skip
    form = form_of(case)
    for expert, row, column in ((0, 0, 0), (0, 129, 4), (2, 1, 2)):
        linear = torch.zeros(133, 5, dtype=torch.uint8)
        linear[sum(case.tokens_per_expert[:expert]) + row, column] = 1
        (byte,) = form.place_scales(linear).view(-1).nonzero().view(-1).tolist()
        assert form.scale_position(byte) == (expert, row, column)
        assert torch.equal(form.read_scales(form.place_scales(linear)), linear)


def plan(contract: Contract, *operations: str) -> Plan:
    subject = Subject("s", "cpu", contract, **dict.fromkeys(operations or PREFIXES, lambda *_: None))
    return Plan.of(subject, level=1, seed=0)


def test_cases_survive_json() -> None:
    whole = plan(Contract(max_experts=512))
    for case in whole.cases:
        assert case_from_json(case.to_json()) == case
    assert {prefix_of(case) for case in whole.cases} == set(PREFIXES.values())
    assert len({str(case.to_json()) for case in whole.cases}) == len(whole.cases)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"kind": "dance"},
        {"kind": "quant"},
        {"kind": "routing"},
        {"kind": "law", "law": "rows", "base": 3},
    ],
)
def test_what_is_no_case_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="case"):
        case_from_json(entry)


def test_every_claim_of_a_plan_is_known() -> None:
    claims = plan(Contract(max_experts=4)).claims()
    assert set(claims) <= set(CLAIMS)
    assert len(claims) == len(set(claims))
    assert {"quant.laws", "quant.refusal", "routing.refusal", "masked_quant.poison", "swizzle.golden"} <= set(
        claims
    )


def test_the_contract_cuts_the_domain() -> None:
    narrow = plan(Contract(max_experts=16, k_multiple=64, negative_ids="unsupported", id_dtypes=("int64",)))
    for case in narrow.cases:
        if isinstance(case, RoutingCase):
            assert case.num_experts <= 16
            assert "negative" not in case.ids
            assert case.id_dtype == "int64"
        if isinstance(case, QuantCase):
            assert case.k % 64 == 0
            assert len(case.tokens_per_expert) <= 16


def test_each_law_is_tried_on_several_calls() -> None:
    laws = [case for case in plan(Contract(), QUANT).cases if isinstance(case, LawCase)]
    assert {(case.law, case.base.k) for case in laws} == {
        (law, base.k) for law in LAWS for base in law_bases(QUANT, seed=0)
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_gates_are_spread_by_powers_of_two(dtype: str) -> None:
    case = next(c for c in CASES[FUSED] if c.values == "windowed" and c.dtype == dtype and c.elements > 500)
    rows = make_values(case.values, seed=case.seed, index=case.index, rows=sum(case.tokens_per_expert),
                       columns=2 * case.k, dtype=dtype)  # fmt: skip
    made = make_inputs(case).rows
    assert torch.equal(made[:, case.k :], rows[:, case.k :])
    before, after = rows[:, : case.k].double(), made[:, : case.k].double()
    assert torch.equal(after[:, 0::2], before[:, 0::2])
    assert torch.equal(
        after[:, 1::2], torch.where(before[:, 1::2].abs() < 1024, before[:, 1::2] * 32, before[:, 1::2])
    )
