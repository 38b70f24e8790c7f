"""The fast path against the recipe word by word: the same bytes for every input, cut in any way."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.arithmetic import IEEE
from nvfp4_moe.reference.chunked_rows import quantize_rows_into
from nvfp4_moe.reference.formats import E2M1
from nvfp4_moe.reference.piece_quantizer import PieceQuantizer
from nvfp4_moe.reference.recipes import RECIPES, VLLM, Recipe
from nvfp4_moe.reference.rows import quantize_rows_plainly
from nvfp4_moe.verification.counter import words

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32], ids=lambda dtype: str(dtype).split(".")[1]
)
SMALL = 700
"""Elements of a piece: several rows, with a shorter last piece."""


def random_rows(dtype: torch.dtype, rows: int, columns: int, *, finite: bool, stream: str) -> torch.Tensor:
    """Return any bit patterns; with `finite`, exponents near 1 so that no scale or product is special."""
    raw = words(1, stream, 0, rows * columns).view(rows, columns)
    if finite:
        sixteenths = (raw >> 40) % 4096  # signed, |.| < 4096
        return torch.ldexp(sixteenths.to(torch.float64), (raw & 7) - 12).to(dtype)
    return (raw >> 32).to(torch.int32 if dtype == torch.float32 else torch.int16).view(dtype)


def subject_and_true(
    input: torch.Tensor,
    scale: torch.Tensor,
    *,
    recipe: Recipe = VLLM,
    elements: int | None = None,
) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    rows, columns = input.shape
    packed = torch.full((rows, columns // 2), 0xA5, dtype=torch.uint8)
    block_scale = torch.full((rows, columns // 16), 0xA5, dtype=torch.uint8)
    quantize_rows_into(packed, block_scale, input, scale, recipe=recipe, ops=IEEE, elements=elements)
    true = quantize_rows_plainly(input, scale, recipe=recipe, ops=IEEE)
    return (packed, block_scale), (true.packed, true.block_scale)


def assert_same(pair: tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]) -> None:
    (packed, block_scale), (true_packed, true_block_scale) = pair
    assert torch.equal(block_scale, true_block_scale)
    assert torch.equal(packed, true_packed)


@pytest.fixture
def fast_groups(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gains one entry for each group that took the fast path: did it saturate?"""
    taken: list[bool] = []
    encode = PieceQuantizer.encode

    def counted(self: PieceQuantizer, *tensors: torch.Tensor, saturates: bool) -> None:
        taken.append(saturates)
        encode(self, *tensors, saturates=saturates)

    monkeypatch.setattr(PieceQuantizer, "encode", counted)
    return taken


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 2.0**-20, 3.7e9, 2688 / 65504])
def test_every_16_bit_input_as_its_own_block(
    dtype: torch.dtype, scale: float, fast_groups: list[bool]
) -> None:
    """Each pattern alone in a block with zeros, so that its magnitude is the block's."""
    patterns = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    rows = torch.zeros(2**12, 256, dtype=dtype)
    rows[:, ::16] = patterns.view(-1, 16)
    assert_same(subject_and_true(rows, torch.tensor(scale)))
    assert fast_groups


@DTYPES
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_any_bit_pattern_under_every_recipe(dtype: torch.dtype, recipe: Recipe) -> None:
    """Half of the blocks hold Inf or NaN, magnitudes span the whole range: mostly not the fast path."""
    rows = random_rows(dtype, 64, 128, finite=False, stream="patterns")
    for scale in (1.0, 1e-30, 1e30):
        assert_same(subject_and_true(rows, torch.tensor(scale), recipe=recipe, elements=SMALL))


@DTYPES
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_ordinary_values_under_every_recipe(
    dtype: torch.dtype, recipe: Recipe, fast_groups: list[bool]
) -> None:
    rows = random_rows(dtype, 67, 208, finite=True, stream="ordinary")
    scale = torch.tensor(0.7 if recipe.global_scale == "global_encode_scale" else 1.4)
    assert_same(subject_and_true(rows, scale, recipe=recipe, elements=SMALL))
    assert_same(subject_and_true(rows, scale, recipe=recipe))
    assert fast_groups


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
def test_products_on_and_beside_every_threshold(offset: int, fast_groups: list[bool]) -> None:
    """Multiplier 1 (g = 448 / scale byte 448, amax 6): the float32 elements are the scaled values themselves."""
    midpoints = torch.tensor(E2M1.midpoints, dtype=torch.float32)
    near = (midpoints.view(torch.int32) + offset).view(torch.float32)
    row = torch.zeros(1, 32)
    row[0, 0], row[0, 16] = 6.0, -6.0
    row[0, 1:8], row[0, 17:24] = near, -near
    subject, true = subject_and_true(row, torch.tensor(448.0))
    assert_same((subject, true))
    assert subject[1].tolist() == [[0x7E, 0x7E]]
    codes = [int(byte) for byte in subject[0][0, :4]]
    low = [code & 0xF for code in codes] + [code >> 4 for code in codes]
    true_codes = [index + 1 if (offset > 0 or (offset == 0 and index % 2)) else index for index in range(7)]
    assert sorted(low) == sorted([7, *true_codes])
    assert fast_groups == [False]


def test_dense_float32_products(fast_groups: list[bool]) -> None:
    """2^20 float32 patterns over [0, 8) and both signs, scaled by 1, among them values that saturate."""
    patterns = torch.arange(0, 0x4100_0000, 0x411, dtype=torch.int64).to(torch.int32).view(torch.float32)
    patterns = patterns[: len(patterns) // 32 * 32].view(-1, 16)
    patterns = torch.where(torch.arange(len(patterns)).unsqueeze(1) % 2 == 0, patterns, -patterns)
    patterns[:, 0] = 6.0
    assert_same(subject_and_true(patterns.view(-1, 32), torch.tensor(448.0)))
    assert set(fast_groups) == {True, False}


@pytest.mark.parametrize("largest", [6.0, 6.5, 6.9999995, 7.0, 7.25, 7.5, 9.0, 16.0])
def test_saturation_just_above_the_largest_code(largest: float, fast_groups: list[bool]) -> None:
    """The scale byte saturates at 448, so the multiplier is 1 and the products are the elements."""
    row = torch.tensor([[largest, -largest] * 8])
    subject, true = subject_and_true(row, torch.tensor(448.0))
    assert_same((subject, true))
    assert set(subject[0].flatten().tolist()) == {0xF7}
    assert fast_groups == [largest >= 7.0]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_blocks_of_zeros_of_both_signs(recipe: Recipe) -> None:
    """Some recipes give them an infinite multiplier, and a zero times infinity the code of NaN."""
    rows = random_rows(torch.bfloat16, 4, 64, finite=True, stream="zeros")
    rows[:, 16:32] = 0.0
    rows[:, 48::2] = -0.0
    rows[:, 49::2] = 0.0
    assert_same(subject_and_true(rows, torch.tensor(1.3), recipe=recipe))


def test_saturation_far_above_the_largest_scale(fast_groups: list[bool]) -> None:
    """The scale byte saturates at 448, so products reach 1e30: cut off, not wrapped."""
    rows = torch.full((2, 64), 1e30)
    rows[1] = -1e30
    rows[:, ::2] = 0.3
    assert_same(subject_and_true(rows, torch.tensor(1.0)))
    assert fast_groups == [True]


@DTYPES
def test_one_scale_per_row(dtype: torch.dtype) -> None:
    rows = random_rows(dtype, 40, 96, finite=True, stream="rows")
    scales = torch.ldexp(torch.ones(40, 1), torch.arange(40).view(-1, 1) % 7 - 3)
    assert_same(subject_and_true(rows, scales, elements=SMALL))
    single = subject_and_true(rows[7:8], scales[7], elements=SMALL)[0]
    assert torch.equal(subject_and_true(rows, scales, elements=SMALL)[0][0][7:8], single[0])
