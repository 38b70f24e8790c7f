"""Speed of the routing fuzz, family by family: routings a second, generation included.

    python -m nvfp4_moe.verification.bench.fuzz [--experts 256] [--workers 2] [--seconds 1.0] [--json FILE]

Count vectors are made, summed, held to the proposed bound and the exact worst case, and partly placed region by
region: the whole work of a batch, as `verify` runs it. Families that integer arithmetic makes on packed lanes are
listed first; those that route tokens to ids, and ids through the whole routing path, apart. `workers` processes run
batches side by side, as several campaigns on one store do. A family's batches run once before the clock starts, so that
tables are filled as they are in a long run. CPU seconds per routing are given too: on a shared machine they are the
steadier figure.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
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
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(context.Barrier(workers),)
    ) as pool:
        speeds = [
            _speed(batch, pool, workers=workers, seconds=seconds)
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


def _speed(batch: Batch, pool: Executor, *, workers: int, seconds: float) -> Speed:
    jobs = [pool.submit(_run_for, seconds, batch, number, workers) for number in range(workers)]
    runs = [job.result() for job in jobs]
    routings = sum(run.routings for run in runs)
    return Speed(
        family=batch.family,
        form=str(batch.form),
        fast=batch.form is Form.COUNTS and FAMILIES[batch.family].fast,
        tokens=batch.tokens,
        topk=batch.topk,
        routings=routings,
        routings_per_second=sum(run.routings / run.wall for run in runs),
        cpu_microseconds=1e6 * sum(run.cpu for run in runs) / routings,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """What one process did."""

    routings: int
    wall: float
    cpu: float


_together: threading.Barrier
"""Where the worker processes wait for each other; set in each of them."""


def _start_worker(together: threading.Barrier) -> None:
    global _together
    _together = together


@cache
def _runner() -> BatchRunner:
    return BatchRunner([parse_bound(BOUND)])


def _run_for(seconds: float, batch: Batch, number: int, step: int) -> _Run:
    """Run batches number, number + step, ... in this process once all are warm, at least one, until the time is up."""
    runner, routings = _runner(), 0
    runner.run(batch)
    _together.wait()  # also keeps one process from taking two jobs
    start, cpu = time.perf_counter(), time.process_time()
    for following in _from(batch, number, step):
        routings += runner.run(following).cases
        if time.perf_counter() - start >= seconds:
            break
    return _Run(routings, time.perf_counter() - start, time.process_time() - cpu)


def _from(batch: Batch, number: int, step: int) -> Iterator[Batch]:
    """Give the batches number, number + step, ... of the same family and sizes."""
    while True:
        yield replace(batch, index=number)
        number += step


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
