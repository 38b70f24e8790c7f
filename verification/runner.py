"""`verify`: run every check that the settings ask for and gather one `Result`.

The proofs run in a second process beside the other checks. An exception inside a check is a fault of ours: the
claims of that check become UNDECIDED with its text, the run goes on, and the exit code says 3. Ctrl-C ends the run
with what was finished.
"""

from __future__ import annotations

import subprocess
import time
import traceback
from pathlib import Path
from typing import Any, Protocol

from nvfp4_moe import __version__
from nvfp4_moe.verification.bad_input import BadInput
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.expect import apply_expectations
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.jobs import jobs_for, resolve_device, subject_jobs
from nvfp4_moe.verification.result import EXIT_OK, ClaimResult, Result, Verdict
from nvfp4_moe.verification.rows import Row, claim_results
from nvfp4_moe.verification.settings import Settings


class Observer(Protocol):
    """What a caller may watch a run with: a progress bar, a log."""

    def start(self, job: Job) -> None:
        """A job begins."""

    def advance(self, cases: int) -> None:
        """The running job finished this many more cases."""

    def finish(self, job: Job, rows: list[Row]) -> None:
        """A job ended with these rows."""


class _Silent:
    def start(self, job: Job) -> None: ...

    def advance(self, cases: int) -> None: ...

    def finish(self, job: Job, rows: list[Row]) -> None: ...


def verify(subject: object | None = None, *, observer: Observer | None = None, **options: Any) -> Result:
    """Check the padding bound, the golden model and, if one is given, an implementation.

    Args:
        subject: a `Subject`, any object or module with its operations, or a name as `--subject` takes; None: our own
            kernels.
        observer: told of every job; None: nobody watches.
        **options: the fields of `Settings` (level, seed, bound, traces, ...).

    Returns:
        The claims with their verdicts; `Result.exit_code` is what the command line exits with.

    Raises:
        TypeError, ValueError: an option that is not legal, a subject without operations.
        OSError: a trace or store that cannot be read.
    """
    if subject is not None:
        options["subjects"] = (_as_subject(subject),)
    settings = Settings(**options)
    return execute(settings, prepare(settings), observer=observer)


def assert_conforms(subject: object, *, level: int = 1, **options: Any) -> Result:
    """Run a subject's conformance and raise if one of its claims is refuted or could not be decided.

    Args:
        subject: as for `verify`.
        level, **options: as for `verify`; only the subject's claims are judged, the formula's are not run.

    Returns:
        The result, where every claim holds.

    Raises:
        AssertionError: the findings, one line each.
    """
    result = check_conformance(subject, level=level, **options)
    raise_findings(result)
    return result


def check_conformance(subject: object, *, level: int = 1, **options: Any) -> Result:
    """Run a subject's conformance alone and return its result, whatever it is; arguments as for `assert_conforms`."""
    settings = Settings(subjects=(_as_subject(subject),), level=level, **options)
    return execute(settings, subject_jobs(settings))


def raise_findings(result: Result) -> None:
    """Raise an AssertionError with one line for each claim that fails or is undecided, if there is one."""
    if result.exit_code != EXIT_OK:
        open_ones = (Verdict.SKIPPED, Verdict.UNDECIDED)
        broken = [c for c in result.claims if c.fails or (c.required and c.verdict in open_ones)]
        lines = [f"{c.id}: {c.verdict}: {c.detail}" + _gone(c) for c in broken]
        raise AssertionError(f"{broken[0].subject} does not conform:\n" + "\n".join(lines))


def _gone(claim: ClaimResult) -> str:
    return "" if claim.expected is None else f" (listed as known, found no longer: {claim.expected})"


def _as_subject(subject: object) -> str | Subject:
    if isinstance(subject, str):
        return subject
    return Subject.of(subject, name=getattr(subject, "__name__", type(subject).__name__))


def prepare(settings: Settings) -> list[Job]:
    """Return the jobs of a run; everything that can be wrong with the input is found here, before long work.

    Raises:
        TypeError, ValueError, OSError: a bound that does not parse, a trace or store that cannot be read.
    """
    return jobs_for(settings)


def execute(settings: Settings, jobs: list[Job], *, observer: Observer | None = None) -> Result:
    """Run prepared jobs and gather the result; see `verify`."""
    watcher: Observer = observer if observer is not None else _Silent()
    rows: list[Row] = []
    finished: list[Job] = []
    interrupted = False
    try:
        # Those that work in a process of their own start at once.
        failed = {id(job): error for job in jobs if (error := _begin(job)) is not None}
        for job in jobs:
            error = failed.get(id(job))
            found = _run_job(job, watcher) if error is None else _unfinished(job, error)
            rows += found
            finished.append(job)
            watcher.finish(job, found)
            if job.interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        interrupted = True
        rows += [row for job in jobs if job not in finished for row in job.unfinished("interrupted")]
    finally:
        for job in jobs:
            job.cancel()
    return Result(
        version=__version__,
        seed=settings.seed,
        device=resolve_device(settings.device),
        git=_commit(),
        tables=tuple(dict.fromkeys(table for job in jobs for table in job.tables)),
        claims=tuple(apply_expectations(claim_results(rows), settings.expect, bound=settings.bound)),
        interrupted=interrupted,
    )


def _begin(job: Job) -> Exception | None:
    """Start what runs beside the others and return why that failed: no process left, no memory."""
    try:
        job.begin()
    except Exception as error:
        return error
    return None


def _unfinished(job: Job, error: Exception) -> list[Row]:
    traceback.print_exception(error)
    told = str(error).strip().splitlines()[-1:] or [""]
    return job.unfinished(f"internal error in {job.name}: {type(error).__name__}: {told[0]}")


def _run_job(job: Job, watcher: Observer) -> list[Row]:
    watcher.start(job)
    start = time.perf_counter()
    try:
        found = list(job.run(watcher.advance))
    except BadInput:
        raise  # the input's fault, not ours
    except Exception as error:
        return _unfinished(job, error)
    share = (time.perf_counter() - start) / max(len(found), 1)
    return [row if row.seconds else _timed(row, share) for row in found]


def _timed(row: Row, seconds: float) -> Row:
    return Row(
        claim_id=row.claim_id,
        method=row.method,
        outcome=row.outcome,
        subject=row.subject,
        seconds=seconds,
        required=row.required,
        statement=row.statement,
    )


def _commit() -> str | None:
    """Return the commit of the checkout that this code runs from, or None outside one."""
    here = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
