"""Speed of the golden quantizers on the CPU, as ratios within one run.

    python -m nvfp4_moe.verification.bench.quantize [--rows 2048] [--k 7168] [--experts 8] [--rounds 15] [--json FILE]

Subjects: `quantize` (recipe vllm, linear), `quantize` with torchao's recipe, `quantize_experts` (swizzled_128x4, ragged),
the recipe word by word on whole tensors, torchao's eager `nvfp4_quantize` where torchao is installed, and a copy of
the input as a floor. Subjects take turns, one call each a round, so that whatever else the machine does falls on all of
them; after `WARM_UP` rounds the median wall time counts. CPU time is given as well: on a shared machine it is the
steadier figure. `quantize` with torchao's recipe is compared with torchao byte by byte.

Extra memory is the peak of the resident set during the first full-size call, less what it was before and less the
outputs (Linux only); it is measured before anything else of that size has run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import importlib.metadata
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from nvfp4_moe.reference.arithmetic import IEEE
from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.quantize import Quantized, quantize
from nvfp4_moe.reference.recipes import VLLM
from nvfp4_moe.reference.rows import quantize_rows_plainly
from nvfp4_moe.verification.counter import words

WARM_UP = 2
"""Rounds that do not count."""
SEED = 0
OURS, EXPERTS, OURS_AS_TORCHAO, TORCHAO = (
    "quantize",
    "quantize_experts",
    "quantize, torchao recipe",
    "torchao eager",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One subject's line."""

    subject: str
    median_ms: float
    best_ms: float
    median_cpu_ms: float
    million_elements_per_second: float
    """By the median wall time."""
    times_torchao: float | None
    """Speed over torchao's, by the median wall time; None without torchao."""
    times_torchao_cpu: float | None
    """The same by CPU time."""


def activations(rows: int, k: int) -> torch.Tensor:
    """Return bf16 (rows, k): sums of four uniform 12-bit numbers, so bell-shaped, the same on every machine."""
    raw = words(SEED, "bench.quantize", 0, rows * k)
    parts = torch.stack([((raw >> shift) & 0xFFF).to(torch.float32) for shift in (0, 12, 24, 36)])
    return ((parts.sum(0) - 4 * 2047.5) / 1024).to(torch.bfloat16).view(rows, k)


def ragged_offsets(rows: int, experts: int) -> torch.Tensor:
    """Return int32 (experts + 1,) offsets of uneven experts that own all rows."""
    weights = torch.arange(1, experts + 1, dtype=torch.int64)
    return torch.cat((torch.zeros(1), weights.cumsum(0) * rows / int(weights.sum()))).to(torch.int32)


def torchao_quantize() -> Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]] | None:
    """Return torchao's `nvfp4_quantize(input, per_tensor_scale)` -> (scales, packed), or None if not installed."""
    try:
        module = importlib.import_module("torchao.prototype.mx_formats.nvfp4_tensor")
    except ImportError:
        return None
    return lambda input, scale: module.nvfp4_quantize(input, per_tensor_scale=scale)


def measure(*, rows: int, k: int, experts: int, rounds: int) -> dict[str, Any]:
    """Run the benchmark and return its record, ready for JSON."""
    input = activations(rows, k)
    encode = torch.div(torch.tensor(NVFP4.encode_numerator), input.abs().amax().float())
    decode = torch.div(torch.tensor(1.0), encode)
    quantize(input[: min(rows, 2)], encode)  # loads code and tables
    extra_bytes = _extra_bytes(lambda: quantize(input, encode))
    offsets, scales = ragged_offsets(rows, experts), encode.expand(experts).clone()
    subjects: dict[str, Callable[[], object]] = {
        OURS: lambda: quantize(input, encode),
        OURS_AS_TORCHAO: lambda: quantize(input, global_decode_scale=decode, recipe="torchao"),
        EXPERTS: lambda: quantize_experts(input, scales, offsets),
        "recipe word by word": lambda: quantize_rows_plainly(input, encode, recipe=VLLM, ops=IEEE),
        "copy of the input": lambda: input.clone(),
    }
    torchao = torchao_quantize()
    if torchao is not None:
        subjects[TORCHAO] = lambda: torchao(input, decode)
    wall, cpu = _timed(subjects, rounds)
    return {
        "benchmark": "reference.quantize",
        "rows": rows,
        "k": k,
        "experts": experts,
        "rounds": rounds,
        "seed": SEED,
        "torch": torch.__version__,
        "torchao": importlib.metadata.version("torchao") if torchao is not None else None,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "timings": [asdict(timing) for timing in _timings(wall, cpu, rows * k)],
        "experts_over_quantize": statistics.median(wall[EXPERTS]) / statistics.median(wall[OURS]),
        "experts_over_quantize_cpu": statistics.median(cpu[EXPERTS]) / statistics.median(cpu[OURS]),
        "extra_bytes": extra_bytes,
        "extra_over_input": None if extra_bytes is None else extra_bytes / input.nbytes,
        "bytes_equal_torchao": None if torchao is None else _equals_torchao(input, decode, torchao),
    }


def _timed(
    subjects: dict[str, Callable[[], object]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return wall and CPU seconds of each subject's counted calls."""
    wall: dict[str, list[float]] = {name: [] for name in subjects}
    cpu: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(WARM_UP + rounds):
        for name, call in subjects.items():
            wall_before, cpu_before = time.perf_counter(), time.process_time()
            call()
            wall_after, cpu_after = time.perf_counter(), time.process_time()
            if turn >= WARM_UP:
                wall[name].append(wall_after - wall_before)
                cpu[name].append(cpu_after - cpu_before)
    return wall, cpu


def _timings(wall: dict[str, list[float]], cpu: dict[str, list[float]], elements: int) -> list[Timing]:
    def ratio(seconds: dict[str, list[float]], name: str) -> float | None:
        if TORCHAO not in seconds:
            return None
        return statistics.median(seconds[TORCHAO]) / statistics.median(seconds[name])

    return [
        Timing(
            subject=name,
            median_ms=1e3 * statistics.median(wall[name]),
            best_ms=1e3 * min(wall[name]),
            median_cpu_ms=1e3 * statistics.median(cpu[name]),
            million_elements_per_second=elements / statistics.median(wall[name]) / 1e6,
            times_torchao=ratio(wall, name),
            times_torchao_cpu=ratio(cpu, name),
        )
        for name in wall
    ]


def _equals_torchao(
    input: torch.Tensor,
    decode: torch.Tensor,
    torchao: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> bool:
    scales, packed = torchao(input, decode)
    ours = quantize(input, global_decode_scale=decode, recipe="torchao")
    return torch.equal(ours.packed, packed) and torch.equal(ours.block_scale, scales.view(torch.uint8))


def _extra_bytes(call: Callable[[], Quantized]) -> int | None:
    """Return the peak resident bytes that `call` adds beyond its result, or None where the system does not tell."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    try:
        with contextlib.suppress(OSError, AttributeError):  # glibc alone keeps freed memory, and has this
            ctypes.CDLL(None).malloc_trim(0)
        clear.write_text("5")  # resets the peak to the present resident set
        before = _status_bytes(status, "VmRSS")
        result = call()
        return _status_bytes(status, "VmHWM") - before - result.packed.nbytes - result.block_scale.nbytes
    except OSError:
        return None


def _status_bytes(status: Path, key: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def table(record: dict[str, Any]) -> str:
    """Return the record as text for people."""
    lines = [
        f"{record['rows']} x {record['k']} bf16, torch {record['torch']}, {record['threads']} threads, "
        f"{record['cpu_capability']}, {record['rounds']} rounds",
        f"{'subject':26}{'median ms':>11}{'best ms':>9}{'cpu ms':>9}{'M elem/s':>10}{'x torchao':>11}{'by cpu':>8}",
    ]
    for row in record["timings"]:
        ratios = [
            "-" if value is None else f"{value:.2f}"
            for value in (row["times_torchao"], row["times_torchao_cpu"])
        ]
        lines.append(
            f"{row['subject']:26}{row['median_ms']:11.1f}{row['best_ms']:9.1f}{row['median_cpu_ms']:9.1f}"
            f"{row['million_elements_per_second']:10.0f}{ratios[0]:>11}{ratios[1]:>8}"
        )
    extra = record["extra_over_input"]
    lines += [
        f"quantize_experts takes {record['experts_over_quantize']:.2f} times quantize "
        f"({record['experts_over_quantize_cpu']:.2f} by CPU time), {record['experts']} experts, swizzled_128x4",
        f"memory beyond the outputs: {'not measured here' if extra is None else f'{extra:.3f} of the input'}",
        f"same bytes as torchao {record['torchao']}: {record['bytes_equal_torchao']}"
        if record["torchao"]
        else "torchao is not installed (pip install --no-deps torchao==0.18.0): no ratios",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Speed of the golden quantizers on the CPU.")
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--k", type=int, default=7168)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--json", metavar="FILE", help="also write the record; - is stdout, in place of the table"
    )
    given = parser.parse_args(arguments)
    if min(given.rows, given.experts, given.rounds) < 1 or given.k < 1 or given.k % NVFP4.block_size:
        parser.error(f"sizes must be positive and --k a multiple of {NVFP4.block_size}")
    record = measure(rows=given.rows, k=given.k, experts=given.experts, rounds=given.rounds)
    text = json.dumps(record, indent=2) + "\n"
    if given.json == "-":
        sys.stdout.write(text)
        return 0
    sys.stdout.write(table(record))
    if given.json is not None:
        path = Path(given.json)
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(text)
        temporary.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
