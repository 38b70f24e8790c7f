"""The parent's side: runs the cases of a subject in children, and gives a report of each.

Cases are dealt to two lanes by number; a lane is one child after another. When a child dies, its case is a memory
finding with the signal, and a new child goes on behind it. What a case meets in its process depends on its lane alone,
so the same numbers give the same reports whether the lanes run side by side or not.

Inputs are read-only during the calls of a CPU subject. A case that dies runs again with writable ones; if that tells what
was written, it is the finding, and inputs stay writable for the rest of the run.

A case that gives no answer within its limit is under suspicion only, since the machine may be busy. At the end it runs
again, alone and with several times the limit: one that falls silent again is a memory finding, one that answers is not
judged.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from nvfp4_moe.verification.child_process import runs_programs
from nvfp4_moe.verification.conformance.case_report import (
    BAD_ACCESS,
    WRITTEN_AS_IT_WAS,
    crash_fault,
    parsed,
    report_of,
)
from nvfp4_moe.verification.conformance.case_report import CaseReport as CaseReport
from nvfp4_moe.verification.conformance.case_report import HarnessFault as HarnessFault
from nvfp4_moe.verification.conformance.child import Child, Order, start
from nvfp4_moe.verification.conformance.plan import Case, fingerprint
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable

LANES = 2
_DEAL = 8
"""Neighbouring numbers that go to one lane."""
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 5.0
"""For a child that closed its end of the pipe: it is about to exit, perhaps writing a core."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a child may take before it is given up."""

    case_seconds: float = 30.0
    """Of one case: a hundred times what the slowest takes."""
    first_case_seconds: float = 180.0
    """Of the first case of a group in a child: kernels are often compiled when they are first called."""
    load_seconds: float = 60.0
    """Of loading a subject: the user waits."""
    build_seconds: float = 600.0
    """The same while it runs programs: it builds kernels."""
    hang_factor: float = 3.0
    """A case under suspicion gets this many times the limit that it outlived, and the first case's limit at least."""
    crashes: int = 4
    """Children of a lane that may die in one group of cases before the rest of the group is given up."""


@dataclass(frozen=True)
class _Suspect:
    """A case that gave no answer in time."""

    number: int
    seconds: float
    """The limit."""
    before: tuple[int, ...]


@dataclass
class _Lane:
    left: list[int]
    """Numbers not yet reported, in order."""
    child: Child | None = None
    buffer: bytes = b""
    current: int | None = None
    ran: list[int] = field(default_factory=list)
    """Numbers that the present child has begun."""
    sealed: bool = False
    """The present child's inputs are read-only."""
    started: float = 0.0
    deadline: float = 0.0
    limit: float = 0.0
    crashes: Counter[str] = field(default_factory=Counter)


def deal(numbers: Sequence[int], lanes: int = LANES) -> list[list[int]]:
    """Return the numbers of each lane, in order."""
    dealt: list[list[int]] = [[] for _ in range(lanes)]
    for number in numbers:
        dealt[number // _DEAL % lanes].append(number)
    return dealt


def run_cases(
    spec: str | Subject,
    numbers: Sequence[int],
    *,
    level: int,
    seed: int,
    group_of: Callable[[int], str] = lambda number: "",
    limits: Limits = Limits(),
    should_stop: Callable[[], bool] = lambda: False,
    lanes: int = LANES,
    side_by_side: bool | None = None,
    look_again: bool = True,
    cases: Sequence[Case] | None = None,
    sealed: bool = True,
) -> Iterator[CaseReport]:
    """Run the cases with these numbers and yield a report of each; the order is that of a lane within it, else any.

    Args:
        spec: a name for `load_subject`, or a Subject.
        numbers: of cases of the subject's plan.
        level, seed: of the plan.
        group_of: group of a number; a group in which children keep dying is given up, the others go on.
        limits: of time and crashes.
        should_stop: asked between reports.
        lanes: children that share the numbers; with one, the order is that of `numbers`.
        side_by_side: run the lanes at once; by default where there is more than one processor.
        look_again: run a case that gave no answer or died again: before it counts as a hang, or to learn what it wrote.
        cases: what the numbers mean here; None: whatever they mean in the child.
        sealed: inputs are read-only during the calls of a CPU subject.

    Raises:
        SubjectUnavailable: the subject cannot be loaded in the child, or is not the one there that it is here.
        HarnessFault: the harness itself failed there.
    """
    if side_by_side is None:
        side_by_side = len(os.sched_getaffinity(0)) > 1
    dealt = [_Lane(left) for left in deal(numbers, lanes) if left]
    runner = _Runner(spec, level, seed, group_of, limits, look_again, cases, sealed)
    for together in [dealt] if side_by_side else [[lane] for lane in dealt]:
        with closing(runner.run(together, should_stop)) as reports:
            yield from reports
    yield from runner.retried(should_stop)


@dataclass
class _Runner:
    spec: str | Subject
    level: int
    seed: int
    group_of: Callable[[int], str]
    limits: Limits
    look_again: bool
    cases: Sequence[Case] | None
    sealed: bool
    looks: int = 3
    """Deaths that are still looked into; a subject that crashes for other reasons must not take twice as long."""
    suspects: list[_Suspect] = field(default_factory=list)

    def run(self, lanes: list[_Lane], should_stop: Callable[[], bool]) -> Generator[CaseReport, None, None]:
        try:
            with selectors.DefaultSelector() as selector:
                for lane in lanes:
                    self._start(lane, selector)
                while selector.get_map() and not should_stop():
                    for key, _ in selector.select(timeout=_POLL_SECONDS):
                        yield from self._hear(key.data, selector)
                    for lane in lanes:
                        if (
                            lane.child is not None
                            and time.monotonic() > lane.deadline
                            and not self._builds(lane)
                        ):
                            how = (
                                f"no answer for {lane.limit:.3g} s; {self._close(lane, selector, patience=0)}"
                            )
                            yield from self._lost(lane, selector, how, silent=True)
        finally:
            for lane in lanes:
                if lane.child is not None:
                    lane.child.end()

    def retried(self, should_stop: Callable[[], bool]) -> Iterator[CaseReport]:
        """Run the cases under suspicion again and report them; one proven hang of a group is enough."""
        proven: dict[str, int] = {}
        for suspect in sorted(self.suspects, key=lambda suspect: suspect.number):
            if should_stop():
                return
            group = self.group_of(suspect.number)
            if group in proven:
                reason = (
                    f"gave no answer for {suspect.seconds:.3g} s, as case {proven[group]} does every time"
                )
                yield CaseReport(suspect.number, not_run=reason)
                continue
            report = self._retry(suspect)
            if report.hung:
                proven[group] = suspect.number
            yield report

    def _retry(self, suspect: _Suspect) -> CaseReport:
        """Run a case alone and then behind what it ran behind, until a run shows a fault."""
        seconds = max(self.limits.hang_factor * suspect.seconds, self.limits.first_case_seconds)
        limits = replace(self.limits, case_seconds=seconds, first_case_seconds=seconds)
        for before in dict.fromkeys([(), suspect.before]):
            try:
                again = self._alone(suspect.number, before, limits=limits)
            except SubjectUnavailable as error:
                return CaseReport(suspect.number, not_run=f"gave no answer and cannot run again: {error}")
            if again.faults or (again.refused is not None and not again.refusal_legal):
                return again
        reason = f"gave no answer for {suspect.seconds:.3g} s, but did when run again: a busy machine?"
        return CaseReport(suspect.number, not_run=reason)

    def _alone(
        self,
        number: int,
        before: Sequence[int] = (),
        *,
        limits: Limits | None = None,
        sealed: bool | None = None,
    ) -> CaseReport:
        """Run a case in a child of its own behind some others; see `run_cases`."""
        reports = run_cases(
            self.spec,
            [*before, number],
            level=self.level,
            seed=self.seed,
            limits=limits or self.limits,
            lanes=1,
            look_again=False,
            cases=self.cases,
            sealed=self.sealed if sealed is None else sealed,
        )
        return next(report for report in reports if report.number == number)

    def _builds(self, lane: _Lane) -> bool:
        """Return whether the child is still loading its subject, and runs programs for it."""
        in_time = time.monotonic() < lane.started + self.limits.build_seconds
        return not lane.ran and in_time and lane.child is not None and runs_programs(lane.child.pid)

    def _crash_fault(self, lane: _Lane, number: int, ending: str) -> dict[str, Any]:
        """Return the finding of a death: the input that was written, where a run with writable ones tells it.

        The case must die alone as well: else it is what ran before that matters.
        """
        looks = self.look_again and self.looks > 0
        if not (looks and lane.sealed and self.sealed and ending.startswith(BAD_ACCESS)):
            return crash_fault(ending)
        self.looks -= 1
        if not _died(self._alone(number)) or _died(again := self._alone(number, sealed=False)):
            return crash_fault(ending)
        self.sealed = False
        fault = again.faults[0] if again.faults else WRITTEN_AS_IT_WAS
        return {**fault, "text": f"{fault['text']}; with read-only inputs: {ending}"}

    def _start(self, lane: _Lane, selector: selectors.BaseSelector) -> None:
        order = Order(numbers=lane.left, level=self.level, seed=self.seed, sealed=self.sealed)
        lane.child = start(self.spec, order)
        lane.sealed, lane.started = self.sealed, time.monotonic()
        lane.buffer, lane.current, lane.ran = b"", None, []
        self._extend(lane, self.limits.load_seconds)
        selector.register(lane.child.reader, selectors.EVENT_READ, lane)

    def _extend(self, lane: _Lane, seconds: float) -> None:
        lane.limit = seconds
        lane.deadline = time.monotonic() + seconds

    def _hear(self, lane: _Lane, selector: selectors.BaseSelector) -> Iterator[CaseReport]:
        assert lane.child is not None
        chunk = os.read(lane.child.reader, 1 << 16)
        if not chunk:
            yield from self._lost(lane, selector, self._close(lane, selector, patience=_PATIENCE_SECONDS))
            return
        *lines, lane.buffer = (lane.buffer + chunk).split(b"\n")
        for line in lines:
            message = parsed(line)
            if message is None:  # the subject wrote to descriptors that are not its own
                how = f"it said what is no message: {line[:60]!r}; {self._close(lane, selector, patience=0)}"
                yield from self._lost(lane, selector, how)
                return
            if "end" in message:
                self._close(lane, selector, patience=_PATIENCE_SECONDS)
                return
            if "begin" in message:
                self._check_case(message)
                lane.current = message["begin"]
                lane.ran.append(message["begin"])
                self._extend(lane, self._limit_of(lane))
                continue
            self._extend(lane, self.limits.case_seconds)
            report = report_of(message)
            lane.left.remove(report.number)
            lane.current = None
            yield replace(report, before=tuple(lane.ran[:-1])) if report.faults else report

    def _check_case(self, message: dict[str, Any]) -> None:
        number = message["begin"]
        if self.cases is not None and fingerprint(self.cases[number]) != message["case"]:
            raise SubjectUnavailable(
                f"case {number} is another one in its process: the subject's contract or operations, or this package,"
                " changed while it ran"
            )

    def _limit_of(self, lane: _Lane) -> float:
        """Return what the case that was just begun may take."""
        *before, number = lane.ran
        group = self.group_of(number)
        warm = any(self.group_of(earlier) == group for earlier in before)
        return (
            self.limits.case_seconds
            if warm
            else max(self.limits.case_seconds, self.limits.first_case_seconds)
        )

    def _close(self, lane: _Lane, selector: selectors.BaseSelector, *, patience: float) -> str:
        assert lane.child is not None
        child, lane.child = lane.child, None
        selector.unregister(child.reader)
        return child.end(patience=patience)

    def _lost(
        self, lane: _Lane, selector: selectors.BaseSelector, ending: str, *, silent: bool = False
    ) -> Iterator[CaseReport]:
        """The child died or fell silent: report its case and go on behind it with a new one."""
        if lane.current is None:
            if not lane.ran:
                raise SubjectUnavailable(f"the child ended before its first case: {ending}")
            if not lane.left:
                return
            lane.current = lane.ran[-1] if lane.ran[-1] in lane.left else lane.left[0]
        number = lane.current
        lane.left.remove(number)
        before = tuple(n for n in lane.ran if n != number)
        if silent and self.look_again:
            self.suspects.append(_Suspect(number, lane.limit, before))
        else:
            fault = crash_fault(ending) if silent else self._crash_fault(lane, number, ending)
            yield CaseReport(number, faults=(fault,), before=before, hung=silent)
        group = self.group_of(number)
        lane.crashes[group] += 1
        if lane.crashes[group] >= self.limits.crashes:
            reason = f"given up after {lane.crashes[group]} crashes"
            given_up = [n for n in lane.left if self.group_of(n) == group]
            lane.left = [n for n in lane.left if self.group_of(n) != group]
            yield from (CaseReport(n, not_run=reason) for n in given_up)
        if lane.left:
            self._start(lane, selector)


def _died(report: CaseReport) -> bool:
    return any("ending" in fault["where"] for fault in report.faults)
