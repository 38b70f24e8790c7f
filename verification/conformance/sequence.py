"""What a failing case needs before it: nothing, or a sequence of earlier calls, cut down to the few that matter."""

from __future__ import annotations

from collections.abc import Sequence as Numbers
from dataclasses import dataclass

from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.supervisor import CaseReport, Limits, run_cases

MOST_TRIALS = 40
MOST_HANGS = 6
"""Trials where the fault is a hang, each of which takes its time limit."""


@dataclass(frozen=True)
class Sequence:
    """The calls before a failing one."""

    before: tuple[int, ...] = ()
    """Numbers of the cases that must run before it, in order; empty: it fails alone."""
    remark: str = ""


def shortest_sequence(
    spec: str | Subject,
    report: CaseReport,
    *,
    level: int,
    seed: int,
    limits: Limits,
    most_trials: int = MOST_TRIALS,
) -> Sequence:
    """Return the calls that a failing case needs before it, each trial in a fresh child.

    Args:
        spec: what `run_cases` takes.
        report: of the failing case, with the cases that its child ran before.
        level, seed, limits: of the run.
        most_trials: children at most; what was found by then stands.
    """
    if report.hung and not report.before:
        return Sequence()  # seen when it ran again
    most_trials = min(most_trials, MOST_HANGS) if report.hung else most_trials
    trials = _Trials(spec, report, level, seed, limits, most_trials)
    if trials.fails(()):
        return Sequence()
    if report.refused is not None or not trials.fails(report.before):
        return Sequence(remark="the case passed when it ran again")
    before = _shrunk(trials, report.before)
    return Sequence(before, f"only after {len(before)} earlier call{'s' * (len(before) != 1)}")


@dataclass
class _Trials:
    spec: str | Subject
    report: CaseReport
    level: int
    seed: int
    limits: Limits
    left: int

    def fails(self, before: Numbers[int]) -> bool:
        """Run the case behind others in one fresh child and return whether it fails again."""
        if self.left <= 0:
            return False
        self.left -= 1
        number = self.report.number
        reports = run_cases(
            self.spec,
            [*before, number],
            level=self.level,
            seed=self.seed,
            limits=self.limits,
            lanes=1,
            look_again=False,
        )
        for report in reports:
            if report.number == number:
                return bool(report.faults) or (report.refused is not None and not report.refusal_legal)
            if report.faults and report.before != tuple(before[: len(report.before)]):
                return False  # a child died on the way: the case runs behind a gap
        return False


def _shrunk(trials: _Trials, before: tuple[int, ...]) -> tuple[int, ...]:
    """Cut away pieces, halves first, as long as the case still fails behind what is left."""
    size = len(before)
    while size > 1 or len(before) > 1:
        size = max(size // 2, 1)
        start = 0
        while start < len(before) and trials.left > 0:
            shorter = before[:start] + before[start + size :]
            if trials.fails(shorter):
                before = shorter
            else:
                start += size
        if size == 1:
            break
    return before
