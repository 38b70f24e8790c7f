"""`Job`: one check of a run, or a group of checks that share their work.

A job declares the claims it will tell before it starts, so that a run that is cut short still lists them as
undecided and never looks complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row

Advance = Callable[[int], None]


@dataclass(kw_only=True, eq=False)
class Job:
    """One check or a group of checks that share their work."""

    name: str
    tells: Sequence[tuple[str, Method]]
    """(claim id, method) of every row that a complete run of the job gives."""
    work: Callable[[Advance], Iterable[Row]]
    cases: int | None = None
    """Planned cases, for the progress bar; None: not known."""
    subject: str | None = None
    notes: list[str] = field(default_factory=list)
    """Lines for people beyond the claims, filled while it runs: a trace's report."""
    tables: list[str] = field(default_factory=list)
    """Hardware tables that its exact judgements rest on, filled while it runs."""
    interrupted: bool = False
    """Set by a job that took Ctrl-C itself and still gave its rows."""
    on_begin: Callable[[], None] | None = None
    on_cancel: Callable[[], None] | None = None

    def begin(self) -> None:
        """Start what runs beside the other jobs."""
        if self.on_begin is not None:
            self.on_begin()

    def run(self, advance: Advance) -> Iterable[Row]:
        """Do the work and give its rows."""
        return self.work(advance)

    def cancel(self) -> None:
        """Stop what `begin` started, finished or not."""
        if self.on_cancel is not None:
            self.on_cancel()

    def unfinished(self, reason: str) -> list[Row]:
        """Return the job's claims as UNDECIDED with the reason."""
        outcome = Outcome(verdict=Verdict.UNDECIDED, cases=0, detail=reason)
        return [
            Row(claim_id=claim_id, method=method, outcome=outcome, subject=self.subject)
            for claim_id, method in self.tells
        ]
