"""Routing fuzz at two levels, gathered into outcomes of claims.

`fuzz_counts` runs batches of count vectors, `fuzz_ids` batches of ids; both stop between batches when told to and
report what was done until then. A campaign runs the same batches one by one: `round_of_batches` names them,
`BatchRunner.run` runs one, `Tally` gathers results.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

import torch

from nvfp4_moe.reference.padding import exact_any_rows
from nvfp4_moe.reference.routing import route as reference_route
from nvfp4_moe.verification import counter
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.fuzz_counts import CountsFuzzer, bound_witness
from nvfp4_moe.verification.fuzz_ids import run_ids
from nvfp4_moe.verification.fuzz_plan import Batch, BatchResult, Broken, Form, Sizes, Use, batches
from nvfp4_moe.verification.result import Outcome, Verdict
from nvfp4_moe.verification.routing_check import ROUTING_CLAIMS, Route

COUNTS_CLAIMS = (
    "padding.bound",
    "padding.attained",
    "padding.disjoint",
    "padding.coverage",
    "padding.monotone",
    "padding.placement",
)
"""Claims that `fuzz_counts` tells."""
IDS_LEVEL_CLAIMS = (*ROUTING_CLAIMS, "padding.bound")
"""Claims that `fuzz_ids` tells."""

_MONOTONE_CASES = 20_000
_LARGEST_RANDOM_SIZE = 1 << 30


class BatchRunner:
    """Runs batches of both forms against the same bounds; keeps buffers, so one for each thread or process."""

    def __init__(self, bounds: Sequence[Bound], *, route: Route = reference_route) -> None:
        self._bounds, self._route = bounds, route
        self._counts = CountsFuzzer(bounds)

    def run(self, batch: Batch) -> BatchResult:
        """Run one batch; the result depends on the batch and the bounds alone."""
        with one_torch_thread():
            if batch.form is Form.COUNTS:
                return self._counts.run(batch)
            return run_ids(batch, self._bounds, route=self._route)


@dataclass
class Tally:
    """Results of batches, gathered: cases, uses of bounds, the smallest witness of each broken claim."""

    bounds: Sequence[Bound] = ()
    """Those of the run: an attained one is reported with a witness."""
    cases: int = 0
    batches: int = 0
    checked: dict[str, int] = field(default_factory=dict)
    uses: dict[str, Use] = field(default_factory=dict)
    broken: dict[str, Broken] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)
    too_large: str | None = None
    """Why there is no batch of the sizes asked for, where there is none."""

    def add(self, result: BatchResult) -> None:
        """Take in one batch; the order of batches does not matter for verdicts and sizes of witnesses."""
        self.cases += result.cases
        self.batches += 1
        self.families.add(result.batch.family)
        for claim, cases in result.checked.items():
            self.checked[claim] = self.checked.get(claim, 0) + cases
        for use in result.uses:
            self.uses.setdefault(use.bound, Use(bound=use.bound)).add(use)
        for broken in result.broken:
            if broken.claim not in self.broken or broken.size < self.broken[broken.claim].size:
                self.broken[broken.claim] = broken

    def outcomes(self, claims: Iterable[str]) -> list[tuple[str, Outcome]]:
        """Return the outcomes of the claims, in the order given; `padding.attained` has one for each bound."""
        outcomes = []
        for claim in claims:
            if claim == "padding.attained":
                outcomes += [(claim, self._attained(use)) for use in self.uses.values()]
            else:
                outcomes.append((claim, self._outcome(claim)))
        return outcomes

    def _outcome(self, claim: str) -> Outcome:
        cases = self.checked.get(claim, 0)
        if cases == 0:
            return Outcome(verdict=Verdict.SKIPPED, cases=0, detail=self.too_large or "no batch was run")
        broken = self.broken.get(claim)
        if broken is not None:
            return Outcome(verdict=Verdict.REFUTED, cases=cases, detail=broken.detail, witness=broken.witness)
        if claim != "padding.bound":
            return Outcome(verdict=Verdict.HELD, cases=cases, detail=f"{len(self.families)} families")
        tried = sum(use.cases for use in self.uses.values())
        if tried == 0:
            return Outcome(verdict=Verdict.SKIPPED, cases=0, detail="the bound's guard refuses every case")
        used = "; ".join(f"{use.bound}: {_used(use)}" for use in self.uses.values())
        return Outcome(verdict=Verdict.HELD, cases=tried, detail=f"{used}; {len(self.families)} families")

    def _attained(self, use: Use) -> Outcome:
        """Whether some routing used every row; that none did says only that none was drawn."""
        if use.example is not None:
            example = use.example
            bound = next((bound for bound in self.bounds if bound.name == use.bound), None)
            witness = None
            if bound is not None:
                found = bound_witness(bound, example.batch, example.index, example.tokens, "attained")
                witness = found.to_json()
            return Outcome(
                verdict=Verdict.HELD,
                cases=use.cases,
                detail=f"{use.bound}: {use.attained:,} routings use every row",
                witness=witness,
            )
        verdict = Verdict.UNDECIDED if use.cases else Verdict.SKIPPED
        return Outcome(verdict=verdict, cases=use.cases, detail=f"{use.bound}: {_used(use)}")


def fuzz_counts(
    level: int,
    seed: int,
    bounds: Sequence[Bound],
    progress: Callable[[int], None],
    should_stop: Callable[[], bool],
    *,
    sizes: Sizes | None = None,
    workers: int = 1,
) -> list[tuple[str, Outcome]]:
    """Fuzz bounds and placements with count vectors.

    Args:
        level: 1, 2 or 3: how many batches.
        seed: of all cases.
        bounds: what to hold the routings to; each gives a row of `padding.attained`.
        progress: told the routings done since its last call.
        should_stop: asked between batches.
        sizes: fixed expert counts, topk, tile; None: all.
        workers: threads; the outcomes do not depend on it.

    Returns:
        (claim id, outcome) for `COUNTS_CLAIMS`. A claim that was refuted has the smallest witness found.
    """
    plan = batches(seed, level, form=Form.COUNTS, sizes=sizes)
    tally = _run(plan, lambda: BatchRunner(bounds), progress, should_stop, bounds=bounds, workers=workers)
    tally.too_large = (sizes or Sizes()).too_large
    told = [claim for claim in COUNTS_CLAIMS if claim != "padding.monotone"]
    outcomes = [*tally.outcomes(told), ("padding.monotone", fuzz_monotone(seed))]
    return sorted(outcomes, key=lambda found: COUNTS_CLAIMS.index(found[0]))


def fuzz_ids(
    level: int,
    seed: int,
    bounds: Sequence[Bound],
    progress: Callable[[int], None],
    should_stop: Callable[[], bool],
    *,
    sizes: Sizes | None = None,
    workers: int = 1,
    route: Route = reference_route,
) -> list[tuple[str, Outcome]]:
    """Fuzz the routing path with ids. Arguments as `fuzz_counts`; `route` is the implementation under test.

    Returns:
        (claim id, outcome) for `IDS_LEVEL_CLAIMS`.
    """
    plan = batches(seed, level, form=Form.IDS, sizes=sizes)
    tally = _run(
        plan, lambda: BatchRunner(bounds, route=route), progress, should_stop, bounds=bounds, workers=workers
    )
    tally.too_large = (sizes or Sizes()).too_large
    return tally.outcomes(IDS_LEVEL_CLAIMS)


def fuzz_monotone(seed: int, cases: int = _MONOTONE_CASES) -> Outcome:
    """Check at random sizes up to 2^30 that one more row or expert never lowers the exact worst case.

    Args:
        seed: of the sizes.
        cases: (T, E, tile) triples.
    """
    raw = counter.words(seed, "monotone", 0, 4 * cases).view(cases, 4)
    magnitudes = counter.below(raw[:, 0], 31)
    sizes = counter.below(raw[:, 1:], (1 << magnitudes)[:, None] + 1).clamp(max=_LARGEST_RANDOM_SIZE)
    for routed, experts, tile in sizes.tolist():
        experts, tile = experts + 1, tile + 1
        rows = exact_any_rows(routed, experts, tile=tile)
        more = min(
            exact_any_rows(routed + 1, experts, tile=tile), exact_any_rows(routed, experts + 1, tile=tile)
        )
        if more < rows:
            witness = {"kind": "monotone", "routed_rows": routed, "num_experts": experts, "tile": tile}
            return Outcome(
                verdict=Verdict.REFUTED,
                cases=cases,
                detail=f"T {routed}, E {experts}, tile {tile}: {rows} rows, {more} with one more row or expert",
                witness=witness,
            )
    return Outcome(verdict=Verdict.HELD, cases=cases, detail="sizes up to 2^30, one row or one expert more")


def _run(
    plan: Iterable[Batch],
    make_runner: Callable[[], BatchRunner],
    progress: Callable[[int], None],
    should_stop: Callable[[], bool],
    *,
    bounds: Sequence[Bound],
    workers: int,
) -> Tally:
    """Run batches until the plan ends or it is time to stop; results are gathered in the plan's order."""
    tally = Tally(bounds)
    results = _results(plan, make_runner, workers)
    while not should_stop():
        result = next(results, None)
        if result is None:
            break
        tally.add(result)
        progress(result.cases)
    results.close()
    return tally


def _results(
    plan: Iterable[Batch], make_runner: Callable[[], BatchRunner], workers: int
) -> Generator[BatchResult, None, None]:
    """Give the results of a plan, worked on by threads: torch holds no lock while it computes."""
    if workers == 1:
        yield from map(make_runner().run, plan)
        return
    local = threading.local()

    def run(batch: Batch) -> BatchResult:
        if not hasattr(local, "runner"):
            local.runner = make_runner()
        result: BatchResult = local.runner.run(batch)
        return result

    remaining = iter(plan)
    with ThreadPoolExecutor(workers) as pool:
        waiting = deque(pool.submit(run, batch) for batch in islice(remaining, 2 * workers))
        try:
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(run, batch) for batch in islice(remaining, 1))
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch's operations on the calling thread: chunks are small, and waiting for helpers costs more than it gives.

    Above all when another process, such as the provers, uses the other cores.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _used(use: Use) -> str:
    refused = f", {use.refused:,} outside its guard" if use.refused else ""
    return f"highest use {use.highest:.6f} ({use.end:,} of {use.rows:,} rows){refused}"
