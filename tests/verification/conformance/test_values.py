"""Values of the cases: determinism, and that each family makes the danger that it is there for."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.casts import decode_ue4m3
from nvfp4_moe.reference.quantize import quantize
from nvfp4_moe.verification.conformance.values import (
    DTYPES,
    GLOBAL_SCALES,
    VALUES,
    edge_amax,
    make_global_scales,
    make_values,
)

BOTH = pytest.mark.parametrize("dtype", DTYPES)


def patterns(family: str, dtype: str, *, index: int = 3, rows: int = 64, columns: int = 256) -> torch.Tensor:
    made = make_values(family, seed=0, index=index, rows=rows, columns=columns, dtype=dtype)
    assert made.shape == (rows, columns)
    assert made.dtype == DTYPES[dtype]
    return made.view(torch.int16).to(torch.int32) & 0xFFFF


@BOTH
@pytest.mark.parametrize("family", VALUES)
def test_values_are_a_function_of_seed_and_index(family: str, dtype: str) -> None:
    first = patterns(family, dtype)
    assert torch.equal(first, patterns(family, dtype))
    assert not torch.equal(first, patterns(family, dtype, index=4))
    for rows, columns in ((0, 16), (1, 16), (3, 48)):
        assert patterns(family, dtype, rows=rows, columns=columns).shape == (rows, columns)


@pytest.mark.parametrize("family", VALUES)
def test_the_values_of_a_case_do_not_move(family: str) -> None:
    """Other people's seeds name these cases: a change of any value is a change of the contract."""
    found = int((patterns(family, "bf16", rows=8, columns=64).view(-1) * torch.arange(1, 513)).sum())
    assert found == KNOWN[family]


KNOWN = {
    "windowed": 4369117689,
    "ties": 4165080598,
    "scales": 2177966522,
    "scale_ties": 4355111703,
    "special": 4280428565,
    "distinct": 3993341952,
    "any": 4466876996,
    "every": 125385216,
    "one_hot": 32843456,
    "silu_tail": 6142881287,
}


@BOTH
def test_the_tail_of_silu_comes_back_to_the_range_of_the_codes(dtype: str) -> None:
    made = make_values("silu_tail", seed=0, index=0, rows=256, columns=256, dtype=dtype).double()
    gate, up = made.chunk(2, dim=1)
    start, end = {"bf16": (-16, -104), "f16": (-8, -31)}[dtype]
    assert (gate <= start).all()
    assert (gate >= end).all()
    assert (gate.view(256, 8, 16).amax(2) - gate.view(256, 8, 16).amin(2) <= 2).all()
    for part in range(8):
        low, high = (start + (end - start) * edge / 8 for edge in (part + 1, part))
        share = ((gate >= low) & (gate <= high)).double().mean()
        assert 0.07 < share < 0.17  # uniform but for the ends
    product = (gate / (1 + torch.exp(-gate)) * up).abs()
    within = up.abs().log2().floor() < {"bf16": 127, "f16": 15}[dtype]  # not clipped
    assert (product[within] > 2.0**-4).all()
    assert (product[within] < 2.0**4).all()
    assert within.double().mean() > {"bf16": 0.25, "f16": 0.15}[dtype]
    assert (product > {"bf16": 2.0**-20, "f16": 2.0**-26}[dtype]).all()


def test_edges_lie_a_few_ulp_from_the_midpoint_between_scale_codes() -> None:
    g = make_global_scales("edge", seed=0, index=0, experts=2000)
    scale = g * (edge_amax(seed=0, index=0, experts=2000) * torch.tensor(6.0).reciprocal())
    sixteenths = scale.double().frexp().mantissa * 32
    odd = sixteenths.round()
    assert set(odd.unique().int().tolist()) == {17, 19, 21, 23, 25, 27, 29, 31}
    assert (
        (sixteenths - odd).abs() <= 8 * 2.0**-19
    ).all()  # ulps of a float32 with four bits before the point
    for side in (-1, 0, 1):
        assert ((sixteenths - odd).sign() == side).sum() > 100


@BOTH
def test_every_pattern_occurs(dtype: str) -> None:
    made = patterns("every", dtype, rows=512, columns=256)
    for half in made.chunk(2, dim=1):
        assert len(half.unique()) == 1 << 16


@BOTH
def test_special_values_occur_alone_and_mixed(dtype: str) -> None:
    made = make_values("special", seed=0, index=0, rows=256, columns=256, dtype=dtype)
    assert made.isnan().any()
    assert made.isinf().any()
    assert ((made != 0) & (made.abs() < torch.finfo(made.dtype).tiny)).any()
    assert ((made == 0) & made.signbit()).any()
    blocks = made.view(-1, 16)
    assert blocks.isnan().all(1).any()
    assert (blocks == 0).all(1).any()
    assert (blocks.isnan().any(1) & ~blocks.isnan().all(1)).any()


@BOTH
def test_ties_lie_at_the_midpoints_and_beside_them(dtype: str) -> None:
    """Under scale 1 the block scale is a power of two times its significand: x / scale is a midpoint, or an ulp off."""
    made = make_values("ties", seed=0, index=0, rows=512, columns=256, dtype=dtype).float().view(-1, 16)
    amax = made.abs().amax(1, keepdim=True)
    ratio = (made.abs() / (amax / 6))[:, 1:]
    for midpoint in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0):
        near = ratio[(ratio - midpoint).abs() < midpoint * 2.0**-6]
        assert (near == midpoint).sum() > 100
        assert (near < midpoint).sum() > 100
        assert (near > midpoint).sum() > 100


@BOTH
def test_largest_values_lie_at_the_midpoints_of_scale_codes_and_beside_them(dtype: str) -> None:
    made = make_values("scale_ties", seed=0, index=0, rows=128, columns=256, dtype=dtype).float().view(-1, 16)
    assert made.isfinite().all()
    sixteenths = (made.abs().amax(1) / 6).frexp().mantissa * 32
    odd = sixteenths.round()
    assert (odd % 2 == 1).all()
    for side in (-1, 0, 1):
        assert ((sixteenths - odd).sign() == side).sum() > 100


@BOTH
def test_scales_walk_through_every_code(dtype: str) -> None:
    found: set[int] = set()
    for index in range(8):
        made = make_values("scales", seed=0, index=index, rows=64, columns=512, dtype=dtype)
        for g in (2.0**-6, 1.0, 40.0):
            found |= set(quantize(made, torch.tensor(g)).block_scale.unique().tolist())
    assert found >= set(range(0x7F))


@BOTH
def test_one_hot_rows_have_one_element(dtype: str) -> None:
    made = make_values("one_hot", seed=0, index=5, rows=300, columns=48, dtype=dtype)
    assert ((made != 0).sum(1) == 1).all()
    assert len((made != 0).int().argmax(1).unique()) == 48


@BOTH
def test_neighbours_differ_in_code(dtype: str) -> None:
    made = make_values("distinct", seed=0, index=1, rows=32, columns=128, dtype=dtype)
    packed = quantize(made, torch.tensor(6.0)).packed
    assert ((packed & 0x0F) != (packed >> 4)).float().mean() > 0.95


@pytest.mark.parametrize("family", GLOBAL_SCALES)
def test_global_scales_are_positive_finite_and_differ(family: str) -> None:
    made = make_global_scales(family, seed=1, index=2, experts=12)
    assert made.dtype == torch.float32
    assert (made > 0).all()
    assert made.isfinite().all()
    assert len(made.unique()) == (1 if family in ("one", "same") else 12)
    assert family != "same" or (made != 1).all()
    off = made.view(torch.int32) - made.log2().round().exp2().view(torch.int32)
    if family == "powers":
        assert (off == 0).all()
    if family == "near_powers":
        assert (off != 0).all()
        assert off.abs().max() <= 8


def test_wide_global_scales_reach_far_and_keep_their_reciprocals_normal() -> None:
    made = make_global_scales("wide", seed=0, index=0, experts=4096)
    usual = (made >= 2.0**-20) & (made < 2.0**25)
    assert 0.7 < usual.float().mean() < 0.85
    assert made.min() < 2.0**-110
    assert made.max() > 2.0**110
    largest, smallest = 448.0, 2.0**-9
    for scale in (largest, smallest):
        inverse = scale * (1 / made)
        assert (inverse >= torch.finfo(torch.float32).tiny).all()
        assert ((1 / inverse) >= torch.finfo(torch.float32).tiny).all()


def test_decoded_scales_of_the_walk_are_finite() -> None:
    made = make_values("scales", seed=0, index=0, rows=16, columns=256, dtype="bf16")
    assert decode_ue4m3(quantize(made, torch.tensor(1.0)).block_scale).isfinite().all()
