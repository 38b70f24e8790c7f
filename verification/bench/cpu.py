"""Speed on the CPU: the golden quantizers, the host twin and the golden model in turns, and the fuzz.

The first and the last are `bench.quantize` and `bench.fuzz`, shorter than by themselves. Times on a shared machine are noisy: the
ratios of one run, and CPU time where it is given, are the steadier figures.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.verification.bench import fuzz, quantize
from nvfp4_moe.verification.bench.quant_case import QuantCase, Shape
from nvfp4_moe.verification.bench.ratios import Times, with_ratios

NOISE_FLOOR = 0.35
"""Share of a ratio that a shared machine moves it by."""
ROUNDS = 7
GOLDEN, COPY = "golden model", "copy of the input"


def measure(
    *,
    seed: int,
    progress: Callable[[str], None],
    shape: Shape | None = None,
    rounds: int = ROUNDS,
    fuzz_seconds: float = 0.1,
) -> dict[str, Any]:
    """Run the benchmark; return what it measured, without what `record.py` adds."""
    shape = shape or Shape(rows=1_024, k=7_168, experts=8)
    progress("golden quantizers")  # first: it measures the memory of the first calls of its size
    golden = quantize.measure(rows=shape.rows, k=shape.k, experts=shape.experts, rounds=rounds)
    progress(f"host twin, {shape.name}")
    host = measure_host(shape, seed=seed, rounds=rounds)
    progress("fuzz")
    fuzzed = fuzz.measure(experts=256, workers=min(os.cpu_count() or 1, 2), seconds=fuzz_seconds)
    return {
        "noise_floor": NOISE_FLOOR,
        "host": host,
        "golden": golden,
        "fuzz": fuzzed,
        "ratios": host.pop("ratios"),
    }


def measure_host(shape: Shape, *, seed: int, rounds: int) -> dict[str, Any]:
    """Time the host twin beside the golden model; `missing` says why it could not be built.

    Raises:
        WrongBytesError: its bytes are not the golden model's.
    """
    case = QuantCase(shape, seed=seed, device=torch.device("cpu"), sets=1)
    input = case.sets[0].input
    subjects: dict[str, Callable[[], object]] = {
        GOLDEN: lambda: quantize_experts(input, case.global_encode_scale, case.expert_offsets),
        COPY: lambda: input.clone(),
    }
    missing, twins = _twins(case)
    subjects |= twins
    times = _in_turns(subjects, rounds)
    elements = shape.rows * shape.k
    return {
        "name": shape.name,
        "experts": shape.experts,
        "missing": missing,
        "times": {
            name: measured.record() | {"million_elements_per_second": elements / measured.median}
            for name, measured in times.items()
        },
        "ratios": with_ratios(
            [(f"host twin {name} / {GOLDEN}", times[name], times[GOLDEN]) for name in twins]
            + [(f"{GOLDEN} / {COPY}", times[GOLDEN], times[COPY])]
        ),
    }


def _twins(case: QuantCase) -> tuple[str | None, dict[str, Callable[[], object]]]:
    """Return what the host twin lacks to be built, or its calls, whose bytes have been compared."""
    from nvfp4_moe.cuda.build import missing
    from nvfp4_moe.cuda.ops import HostOps

    lacking = missing("host")
    if lacking is not None:
        return lacking, {}
    calls: dict[str, Callable[[], object]] = {}
    for arithmetic in ("ieee", "hardware"):
        (call,) = case.calls(HostOps(arithmetic=arithmetic).scaled_fp4_experts_quant)
        case.fill()
        call()
        case.check(f"host twin {arithmetic}", *case.true_bytes(arithmetic))
        calls[arithmetic] = call
    return None, calls


def _in_turns(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """Return microseconds a call; the first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(rounds + 1):
        for name, call in subjects.items():
            start = time.perf_counter()
            call()
            if turn > 0:
                times[name].append(1e6 * (time.perf_counter() - start))
    return {name: Times(rounds=tuple(each)) for name, each in times.items()}


def describe_device() -> dict[str, Any]:
    """Return what is known of this CPU."""
    return {
        "name": _cpu_name(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "load_average": os.getloadavg()[0],
    }


def _cpu_name() -> str:
    """Return the model of the processor, or the machine's type where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
