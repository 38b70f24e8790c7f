"""The benchmark of the kernels, on the host twin with a timer that only counts: bytes, ratios, and faults it must see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.build import missing
from nvfp4_moe.cuda.ops import HostOps
from nvfp4_moe.reference.arithmetic import HardwareOperations
from nvfp4_moe.reference.quantize import quantize
from nvfp4_moe.verification.bench import gpu, record
from nvfp4_moe.verification.bench.gpu import Machine, Shape
from nvfp4_moe.verification.bench.graph_timer import CALLS, SMALL_CALLS, Subject, calls_for, sets_for
from nvfp4_moe.verification.bench.quant_case import QuantCase, WrongBytesError
from nvfp4_moe.verification.bench.ratios import Times
from nvfp4_moe.verification.bench.torch_quantizer import quantize_plainly

needs_host_twin = pytest.mark.skipif(missing("host") is not None, reason=str(missing("host")))
SMALL = Shape(rows=37, k=80, experts=5)


def counting_timer(subjects: Mapping[str, Subject], *, calls: int) -> dict[str, Times]:
    """Run every call once; subject i takes i + 1 microseconds."""
    assert calls >= CALLS
    for subject in subjects.values():
        subject.before()
        for call in subject.calls:
            call()
        subject.after()
    return {
        name: Times(rounds=(number + 1.0, number + 1.0, number + 1.5)) for number, name in enumerate(subjects)
    }


def nothing(*arguments: object) -> None:
    """A yardstick that does nothing."""


def machine(ops: Any = None) -> Machine:
    return Machine(
        device=torch.device("cpu"),
        cache_bytes=10_000,
        ops=ops or HostOps(),
        own_roof=nothing,
        roof=nothing,
        compiled=quantize_plainly,
        timer=counting_timer,
        hardware=HardwareOperations("NVIDIA H200"),
    )


@needs_host_twin
@pytest.mark.parametrize("fused", [False, True])
def test_a_shape_is_timed_in_every_configuration(fused: bool) -> None:
    row = gpu.measure_quantizer(machine(), replace(SMALL, fused=fused), seed=3, compiled=not fused)
    assert list(row["times"]) == [*gpu.CONFIGURATIONS, "own roof", "roof", *([] if fused else ["torch"])]
    assert row["sets"] > 1
    name = row["name"]
    assert row["ratios"][f"{name} / roof"]["ratio"] == 6.0
    assert row["ratios"][f"{name} / own roof"]["ratio"] == 5.0
    assert row["bytes"]["padding zero"] - row["bytes"]["padding unwritten"] == (row["scale_rows"] - 37) * 8
    assert row["bytes"]["padding unwritten"] == 37 * (80 * (4 if fused else 2) + 40 + 8) + 4 * (5 + 6 + 6)
    if not fused:
        assert row["torch_bytes_equal"] == 1.0


class _OneWrongByte:
    """Ops that spoil one byte in one of their configurations."""

    def __init__(self, arithmetic: str, row_padding: str, output: int) -> None:
        self._spoiled = (arithmetic, row_padding)
        self._output = output

    def options(self, *, arithmetic: str, row_padding: str) -> Any:
        ops = HostOps(arithmetic=arithmetic, row_padding=row_padding)
        if (arithmetic, row_padding) != self._spoiled:
            return ops
        return _Spoiled(ops, self._output)


class _Spoiled:
    def __init__(self, ops: HostOps, output: int) -> None:
        self._ops = ops
        self._output = output

    def scaled_fp4_experts_quant(self, *arguments: Tensor) -> None:
        self._ops.scaled_fp4_experts_quant(*arguments)
        arguments[self._output].view(torch.uint8)[-1, -1] ^= 1


@needs_host_twin
@pytest.mark.parametrize("output", [0, 1], ids=["packed", "block_scale"])
@pytest.mark.parametrize(("arithmetic", "row_padding"), gpu.CONFIGURATIONS.values())
def test_one_wrong_byte_in_any_timed_configuration_is_found(
    arithmetic: str, row_padding: str, output: int
) -> None:
    with pytest.raises(WrongBytesError, match=r"quant 37 x 80, .*: 1 of [\d,]+ bytes differ"):
        gpu.measure_quantizer(
            machine(_OneWrongByte(arithmetic, row_padding, output)), SMALL, seed=3, compiled=False
        )


@needs_host_twin
def test_routing_is_checked_and_compared_with_a_sort() -> None:
    row = gpu.measure_routing(machine(), 9, seed=1)
    assert row["ratios"]["routing 9 tokens / torch.sort"]["ratio"] == 2.0

    class Wrong(HostOps):
        def get_cutlass_moe_mm_data(self, *arguments: Any) -> None:
            super().get_cutlass_moe_mm_data(*arguments)
            arguments[4][0] += 1

    with pytest.raises(WrongBytesError, match="routing of 9 tokens"):
        gpu.measure_routing(machine(Wrong()), 9, seed=1)


@needs_host_twin
def test_the_record_has_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "COMPILED", {(37, 80)})
    monkeypatch.setattr(gpu.measure_copy, "__kwdefaults__", {"size": 1024})
    told: list[str] = []
    fused = replace(SMALL, fused=True)
    measured = gpu.measure(machine(), seed=0, progress=told.append, shapes=[SMALL, fused], tokens=[3])
    assert told == ["quant 37 x 80", "silu_quant 37 x 80", "routing 3 tokens"]
    head = {"device": {"name": "none", "clocks": {"after": None}}, "torch": "2", "git": None, "seed": 0}
    text = record.table(head | measured)
    assert all(name in text for name in told)
    assert "commit unknown" in text
    assert all(entry["ratio"] > 0 and entry["noise"] >= 0 for entry in measured["ratios"].values())
    assert len(measured["ratios"]) == 4 + 4 + 1


@pytest.mark.parametrize(
    ("each", "calls", "sets"),
    [
        (1_000, SMALL_CALLS, SMALL_CALLS),
        (9_400_000, SMALL_CALLS, 27),
        (75_000_000, CALLS, 5),
        (10**9, CALLS, 2),
    ],
)
def test_buffers_are_cold_when_they_come_round(each: int, calls: int, sets: int) -> None:
    cache = 60_000_000
    assert calls_for(each) == calls
    assert sets_for(each, cache) == sets
    assert sets == calls or (sets - 1) * each >= 4 * cache


def test_the_plain_recipe_gives_the_golden_bytes() -> None:
    input = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    input = torch.where(input.isfinite(), input, 1.0).view(64, 1024)
    scale = torch.tensor([2.0])
    packed, block_scale = quantize_plainly(input, scale.expand(64, 1))
    true = quantize(input, scale)
    assert torch.equal(packed, true.packed)
    assert torch.equal(block_scale.view(torch.uint8), true.block_scale.view(torch.uint8))


def test_inputs_are_bell_shaped_and_the_same_for_any_piece_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> Tensor:
        return QuantCase(SMALL, seed=5, device=torch.device("cpu"), sets=1).sets[0].input

    whole = make()
    monkeypatch.setattr("nvfp4_moe.verification.bench.quant_case._MOST_WORDS", 200)
    assert torch.equal(make(), whole)
    assert whole.abs().max() <= 8
    assert 1.8 < float(whole.float().std()) < 2.8


@pytest.mark.gpu
def test_the_present_gpu_is_timed() -> None:
    from nvfp4_moe.verification.bench.graph_timer import GraphTimer

    machine = gpu.present_machine(GraphTimer(torch.device("cuda", 0), rounds=3))
    row = gpu.measure_quantizer(machine, Shape(rows=64, k=208, experts=7), seed=0, compiled=False)
    assert 0 < row["times"]["hardware"]["us"] < 1_000
    assert gpu.measure_routing(machine, 16, seed=0)["times"]["own"]["us"] > 0
