"""The record of `nvfp4-moe bench`: what was measured, where, on which sources; and its table for people."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from nvfp4_moe import __version__
from nvfp4_moe.verification.bench import cpu, fuzz, gemm, gpu, quantize
from nvfp4_moe.verification.bench.graph_timer import CALLS, ROUNDS, SMALL_CALLS, GraphTimer


def run(device: str, *, seed: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure on "cuda" or "cpu" and return the record, ready for JSON.

    Raises:
        ValueError: another device.
        BuildError: the kernels could not be built.
        WrongBytesError: what was timed is not what the golden model computes.
    """
    if device not in ("cuda", "cpu"):
        raise ValueError(f"device must be cuda or cpu, got {device!r}")
    head: dict[str, Any] = {
        "benchmark": "nvfp4-moe bench",
        "version": __version__,
        "git": commit(),
        "seed": seed,
        "torch": torch.__version__,
    }
    if device == "cpu":
        return head | {"device": cpu.describe_device()} | cpu.measure(seed=seed, progress=progress)
    progress("building the kernels")
    present = torch.device("cuda", torch.cuda.current_device())
    machine = gpu.present_machine(GraphTimer(present))
    before = gpu.clocks()
    measured = gpu.measure(machine, seed=seed, progress=progress)
    if torch.cuda.get_device_capability(present) == gemm.HOPPER:
        multiplier = gemm.present_gemm_machine(machine.timer)
        measured["gemm"] = gemm.measure(multiplier, seed=seed, progress=progress)
        for row in measured["gemm"]:
            measured["ratios"] |= row.pop("ratios")
    head["device"] = gpu.describe_device(present) | {"clocks": {"before": before, "after": gpu.clocks()}}
    head["timing"] = {"graph_calls": [CALLS, SMALL_CALLS], "rounds": ROUNDS}
    return head | measured


def commit() -> str | None:
    """Return the commit of the checkout that this code runs from, or None outside one."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def table(record: Mapping[str, Any]) -> str:
    """Return the record as text."""
    lines = _cuda_lines(record) if "quantizers" in record else _cpu_lines(record)
    return "\n".join([_head(record), *lines])


def _head(record: Mapping[str, Any]) -> str:
    device = record["device"]
    clocks = device.get("clocks", {}).get("after")
    told = f", clocks {clocks} (as read, not set)" if clocks else ""
    return (
        f"{device['name']}, torch {record['torch']}, commit {(record['git'] or 'unknown')[:12]}, "
        f"seed {record['seed']}{told}"
    )


def _cuda_lines(record: Mapping[str, Any]) -> Iterator[str]:
    copy = record["copy"]
    yield f"device copy of {copy['bytes'] // 2 // 2**20:,} MiB: {copy['terabytes_per_second']:.2f} TB/s, read and written"
    yield ""
    yield (
        f"{'bf16, 256 experts':26}{'own us':>9}{'spread':>8}{'TB/s':>7}{'roof us':>9}{'/ roof':>8}{'own roof':>10}"
        f"{'/ own':>7}{'ieee us':>9}{'zero us':>9}{'torch us':>10}"
    )
    for row in record["quantizers"]:
        yield _quantizer_line(row, record["ratios"])
    yield (
        "own: arithmetic hardware, row padding unwritten; zero: row padding zeroed; ieee: the other arithmetic, padding "
        "unwritten;"
    )
    yield "roof: a plain kernel with the same loads and stores; own roof: this kernel without its arithmetic."
    yield "Every configuration timed gave the golden model's bytes."
    yield ""
    yield f"{'routing, top-8 of 256':26}{'own us':>9}{'spread':>8}{'sort us':>9}{'/ sort':>8}"
    for row in record["routing"]:
        own, sort = row["times"]["own"], row["times"]["torch.sort"]
        ratio = record["ratios"][f"{row['name']} / torch.sort"]["ratio"]
        yield f"{row['name']:26}{own['us']:9.2f}{own['spread']:8.1%}{sort['us']:9.2f}{ratio:8.2f}"
    if "gemm" in record:
        yield ""
        yield from gemm.lines(record["gemm"])


def _quantizer_line(row: Mapping[str, Any], ratios: Mapping[str, Any]) -> str:
    times, name = row["times"], row["name"]
    own = times[gpu.HARDWARE]
    compiled = f"{times[gpu.TORCH]['us']:10.1f}" if gpu.TORCH in times else f"{'-':>10}"
    return (
        f"{name:26}{own['us']:9.2f}{own['spread']:8.1%}{row['terabytes_per_second']:7.2f}"
        f"{times[gpu.ROOF]['us']:9.2f}{ratios[f'{name} / {gpu.ROOF}']['ratio']:8.3f}"
        f"{times[gpu.OWN_ROOF]['us']:10.2f}{ratios[f'{name} / {gpu.OWN_ROOF}']['ratio']:7.3f}"
        f"{times[gpu.IEEE]['us']:9.2f}{times[gpu.HARDWARE_ZERO]['us']:9.2f}{compiled}"
    )


def _cpu_lines(record: Mapping[str, Any]) -> Iterator[str]:
    host = record["host"]
    yield f"{host['name']}, {host['experts']} experts, {record['device']['threads']} threads"
    if host["missing"] is not None:
        yield f"host twin: not measured, {host['missing']}"
    yield f"{'subject':26}{'ms':>9}{'spread':>8}{'M elem/s':>10}"
    for name, measured in host["times"].items():
        shown = name if name in (cpu.GOLDEN, cpu.COPY) else f"host twin, {name}"
        rate = measured["million_elements_per_second"]
        yield f"{shown:26}{measured['us'] / 1e3:9.2f}{measured['spread']:8.1%}{rate:10,.0f}"
    yield from ("", quantize.table(record["golden"]), fuzz.table(record["fuzz"]))
