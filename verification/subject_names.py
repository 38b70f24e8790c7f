"""Names of several subjects in one run: results and known findings go by name, so no two jobs may share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.job import Job


def tell_apart(jobs: Sequence[Job], specs: Sequence[str | Subject]) -> None:
    """Rename the jobs whose subject's name another has, all of them: none may answer to the name alone.

    Each gets the word that it was given by, and its place where that is no difference either.

    Args:
        jobs: of subjects; changed in place.
        specs: what each was given by.
    """
    words = [f" ({spec})" if isinstance(spec, str) else "" for spec in specs]
    places = [f" #{place}" for place in range(1, len(jobs) + 1)]
    for suffixes in (words, places):
        count = Counter(job.subject for job in jobs)
        for job, suffix in zip(jobs, suffixes, strict=True):
            if suffix and count[job.subject] > 1:
                _rename(job, f"{job.subject}{suffix}")


def _rename(job: Job, name: str) -> None:
    work = job.work
    job.name = job.name.replace(str(job.subject), name, 1)
    job.subject = name
    job.work = lambda advance: (replace(row, subject=name) for row in work(advance))
