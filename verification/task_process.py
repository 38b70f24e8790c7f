"""The processes of task children: a fresh one that loads a named subject, or a fork that holds an object.

Run as a program, this is the fresh one. A task is a module of `TASKS` with

    serve(subject: Subject, requests: BinaryIO, out: BinaryIO) -> None

which reads the parent's lines with `hear` and writes its messages with `say`.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import subprocess
import sys
import traceback
from typing import IO, BinaryIO

from nvfp4_moe.verification import child_process
from nvfp4_moe.verification.child_process import Process
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


def spawn(requests: int, out: int, printed: IO[bytes]) -> Process:
    """Start a fresh process that reads its order from one descriptor and answers on the other."""
    process: Process = child_process.spawn(
        "nvfp4_moe.verification.task_process",
        str(requests),
        str(out),
        descriptors=[requests, out],
        printed=printed,
        stdin=subprocess.DEVNULL,
    )
    return process


def fork(
    subject: Subject, task: str, ends: tuple[int, int], parents: tuple[int, int], printed: IO[bytes]
) -> Process:
    """Start a fork with these ends of the pipes; it closes those that are the parent's."""

    def run() -> None:
        with os.fdopen(ends[0], "rb") as requests, os.fdopen(ends[1], "wb") as out:
            _serve(subject, task, requests, out)

    return child_process.fork(subject, run, parents=parents, printed=printed)


def _serve(subject: Subject, task: str, requests: BinaryIO, out: BinaryIO) -> None:
    import torch

    torch.set_num_threads(1)  # calls are small, and several children share the cores
    say(out, Card.of(subject).to_json())
    try:
        importlib.import_module(TASKS[task]).serve(subject, requests, out)
    except Exception:
        say(out, {"error": traceback.format_exc(), "kind": "harness"})


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
