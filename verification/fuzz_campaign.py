"""Fuzzing without end, as the batches of a campaign.

A *slice* is one batch of every family for one expert count in one form: a second or two of work, so that recording it
costs little and losing it loses little. Slices follow the rounds of `fuzz_plan` from `FIRST_ROUND` on, behind those
that the levels run, so that a campaign repeats none of their cases. A counterexample is recorded the moment it is
found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from nvfp4_moe.verification.campaign import BatchResult, Campaign, CampaignError, Found, Report
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.fuzz import COUNTS_CLAIMS, IDS_LEVEL_CLAIMS, BatchRunner
from nvfp4_moe.verification.fuzz_plan import Batch, Form, Sizes, round_of_batches
from nvfp4_moe.verification.result import Outcome, Verdict, Witness
from nvfp4_moe.verification.witness import replay

FIRST_ROUND = 110
"""Rounds before it belong to the levels of `verify`."""
_CHECKED, _ATTAINED, _REFUSED = "checked ", "attained ", "refused "  # first words of the names of counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The batches of one round, form and expert count."""

    seed: int
    form: Form
    number: int
    """Round."""
    sizes: Sizes
    """With one expert count."""

    @property
    def key(self) -> str:
        """Return its name in the store."""
        return f"{self.form} round {self.number} experts {self.sizes.experts[0]}"

    def batches(self) -> Iterator[Batch]:
        """Give its batches."""
        return round_of_batches(self.seed, self.number, form=self.form, sizes=self.sizes)


def plan_of(bounds: Sequence[Bound], sizes: Sizes) -> str:
    """Return what a campaign checks, in words: two campaigns with the same words may be added up."""
    experts = ", ".join(map(str, sizes.experts))
    topk = "any" if sizes.topk is None else sizes.topk
    return f"{', '.join(bound.name for bound in bounds)}; experts {experts}; topk {topk}; tile {sizes.tile}"


def slices(seed: int, *, sizes: Sizes | None = None) -> Iterator[Slice]:
    """Give the slices of a campaign, without end: for each round, counts and ids of every expert count."""
    sizes = sizes or Sizes()
    for number in count(FIRST_ROUND):
        for experts in sizes.experts:
            for form in Form:
                yield Slice(seed=seed, form=form, number=number, sizes=replace(sizes, experts=(experts,)))


class SliceRunner:
    """Runs slices against bounds; keeps buffers, so one for each process."""

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self._runner = BatchRunner(bounds)

    def __call__(self, part: Slice, report: Report) -> BatchResult:
        """Run a slice: counts of checked, attained and refused cases; counterexamples go to `report` at once."""
        cases = 0
        counts: dict[str, int] = {}
        for batch in part.batches():
            result = self._runner.run(batch)
            cases += result.cases
            for claim, checked in result.checked.items():
                _add(counts, _CHECKED + claim, checked)
            for use in result.uses:
                _add(counts, _ATTAINED + use.bound, use.attained)
                _add(counts, _REFUSED + use.bound, use.refused)
            for broken in result.broken:
                report(Found(claim=broken.claim, witness=broken.witness))
        return BatchResult(cases=cases, counts=counts)


def campaign_outcomes(campaign: Campaign) -> list[tuple[str, Outcome]]:
    """Return (claim id, outcome) of every claim that the campaign checked, over all its runs and processes.

    A claim with a counterexample is refuted by the one with the fewest routed rows.
    """
    summary = campaign.summary()
    found: dict[str, list[Witness]] = {}
    for example in campaign.counterexamples():
        found.setdefault(example.claim, []).append(example.witness)
    checked = {
        name.removeprefix(_CHECKED): cases
        for name, cases in summary.counts.items()
        if name.startswith(_CHECKED)
    }
    outcomes = []
    for claim in {**checked, **dict.fromkeys(found, 0)}:
        witnesses = found.get(claim, [])
        told = f"campaign of {summary.batches:,} slices, seed {summary.seed}"
        outcomes.append(
            (
                claim,
                Outcome(
                    verdict=Verdict.REFUTED if witnesses else Verdict.HELD,
                    cases=checked.get(claim, 0),
                    detail=f"{len(witnesses):,} counterexamples, the smallest shown; {told}"
                    if witnesses
                    else told,
                    witness=min(witnesses, key=_routed_rows, default=None),
                ),
            )
        )
    return outcomes


def check_counterexamples(campaign: Campaign, path: Path) -> None:
    """Run every stored counterexample again, since a store comes from outside and each of them refutes a claim.

    Raises:
        CampaignError: one is no witness of a claim of the fuzz, or does not reproduce.
    """
    for example in campaign.counterexamples():
        told = f"{path}: is damaged: a counterexample of {example.claim}"
        if example.claim not in (*COUNTS_CLAIMS, *IDS_LEVEL_CLAIMS):
            raise CampaignError(f"{told}: a campaign does not check this claim")
        try:
            reproduces = replay(example.witness).reproduces
        except (ValueError, TypeError) as error:
            raise CampaignError(f"{told}: {error}") from error
        if not reproduces:
            raise CampaignError(f"{told} does not reproduce with the version that the store names")


def _add(counts: dict[str, int], name: str, value: int) -> None:
    if value:
        counts[name] = counts.get(name, 0) + value


def _routed_rows(witness: Witness) -> float:
    counts = witness.get("tokens_per_expert")
    return sum(counts) if isinstance(counts, list) else float("inf")
