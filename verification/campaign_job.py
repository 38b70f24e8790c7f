"""A campaign as a job: fuzz until the budget is spent, kept in a store that a later run goes on with."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from nvfp4_moe import __version__
from nvfp4_moe.verification.campaign import Campaign
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.fuzz_campaign import (
    SliceRunner,
    campaign_outcomes,
    check_counterexamples,
    plan_of,
    slices,
)
from nvfp4_moe.verification.fuzz_plan import Sizes
from nvfp4_moe.verification.job import Advance, Job
from nvfp4_moe.verification.result import Method
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.settings import Settings

_CLAIM = ("padding.bound", Method.FUZZ)


def campaign_job(settings: Settings, bound: Bound, sizes: Sizes) -> Job:
    """Return the job of `--budget`.

    Raises:
        ValueError: sizes that are too large to build routings of.
        CampaignError: the store is no campaign's, damaged, not writable, or of another seed, version or plan, or has a
            counterexample that is none.
    """
    if sizes.too_large:
        raise ValueError(f"budget: nothing can be fuzzed: {sizes.too_large}")
    path = settings.resume or _fresh_store(settings.folder)
    campaign = Campaign.open(path, seed=settings.seed, version=__version__, plan=plan_of([bound], sizes))
    try:
        check_counterexamples(campaign, path)
    except BaseException:
        campaign.close()
        raise
    job = Job(name="campaign", tells=[_CLAIM], work=lambda _: (), on_cancel=campaign.close)

    def work(advance: Advance) -> Iterator[Row]:
        try:
            campaign.run(
                slices(settings.seed, sizes=sizes),
                SliceRunner([bound]),
                budget_s=settings.budget,
                progress=advance,
            )
        except (
            KeyboardInterrupt
        ):  # the usual end of a campaign without a limit: the slice in hand was given back
            job.interrupted = True
        summary = campaign.summary()
        job.notes.append(
            f"campaign {path}: {summary.batches:,} slices, {summary.cases:,} cases, {summary.seconds:,.0f} s,"
            f" {summary.counterexamples} counterexamples; --resume {path} goes on with it"
        )
        for claim_id, outcome in campaign_outcomes(campaign):
            yield Row(claim_id=claim_id, method=Method.FUZZ, outcome=outcome)

    job.work = work
    return job


def _fresh_store(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
    return folder / f"campaign-{stamp}.sqlite"
