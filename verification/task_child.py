"""A child process that holds one subject for one task, seen from the parent.

A subject that is named is loaded in a fresh process and nowhere else, so two builds that cannot live in one process can
be compared; one that is an object runs in a fork. What the subject prints goes to a file that nobody waits for; its end
tells how a crash came about. The first message of a child is the subject's card; then its task answers requests, a JSON
line each, sometimes with bytes behind it. A child whose parent has gone reads an end of file and ends.
"""

from __future__ import annotations

import json
import os
import select
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from nvfp4_moe.verification import child_process
from nvfp4_moe.verification.child_process import Process, ending, last_printed
from nvfp4_moe.verification.conformance.subject import Subject, SubjectError, SubjectUnavailable
from nvfp4_moe.verification.task_messages import Card
from nvfp4_moe.verification.task_process import fork, spawn

LOAD_SECONDS = 60.0
"""Time limit of loading a subject: the user waits."""
BUILD_SECONDS = 600.0
"""The same while it runs programs: it builds kernels."""

_LOOK_SECONDS = 1.0
_LAST_SECONDS = 5.0
"""What a child that has closed its pipe may take to end."""

_CHUNK = 1 << 20


class ChildEnded(Exception):
    """The child died or fell silent; the text says how, with the last lines that it printed."""


class TaskFault(Exception):
    """The task failed in the child for a reason of ours, not the subject's."""


class TaskChild:
    """A running child, seen from the parent. A context: the child ends with it."""

    def __init__(self, spec: str | Subject, task: str) -> None:
        """Start a child.

        Args:
            spec: a name for `load_subject`, or a Subject with CPU tensors.
            task: a key of `TASKS`.

        Raises:
            SubjectUnavailable: an object whose tensors live on a GPU: a fork cannot use it; no process can be started.
        """
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        self._buffer = bytearray()
        self._ended: str | None = None
        self._card: Card | None = None
        self._process: Process
        self._reader, out = os.pipe()
        requests, self._writer = os.pipe()
        try:
            if isinstance(spec, Subject):
                self._process = fork(spec, task, (requests, out), (self._reader, self._writer), self._printed)
            else:
                self._process = spawn(requests, out, self._printed)
        except BaseException as error:
            os.close(self._reader)
            os.close(self._writer)
            self._printed.close()
            if isinstance(error, OSError):  # no process left, no memory
                raise SubjectUnavailable(f"no process can be started for it: {error}") from error
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

    def card(self, *, seconds: float = LOAD_SECONDS) -> Card:
        """Return the subject's card, when it is loaded; see `message` for errors.

        Args:
            seconds: time limit of loading it, longer while it runs compilers or other programs.
        """
        if self._card is None:
            entry = self._message(seconds, building=BUILD_SECONDS)
            try:
                self._card = Card.from_json(entry)
            except (KeyError, TypeError, ValueError) as error:
                raise ChildEnded(f"its card is none: {error}") from error
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

    def end(self, *, patience: float = 0.0) -> str:
        """Return how the child ended; kill it if it still runs after `patience` seconds."""
        if self._ended is None:
            code = child_process.end(self._process, patience=patience)
            os.close(self._reader)
            os.close(self._writer)
            self._ended = ending(code, last_printed(self._printed))
        return self._ended

    def _message(self, seconds: float, *, building: float = 0.0) -> dict[str, Any]:
        """Return the next message; `building`: time limit while the child runs programs."""
        start = time.monotonic()
        while (end := self._buffer.find(b"\n")) < 0:
            self._read_more(start + seconds, seconds, build_deadline=start + building)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):  # the subject wrote to descriptors that are not its own
            raise ChildEnded(f"it said what is no message: {line[:60]!r}; {self.end()}")
        if "error" in found:
            raise _ERRORS[found["kind"]](found["error"])
        return found

    def _read_more(self, deadline: float, limit: float, *, build_deadline: float = 0.0) -> None:
        if self._ended is not None:
            raise ChildEnded(self._ended)
        while not select.select([self._reader], [], [], _step(deadline))[0]:
            now = time.monotonic()
            builds = now < build_deadline and child_process.runs_programs(self._process.pid)
            if now >= deadline and not builds:
                raise ChildEnded(f"no answer for {limit:.3g} s; {self.end()}")
        chunk = os.read(self._reader, _CHUNK)
        if not chunk:
            # It closed its end, so it is on its way out: let it tell its own exit code.
            raise ChildEnded(self.end(patience=_LAST_SECONDS))
        self._buffer += chunk


def _step(deadline: float) -> float:
    """Return how long to wait before the clock is looked at."""
    left = deadline - time.monotonic()
    return min(left, _LOOK_SECONDS) if left > 0 else _LOOK_SECONDS


_ERRORS: dict[str, type[Exception]] = {
    "usage": SubjectError,
    "unavailable": SubjectUnavailable,
    "harness": TaskFault,
}
"""What a child's message of each kind of error raises in the parent."""
