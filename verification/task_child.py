"""A child process that holds one subject for one task, and answers in messages: a JSON line, sometimes bytes behind it.

A subject that is named is loaded in a fresh process and nowhere else, so two builds that cannot live in one process can
be compared; one that is an object runs in a fork. What the subject prints goes to a file that nobody waits for; its end
tells how a crash came about. The first message of a child is the subject's card; then its task runs, a module with

    serve(subject: Subject, requests: BinaryIO, out: BinaryIO) -> None

which reads the parent's lines with `hear` and writes its messages with `say`. A child whose parent has gone reads an
end of file and ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn, Protocol

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import (
    Subject,
    SubjectError,
    SubjectUnavailable,
    load_subject,
)

TASKS: dict[str, str] = {
    "outputs": "nvfp4_moe.verification.subject_outputs",
    "probe": "nvfp4_moe.verification.contract_probes",
}
"""Module of each task."""

LOAD_SECONDS = 600.0
"""Time limit of loading a subject: it may build kernels."""

_LAST_SECONDS = 5.0
"""What a child that has closed its pipe may take to end."""

_CHUNK = 1 << 20
_TOLD_LINES = 4
_TOLD_BYTES = 1 << 14
"""Lines and bytes at the end of what a child printed that are looked at."""


class ChildEnded(Exception):
    """The child died or fell silent; the text says how, with the last lines that it printed."""


class TaskFault(Exception):
    """The task failed in the child for a reason of ours, not the subject's."""


@dataclass(frozen=True)
class Card:
    """What a subject says of itself."""

    name: str
    device: str
    operations: tuple[str, ...]
    contract: Contract

    @classmethod
    def of(cls, subject: Subject) -> Card:
        """Return a subject's card."""
        return cls(subject.name, subject.device, tuple(subject.operations), subject.contract)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        promises = {f.name: getattr(self.contract, f.name) for f in fields(Contract)}
        plain = {name: dict(v) if isinstance(v, Mapping) else v for name, v in promises.items()}
        return {"name": self.name, "device": self.device, "operations": self.operations, "contract": plain}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Card:
        """Return the card that `to_json` gave, which JSON has changed its tuples of to lists."""
        promises: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in entry["contract"].items()
        }
        return cls(entry["name"], entry["device"], tuple(entry["operations"]), Contract(**promises))


def say(out: BinaryIO, message: Mapping[str, Any], payload: bytes = b"") -> None:
    """Write a message and the bytes that belong to it; the keys "error" and "kind" are taken."""
    out.write(json.dumps(message).encode() + b"\n" + payload)
    out.flush()


def hear(requests: BinaryIO) -> dict[str, Any]:
    """Return the parent's next line; ends the process where there is none, since then there is no parent."""
    line = requests.readline()
    if not line:
        os._exit(0)
    found: dict[str, Any] = json.loads(line)
    return found


class TaskChild:
    """A running child, seen from the parent. A context: the child ends with it."""

    def __init__(self, spec: str | Subject, task: str) -> None:
        """Start a child.

        Args:
            spec: a name for `load_subject`, or a Subject with CPU tensors.
            task: a key of `TASKS`.

        Raises:
            SubjectUnavailable: an object whose tensors live on a GPU: a fork cannot use it.
        """
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        self._buffer = bytearray()
        self._ended: str | None = None
        self._card: Card | None = None
        self._reader, out = os.pipe()
        requests, self._writer = os.pipe()
        try:
            if isinstance(spec, Subject):
                self._process = _fork(
                    spec, task, (requests, out), (self._reader, self._writer), self._printed
                )
            else:
                self._process = _spawn(requests, out, self._printed)
        except BaseException:
            os.close(self._reader)
            os.close(self._writer)
            self._printed.close()
            raise
        finally:
            os.close(requests)
            os.close(out)
        if not isinstance(spec, Subject):
            self.tell({"spec": spec, "task": task})

    def __enter__(self) -> TaskChild:
        return self

    def __exit__(self, *unused: object) -> None:
        self.end()

    def card(self) -> Card:
        """Return the subject's card, when it is loaded; see `message` for errors."""
        if self._card is None:
            self._card = Card.from_json(self._message(LOAD_SECONDS))
        return self._card

    def tell(self, request: Mapping[str, Any]) -> None:
        """Send a line to the child. A child that is dead does not hear it: the next message tells."""
        data = memoryview(json.dumps(request).encode() + b"\n")
        try:
            while data:
                data = data[os.write(self._writer, data) :]
        except BrokenPipeError:
            pass

    def message(self, *, seconds: float) -> dict[str, Any]:
        """Return the next message of the task.

        Args:
            seconds: time limit; loading the subject does not count.

        Raises:
            ChildEnded: the child died, or the time is over.
            SubjectError, SubjectUnavailable: see `load_subject`.
            TaskFault: the task failed for a reason of ours.
        """
        self.card()
        return self._message(seconds)

    def payload(self, count: int, *, seconds: float) -> bytes:
        """Return the next `count` bytes behind a message; see `message`."""
        deadline = time.monotonic() + seconds
        while len(self._buffer) < count:
            self._read_more(deadline, seconds)
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    def end(self) -> str:
        """Kill the child if it runs and return how it ended."""
        if self._ended is None:
            code = self._process.poll()
            if code is None:
                self._process.kill()
            self._process.wait()
            os.close(self._reader)
            os.close(self._writer)
            self._ended = _ending(code, _last_printed(self._printed))
        return self._ended

    def _message(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while (end := self._buffer.find(b"\n")) < 0:
            self._read_more(deadline, seconds)
        found: dict[str, Any] = json.loads(bytes(self._buffer[:end]))
        del self._buffer[: end + 1]
        if "error" in found:
            raise _ERRORS[found["kind"]](found["error"])
        return found

    def _read_more(self, deadline: float, limit: float) -> None:
        if self._ended is not None:
            raise ChildEnded(self._ended)
        ready, _, _ = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise ChildEnded(f"no answer for {limit:.3g} s; {self.end()}")
        chunk = os.read(self._reader, _CHUNK)
        if not chunk:
            # It closed its end, so it is on its way out: let it tell its own exit code.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_LAST_SECONDS)
            raise ChildEnded(self.end())
        self._buffer += chunk


_ERRORS: dict[str, type[Exception]] = {
    "usage": SubjectError,
    "unavailable": SubjectUnavailable,
    "harness": TaskFault,
}
"""What a child's message of each kind of error raises in the parent."""


class _Process(Protocol):
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


def _spawn(requests: int, out: int, printed: IO[bytes]) -> _Process:
    import nvfp4_moe

    package = str(Path(nvfp4_moe.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-m", "nvfp4_moe.verification.task_child", str(requests), str(out)],
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=printed,
        pass_fds=(requests, out),
        env={**os.environ, "PYTHONPATH": path},
    )


def _fork(
    subject: Subject, task: str, ends: tuple[int, int], parents: tuple[int, int], printed: IO[bytes]
) -> _Process:
    """Start a fork with these ends of the pipes; it closes those that are the parent's."""
    if subject.device != "cpu":
        raise SubjectUnavailable(
            f"{subject.name}: a CUDA subject must be given as FILE.py[:ATTR] or an entry point, so that a fresh process"
            " can load it"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_run_fork, args=(subject, task, ends, parents, printed), daemon=True)
    process.start()
    return _Fork(process)


def _run_fork(
    subject: Subject, task: str, ends: tuple[int, int], parents: tuple[int, int], printed: IO[bytes]
) -> NoReturn:
    """Serve, and never run the parent's clean-up: open files and tests of the parent are none of the child's."""
    code = 1
    try:
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


def _last_printed(printed: IO[bytes]) -> list[str]:
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - _TOLD_BYTES))
    lines = printed.read().decode(errors="replace").splitlines()
    printed.close()
    frames = [line.strip() for line in lines if line.startswith("  File ")]
    if any("most recent call first" in line for line in lines):
        return frames[: _TOLD_LINES - 1]
    return [line.strip() for line in lines if line.strip()][-_TOLD_LINES:]


def _ending(code: int | None, lines: list[str]) -> str:
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
