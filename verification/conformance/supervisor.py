"""The parent's side: children that run a subject, their crashes and hangs, and what a whole run found.

A child gets case numbers and answers line by line. When it dies or outlives the time limit of a case, that case is a
memory finding with the signal, and a new child goes on behind it. A subject that is a Python object rather than a
name cannot be loaded by a fresh process; on the CPU it runs in a fork of this one.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.result import Finding

CASE_SECONDS = 30.0
"""Time limit of one case: a hundred times what the slowest takes."""
LOAD_SECONDS = 600.0
"""Time limit of loading a subject: it may build kernels."""
MOST_CRASHES = 8
"""Children that may die before the rest of the cases is given up."""


@dataclass(frozen=True)
class CaseReport:
    """What became of one case."""

    number: int
    faults: tuple[dict[str, Any], ...] = ()
    refused: str | None = None
    refusal_legal: bool = False
    admissible: int = 0
    """Bytes that documented instruction errors excuse."""


class _Child(Protocol):
    pid: int
    reader: int

    def end(self) -> str: ...


@dataclass
class _Spawned:
    """A fresh Python process; the subject is loaded by its name."""

    process: subprocess.Popen[bytes]
    reader: int
    pid: int = field(init=False)

    def __post_init__(self) -> None:
        self.pid = self.process.pid

    def end(self) -> str:
        """Kill it if it runs and return how it ended, with the end of what it printed."""
        killed = self.process.poll() is None
        if killed:
            self.process.kill()
        assert self.process.stderr is not None
        printed = self.process.stderr.read().decode(errors="replace")
        code = self.process.wait()
        os.close(self.reader)
        return _ending(code, printed, killed=killed)


@dataclass
class _Forked:
    """A fork of this process; the subject is the object that it already holds."""

    pid: int
    reader: int

    def end(self) -> str:
        finished, status = os.waitpid(self.pid, os.WNOHANG)
        killed = finished == 0
        if killed:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
        os.close(self.reader)
        return _ending(os.waitstatus_to_exitcode(status), "", killed=killed)


def _telling_lines(lines: list[str]) -> list[str]:
    """Return the innermost frames of a faulthandler dump, or else the last lines printed."""
    frames = [line.strip() for line in lines if line.startswith("  File ")]
    if any("most recent call first" in line for line in lines):
        return frames[:3]
    return [line.strip() for line in lines if line.strip()][-4:]


def _ending(code: int, printed: str, *, killed: bool) -> str:
    last = " | ".join(_telling_lines(printed.splitlines()))
    if killed:
        return f"killed: {last}" if last else "killed"
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{name}: {last}" if last else name


def run_cases(
    spec: str | Subject,
    numbers: Sequence[int],
    *,
    level: int,
    seed: int,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[CaseReport]:
    """Run the cases with these numbers and yield a report of each, in order; crashed children are replaced.

    Raises:
        SubjectUnavailable: the subject cannot be loaded in the child.
    """
    left = list(numbers)
    crashes = 0
    while left and not should_stop():
        child = _start(spec, left, level=level, seed=seed)
        ending = ""
        try:
            for report in _listen(child, should_stop):
                left.remove(report.number)
                yield report
        except _Hang as hang:
            ending = f"no answer for {hang.seconds:.0f} s"
            crashed = hang.number
        except _Death as death:
            crashed = death.number
        else:
            child.end()
            return
        ending = ending or child.end()
        if crashed is None:
            raise SubjectUnavailable(f"the child ended before its first case: {ending}")
        left.remove(crashed)
        yield CaseReport(crashed, faults=(_crash(ending),))
        crashes += 1
        if crashes >= MOST_CRASHES:
            return


def _crash(ending: str) -> dict[str, Any]:
    return {
        "check": "guard",
        "finding": str(Finding.MEMORY),
        "text": f"the subject's process died: {ending}",
        "where": {"ending": ending},
    }


class _Death(Exception):
    def __init__(self, number: int | None) -> None:
        self.number = number


class _Hang(_Death):
    def __init__(self, number: int | None, seconds: float) -> None:
        super().__init__(number)
        self.seconds = seconds


def _start(spec: str | Subject, numbers: Sequence[int], *, level: int, seed: int) -> _Child:
    reader, writer = os.pipe()
    if isinstance(spec, Subject):
        return _fork(spec, numbers, level=level, seed=seed, reader=reader, writer=writer)
    process = subprocess.Popen(
        [sys.executable, "-m", "nvfp4_moe.verification.conformance.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(writer,),
        env={**os.environ, "PYTHONPATH": _python_path()},
    )
    os.close(writer)
    request = {"spec": spec, "numbers": list(numbers), "level": level, "seed": seed, "descriptor": writer}
    assert process.stdin is not None
    process.stdin.write((json.dumps(request) + "\n").encode())
    process.stdin.close()
    return _Spawned(process, reader)


def _python_path() -> str:
    import nvfp4_moe

    package = str(Path(nvfp4_moe.__file__).parent.parent)
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))


def _fork(
    subject: Subject, numbers: Sequence[int], *, level: int, seed: int, reader: int, writer: int
) -> _Child:
    if subject.device != "cpu":
        raise SubjectUnavailable(
            f"{subject.name}: a CUDA subject must be given as FILE.py[:ATTR] or an entry point, so that a fresh process"
            " can load it"
        )
    pid = os.fork()
    if pid:
        os.close(writer)
        return _Forked(pid, reader)
    code = 1
    try:
        os.close(reader)
        from nvfp4_moe.verification.conformance.worker import serve

        with os.fdopen(writer, "w") as out:
            serve(subject, level=level, seed=seed, numbers=numbers, out=out)
        code = 0
    finally:
        os._exit(code)  # never run the parent's clean-up in the child


def _listen(child: _Child, should_stop: Callable[[], bool]) -> Iterator[CaseReport]:
    """Yield the reports of a child until it says that it is done.

    Raises:
        _Death, _Hang: it ended or fell silent, with the number of the case in hand.
        SubjectUnavailable: it could not load the subject.
    """
    current: int | None = None
    buffer = b""
    limit = LOAD_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(child.reader, selectors.EVENT_READ)
        deadline = time.monotonic() + limit
        while True:
            if not selector.select(timeout=min(0.5, limit)):
                if should_stop():
                    return
                if time.monotonic() > deadline:
                    child_pid = child.pid
                    os.kill(child_pid, signal.SIGKILL)
                    raise _Hang(current, limit)
                continue
            chunk = os.read(child.reader, 1 << 16)
            if not chunk:
                raise _Death(current)
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "unavailable" in message:
                    raise SubjectUnavailable(message["unavailable"])
                if "end" in message:
                    return
                if "begin" in message:
                    current = message["begin"]
                else:
                    yield _report(message)
                    current = None
                deadline = time.monotonic() + CASE_SECONDS
                limit = CASE_SECONDS


def _report(message: dict[str, Any]) -> CaseReport:
    if "refused" in message:
        return CaseReport(message["done"], refused=message["refused"], refusal_legal=message["legal"])
    if "raised" in message:
        text = message["raised"].strip()
        fault = {
            "check": "golden",
            "finding": str(Finding.BYTES),
            "text": f"an exception inside the domain: {text.splitlines()[-1]}",
            "where": {"traceback": text},
        }
        return CaseReport(message["done"], faults=(fault,))
    return CaseReport(message["done"], faults=tuple(message["faults"]), admissible=message["admissible"])
