"""Counts what a golden check compared and keeps its first difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nvfp4_moe.verification.golden.model import REFERENCE, Model
from nvfp4_moe.verification.result import Finding, Outcome, Verdict

Case = Mapping[str, Any] | Callable[[tuple[int, ...]], Mapping[str, Any]]
"""The input behind a comparison: the same for all entries, or a function of the entry's index."""


@dataclass(kw_only=True)
class Tally:
    """One claim's comparisons."""

    level: int
    seed: int
    progress: Callable[[int], None]
    should_stop: Callable[[], bool]
    model: Model = REFERENCE
    """What is compared with the oracle."""
    ranges: list[str] = field(default_factory=list)
    """What was covered, in words."""
    exhaustive: bool = False
    """Whether the ranges are whole domains."""
    compared: int = 0
    differing: int = 0
    stopped: bool = False
    first: dict[str, Any] | None = None

    def covers(self, text: str) -> None:
        """Say what the next comparisons cover."""
        if text not in self.ranges:
            self.ranges.append(text)

    def compare(
        self,
        what: str,
        true: npt.NDArray[Any],
        subject: npt.NDArray[Any],
        *,
        case: Case,
    ) -> bool:
        """Compare two arrays of integers entry by entry; return whether the check should go on.

        Args:
            what: name of the entries.
            true: the oracle's.
            subject: the reference's.
            case: the input, JSON-ready, for the witness; or a function that gives it for an index.
        """
        self.stopped = self.stopped or self.should_stop()
        if self.stopped:
            return False
        if true.shape != subject.shape:
            found: dict[str, Any] = {
                "what": f"shape of {what}",
                "true": list(true.shape),
                "subject": list(subject.shape),
            }
            self._keep(found, {} if callable(case) else case)
            return True
        self.compared += true.size
        self.progress(true.size)
        wrong = np.argwhere(true != subject)
        if len(wrong):
            index = tuple(int(i) for i in wrong[0])
            self.differing += len(wrong) - 1
            found = {
                "what": what,
                "index": list(index),
                "true": int(true[index]),
                "subject": int(subject[index]),
            }
            self._keep(found, case(index) if callable(case) else case)
        return True

    def _keep(self, found: dict[str, Any], given: Mapping[str, Any]) -> None:
        self.differing += 1
        if self.first is None:
            self.first = {"kind": "golden", **found, **given}

    def outcome(self) -> Outcome:
        """Return the claim's outcome."""
        covered = "; ".join(self.ranges)
        if self.first is not None:
            return Outcome(
                verdict=Verdict.REFUTED,
                cases=self.compared,
                detail=f"{self.differing} of {self.compared} differ from the oracle, first {self.first['what']}",
                witness=self.first,
                finding=Finding.BYTES,
            )
        verdict = Verdict.EXHAUSTED if self.exhaustive else Verdict.HELD
        return Outcome(verdict=verdict, cases=self.compared, detail=covered)
