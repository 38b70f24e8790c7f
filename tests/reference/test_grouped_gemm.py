"""The golden grouped GEMM: exact sums against fractions, the stated order, experts, alphas, NaN, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.expert_layouts import experts_to_layout, packed_blockscale_offsets
from nvfp4_moe.reference.formats import E2M1, UE4M3
from nvfp4_moe.reference.grouped_gemm import (
    PIECE_COLUMNS,
    UNIT,
    grouped_gemm,
    grouped_gemm_in_order,
    read_operands,
    sums_in_order,
)
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.verification.counter import below, bits, words

COUNTS = (3, 0, 130, 1)
LAYOUT = "swizzled_128x4"


@dataclass(frozen=True, kw_only=True, eq=False)
class Buffers:
    """Codes, linear scales, alphas and rows of each expert, and the arguments of `read_operands` made of them."""

    a: Tensor
    b: Tensor
    a_linear: Tensor
    b_linear: Tensor
    alphas: Tensor
    expert_offsets: Tensor

    @property
    def arguments(self) -> list[Tensor]:
        starts = packed_blockscale_offsets(self.expert_offsets)
        a_scale = experts_to_layout(self.a_linear, self.expert_offsets, starts, layout=LAYOUT)
        return [
            self.a,
            self.b,
            a_scale,
            to_layout(self.b_linear, LAYOUT),
            self.alphas,
            self.expert_offsets,
            starts,
        ]


def random_buffers(
    counts: Sequence[int], n: int, k: int, *, seed: int = 0, largest_scale: int = 0x7E
) -> Buffers:
    """Return buffers with every code and every scale byte up to the largest."""

    def raw(name: str, *shape: int) -> Tensor:
        return words(seed, f"tests.gemm.{name}", 0, torch.Size(shape).numel()).view(shape)

    rows, experts = sum(counts), len(counts)
    return Buffers(
        a=bits(raw("a", rows, k // 2), 8).to(torch.uint8),
        b=bits(raw("b", experts, n, k // 2), 8).to(torch.uint8),
        a_linear=below(raw("sa", rows, k // 16), largest_scale + 1).to(torch.uint8),
        b_linear=below(raw("sb", experts, n, k // 16), largest_scale + 1).to(torch.uint8),
        alphas=torch.arange(1, experts + 1, dtype=torch.float32) / 3,
        expert_offsets=torch.tensor([0, *counts], dtype=torch.int32).cumsum(0, dtype=torch.int32),
    )


def fraction_sum(buffers: Any, row: int, expert: int, column: int) -> Fraction:
    """The sum by the definition: codes from nibbles, scales from the linear bytes, in fractions."""
    total = Fraction(0)
    for half in range(buffers.a.shape[1]):
        for nibble in (0, 4):
            block = (2 * half + nibble // 4) // 16
            left = Fraction(E2M1.value(int(buffers.a[row, half]) >> nibble & 15))
            right = Fraction(E2M1.value(int(buffers.b[expert, column, half]) >> nibble & 15))
            scales = int(buffers.a_linear[row, block]), int(buffers.b_linear[expert, column, block])
            total += left * Fraction(UE4M3.value(scales[0])) * right * Fraction(UE4M3.value(scales[1]))
    return total


@pytest.mark.parametrize("k", [16, 80, 192])
def test_sums_are_the_fractions(k: int) -> None:
    buffers = random_buffers(COUNTS, 24, k, seed=k)
    operands = read_operands(*buffers.arguments)
    expert_of_row = [0] * 3 + [2] * 130 + [3]
    for row, column in ((0, 0), (2, 23), (3, 5), (66, 11), (131, 1), (132, 7), (133, 23)):
        true = fraction_sum(buffers, row, expert_of_row[row], column)
        assert Fraction(int(operands.units[row, column])) * Fraction(UNIT) == true
        alpha = Fraction(float(operands.alphas[expert_of_row[row]]))
        assert abs(Fraction(float(operands.values[row, column])) - alpha * true) <= abs(
            alpha * true
        ) * Fraction(1, 2**51)


def test_output_is_rounded_three_times_and_never_twice_at_once() -> None:
    """acc: nearest float32 of the exact sum; then the product; then the output."""
    buffers = random_buffers((5,), 16, 1040, seed=3)
    operands = read_operands(*buffers.arguments)
    out = grouped_gemm(operands)
    for row, column in ((0, 0), (4, 15), (2, 7)):
        exact = Fraction(int(operands.units[row, column])) * Fraction(UNIT)
        acc = nearest(exact, digits=24)
        scaled = nearest(acc * Fraction(float(operands.alphas[0])), digits=24)
        assert Fraction(float(out[row, column])) == nearest(scaled, digits=8)


def nearest(value: Fraction, *, digits: int) -> Fraction:
    """Round to nearest, ties to even, to so many binary digits."""
    if value == 0:
        return value
    unit = Fraction(2) ** -digits
    while abs(value) / unit >= 2**digits:
        unit *= 2
    while abs(value) / unit < 2 ** (digits - 1):
        unit /= 2
    return round(value / unit) * unit


def test_pieces_hold_every_partial_sum_of_the_largest_products() -> None:
    """All operands +-2688: no float64 sum of a piece is rounded, and int64 takes over between the pieces."""
    k = 3 * PIECE_COLUMNS + 16
    buffers = random_buffers((1,), 8, k)
    buffers.a.fill_(0x77)
    buffers.b.fill_(0x77)
    buffers.b[0, 0].fill_(0xF7)
    buffers.a_linear.fill_(UE4M3.code_of_max)
    buffers.b_linear.fill_(UE4M3.code_of_max)
    operands = read_operands(*buffers.arguments)
    largest = 2688**2 << 20
    assert operands.units[0].tolist() == [0] + [k * largest] * 7
    assert PIECE_COLUMNS * largest < 2**53


def test_order_of_the_float32_sums() -> None:
    """2^24 + 1 - 2^24, column by column: the 1 is lost; in the exact sum it is not."""
    left = torch.tensor([[2.0**12, 1.0, -(2.0**12)]], dtype=torch.float64)
    right = torch.tensor([[2.0**12, 1.0, 2.0**12]], dtype=torch.float64)
    assert sums_in_order(left, right).item() == 0.0
    assert sums_in_order(left[:, [0, 2, 1]], right[:, [0, 2, 1]]).item() == 1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_order_equals_exact_where_nothing_is_rounded(dtype: torch.dtype) -> None:
    operands = read_operands(*random_buffers(COUNTS, 24, 32, largest_scale=8).arguments)
    assert grouped_gemm_in_order(operands, dtype=dtype).equal(grouped_gemm(operands, dtype=dtype))
    assert grouped_gemm(operands, dtype=dtype).dtype == dtype


def test_experts_alone_give_what_they_give_together() -> None:
    buffers = random_buffers(COUNTS, 24, 80)
    together = grouped_gemm(read_operands(*buffers.arguments))
    first = 0
    for expert, count in enumerate(COUNTS):
        rows, one = slice(first, first + count), slice(expert, expert + 1)
        alone = Buffers(
            a=buffers.a[rows],
            b=buffers.b[one],
            a_linear=buffers.a_linear[rows],
            b_linear=buffers.b_linear[one],
            alphas=buffers.alphas[one],
            expert_offsets=torch.tensor([0, count]),
        )
        assert grouped_gemm(read_operands(*alone.arguments)).equal(together[rows])
        first += count


def test_nan_scales_reach_their_row_and_their_column_and_nothing_else() -> None:
    buffers = random_buffers((2, 3), 8, 32)
    buffers.a_linear[1, 1] = buffers.b_linear[1, 4, 0] = 0x7F
    operands = read_operands(*buffers.arguments)
    due = torch.zeros((5, 8), dtype=torch.bool)
    due[1, :] = due[2:, 4] = True
    for output in (grouped_gemm(operands), grouped_gemm_in_order(operands), operands.values):
        assert output.isnan().equal(due)


def test_padding_and_unowned_rows_are_not_read() -> None:
    buffers = random_buffers((2, 3), 8, 80)
    a, b, a_scale, b_scale, *others = buffers.arguments
    true = grouped_gemm(read_operands(a, b, a_scale, b_scale, *others))
    ones = Buffers(
        **vars(buffers) | {name: torch.ones_like(getattr(buffers, name)) for name in ("a_linear", "b_linear")}
    )
    _, _, a_owned, b_owned, *_ = ones.arguments
    assert int((a_owned == 0).sum()) == 256 * 8 - 5 * 5
    assert int((b_owned == 0).sum()) == 2 * (128 * 8 - 8 * 5)
    a = torch.cat([a, torch.full((4, 40), 0xFF, dtype=torch.uint8)])
    poisoned = torch.where(a_owned == 0, 0x7F, a_scale), torch.where(b_owned == 0, 0x7F, b_scale)
    assert grouped_gemm(read_operands(a, b, *poisoned, *others)).equal(true)


def test_no_rows() -> None:
    assert grouped_gemm(read_operands(*random_buffers((0, 0), 8, 16).arguments)).shape == (0, 8)


@pytest.mark.parametrize(
    ("place", "wrong", "error", "told"),
    [
        (0, lambda t: t.to(torch.int16), TypeError, "a must be uint8"),
        (0, lambda t: t[:, :4], ValueError, "of one K"),
        (1, lambda t: t[0], ValueError, "b must have 3 dimensions"),
        (1, lambda t: t[:1], ValueError, "alphas must be float32 \\(1,\\)"),
        (3, lambda t: t[:, :, :4], ValueError, "scales"),
        (4, lambda t: t.double(), ValueError, "alphas must be float32"),
        (5, lambda t: t[:-1], ValueError, "E \\+ 1 = 3 entries"),
        (5, lambda t: t * 2, ValueError, "own 10 rows"),
    ],
)
def test_refused(place: int, wrong: Any, error: type[Exception], told: str) -> None:
    arguments = random_buffers((5, 0), 8, 80).arguments
    arguments[place] = wrong(arguments[place])
    with pytest.raises(error, match=told):
        read_operands(*arguments)


def test_other_output_types_are_refused() -> None:
    operands = read_operands(*random_buffers((1,), 8, 16).arguments)
    with pytest.raises(TypeError, match="the output must be"):
        grouped_gemm(operands, dtype=torch.float32)
