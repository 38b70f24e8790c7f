"""Finding what a failing case needs before it, where the subject is a stranger's: in a child that holds it.

The child loads the subject once and forks it for each trial, so a search takes a second rather than a fresh process for
every trial. The parent names failing cases, a line each, and reads the answers.
"""

from __future__ import annotations

import dataclasses
from typing import BinaryIO

from nvfp4_moe.verification.conformance.sequence import MOST_TRIALS, Sequence, shortest_sequence
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.conformance.supervisor import CaseReport, Limits
from nvfp4_moe.verification.task_child import ChildEnded, TaskChild, TaskFault
from nvfp4_moe.verification.task_messages import hear, say


class SequenceFinder:
    """The parent's side: one child for all searches, started at the first."""

    def __init__(self, spec: str, *, level: int, seed: int, limits: Limits) -> None:
        self._spec = spec
        self._run = {"level": level, "seed": seed, "limits": dataclasses.asdict(limits)}
        self._seconds = limits.load_seconds + MOST_TRIALS * limits.first_case_seconds
        self._child: TaskChild | None = None

    def find(self, report: CaseReport) -> Sequence:
        """Return the calls that a failing case needs before it; see `shortest_sequence`."""
        try:
            if self._child is None:
                self._child = TaskChild(self._spec, "sequence")
            self._child.tell({**self._run, "report": dataclasses.asdict(report)})
            answer = self._child.message(seconds=self._seconds)
        except (ChildEnded, SubjectUnavailable, TaskFault) as error:
            self.close()
            return Sequence(remark=f"it could not be run again: {str(error).strip().splitlines()[-1]}")
        return Sequence(tuple(answer["before"]), answer["remark"])

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.end()
            self._child = None


def serve(subject: Subject, requests: BinaryIO, out: BinaryIO) -> None:
    """Answer searches, one after the other."""
    while True:
        request = hear(requests)
        report = request["report"]
        found = shortest_sequence(
            subject,
            CaseReport(**{**report, "before": tuple(report["before"])}),
            level=request["level"],
            seed=request["seed"],
            limits=Limits(**request["limits"]),
        )
        say(out, {"before": found.before, "remark": found.remark})
