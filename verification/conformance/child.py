"""Children that run a subject: a fresh process for one that is named, a fork for one that is an object.

A child answers on a pipe of its own, line by line. What the subject prints goes to a file that nobody waits for, so
that a talkative subject neither blocks nor disturbs the parent's output; its last lines tell how a crash came about.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from nvfp4_moe.verification import lifeline
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable

_POLL_SECONDS = 0.01
_TOLD_BYTES = 1 << 16
"""Bytes at the end of what a child printed that are looked at."""


class Child(Protocol):
    """A running child."""

    pid: int
    reader: int
    """Descriptor of its answers."""

    def end(self, *, patience: float = 0.0) -> str:
        """Return how it ended, with the end of what it printed; kill it if it still runs after `patience` seconds."""


@dataclass
class _Spawned:
    process: subprocess.Popen[bytes]
    reader: int
    printed: IO[bytes]
    pid: int = field(init=False)

    def __post_init__(self) -> None:
        self.pid = self.process.pid

    def end(self, *, patience: float = 0.0) -> str:
        killed = not _comes_true(lambda: self.process.poll() is not None, patience)
        if killed:
            self.process.kill()
        code = self.process.wait()
        os.close(self.reader)
        return _ending(code, _last_printed(self.printed), killed=killed)


@dataclass
class _Forked:
    pid: int
    reader: int
    printed: IO[bytes]

    def end(self, *, patience: float = 0.0) -> str:
        killed = not _comes_true(self._is_over, patience)
        if killed:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.reader)
        return _ending(os.waitstatus_to_exitcode(status), _last_printed(self.printed), killed=killed)

    def _is_over(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _comes_true(condition: Callable[[], bool], patience: float) -> bool:
    """Return whether it is true now or within some seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def start(spec: str | Subject, numbers: Sequence[int], *, level: int, seed: int) -> Child:
    """Start a child on the cases with these numbers.

    Args:
        spec: a name for `load_subject`, which the child loads anew; or a Subject, which a fork already holds.

    Raises:
        SubjectUnavailable: an object whose tensors live on a GPU: a fork cannot use it.
    """
    reader, writer = os.pipe()
    printed = tempfile.TemporaryFile()  # noqa: SIM115  # the child's end closes it
    try:
        if isinstance(spec, Subject):
            return _fork(spec, numbers, level=level, seed=seed, reader=reader, writer=writer, printed=printed)
        return _spawn(spec, numbers, level=level, seed=seed, reader=reader, writer=writer, printed=printed)
    except BaseException:
        os.close(reader)
        printed.close()
        raise
    finally:
        os.close(writer)


def _spawn(
    spec: str,
    numbers: Sequence[int],
    *,
    level: int,
    seed: int,
    reader: int,
    writer: int,
    printed: IO[bytes],
) -> Child:
    process = subprocess.Popen(
        lifeline.command("nvfp4_moe.verification.conformance.worker"),
        stdin=subprocess.PIPE,
        stdout=printed,
        stderr=printed,
        pass_fds=(writer,),
        env={**os.environ, "PYTHONPATH": _python_path()},
    )
    request = {"spec": spec, "numbers": list(numbers), "level": level, "seed": seed, "descriptor": writer}
    assert process.stdin is not None
    try:
        process.stdin.write((json.dumps(request) + "\n").encode())
        process.stdin.close()
    except BrokenPipeError:
        pass  # it died at once: the reader sees the end
    return _Spawned(process, reader, printed)


def _python_path() -> str:
    import nvfp4_moe

    package = str(Path(nvfp4_moe.__file__).parent.parent)
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))


def _fork(
    subject: Subject,
    numbers: Sequence[int],
    *,
    level: int,
    seed: int,
    reader: int,
    writer: int,
    printed: IO[bytes],
) -> Child:
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
        return _Forked(pid, reader, printed)
    code = 1
    try:
        lifeline.end_with(parent)
        os.close(reader)
        _silence(printed)
        from nvfp4_moe.verification.conformance.worker import serve

        with os.fdopen(os.dup(writer), "w") as out:
            serve(subject, level=level, seed=seed, numbers=numbers, out=out)
        code = 0
    finally:
        os._exit(code)  # never run the parent's clean-up in the child
    raise AssertionError("unreachable")


def _silence(printed: IO[bytes]) -> None:
    """Send what this process prints to a file, and a crash's stack too."""
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(descriptor), "w") for descriptor in (1, 2))
    faulthandler.enable(file=sys.stderr)


def _last_printed(printed: IO[bytes]) -> str:
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - _TOLD_BYTES))
    text = printed.read().decode(errors="replace")
    printed.close()
    return text


def _ending(code: int, printed: str, *, killed: bool) -> str:
    last = " | ".join(_telling_lines(printed.splitlines()))
    ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    how = "killed" if killed else ended
    return f"{how}: {last}" if last else how


def _telling_lines(lines: list[str]) -> list[str]:
    """Return the innermost frames of a faulthandler dump, or else the last lines printed."""
    frames = [line.strip() for line in lines if line.startswith("  File ")]
    if any("most recent call first" in line for line in lines):
        return frames[:3]
    return [line.strip() for line in lines if line.strip()][-4:]
