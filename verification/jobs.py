"""The jobs of a run: which checks the settings ask for, in which order, and which claims each decides.

A job declares the claims it will tell before it starts, so that a run that is cut short still lists them as
undecided and never looks complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from nvfp4_moe.verification.bounds import GRID, check_attained, find_counterexample
from nvfp4_moe.verification.expressions import Bound, parse_bound
from nvfp4_moe.verification.proof_job import CLAIMS as PROOF_CLAIMS
from nvfp4_moe.verification.proof_job import ProofProcess
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.settings import Settings
from nvfp4_moe.verification.trace_check import check_trace
from nvfp4_moe.verification.trace_model import Trace
from nvfp4_moe.verification.trace_report import report_lines
from nvfp4_moe.verification.trace_routing import ROUTING_CLAIMS
from nvfp4_moe.verification.traces import open_trace

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


def resolve_device(device: str) -> str:
    """Return "cpu" or "cuda" for a device setting; "auto" takes a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def jobs_for(settings: Settings) -> list[Job]:
    """Return the jobs of `settings` in the order in which they run.

    Raises:
        ValueError, OSError: a bound that does not parse or has no value for the sizes, a trace that cannot be read.
    """
    bound = parse_bound(settings.bound)
    return [
        _bound_job(settings, bound),
        *(_trace_job(settings, bound, path_number) for path_number in range(len(settings.traces))),
        _proof_job(settings),
    ]


# --- the formula -------------------------------------------------------------------------------------------


def _proof_job(settings: Settings) -> Job:
    process = ProofProcess(settings.level)
    return Job(
        name="proofs (z3 and cvc5)",
        tells=[(claim, Method.PROOF) for claim in PROOF_CLAIMS],
        work=process.rows,
        on_begin=process.start,
        on_cancel=process.cancel,
    )


def _bound_job(settings: Settings, bound: Bound) -> Job:
    grid = GRID.with_sizes(
        max_num_batched_tokens=settings.max_num_batched_tokens, topk=settings.topk, experts=settings.experts
    )

    def work(advance: Advance) -> Iterator[Row]:
        ranks, tile = settings.expert_parallel_size, settings.tile
        found = find_counterexample(bound, grid, tile=tile, expert_parallel_size=ranks, progress=advance)
        yield Row(claim_id="padding.bound", method=Method.SEARCH, outcome=found)
        attained = check_attained(
            bound, grid, tile=tile, expert_parallel_size=ranks, tight=settings.tight, progress=advance
        )
        yield Row(
            claim_id="padding.attained", method=Method.SEARCH, outcome=attained, required=settings.tight
        )

    return Job(
        name="smallest counterexample",
        tells=[("padding.bound", Method.SEARCH), ("padding.attained", Method.SEARCH)],
        work=work,
    )


# --- router traces -----------------------------------------------------------------------------------------


def _trace_job(settings: Settings, bound: Bound, number: int) -> Job:
    path = settings.traces[number]
    trace = open_trace(path, num_experts=settings.experts)
    claims = ("padding.bound", *ROUTING_CLAIMS)
    job = Job(name=f"trace {path.name}", tells=[(claim, Method.TRACE) for claim in claims], work=lambda _: ())
    job.work = lambda advance: _check_trace(settings, bound, trace, job.notes, advance)
    return job


def _check_trace(
    settings: Settings, bound: Bound, trace: Trace, notes: list[str], advance: Advance
) -> Iterator[Row]:
    report, outcomes = check_trace(
        trace,
        bound=bound,
        tile=settings.tile,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        expert_parallel_size=settings.expert_parallel_size,
        progress=advance,
    )
    notes += report_lines(report)
    for claim_id, outcome in outcomes:
        yield Row(claim_id=claim_id, method=Method.TRACE, outcome=outcome)
