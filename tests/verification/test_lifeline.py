"""A parent that is killed takes its children along: those that load a subject, forks, and the proofs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nvfp4_moe
from nvfp4_moe.verification import lifeline

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(nvfp4_moe.__file__).parent.parent)}
SECONDS = 30.0
PARENT = """
import sys, time
from nvfp4_moe.verification.conformance.child import Order, start
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.proof_job import ProofProcess
from nvfp4_moe.verification.task_child import TaskChild

spec = sys.argv[1]
fork = Subject("sleeps", swizzle=lambda linear: time.sleep(3600))
children = [start(held, Order(numbers=[0], level=1, seed=0)) for held in (spec, fork)]
children += [TaskChild(spec, "outputs"), TaskChild(fork, "outputs")]
proofs = ProofProcess(2)
proofs.start()
print("ready", flush=True)
time.sleep(3600)
"""


def alive(pid: int) -> bool:
    """Return whether the process runs; one that has ended may wait for a reader of its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process of its parent's end")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_a_killed_parent(number: signal.Signals, tmp_path: Path) -> None:
    spec = tmp_path / "sleeps.py"
    spec.write_text("import time\ntime.sleep(3600)\n")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(spec)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    assert parent.stdout is not None
    with parent:
        try:
            assert parent.stdout.readline() == "ready\n"
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        finally:
            parent.send_signal(number)
    assert parent.returncode == -number
    assert len(children) == 5
    deadline = time.monotonic() + SECONDS
    while left := [pid for pid in children if alive(int(pid))]:
        assert time.monotonic() < deadline, f"{len(left)} children outlived their parent"
        time.sleep(0.02)


def test_a_child_whose_parent_is_gone_already_does_not_start() -> None:
    command = lifeline.command("json.tool", "--help")
    assert subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT).returncode == 0
    command[3] = "1"
    done = subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stdout) == (1, b"")
