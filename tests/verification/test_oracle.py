"""The second oracle against its own definitions, against IEEE float32 of numpy, and against hand-worked blocks."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from nvfp4_moe.verification import oracle

RANDOM = random.Random(20)
F32 = np.float32


def float32_from_bits(bits: int) -> float:
    return float(np.array([bits], dtype=np.uint32).view(F32)[0])


# --- formats and rounding -----------------------------------------------------------------------------------------


def test_e2m1_points() -> None:
    assert [float(p) for p in oracle.E2M1_POINTS] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert [oracle.decode_e2m1(c) for c in range(16)][8:] == [-0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
    assert math.copysign(1, oracle.decode_e2m1(8)) == -1


def test_e4m3_points() -> None:
    points = [float(p) for p in oracle.E4M3_POINTS]
    assert len(points) == 127
    assert points[:9] == [i * 2.0**-9 for i in range(9)]  # subnormals, then the smallest normal 2^-6
    assert points[0x38] == 1.0
    assert points[-2:] == [416.0, 448.0]
    assert all(math.isnan(oracle.decode_e4m3(c)) for c in (0x7F, 0xFF))
    assert oracle.decode_e4m3(0xFE) == -448.0


@pytest.mark.parametrize(
    ("tie", "value"), [(0.25, 0), (0.75, 1), (1.25, 1), (1.75, 2), (2.5, 2), (3.5, 4), (5, 4)]
)
def test_e2m1_ties_go_to_the_even_code(tie: float, value: float) -> None:
    code = oracle.nearest_code(Fraction(tie), oracle.E2M1_POINTS)
    assert oracle.decode_e2m1(code) == value
    assert code % 2 == 0


def test_e4m3_smallest_tie_is_zero_and_large_saturates() -> None:
    nearest = lambda x: oracle.nearest_code(x, oracle.E4M3_POINTS)  # noqa: E731
    assert nearest(Fraction(1, 2**10)) == 0
    assert nearest(Fraction(3, 2**10)) == 2
    assert nearest(Fraction(10**9)) == 0x7E


@pytest.mark.parametrize("points", [oracle.E2M1_POINTS, oracle.E4M3_POINTS], ids=["e2m1", "e4m3"])
def test_array_search_equals_the_definition(points: list[Fraction]) -> None:
    ties = [float((low + high) / 2) for low, high in itertools.pairwise(points)]
    near = [float(np.nextafter(F32(t), F32(side))) for t in ties for side in (0, np.inf)]
    numbers = [*ties, *near, *map(float, points), 1e-30, 700.0, 3e38]
    numbers += [RANDOM.uniform(0, 500) * 2.0 ** RANDOM.randint(-12, 0) for _ in range(300)]
    codes = oracle.nearest_codes(np.array(numbers), points)
    assert codes.tolist() == [oracle.nearest_code(Fraction(x), points) for x in numbers]


def test_special_values() -> None:
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, -1e-30])
    assert oracle.encode_e2m1(values).tolist() == [7, 7, 7, 15, 8, 0, 8]
    assert oracle.encode_e4m3(values).tolist() == [0x7F, 0x7F, 0x7E, 0xFE, 0x80, 0, 0x80]


def test_round_to_float32_equals_ieee() -> None:
    values = [1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 2.0**-149 * 1.5, 2.0**-126 * (1 - 2.0**-25), 1 / 3]
    values += [RANDOM.uniform(-2, 2) * 2.0 ** RANDOM.randint(-155, 126) for _ in range(3000)]
    values += [m + 0.5 for m in range(2**23, 2**23 + 8)]
    for value in values:
        assert float(oracle.round_to_float32(Fraction(value))) == float(F32(value))


def test_round_to_float32_overflows_where_ieee_does() -> None:
    halfway = (2 - Fraction(1, 2**24)) * 2**127
    assert oracle.round_to_float32(halfway - 1) == oracle.LARGEST_FLOAT32
    for too_large in (halfway, halfway * 2):
        with pytest.raises(OverflowError):
            oracle.round_to_float32(too_large)


def test_reciprocal_through_float64_is_the_rounded_rational() -> None:
    """The double rounding argument of the module, on edges and on random mantissas in every binade."""
    mantissas = [0, 1, 2, 2**23 - 1, 2**23 - 2, 2**22, 0x555555, 0x2AAAAA]
    bits = [e << 23 | m for e in range(1, 255) for m in mantissas]
    bits += [e << 23 | RANDOM.getrandbits(23) for e in range(1, 255) for _ in range(20)]
    bits += [RANDOM.getrandbits(23) | 1 << 22 for _ in range(50)]  # subnormals with a finite reciprocal
    numbers = np.array(bits, dtype=np.uint32).view(F32).astype(np.float64)
    fast = oracle.rounded(1.0 / numbers)
    for number, found in zip(numbers, fast, strict=True):
        assert Fraction(float(found)) == oracle.round_to_float32(1 / Fraction(float(number)))


# --- whole blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale_bits", [0x3F800000, 0x4430FEDC, 0x3C000001, 0x00400000, 0x70967699], ids=hex)
def test_quantize_equals_the_rational_definition(scale_bits: int) -> None:
    scale = float32_from_bits(scale_bits)
    rows = []
    for _ in range(60):
        size = 2.0 ** RANDOM.randint(-12, 6) / max(scale, 1e-3)
        rows.append([float(F32(RANDOM.choice((-1, 1)) * RANDOM.uniform(0.001, 6) * size)) for _ in range(16)])
    codes, scales = oracle.quantize(np.array(rows, dtype=F32), scale)
    for row, its_codes, its_scale in zip(rows, codes.tolist(), scales.tolist(), strict=True):
        true = oracle.quantize_block_exactly([Fraction(x) for x in row], Fraction(scale))
        assert (its_scale[0], its_codes) == true


def test_a_block_by_hand() -> None:
    block = np.array(
        [[6, -6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.0, 0, -0.25, 5.5, 0.3, -3, 1]], dtype=F32
    )
    codes, scales = oracle.quantize(block, 1.0)
    assert scales.tolist() == [[0x38]]  # 6 * (1/6) = 1
    assert codes.tolist() == [[7, 15, 0, 2, 2, 4, 4, 6, 6, 8, 0, 8, 7, 1, 13, 2]]
    assert oracle.pack(codes)[0, 0] == 0xF7


def test_tie_through_the_multiplier() -> None:
    """A = 1, SF = 3, x = 2^-9: the exact quotient is the tie 1.75, computed it lies below (arithmetic of TE and vLLM)."""
    block = np.zeros((1, 16), dtype=F32)
    block[0, :2] = 3 / 448, 2.0**-9
    codes, scales = oracle.quantize(block, 2688.0)
    assert oracle.decode_e4m3(int(scales[0, 0])) == 3.0
    assert codes[0, 1] == 3


@pytest.mark.parametrize(
    ("block", "scale", "codes"),
    [
        ([np.nan, 3, -1], None, [7, 7, 12]),
        ([np.inf, 3, -1], 0x7E, [7, 0, 8]),
        ([1e-5, -1e-5, 5e-6], 0x00, [0, 8, 0]),
        ([0, -0.0, 0], 0x00, [0, 8, 0]),
    ],
    ids=["nan_is_dropped", "inf_saturates", "underflow", "zeros"],
)
def test_special_blocks(block: list[float], scale: int | None, codes: list[int]) -> None:
    values = np.zeros((1, 16), dtype=F32)
    values[0, :3] = block
    found, scales = oracle.quantize(values, 2688.0 / 6 if scale != 0x7E else 1.0)
    if scale is not None:
        assert scales[0, 0] == scale
    assert found[0, :3].tolist() == codes


def test_all_nan_block() -> None:
    codes, scales = oracle.quantize(np.full((1, 16), np.nan, dtype=F32), 1.0)
    assert scales.tolist() == [[0x7F]]
    assert set(codes.reshape(-1).tolist()) == {7}


def test_rows_have_their_own_scale() -> None:
    values = np.ones((3, 16), dtype=F32)
    _, scales = oracle.quantize(values, np.array([6.0, 12.0, 3.0], dtype=F32))
    assert [oracle.decode_e4m3(s) for s in scales[:, 0].tolist()] == [1.0, 2.0, 0.5]
