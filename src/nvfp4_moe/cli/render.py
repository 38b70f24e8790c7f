"""What `verify` prints: progress while it runs, then the table of claims and the verdict of the run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from nvfp4_moe.cli.streams import shown
from nvfp4_moe.verification.claims import CLAIMS, Part
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, ClaimResult, Result, Verdict
from nvfp4_moe.verification.rows import Row

_STYLES = {
    Verdict.PROVED: "bold green",
    Verdict.EXHAUSTED: "green",
    Verdict.HELD: "green",
    Verdict.REFUTED: "bold red",
    Verdict.UNDECIDED: "yellow",
    Verdict.SKIPPED: "yellow",
}


class _Rate(TextColumn):
    """Cases a second."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{_count(speed)}/s", style="cyan")


class BarObserver:
    """A progress bar with rate and time left, for a terminal."""

    def __init__(self, out: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<34}", markup=False),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=out,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> BarObserver:
        self._progress.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._progress.stop()

    def start(self, job: Job) -> None:
        self._task = self._progress.add_task(shown(job.name), total=job.cases)

    def advance(self, cases: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, cases)

    def finish(self, job: Job, rows: list[Row]) -> None:
        del job, rows
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


class LineObserver:
    """One line a finished job, for logs."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._start = 0.0

    def __enter__(self) -> LineObserver:
        return self

    def __exit__(self, *unused: object) -> None: ...

    def start(self, job: Job) -> None:
        del job
        self._start = time.perf_counter()

    def advance(self, cases: int) -> None: ...

    def finish(self, job: Job, rows: list[Row]) -> None:
        cases = sum(row.outcome.cases for row in rows)
        seconds = time.perf_counter() - self._start
        self._out.print(f"{shown(job.name)}: {cases:,} cases in {seconds:.1f} s", markup=False)


def observer(out: Console) -> BarObserver | LineObserver:
    """Return the observer that suits the console."""
    return BarObserver(out) if out.is_terminal else LineObserver(out)


def print_result(
    out: Console, result: Result, *, bound: str, foreign: bool, saved: Sequence[Path], notes: Sequence[str]
) -> None:
    """Print the table in its three parts and what the run amounts to; `foreign`: a subject that is not ours was given."""
    titles = {
        Part.SUBJECTS: "Subjects under test",
        Part.FORMULA: f"Formula {bound}",
        Part.OWN: "Our own implementations",
    }
    parts = {part: [c for c in result.claims if _part(c) is part] for part in Part}
    for part, claims in parts.items():
        if claims:
            out.print()
            out.print(_table(titles[part], claims))
    out.print()
    for line in notes:
        out.print(shown(line), markup=False, soft_wrap=True)
    if not foreign:
        out.print("No foreign subject was given: this run says nothing about anybody's kernel.", markup=False)
    for path in saved:
        out.print(
            f"Counterexample saved; run it again with: nvfp4-moe replay {shown(path)}",
            markup=False,
            soft_wrap=True,
        )
    _print_summary(out, result)


def _part(claim: ClaimResult) -> Part:
    if claim.subject is not None and claim.subject not in ("reference", "host", "cuda"):
        return Part.SUBJECTS
    return Part.OWN if claim.subject is not None else CLAIMS[claim.id].part


def _table(title: str, claims: Sequence[ClaimResult]) -> Table:
    table = Table(
        title=Text(shown(title)), title_justify="left", title_style="bold", expand=False, pad_edge=False
    )
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim", no_wrap=True)
    table.add_column("method", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("what was found", overflow="fold", ratio=1)
    said: set[tuple[str, str]] = set()
    for claim in claims:
        name = claim.id if claim.subject is None else f"{claim.id} ({claim.subject})"
        table.add_row(
            Text(str(claim.verdict), style=_STYLES[claim.verdict]),
            Text(shown(name)),
            Text(str(claim.method)),
            f"{claim.cases:,}",
            f"{claim.seconds:.1f} s",
            _found(claim, said),
        )
    return table


def _found(claim: ClaimResult, said: set[tuple[str, str]]) -> Text:
    """Return the statement, once for each claim, and the detail."""
    key = (claim.id, claim.statement)
    statement = "" if key in said else shown(claim.statement) + ("" if claim.required else " (informs)")
    said.add(key)
    detail = shown("; ".join(filter(None, [claim.detail, _known(claim)])))
    return Text(statement, style="bold") + Text(": " if statement and detail else "") + Text(detail)


def _known(claim: ClaimResult) -> str:
    if claim.expected is None:
        return ""
    return f"{'unexpected pass, listed as known' if claim.fails else 'known'}: {claim.expected}"


def _print_summary(out: Console, result: Result) -> None:
    counts = {verdict: sum(c.verdict is verdict for c in result.claims) for verdict in Verdict}
    said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
    style = {EXIT_OK: "bold green", EXIT_REFUTED: "bold red"}.get(result.exit_code, "bold yellow")
    if result.interrupted:
        out.print("Interrupted: the table holds what was finished.", style="yellow")
    refuted = any(c.fails and c.verdict is Verdict.REFUTED for c in result.claims)
    failed = "REFUTED" if refuted else "Unexpected pass"
    word = {EXIT_OK: "All required claims hold", EXIT_REFUTED: failed}.get(
        result.exit_code, "Not everything required could be decided"
    )
    if known := sum(c.expected is not None and not c.fails for c in result.claims):
        word += f" ({known} known)"
    if gone := [c.id for c in result.claims if c.expected is not None and c.fails]:
        out.print(
            f"Listed by --expect but found no longer: {', '.join(gone)}", style="bold red", soft_wrap=True
        )
    out.print(Text(f"{word}: {said}. Seed {result.seed}, exit code {result.exit_code}.", style=style))


def _count(value: float) -> str:
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f} {suffix}"
    return f"{value:.0f}"
