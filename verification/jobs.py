"""The jobs of a run: which checks the settings ask for, in which order, and which claims each decides.

A job declares the claims it will tell before it starts, so that a run that is cut short still lists them as
undecided and never looks complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.settings import Settings

Advance = Callable[[int], None]


@dataclass(kw_only=True)
class Job:
    """One check or a group of checks that share their work."""

    name: str
    tells: Sequence[tuple[str, Method]]
    """(claim id, method) of every row that a complete run of the job gives."""
    work: Callable[[Advance], Iterable[Row]]
    cases: int | None = None
    """Planned cases, for the progress bar; None: not known."""
    subject: str | None = None
    on_begin: Callable[[], None] | None = field(default=None)
    on_cancel: Callable[[], None] | None = field(default=None)

    def begin(self) -> bool:
        """Start what runs beside the other jobs; return whether there is something to cancel."""
        if self.on_begin is not None:
            self.on_begin()
        return self.on_cancel is not None

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


def resolve_device(device: str) -> str:
    """Return "cpu" or "cuda" for a device setting; "auto" takes a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def jobs_for(settings: Settings) -> list[Job]:
    """Return the jobs of `settings` in the order in which they run."""
    del settings
    return []
