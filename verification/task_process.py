"""The processes of task children: a fresh one that loads a named subject, or a fork that holds an object.

Run as a program, this is the fresh one. A task is a module of `TASKS` with

    serve(subject: Subject, requests: BinaryIO, out: BinaryIO) -> None

which reads the parent's lines with `hear` and writes its messages with `say`.
"""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import IO, BinaryIO, NoReturn, Protocol

from nvfp4_moe.verification import lifeline
from nvfp4_moe.verification.conformance.subject import (
    Subject,
    SubjectError,
    SubjectUnavailable,
    load_subject,
)
from nvfp4_moe.verification.task_messages import Card, hear, say

TASKS: dict[str, str] = {
    "outputs": "nvfp4_moe.verification.subject_outputs",
    "probe": "nvfp4_moe.verification.contract_probes",
    "sequence": "nvfp4_moe.verification.conformance.sequence_task",
}
"""Module of each task."""

_TOLD_LINES = 4
_TOLD_BYTES = 1 << 14
"""Lines and bytes at the end of what a child printed that are looked at."""


class Process(Protocol):
    """What the parent uses of a child's process, as `subprocess.Popen` has it."""

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int | None: ...


class _Fork:
    """A forked child behind the interface of `subprocess.Popen` that is used here."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode


def spawn(requests: int, out: int, printed: IO[bytes]) -> Process:
    """Start a fresh process that reads its order from one descriptor and answers on the other."""
    import nvfp4_moe

    package = str(Path(nvfp4_moe.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        lifeline.command("nvfp4_moe.verification.task_process", str(requests), str(out)),
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=printed,
        pass_fds=(requests, out),
        env={**os.environ, "PYTHONPATH": path},
    )


def fork(
    subject: Subject, task: str, ends: tuple[int, int], parents: tuple[int, int], printed: IO[bytes]
) -> Process:
    """Start a fork with these ends of the pipes; it closes those that are the parent's."""
    if subject.device != "cpu":
        raise SubjectUnavailable(
            f"{subject.name}: a CUDA subject must be given as FILE.py[:ATTR] or an entry point, so that a fresh process"
            " can load it"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    context = multiprocessing.get_context("fork")
    arguments = (subject, task, ends, parents, printed, os.getpid())
    process = context.Process(target=_run_fork, args=arguments, daemon=True)
    process.start()
    return _Fork(process)


def _run_fork(
    subject: Subject,
    task: str,
    ends: tuple[int, int],
    parents: tuple[int, int],
    printed: IO[bytes],
    parent: int,
) -> NoReturn:
    """Serve, and never run the parent's clean-up: open files and tests of the parent are none of the child's."""
    code = 1
    try:
        lifeline.end_with(parent)
        for descriptor in parents:
            os.close(descriptor)
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(descriptor), "w") for descriptor in (1, 2))
        faulthandler.enable(file=sys.stderr)
        with os.fdopen(ends[0], "rb") as requests, os.fdopen(ends[1], "wb") as out:
            _serve(subject, task, requests, out)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve(subject: Subject, task: str, requests: BinaryIO, out: BinaryIO) -> None:
    import torch

    torch.set_num_threads(1)  # calls are small, and several children share the cores
    say(out, Card.of(subject).to_json())
    try:
        importlib.import_module(TASKS[task]).serve(subject, requests, out)
    except Exception:
        say(out, {"error": traceback.format_exc(), "kind": "harness"})


def last_printed(printed: IO[bytes]) -> list[str]:
    """Close what a child printed to and return its last lines, or the innermost frames of a crash."""
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - _TOLD_BYTES))
    lines = printed.read().decode(errors="replace").splitlines()
    printed.close()
    frames = [line.strip() for line in lines if line.startswith("  File ")]
    if any("most recent call first" in line for line in lines):
        return frames[: _TOLD_LINES - 1]
    return [line.strip() for line in lines if line.strip()][-_TOLD_LINES:]


def ending(code: int | None, lines: list[str]) -> str:
    """Return how a child ended, from its exit code (None: it had to be killed) and what it printed last."""
    how = "killed"
    if code is not None:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return ": ".join(filter(None, [how, " | ".join(lines)]))


def main() -> None:
    """Run as a program: the arguments are the descriptors of requests and messages, the first line names the task."""
    faulthandler.enable()
    with os.fdopen(int(sys.argv[1]), "rb") as requests, os.fdopen(int(sys.argv[2]), "wb") as out:
        order = hear(requests)
        try:
            subject = load_subject(order["spec"])
        except SubjectError as error:
            say(out, {"error": str(error), "kind": "usage"})
        except SubjectUnavailable as error:
            say(out, {"error": str(error), "kind": "unavailable"})
        else:
            _serve(subject, order["task"], requests, out)


if __name__ == "__main__":
    main()
