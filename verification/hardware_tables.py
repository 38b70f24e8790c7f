"""Tables of the present GPU for exact judgement: those that ship, else measured on first use, in seconds.

Without a table the bytes of approximate arithmetic can only be judged by documented errors (ADMISSIBLE). Where kernels
can be built, the measuring program of `nvfp4_moe.cuda` runs once in a process of its own and leaves its tables in
`reference.tables.measured_folder`; later runs, and the children that run a subject, find them there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

import nvfp4_moe
from nvfp4_moe.reference.tables import MissingTableError, Table, find_table, measured_folder
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.task_messages import Card

KINDS = ("reciprocal", "silu_bf16", "silu_f16")
"""Tables that together decide every byte of the approximate recipes."""

_SECONDS = 300.0
"""Time limit of a measurement: seconds, and the first build."""


def tables_for(subject: Subject | Card) -> list[str]:
    """Return the names of the tables that decide a subject's bytes; measures them where they are missing.

    Empty for a subject in ieee arithmetic or on the CPU, and where nothing could be measured.
    """
    if subject.contract.arithmetic == "ieee" or subject.device != "cuda":
        return []
    chip = torch.cuda.get_device_name()
    found = _found(chip)
    if not found:
        _measure()
        found = _found(chip)
    return [table.name for table in found]


def _found(chip: str) -> list[Table]:
    try:
        return [find_table(kind, chip=chip) for kind in KINDS]
    except MissingTableError:
        return []


def _measure() -> None:
    """Run the measuring program; a machine that cannot build or run it is left without tables."""
    folder = measured_folder()
    source = str(Path(nvfp4_moe.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "nvfp4_moe.cuda.measure", "--out", str(folder)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"no table of this GPU could be measured: {error}", file=sys.stderr)
        return
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"no table of this GPU could be measured: {last}", file=sys.stderr)
