"""Children that run a subject's cases: a fresh process for one that is named, a fork for one that is an object.

A child answers on a pipe of its own, line by line. What the subject prints goes to a file that nobody waits for, so
that a talkative subject neither blocks nor disturbs the parent's output; its last lines tell how a crash came about.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from nvfp4_moe.verification import child_process
from nvfp4_moe.verification.child_process import Process, ending, last_printed
from nvfp4_moe.verification.conformance.subject import Subject


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a child is told to run."""

    numbers: Sequence[int]
    """Of the cases."""
    level: int
    seed: int
    sealed: bool = True
    """Inputs are read-only during the calls, where the device can do that."""


@dataclass
class Child:
    """A running child."""

    process: Process
    reader: int
    """Descriptor of its answers."""
    printed: IO[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self, *, patience: float = 0.0) -> str:
        """Return how it ended, with the end of what it printed; kill it if it still runs after `patience` seconds."""
        code = child_process.end(self.process, patience=patience)
        os.close(self.reader)
        return ending(code, last_printed(self.printed))


def start(spec: str | Subject, order: Order) -> Child:
    """Start a child.

    Args:
        spec: a name for `load_subject`, which the child loads anew; or a Subject, which a fork already holds.
        order: what it runs.

    Raises:
        SubjectUnavailable: an object whose tensors live on a GPU: a fork cannot use it.
    """
    reader, writer = os.pipe()
    printed = tempfile.TemporaryFile()  # noqa: SIM115  # the child's end closes it
    try:
        process = (
            _fork(spec, order, reader, writer, printed)
            if isinstance(spec, Subject)
            else _spawn(spec, order, writer, printed)
        )
        return Child(process, reader, printed)
    except BaseException:
        os.close(reader)
        printed.close()
        raise
    finally:
        os.close(writer)


def _spawn(spec: str, order: Order, writer: int, printed: IO[bytes]) -> Process:
    process: subprocess.Popen[bytes] = child_process.spawn(
        "nvfp4_moe.verification.conformance.worker",
        descriptors=[writer],
        printed=printed,
        stdin=subprocess.PIPE,
    )
    request = {
        "spec": spec, "numbers": list(order.numbers), "level": order.level, "seed": order.seed,
        "sealed": order.sealed, "descriptor": writer,
    }  # fmt: skip
    assert process.stdin is not None
    try:
        process.stdin.write((json.dumps(request) + "\n").encode())
        process.stdin.close()
    except BrokenPipeError:
        pass  # it died at once: the reader sees the end
    return process


def _fork(subject: Subject, order: Order, reader: int, writer: int, printed: IO[bytes]) -> Process:
    def run() -> None:
        from nvfp4_moe.verification.conformance.worker import serve

        with os.fdopen(os.dup(writer), "w") as out:
            serve(subject, order, out=out)

    return child_process.fork(subject, run, parents=[reader], printed=printed)
