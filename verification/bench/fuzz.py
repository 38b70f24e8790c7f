"""Speed of the routing fuzz, family by family: routings a second, generation included.

    python -m nvfp4_moe.verification.bench.fuzz [--experts 256] [--workers 2] [--seconds 1.0] [--json FILE]

Count vectors are made, summed, held to the proposed bound and the exact worst case, and partly placed region by
region: the whole work of a batch, as `verify` runs it. Families that integer arithmetic makes on packed lanes are
listed first; those that route tokens to ids, and ids through the whole routing path, apart. `workers` threads run
batches side by side. A family's batches run once before the clock starts, so that tables are filled as they are in a
long run. CPU seconds per routing are given too: on a shared machine they are the steadier figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.families import FAMILIES
from nvfp4_moe.verification.fuzz import BatchRunner
from nvfp4_moe.verification.fuzz_plan import Batch, Form, Sizes, round_of_batches

SEED = 0
ROUND = 1
"""The round whose sizes are measured; at 256 experts fast families draw for 1,024 tokens, topk 6."""
BOUND = "proposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One family's line."""

    family: str
    form: str
    fast: bool
    """Made by integer arithmetic on packed counts."""
    tokens: int
    topk: int
    routings: int
    routings_per_second: float
    cpu_microseconds: float
    """CPU time of one routing, all threads together."""


def measure(*, experts: int, workers: int, seconds: float) -> dict[str, Any]:
    """Run the benchmark and return its record, ready for JSON."""
    sizes = Sizes(experts=(experts,))
    runners = [BatchRunner([parse_bound(BOUND)]) for _ in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        speeds = [
            _speed(batch, runners, pool, seconds)
            for form in Form
            for batch in round_of_batches(SEED, ROUND, form=form, sizes=sizes)
        ]
    return {
        "benchmark": "verification.fuzz",
        "experts": experts,
        "workers": workers,
        "seed": SEED,
        "bound": BOUND,
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "speeds": [asdict(speed) for speed in speeds],
    }


def _speed(batch: Batch, runners: Sequence[BatchRunner], pool: ThreadPoolExecutor, seconds: float) -> Speed:
    for runner in runners:
        runner.run(batch)
    start, cpu = time.perf_counter(), time.process_time()
    jobs = [
        pool.submit(_run_until, runner, _from(batch, number, len(runners)), start + seconds)
        for number, runner in enumerate(runners)
    ]
    routings = sum(job.result() for job in jobs)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return Speed(
        family=batch.family,
        form=str(batch.form),
        fast=batch.form is Form.COUNTS and FAMILIES[batch.family].fast,
        tokens=batch.tokens,
        topk=batch.topk,
        routings=routings,
        routings_per_second=routings / wall,
        cpu_microseconds=1e6 * cpu / routings,
    )


def _from(batch: Batch, number: int, step: int) -> Iterator[Batch]:
    """Give the batches number, number + step, ... of the same family and sizes."""
    while True:
        yield replace(batch, index=number)
        number += step


def _run_until(runner: BatchRunner, batches: Iterator[Batch], deadline: float) -> int:
    """Run at least one batch, and more until the deadline; return the routings done."""
    routings = 0
    for batch in batches:
        routings += runner.run(batch).cases
        if time.perf_counter() >= deadline:
            break
    return routings


def table(record: dict[str, Any]) -> str:
    """Return the record as text for people."""
    lines = [
        f"E={record['experts']}, {record['workers']} workers, torch {record['torch']}, {record['cpu_capability']}, "
        f"load {record['load_average']:.1f} on {record['cpus']} CPUs",
        f"{'family':24}{'form':8}{'M':>7}{'k':>4}{'routings/s':>14}{'cpu us each':>13}",
    ]
    ordered = sorted(record["speeds"], key=lambda row: (not row["fast"], row["form"] == "ids"))
    lines += [
        f"{row['family']:24}{row['form']:8}{row['tokens']:>7,}{row['topk']:>4}{row['routings_per_second']:>14,.0f}"
        f"{row['cpu_microseconds']:>13.3f}"
        for row in ordered
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Speed of the routing fuzz, family by family.")
    parser.add_argument("--experts", type=int, default=256)
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 2))
    parser.add_argument("--seconds", type=float, default=1.0, help="for each family and form")
    parser.add_argument("--json", type=Path, help="write the record here")
    options = parser.parse_args(arguments)
    record = measure(experts=options.experts, workers=options.workers, seconds=options.seconds)
    print(table(record))
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
