"""A campaign: batches of cases, run until a budget is spent, kept in a store, resumed at any time.

    with Campaign.open(path, seed=1, version=__version__) as campaign:
        campaign.run(batches, run_batch, budget_s=3600)
        print(campaign.summary())

A *batch* is anything with a `key` that names its cases (they follow from seed and key alone). What is recorded is
recorded for good when `run` goes on to the next batch: `kill -9` loses at most the batch in hand, which the next run
does again, and no counterexample that was reported. Several processes may run one store; each batch is run by one of
them and counted once. See `campaign_store` for how. Neither module needs torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from nvfp4_moe.verification.campaign_store import CampaignError, Store
from nvfp4_moe.verification.result import Witness

__all__ = ["LARGEST_SEED", "BatchResult", "Campaign", "CampaignError", "Found", "HasKey", "Summary"]

LARGEST_SEED = 2**63 - 1
"""Largest integer of the store."""


class HasKey(Protocol):
    """A batch: what to run, under a name of its own."""

    @property
    def key(self) -> str:
        """Name of the batch, unique in its campaign."""


Batch = TypeVar("Batch", bound=HasKey)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A counterexample."""

    claim: str
    witness: Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What a finished batch showed."""

    cases: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """Anything worth adding up over batches, by name: cases of a family, of a claim, ..."""
    counterexamples: tuple[Found, ...] = ()


Report = Callable[[Found], None]
"""Records a counterexample at once; a batch that takes long calls it rather than wait for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Where a campaign stands, over all its runs and processes."""

    seed: int
    version: str
    batches: int
    """Finished batches."""
    in_hand: int
    """Batches that some process has taken and not finished (or died over)."""
    cases: int
    seconds: float
    """Time spent in finished batches, over all processes."""
    counts: Mapping[str, int]
    counterexamples: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "seed": self.seed,
            "version": self.version,
            "batches": self.batches,
            "in_hand": self.in_hand,
            "cases": self.cases,
            "seconds": round(self.seconds, 3),
            "counts": dict(self.counts),
            "counterexamples": self.counterexamples,
        }


class Campaign:
    """An open campaign; a context manager. Use it from one thread."""

    def __init__(self, store: Store, *, seed: int, version: str) -> None:
        self._store = store
        self.seed = seed
        self.version = version
        self._finished = store.finished_keys()

    @classmethod
    def open(cls, path: Path | str, *, seed: int, version: str, plan: str = "") -> Campaign:
        """Open the campaign in a file, or begin one where there is no file.

        Args:
            path: the file; its folder must exist.
            seed: of all cases.
            version: of the package that makes the cases.
            plan: what is checked, in words (bound, sizes); must be the same whenever the campaign goes on.

        Raises:
            CampaignError: the file is no campaign's, damaged, not writable, or of another seed, version or plan.
            TypeError, ValueError: a seed that is not an integer in [0, 2^63).
        """
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"seed must be an integer, got {seed!r} ({type(seed).__name__})")
        if not 0 <= seed <= LARGEST_SEED:
            raise ValueError(f"seed must be in [0, 2^63), got {seed}")
        return cls(Store.open(Path(path), seed=seed, version=version, plan=plan), seed=seed, version=version)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def next_batch(self, batches: Iterator[Batch]) -> Batch | None:
        """Return the next batch that is neither finished nor in another process's hand, now in this one's; or None."""
        for batch in batches:
            if batch.key not in self._finished and self._store.take(batch.key):
                return batch
        return None

    def run(
        self,
        batches: Iterable[Batch],
        run_batch: Callable[[Batch, Report], BatchResult],
        *,
        budget_s: float | None = None,
        should_stop: Callable[[], bool] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Summary:
        """Run batches until none is left, the budget is spent, or somebody says stop.

        Args:
            batches: in the order in which to run them; may be endless.
            run_batch: runs one, `run_batch(batch, report)`.
            budget_s: seconds of this run; None or infinity: no limit. The batch in hand is finished.
            should_stop: asked between batches.
            progress: told the cases of each finished batch.

        Returns:
            The summary of the whole campaign.

        Raises:
            CampaignError: the store fails.
            Exception: whatever `run_batch` raises, Ctrl-C included; its batch is given back first.
        """
        end = float("inf") if budget_s is None else time.monotonic() + budget_s
        queue = iter(batches)
        while time.monotonic() < end and not (should_stop is not None and should_stop()):
            batch = self.next_batch(queue)
            if batch is None:
                break
            cases = self._run_one(batch, run_batch)
            if progress is not None:
                progress(cases)
        return self.summary()

    def _run_one(self, batch: Batch, run_batch: Callable[[Batch, Report], BatchResult]) -> int:
        def report(found: Found) -> None:
            self._store.add_counterexample(batch.key, found.claim, found.witness)

        start = time.monotonic()
        try:
            result = run_batch(batch, report)
        except BaseException:
            self._store.give_back(batch.key)
            raise
        self._store.finish(
            batch.key,
            cases=result.cases,
            seconds=time.monotonic() - start,
            counts=result.counts,
            counterexamples=[(found.claim, found.witness) for found in result.counterexamples],
        )
        self._finished.add(batch.key)
        return result.cases

    def summary(self) -> Summary:
        """Return where the campaign stands."""
        batches, cases, seconds, in_hand = self._store.totals()
        return Summary(
            seed=self.seed,
            version=self.version,
            batches=batches,
            in_hand=in_hand,
            cases=cases,
            seconds=seconds,
            counts=self._store.counts(),
            counterexamples=len(self.counterexamples()),
        )

    def counterexamples(self) -> list[Found]:
        """Return every counterexample, in the order of their finding."""
        return [Found(claim=claim, witness=witness) for claim, witness in self._store.counterexamples()]
