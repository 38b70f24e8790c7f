"""Launches the kernels of one shape a few times, on rotated buffers, for a profiler to look at.

    ncu --clock-control none --cache-control none --metrics dram__bytes_read.sum,dram__bytes_write.sum \\
        python -m nvfp4_moe.verification.bench.launch --rows 4096 --k 7168 --kernel roof

Kernels: `own` (arithmetic hardware, row padding unwritten), `own-roof`, `roof`, and `dense`: the roof with all scales in
one dense matrix, as if a single expert owned all rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch

from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.verification.bench.gpu import Machine, present_machine
from nvfp4_moe.verification.bench.graph_timer import GraphTimer, calls_for, sets_for
from nvfp4_moe.verification.bench.quant_case import QuantCase, Shape

KERNELS = ("own", "own-roof", "roof", "dense")


def launch(machine: Machine, shape: Shape, kernel: str) -> int:
    """Launch a kernel on each set of buffers in turn; return how often.

    Raises:
        ValueError: another name.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}")
    each = shape.rows * shape.k * 3
    case = QuantCase(shape, seed=0, device=machine.device, sets=sets_for(each, machine.cache_bytes))
    if kernel == "own":
        ops = machine.ops.options(arithmetic="hardware", row_padding="unwritten")
        calls = case.calls(ops.scaled_fp4_experts_quant)
    elif kernel == "own-roof":
        calls = case.calls(machine.own_roof, shape.fused)
    else:
        calls = case.calls(machine.roof, *case.places(dense=kernel == "dense"), shape.fused)
    count = calls_for(each)
    for number in range(count):
        calls[number % len(calls)]()
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Launch the kernels of one shape for a profiler.")
    parser.add_argument("--rows", type=int, default=4_096)
    parser.add_argument("--k", type=int, default=7_168)
    parser.add_argument("--kernel", choices=KERNELS, default="own")
    given = parser.parse_args(arguments)
    if given.rows < 1 or given.k < 1 or given.k % NVFP4.block_size:
        parser.error(f"--rows must be positive and --k a positive multiple of {NVFP4.block_size}")
    if not torch.cuda.is_available():
        parser.error("no CUDA device is present")
    machine = present_machine(GraphTimer(torch.device("cuda", torch.cuda.current_device())))
    count = launch(machine, Shape(rows=given.rows, k=given.k), given.kernel)
    torch.cuda.synchronize()
    print(f"{given.kernel}: {count} launches")


if __name__ == "__main__":
    main()
