"""GEMM conformance: right subjects hold, every planted fault is found, cases and poison are what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.grouped_gemm import sums_in_order
from nvfp4_moe.verification.conformance.bounded_plan import bounded_cases
from nvfp4_moe.verification.conformance.call import TURNS
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.gemm_cases import (
    FAMILIES,
    LAWS,
    OPERATION,
    GemmCase,
    GemmLawCase,
    gemm_cases,
    law_bases,
)
from nvfp4_moe.verification.conformance.gemm_check import poisoned
from nvfp4_moe.verification.conformance.gemm_data import make_gemm
from nvfp4_moe.verification.conformance.gemm_refusal import GEMM_WRONGS, GemmRefusalCase
from nvfp4_moe.verification.conformance.plan import may_refuse
from nvfp4_moe.verification.conformance.subject import Subject

CASE = GemmCase(
    index=2, seed=0, tokens_per_expert=(3, 0, 5), n=72, k=80, dtype="bf16", values="integers", alphas="distinct",
    unrouted_rows=2, extra_scale_rows=128,
)  # fmt: skip
ROUNDS = replace(CASE, values="any", k=272)
Checks = Callable[[Subject, Any], dict[str, str]]
Gemm = Callable[..., None]


@pytest.fixture
def faulty(planted: Callable[..., Subject]) -> Callable[..., Subject]:
    """Return `make(body)`: `body(right, *arguments)` in place of the right GEMM."""

    def make(body: Callable[..., None], contract: Contract | None = None) -> Subject:
        return planted(OPERATION, lambda right: lambda *arguments: body(right, *arguments), contract)

    return make


@pytest.mark.parametrize("values", FAMILIES)
def test_the_golden_model_holds(values: str, right: Subject, checks: Checks) -> None:
    for dtype in ("bf16", "f16"):
        assert checks(right, replace(CASE, values=values, dtype=dtype)) == {}


@pytest.mark.parametrize("law", LAWS)
def test_the_golden_model_keeps_the_laws(law: str, right: Subject, checks: Checks) -> None:
    for base in law_bases(seed=0):
        assert checks(right, GemmLawCase(law=law, base=base)) == {}


@pytest.mark.parametrize("wrong", GEMM_WRONGS)
def test_the_golden_model_refuses(wrong: str, right: Subject, checks: Checks) -> None:
    assert checks(right, GemmRefusalCase(wrong=wrong)) == {}
    silent = Subject("silent", cutlass_fp4_moe_mm=lambda *tensors: None)
    assert checks(silent, GemmRefusalCase(wrong=wrong)) == {"refusal": "contract"}


# --- planted faults: (right, out, a, b, a_blockscale, b_blockscale, alphas, sizes, offsets, starts) -----------


def unpadded_stride(right: Gemm, out: Tensor, a: Tensor, b: Tensor, sa: Tensor, *others: Tensor) -> None:
    """Read every expert's scales from K / 16 instead of 4 * ceil(K / 64) bytes a row, as vLLM's GEMM does."""
    width, used = sa.shape[1], a.shape[1] // 8
    starts = others[-1]
    moved = torch.zeros(sa.numel() + width * 256, dtype=torch.uint8)
    moved[: sa.numel()] = sa.view(torch.uint8).reshape(-1)
    wrong = sa.clone().view(torch.uint8)
    for start in starts.tolist()[1:]:
        size = min(128, len(sa) - start) * width
        if size > 0:
            wrong.view(-1)[start * width : start * width + size] = moved[start * used : start * used + size]
    right(out, a, b, wrong.view(sa.dtype), *others)


def one_alpha(right: Gemm, *given: Any) -> None:
    out, a, b, sa, sb, alphas, *others = given
    right(out, a, b, sa, sb, alphas[:1].nan_to_num(1.0).expand(len(alphas)).contiguous(), *others)


def swapped_nibbles(right: Gemm, out: Tensor, a: Tensor, *others: Tensor) -> None:
    right(out, (a >> 4) | (a << 4), *others)


def linear_weight_scales(
    right: Gemm, out: Tensor, a: Tensor, b: Tensor, sa: Tensor, sb: Tensor, *others: Tensor
) -> None:
    """Take row-major scales for swizzled ones."""
    right(out, a, b, sa, sb.view(torch.uint8).roll(1, -1).view(sb.dtype), *others)


def twice_rounded(
    right: Gemm, out: Tensor, a: Tensor, b: Tensor, sa: Tensor, sb: Tensor, alphas: Tensor, *others: Tensor
) -> None:
    """Round the sum to the output type before alpha."""
    one = torch.ones_like(alphas)
    right(out, a, b, sa, sb, one, *others)
    for expert, rows in enumerate(others[0][:, 0].tolist()):
        first = int(others[1][expert])
        out[first : first + rows] *= alphas[expert]


def last_column(right: Gemm, out: Tensor, *others: Tensor) -> None:
    kept = out[:, -1].clone()
    right(out, *others)
    out[:, -1] = kept


def half_tile(right: Gemm, out: Tensor, *others: Tensor) -> None:
    """Store whole tiles of rows: one row behind the last expert's."""
    right(out, *others)
    end = int(others[6][-1]) + int(others[5][-1, 0])
    if end < len(out):
        out[end] = 0


def reads_padding(right: Gemm, out: Tensor, a: Tensor, b: Tensor, sa: Tensor, *others: Tensor) -> None:
    """Add scale bytes of the rows that round an expert up to the tile."""
    right(out, a, b, sa, *others)
    out[0, 0] += float(sa.view(torch.uint8)[127].max())


def clobbers(right: Gemm, out: Tensor, a: Tensor, *others: Tensor) -> None:
    right(out, a, *others)
    a[0, 0] ^= 1


def nothing(right: Gemm, *given: Tensor) -> None:
    pass


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (unpadded_stride, {"golden": "bytes", "poison": "bytes"}),
        (one_alpha, {"golden": "bytes"}),
        (swapped_nibbles, {"golden": "bytes"}),
        (linear_weight_scales, {"golden": "bytes", "poison": "bytes"}),
        (twice_rounded, {"golden": "bytes"}),
        (last_column, {"coverage": "bytes"}),
        (half_tile, {"untouched": "memory"}),
        (reads_padding, {"golden": "bytes", "poison": "bytes"}),
        (clobbers, {"inputs": "memory"}),
        (nothing, {"coverage": "bytes"}),
    ],
)
def test_planted_faults_are_found(
    body: Callable[..., None], told: dict[str, str], faulty: Callable[..., Subject], checks: Checks
) -> None:
    assert checks(faulty(body), CASE) == told


def dequantized(
    packed: Tensor, scales: Tensor, rows: int, *, block_scale_dtype: torch.dtype | None = None
) -> Tensor:
    from nvfp4_moe.reference.grouped_gemm import exact_operand
    from nvfp4_moe.reference.layouts import from_layout

    linear = from_layout(scales, rows, 2 * packed.shape[-1], "swizzled_128x4")
    operand = exact_operand(packed, linear)
    return operand if block_scale_dtype is None else operand.to(block_scale_dtype)


def own_sums(add: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., None]:
    """Return a GEMM with sums of its own."""

    def body(
        right: Gemm,
        out: Tensor,
        a: Tensor,
        b: Tensor,
        sa: Tensor,
        sb: Tensor,
        alphas: Tensor,
        *others: Tensor,
    ) -> None:
        sizes, firsts, starts = others
        for expert, rows in enumerate(sizes[:, 0].tolist()):
            if rows:
                first, start = int(firsts[expert]), int(starts[expert])
                left = dequantized(
                    a[first : first + rows], sa[start : start + (rows + 127) // 128 * 128], rows
                )
                sums = add(left, dequantized(b[expert], sb[expert], b.shape[1]))
                out[first : first + rows] = (sums * alphas[expert]).to(out.dtype)

    return body


def backwards(left: Tensor, right: Tensor) -> Tensor:
    return sums_in_order(left.flip(1), right.flip(1))


def in_bfloat16(left: Tensor, right: Tensor) -> Tensor:
    """Partial sums of 16 columns kept in bfloat16: what a bound must not let pass."""
    total = torch.zeros(len(left), len(right))
    for start in range(0, left.shape[1], 16):
        total = (
            (total + (left[:, start : start + 16] @ right[:, start : start + 16].T).float())
            .bfloat16()
            .float()
        )
    return total


@pytest.mark.parametrize("values", ["any", "cancelling", "integers"])
def test_sums_of_ones_own_hold_and_coarse_ones_do_not(
    values: str, faulty: Callable[..., Subject], checks: Checks
) -> None:
    case = replace(ROUNDS, values=values, dtype="f16")
    assert checks(faulty(own_sums(sums_in_order)), case) == {}
    assert checks(faulty(own_sums(backwards)), case) == {}
    assert checks(faulty(own_sums(in_bfloat16)), case) == {"golden": "bytes"}


def by_rows(
    right: Gemm, out: Tensor, a: Tensor, b: Tensor, sa: Tensor, sb: Tensor, alphas: Tensor, *others: Tensor
) -> None:
    """Another order of additions for few rows: right by every bound, and not batch-invariant."""
    few = int(others[0][:, 0].sum()) < 3
    own_sums(backwards if few else sums_in_order)(right, out, a, b, sa, sb, alphas, *others)


def by_place(right: Gemm, out: Tensor, *others: Tensor) -> None:
    right(out, *others)
    routed = int(others[5][:, 0].sum())
    out[1:routed:2].view(torch.int16).add_(1)


def by_call() -> Callable[..., None]:
    calls = [0]

    def body(right: Gemm, out: Tensor, *others: Tensor) -> None:
        right(out, *others)
        calls[0] += 1
        if calls[0] == 3:
            out[0].view(torch.int16).add_(1)

    return body


@pytest.mark.parametrize(
    ("law", "body"), [("single", by_rows), ("rows", by_place), ("alone", by_place), ("again", by_call())]
)
def test_what_breaks_the_laws(
    law: str, body: Callable[..., None], faulty: Callable[..., Subject], checks: Checks
) -> None:
    found = [checks(faulty(body), GemmLawCase(law=law, base=base)) for base in law_bases(seed=0)]
    assert {"laws": "bytes"} in found
    assert all(told in ({}, {"laws": "bytes"}) for told in found)


def test_poison_lies_where_nothing_may_be_read() -> None:
    inputs = make_gemm(CASE)
    strict, loose = Contract(), Contract(k_padding="unspecified")
    for turn, scale in zip(TURNS, (0x00, 0x7F, 0x7E), strict=True):
        given, more = poisoned(inputs, turn, strict), poisoned(inputs, turn, loose)
        kept = given.a_blockscale == inputs.a_blockscale
        assert bool((given.a_blockscale[~kept] == scale).all())
        assert given.alphas[1].isnan() or float(given.alphas[1]) in (0.0, torch.inf)
        assert given.alphas[[0, 2]].equal(inputs.alphas[[0, 2]])
        if scale:
            # 8 rows of 8 bytes stay: 5 scales and 3 bytes of K padding; loose contracts leave the 3 to poison.
            assert int(kept.sum()) == 8 * 8
            assert (
                int((more.a_blockscale != inputs.a_blockscale).sum()) == inputs.a_blockscale.numel() - 8 * 5
            )
            assert int((given.b_blockscale == scale).sum()) >= 3 * 56 * 8
            assert int((more.b_blockscale != inputs.b_blockscale).sum()) == 3 * (56 * 8 + 72 * 3)


def test_cases_cover_shapes_and_families() -> None:
    cases = list(gemm_cases(level=1, seed=0))
    assert [case.is_exact for case in cases] == sorted((case.is_exact for case in cases), reverse=True)
    assert {case.values for case in cases} == set(FAMILIES)
    assert {case.k % 64 for case in cases} == {0, 16, 32, 48}
    assert {case.n % 128 for case in cases} >= {0, 8, 16, 24, 56, 120}
    assert any(0 in case.tokens_per_expert for case in cases)
    assert any(case.routed_rows == 0 for case in cases)
    assert max(case.k for case in cases) == 7168
    assert sum(case.elements for case in cases) < 6e6
    assert len(list(gemm_cases(level=2, seed=0))) > 4 * len(cases)
    assert [make_gemm(case).digest() for case in cases[:5]] == [
        make_gemm(case).digest() for case in cases[:5]
    ]


def test_sizes_off_the_tile_may_be_refused_and_laws_need_the_promise() -> None:
    assert may_refuse(CASE, Contract())
    assert may_refuse(GemmLawCase(law="rows", base=CASE), Contract())
    assert not may_refuse(replace(CASE, n=128, k=64), Contract())
    kinds = {
        type(case) for case in bounded_cases(OPERATION, Contract(batch_invariant=False), level=1, seed=0)
    }
    assert kinds == {GemmCase, GemmRefusalCase}
    wide = bounded_cases(OPERATION, Contract(k_multiple=64, max_experts=4), level=1, seed=0)
    assert all(c.k % 64 == 0 and len(c.tokens_per_expert) <= 4 for c in wide if isinstance(c, GemmCase))
