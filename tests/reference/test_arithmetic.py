"""Arithmetic: one rounding per ieee operation, the reciprocal table's rules, errors, the flush of subnormals."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest
import torch

from nvfp4_moe.reference import tables
from nvfp4_moe.reference.arithmetic import IEEE, Arithmetic, HardwareOperations, operations, subnormals_kept
from nvfp4_moe.reference.tables import Table, register_table
from nvfp4_moe.verification.counter import words

CHIP = "a chip of this test"


@pytest.fixture
def made_up_table() -> Iterator[torch.Tensor]:
    """Register a reciprocal table whose ulps are recognisable: -1, 0, 1 in turn."""
    ulps = (torch.arange(2**23) % 3 - 1).to(torch.int8)
    before = list(tables._registered)
    register_table(Table(kind="reciprocal", chip=CHIP, sequence="made up", values=ulps))
    yield ulps
    tables._registered[:] = before


def from_bits(*bits: int) -> torch.Tensor:
    return torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32)


def to_bits(values: torch.Tensor) -> list[int]:
    return [value & 0xFFFF_FFFF for value in values.view(torch.int32).tolist()]


def test_ieee_reciprocal_is_the_nearest_float32() -> None:
    """Checked exactly: 1/x lies within half a spacing, and on no tie (a reciprocal never does, but for powers of 2)."""
    values = ((words(6, "reciprocal", 0, 400) >> 32).to(torch.int32) & 0x3F7F_FFFF | 0x2000_0000).view(
        torch.float32
    )
    for value, result in zip(values.tolist(), IEEE.reciprocal(values), strict=True):
        exact = 1 / Fraction(value)
        error = abs(Fraction(result.item()) - exact)
        for neighbour in (torch.inf, -torch.inf):
            other = torch.nextafter(result, torch.tensor(neighbour)).item()
            assert error < abs(Fraction(other) - exact)


def test_ieee_reciprocal_keeps_subnormals() -> None:
    assert to_bits(IEEE.reciprocal(from_bits(0x7F000000, 0x00400000))) == [0x00400000, 0x7F000000]


def test_python_scalar_division_would_round_twice() -> None:
    """The trap that IEEE.reciprocal avoids: for this amax ``2688.0 / tensor`` is not the quotient."""
    amax = torch.tensor([1.0234375])
    assert torch.div(torch.tensor([2688.0]), amax) != 2688.0 / amax


def test_hardware_reciprocal_moves_by_the_table(made_up_table: torch.Tensor) -> None:
    ops = HardwareOperations(CHIP)
    mantissas = torch.arange(0, 2**23, 4099, dtype=torch.int32)
    for exponent in (0x01, 0x3F, 0x7F, 0x80, 0xFB):
        for sign in (0, -0x8000_0000):
            values = (mantissas | (exponent << 23) | sign).view(torch.float32)
            moved = ops.reciprocal(values).view(torch.int32) - IEEE.reciprocal(values).view(torch.int32)
            assert torch.equal(moved, made_up_table[mantissas.to(torch.int64)].to(torch.int32))


def test_hardware_reciprocal_flushes(made_up_table: torch.Tensor) -> None:
    """Subnormal in: infinity. Subnormal out: zero, from just above 2^126 on. Signs stay; NaN is 0x7FFFFFFF."""
    pairs = [
        (0x00000000, 0x7F800000),
        (0x80000000, 0xFF800000),
        (0x00000001, 0x7F800000),
        (0x807FFFFF, 0xFF800000),
        (0x7E800001, 0x00000000),
        (0xFE800001, 0x80000000),
        (0x7F7FFFFF, 0x00000000),
        (0x7F800000, 0x00000000),
        (0xFF800000, 0x80000000),
        (0x7FC00000, 0x7FFFFFFF),
        (0xFF800001, 0x7FFFFFFF),
    ]
    values = from_bits(*(value for value, _ in pairs))
    assert to_bits(HardwareOperations(CHIP).reciprocal(values)) == [result for _, result in pairs]
    made_up_table[0] = 0
    assert to_bits(HardwareOperations(CHIP).reciprocal(from_bits(0x7E800000))) == [0x00800000]


def test_hardware_names_its_table(made_up_table: torch.Tensor) -> None:
    del made_up_table
    assert HardwareOperations(CHIP).name.startswith(f"hardware: reciprocal on {CHIP} (made up), sha256 ")


def test_named_arithmetics() -> None:
    assert operations("ieee") is IEEE
    assert operations(Arithmetic.IEEE) is IEEE
    assert operations(IEEE) is IEEE
    assert isinstance(operations("hardware"), HardwareOperations)
    with pytest.raises(ValueError, match="one of ieee, hardware, got 'fast'"):
        operations("fast")


@pytest.mark.parametrize("flushes", [True, False])
def test_subnormals_are_kept_inside_and_the_setting_restored(flushes: bool) -> None:
    subnormal = from_bits(0x00000003)
    torch.set_flush_denormal(flushes)
    try:
        with subnormals_kept():
            inside = to_bits(subnormal * 1.0)
        with pytest.raises(KeyError), subnormals_kept():
            raise KeyError
        outside = to_bits(subnormal * 1.0)
    finally:
        torch.set_flush_denormal(False)
    assert inside == [3]
    assert outside == [0 if flushes else 3]
