"""Arithmetic: one rounding per ieee operation, the reciprocal table's rules, errors, the flush of subnormals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from nvfp4_moe.reference import tables
from nvfp4_moe.reference.arithmetic import IEEE, Arithmetic, HardwareOperations, keeps_subnormals, operations
from nvfp4_moe.reference.silu import silu_and_mul
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
def test_subnormals_are_kept_and_the_callers_setting_too(flushes: bool) -> None:
    """Also among the threads that torch has started while it flushed: the operand is large enough to be split."""
    subnormals = torch.full((2**17,), 3, dtype=torch.int32).view(torch.float32)

    @keeps_subnormals
    def product(factor: float, *, fails: bool = False) -> torch.Tensor:
        if fails:
            raise KeyError("from inside")
        return subnormals * factor

    torch.set_flush_denormal(flushes)
    try:
        inside = product(1.0)
        with pytest.raises(KeyError, match="from inside"):
            product(1.0, fails=True)
        outside = to_bits((subnormals[:1] * 1.0).view(-1))
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(inside.view(torch.int32), subnormals.view(torch.int32))
    assert outside == [0 if flushes else 3]


def test_a_process_that_flushes_from_its_start_gets_the_same_bytes() -> None:
    """In a process of its own, since torch's threads keep the setting that they were started with."""
    script = (
        "import torch; torch.set_flush_denormal(True); torch.rand(1 << 20) * 2\n"
        "from nvfp4_moe.reference import quantize, silu_and_mul\n"
        "x = torch.full((64, 1 << 13), 3, dtype=torch.int16).view(torch.bfloat16)\n"
        "for intermediates in (False, True):\n"
        "    print(quantize(x, 2.0**127, intermediates=intermediates).packed.unique().tolist())\n"
        "x[:, : 1 << 12], x[:, 1 << 12 :] = -95.0, 1.0\n"
        "print(silu_and_mul(x).view(torch.int16).unique().tolist())\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    gate_up = torch.tensor([-95.0] * 16 + [1.0] * 16).to(torch.bfloat16)
    silu_bits = silu_and_mul(gate_up).view(torch.int16)[0].item()
    assert silu_bits & 0x7FFF not in (0, *range(0x80, 0x8000)), "the case must give a subnormal"
    assert done.stdout.splitlines() == ["[119]", "[119]", f"[{silu_bits}]"]
