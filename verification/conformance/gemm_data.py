"""Tensors of a GEMM case: codes, scales and alphas from the counter, and the buffers that the protocol lays them out in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nvfp4_moe.reference.grouped_gemm import Operands, read_operands
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.reference.padding import round_up
from nvfp4_moe.verification.conformance.forms import SWIZZLED, Ragged
from nvfp4_moe.verification.conformance.gemm_cases import GemmCase
from nvfp4_moe.verification.counter import below, bits, words

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
_NAN_SCALE = 0x7F
_LARGEST_SCALE = 0x7E
_ONE, _DOUBLE = 0x38, 0x08
"""Scale bytes: that of 1, and what doubles a power of two."""
_POWERS = 3
"""Powers of two among the scales of `integers`: 1, 2, 4. With 16 * 144 units a product, 7,168 columns stay exact."""
_SPREAD = 5
"""Powers of two among the scales of the one-hot families."""
_SMALL_SCALE = 0x18
"""2^-4, beside scales up to 448."""
_ZERO_CODES = 0x77
"""Nibble bits that say how large a code is."""


@dataclass(frozen=True, eq=False)
class GemmInputs:
    """What a call reads, on the CPU, padding zero."""

    form: Ragged
    n: int
    a: Tensor
    """uint8 (T, K/2)."""
    a_linear: Tensor
    """uint8 (T, K/16)."""
    b: Tensor
    """uint8 (E, N, K/2)."""
    b_linear: Tensor
    """uint8 (E, N, K/16)."""
    alphas: Tensor
    """float32 (E,)."""

    @cached_property
    def a_blockscale(self) -> Tensor:
        """uint8 (scale rows, 4 * ceil(K/64))."""
        return self.form.place_scales(self.a_linear)

    @cached_property
    def b_blockscale(self) -> Tensor:
        """uint8 (E, round_up(N, 128), 4 * ceil(K/64))."""
        return to_layout(self.b_linear, SWIZZLED)

    @cached_property
    def b_is_padding(self) -> Tensor:
        """bool like b_blockscale: no column of the weight has its scale there."""
        return to_layout(torch.ones_like(self.b_linear), SWIZZLED) == 0

    @cached_property
    def b_is_row_padding(self) -> Tensor:
        """bool like b_blockscale: padding in rows past N, whole in K or not."""
        experts, rows, blocks = self.b_linear.shape
        real = torch.zeros((experts, round_up(rows, 128), round_up(blocks, 4)), dtype=torch.uint8)
        real[:, :rows] = 1
        return to_layout(real, SWIZZLED) == 0

    @property
    def problem_sizes(self) -> Tensor:
        """int32 (E, 3)."""
        return torch.tensor(
            [[rows, self.n, self.form.k] for rows in self.form.tokens_per_expert], dtype=torch.int32
        )

    @cached_property
    def operands(self) -> Operands:
        """The exact values, read back from the buffers."""
        return read_operands(
            self.a, self.b, self.a_blockscale, self.b_blockscale, self.alphas, self.form.expert_offsets,
            self.form.blockscale_offsets,
        )  # fmt: skip

    def digest(self) -> int:
        """Return a number that a changed byte changes."""
        sums = (
            int(tensor.to(torch.int64).sum()) for tensor in (self.a, self.b, self.a_linear, self.b_linear)
        )
        return sum(sums) ^ int(self.alphas.view(torch.int32).to(torch.int64).sum())

    def rows_of(self, rows: list[list[int]]) -> GemmInputs:
        """Return inputs with other rows of each expert, given by their numbers among all rows."""
        order = torch.tensor([row for of_expert in rows for row in of_expert], dtype=torch.int64)
        form = Ragged([len(of_expert) for of_expert in rows], self.form.k)
        return GemmInputs(
            form, self.n, self.a[order], self.a_linear[order], self.b, self.b_linear, self.alphas
        )

    def expert_alone(self, expert: int) -> GemmInputs:
        """Return the inputs of one expert by itself."""
        first, end = (int(self.form.expert_offsets[at]) for at in (expert, expert + 1))
        form, one = Ragged([end - first], self.form.k), slice(expert, expert + 1)
        rows = self.a[first:end], self.a_linear[first:end]
        return GemmInputs(form, self.n, *rows, self.b[one], self.b_linear[one], self.alphas[one].clone())


def make_gemm(case: GemmCase) -> GemmInputs:
    """Return the inputs of a case."""
    rows, experts, blocks = case.routed_rows, len(case.tokens_per_expert), case.k // 16
    form = Ragged(case.tokens_per_expert, case.k, case.unrouted_rows, case.extra_scale_rows)
    a = _codes(case, "a", rows)
    b = _codes(case, "b", experts * case.n)
    a_linear = _scales(case, "a", rows, blocks, one_hot=case.values == "one_hot")
    b_linear = _scales(case, "b", experts * case.n, blocks, one_hot=case.values == "one_hot_weight")
    if case.values == "nan" and rows > 1:
        a_linear[-1, -1] = b_linear[-1, 0] = _NAN_SCALE  # a row, and a column of the last expert, are NaN
    if case.values == "cancelling":
        a, b, a_linear, b_linear = _cancelling(case, a, b, a_linear, b_linear)
    shape = (experts, case.n, -1)
    return GemmInputs(form, case.n, a, a_linear, b.view(shape), b_linear.view(shape), _alphas(case, experts))


def _codes(case: GemmCase, name: str, rows: int) -> Tensor:
    raw = words(case.seed, f"gemm.{name}", case.index << 32, rows * case.k // 2)
    codes = bits(raw, 8).to(torch.uint8).view(rows, case.k // 2)
    # In a one-hot case a zero code would hide a scale that was read from elsewhere.
    return torch.where(codes & _ZERO_CODES == 0, codes | 0x21, codes) if "one_hot" in case.values else codes


def _scales(case: GemmCase, name: str, rows: int, blocks: int, *, one_hot: bool) -> Tensor:
    raw = words(case.seed, f"gemm.scales.{name}", case.index << 32, rows * blocks).view(rows, blocks)
    if case.values == "zeros":
        return torch.zeros((rows, blocks), dtype=torch.uint8)
    if case.values in ("any", "cancelling", "nan"):
        return below(raw, _LARGEST_SCALE + 1).to(torch.uint8)
    if case.values == "integers":
        return (_ONE + _DOUBLE * below(raw, _POWERS)).to(torch.uint8)
    row, block = torch.arange(rows)[:, None], torch.arange(blocks)[None, :]
    powers = (_ONE + _DOUBLE * ((row + 2 * block + below(raw, 2)) % _SPREAD)).to(torch.uint8)
    return torch.where(block == (5 * row + case.index) % blocks, powers, 0) if one_hot else powers


def _cancelling(
    case: GemmCase, a: Tensor, b: Tensor, a_linear: Tensor, b_linear: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Let the last blocks undo the first, in mirrored order: the same codes and scales, the other sign.

    What is left are one or two blocks in the middle with small scales, so that an output is small beside its terms.
    """
    blocks = case.k // 16
    pairs = (blocks - 1) // 2
    a, b, a_linear, b_linear = a.clone(), b.clone(), a_linear.clone(), b_linear.clone()
    for first, last in ((pair, blocks - 1 - pair) for pair in range(pairs)):
        here, there = (slice(8 * block, 8 * block + 8) for block in (first, last))
        a[:, there], b[:, there] = a[:, here] ^ 0x88, b[:, here]
        a_linear[:, last], b_linear[:, last] = a_linear[:, first], b_linear[:, first]
    middle = slice(pairs, blocks - pairs)
    a_linear[:, middle] = _SMALL_SCALE + a_linear[:, middle] % _DOUBLE
    return a, b, a_linear, b_linear


def _alphas(case: GemmCase, experts: int) -> Tensor:
    expert = torch.arange(experts)
    if case.alphas == "one":
        return torch.ones(experts)
    powers = torch.exp2(-(expert % 7).to(torch.float32) - 3)
    if case.alphas == "powers":
        return powers
    odd = 1 + 2 * below(words(case.seed, "gemm.alphas", case.index << 32, experts), 1 << 22)
    return odd.to(torch.float32) * powers * 2.0**-22
