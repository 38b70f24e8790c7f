"""A campaign as a job: rounds of fuzz batches until the budget is spent, kept in a store that a later run goes on with."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from nvfp4_moe import __version__
from nvfp4_moe.verification.campaign import BatchResult, Campaign, Found, Report, Summary
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.fuzz import BatchRunner
from nvfp4_moe.verification.fuzz_plan import Batch, Form, Sizes, round_of_batches
from nvfp4_moe.verification.job import Advance, Job
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.settings import Settings

_CLAIM = ("padding.bound", Method.FUZZ)


@dataclass(frozen=True)
class _Keyed:
    """A fuzz batch under a name of its own."""

    batch: Batch
    bound: str

    @property
    def key(self) -> str:
        b = self.batch
        sizes = f"{b.num_experts}/{b.tokens}/{b.topk}/{b.tile}"
        return f"{b.form}/{b.family}/{sizes}/{b.index}/{self.bound}"


def campaign_job(settings: Settings, bound: Bound, sizes: Sizes) -> Job:
    """Return the job of `--budget`.

    Raises:
        CampaignError: the store is no campaign's, damaged, not writable, or of another seed or version.
    """
    path = settings.resume or _fresh_store(settings.folder)
    campaign = Campaign.open(path, seed=settings.seed, version=__version__)
    job = Job(name="campaign", tells=[_CLAIM], work=lambda _: (), on_cancel=campaign.close)

    def work(advance: Advance) -> Iterator[Row]:
        runner = BatchRunner([bound])

        def run(keyed: _Keyed, report: Report) -> BatchResult:
            found = runner.run(keyed.batch)
            counterexamples = tuple(Found(claim=b.claim, witness=b.witness) for b in found.broken)
            return BatchResult(
                cases=found.cases,
                counts={f"family {keyed.batch.family}": found.cases},
                counterexamples=counterexamples,
            )

        try:
            campaign.run(
                _endless(settings.seed, bound, sizes), run, budget_s=settings.budget, progress=advance
            )
        except (
            KeyboardInterrupt
        ):  # the usual end of a campaign without a limit: the batch in hand was given back
            job.interrupted = True
        summary = campaign.summary()
        job.notes.append(
            f"campaign: {_told(summary)}; nvfp4-moe verify --budget ... --resume {path} goes on with it"
        )
        yield from _rows(campaign, summary)

    job.work = work
    return job


def _fresh_store(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
    return folder / f"campaign-{stamp}.sqlite"


def _endless(seed: int, bound: Bound, sizes: Sizes) -> Iterator[_Keyed]:
    """Yield rounds of both forms for ever; rounds never repeat a case."""
    for number in count():
        for form in (Form.COUNTS, Form.IDS):
            for batch in round_of_batches(seed, number, form=form, sizes=sizes):
                yield _Keyed(batch, bound.name)


def _told(summary: Summary) -> str:
    return (
        f"{summary.batches:,} batches, {summary.cases:,} cases in {summary.seconds:,.0f} s,"
        f" {summary.counterexamples} counterexamples"
    )


def _rows(campaign: Campaign, summary: Summary) -> Iterator[Row]:
    found = campaign.counterexamples()
    if not found:
        outcome = Outcome(verdict=Verdict.HELD, cases=summary.cases, detail=f"campaign of {_told(summary)}")
        yield Row(claim_id=_CLAIM[0], method=_CLAIM[1], outcome=outcome)
    for counterexample in found:
        outcome = Outcome(
            verdict=Verdict.REFUTED,
            cases=summary.cases,
            detail=f"campaign of {_told(summary)}",
            witness=counterexample.witness,
        )
        yield Row(claim_id=counterexample.claim, method=Method.FUZZ, outcome=outcome)
