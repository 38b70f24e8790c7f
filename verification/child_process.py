"""Processes of children: a fresh one that runs a module of this package, or a fork that holds an object.

Either ends with its parent, prints to a file that nobody waits for, and tells of a crash by the last lines there.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from nvfp4_moe.verification import lifeline
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable

_TOLD_LINES = 4
_TOLD_BYTES = 1 << 16
"""Lines and bytes at the end of what a child printed that are looked at."""
_POLL_SECONDS = 0.01


class Process(Protocol):
    """What the parent uses of a child's process, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...


class _Fork:
    """A forked child behind the interface of `subprocess.Popen` that is used here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)


def spawn(
    module: str, *arguments: str, descriptors: Sequence[int], printed: IO[bytes], **options: Any
) -> Any:
    """Start a fresh process that runs a module of this package.

    Args:
        module: its full name.
        arguments: of the program.
        descriptors: that the child keeps open.
        printed: file for what it prints.
        options: more of `subprocess.Popen`, which is returned.
    """
    return subprocess.Popen(
        lifeline.command(module, *arguments),
        stdout=printed,
        stderr=printed,
        pass_fds=descriptors,
        env={**os.environ, "PYTHONPATH": _python_path()},
        **options,
    )


def _python_path() -> str:
    import nvfp4_moe

    package = str(Path(nvfp4_moe.__file__).parent.parent)
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))


def fork(subject: Subject, run: Callable[[], None], *, parents: Sequence[int], printed: IO[bytes]) -> Process:
    """Start a fork that calls `run` and never runs the parent's clean-up: the parent's open files are none of its.

    Args:
        subject: that it holds.
        run: what it does.
        parents: descriptors that it closes.
        printed: file for what it prints.

    Raises:
        SubjectUnavailable: the subject's tensors live on a GPU: a fork cannot use it.
    """
    if subject.device != "cpu":
        raise SubjectUnavailable(
            f"{subject.name}: a CUDA subject must be given as FILE.py[:ATTR] or an entry point, so that a fresh process"
            " can load it"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return _Fork(pid)
    code = 1
    try:
        lifeline.end_with(parent)
        for descriptor in parents:
            os.close(descriptor)
        _print_to(printed)
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise AssertionError("unreachable")


def _print_to(printed: IO[bytes]) -> None:
    """Send what this process prints to a file, and a crash's stack too."""
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(descriptor), "w") for descriptor in (1, 2))
    faulthandler.enable(file=sys.stderr)


def end(process: Process, *, patience: float = 0.0) -> int | None:
    """Return a child's exit code; kill it if it still runs after `patience` seconds, and return None then."""
    code = _wait(process, patience)
    if code is None:
        process.kill()
        _wait(process, None)
    return code


def _wait(process: Process, seconds: float | None) -> int | None:
    deadline = None if seconds is None else time.monotonic() + seconds
    while (code := process.poll()) is None:
        if deadline is not None and time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)
    return code


def runs_programs(pid: int) -> bool:
    """Return whether a process has children, as one that compiles has; False where the system does not tell."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    for thread in threads:
        try:
            if Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").strip():
                return True
        except OSError:
            continue
    return False


def last_printed(printed: IO[bytes]) -> list[str]:
    """Close what a child printed to and return its last lines, or the innermost frames of a crash."""
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - _TOLD_BYTES))
    lines = printed.read().decode(errors="replace").splitlines()
    printed.close()
    frames = [line.strip() for line in lines if line.startswith("  File ")]
    if any("most recent call first" in line for line in lines):
        return frames[: _TOLD_LINES - 1]
    return [line.strip() for line in lines if line.strip()][-_TOLD_LINES:]


def ending(code: int | None, lines: Sequence[str]) -> str:
    """Return how a child ended, from its exit code (None: it had to be killed) and what it printed last."""
    how = "killed"
    if code is not None:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return ": ".join(filter(None, [how, " | ".join(lines)]))
