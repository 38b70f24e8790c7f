"""Is a bound enough, and is it tight? The smallest configuration and routing that show it is not.

A bound gives the rows of a buffer for (max_num_batched_tokens, topk, experts, tile). Its guard lets calls of
M <= max_num_batched_tokens tokens through, or, where the rows do not depend on that, M * topk <= rows. For each
configuration the largest last end over all routings is known exactly (`verification.worst_case`) and does not fall as
M grows: one look at the largest M decides a configuration, and bisection finds the smallest M that breaks it.

Without sizes from the user, configurations come from `GRID`. The witness is the one with the fewest routed rows, then
the fewest experts, topk and max_num_batched_tokens. A witness is built and summed region by region before it is
reported: no formula is trusted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nvfp4_moe.reference.padding import TILE, Sizing, local_experts
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.result import Outcome, Verdict
from nvfp4_moe.verification.worst_case import (
    MOST_EXPERTS,
    check_ids,
    routed_rows,
    worst_end,
    worst_tokens_per_expert,
)

_REPORT_EVERY = 1_000


def _around_powers(first: int, last: int) -> tuple[int, ...]:
    """Return 2^n - 1, 2^n and 2^n + 1 for n from `first` to `last`."""
    return tuple(2**n + offset for n in range(first, last + 1) for offset in (-1, 0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Configurations to try: every combination of the three tuples."""

    max_num_batched_tokens: tuple[int, ...] = (*range(1, 18), *_around_powers(5, 20), 49_408, 98_304, 163_840)
    topk: tuple[int, ...] = (*range(1, 11), 12, 16, 22)
    experts: tuple[int, ...] = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 60, 64, 128, 160, 256, 257, 384, 512, 1024)
    """Experts of the model, over all ranks."""
    most_tokens: int | None = None
    """Most tokens of a call, also where the bound's guard would let more through; None: the guard alone."""

    def with_sizes(
        self,
        *,
        max_num_batched_tokens: int | None = None,
        topk: int | None = None,
        experts: int | None = None,
    ) -> Grid:
        """Return the grid with the given sizes fixed to one value each."""
        grid = self
        if max_num_batched_tokens is not None:
            grid = replace(
                grid, max_num_batched_tokens=(max_num_batched_tokens,), most_tokens=max_num_batched_tokens
            )
        if topk is not None:
            grid = replace(grid, topk=(topk,))
        if experts is not None:
            grid = replace(grid, experts=(experts,))
        return grid

    @property
    def is_single(self) -> bool:
        """Return whether the grid is one configuration, stated in full."""
        sizes = (self.max_num_batched_tokens, self.topk, self.experts)
        return self.most_tokens is not None and all(len(values) == 1 for values in sizes)

    def __str__(self) -> str:
        if self == Grid():
            return "the stated grid"
        named = (
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("topk", self.topk),
            ("experts", self.experts),
        )
        return ", ".join(
            f"{name} {values[0]:,}" if len(values) == 1 else f"{len(values)} {name} of the grid"
            for name, values in named
        )


GRID = Grid()
"""The stated grid of `verify --bound` without size options."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A configuration: what the bound gives, and the most tokens that its guard lets through."""

    bound: Bound
    ids: str
    sizing: Sizing
    rows: int
    most_tokens: int

    def worst(self, tokens: int) -> int:
        s = self.sizing
        return worst_end(
            tokens, s.topk, s.num_experts, tile=s.tile, ids=self.ids, placement=self.bound.placement
        )

    def routed(self, tokens: int) -> int:
        return routed_rows(tokens, self.sizing.topk, self.sizing.num_experts, ids=self.ids)

    def smallest_tokens(self, most: int) -> int:
        """Return the smallest M whose worst case exceeds the rows; the one of `most` tokens does."""
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            if self.worst(middle) > self.rows:
                high = middle
            else:
                low = middle + 1
        return low

    def sized_for(self, tokens: int) -> _Case:
        """Return the configuration whose max_num_batched_tokens is the call itself."""
        sizing = replace(self.sizing, tokens=max(tokens, 1))
        return replace(self, sizing=sizing, rows=self.bound.rows(sizing))


@dataclass(frozen=True, slots=True)
class _Found:
    """A configuration and the tokens of a call."""

    case: _Case
    tokens: int

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Return what is to be small, most important first."""
        s = self.case.sizing
        return self.case.routed(self.tokens), s.num_experts, s.topk, s.tokens

    def witness(self, relation: str) -> BoundWitness:
        """Return the witness with the worst routing of the call."""
        case, s = self.case, self.case.sizing
        placement = case.bound.placement
        counts = worst_tokens_per_expert(
            self.tokens, s.topk, s.num_experts, tile=s.tile, ids=case.ids, placement=placement
        )
        return BoundWitness(
            bound=case.bound,
            relation=relation,
            ids=case.ids,
            placement=placement,
            sizing=s,
            tokens=self.tokens,
            tokens_per_expert=counts,
            bound_rows=case.rows,
        )


def _smaller(best: _Found | None, found: _Found) -> _Found:
    return found if best is None or found.size < best.size else best


def find_counterexample(
    bound: Bound,
    grid: Grid = GRID,
    *,
    tile: int = TILE,
    ids: str | None = None,
    expert_parallel_size: int = 1,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Outcome:
    """Search the smallest routing that needs more rows than the bound gives (claim `padding.bound`).

    Args:
        bound: a formula or an expression, from `parse_bound`.
        grid: configurations to try; `GRID.with_sizes(...)` fixes sizes.
        tile: rows of a scale tile.
        ids: "any" or "distinct"; None: the domain that the bound is meant for.
        expert_parallel_size: ranks that the experts are dealt out to; the fullest one is looked at.
        progress: told the configurations tried since its last call.
        should_stop: asked between configurations.

    Returns:
        REFUTED with the witness; HELD on a grid, EXHAUSTED for one stated configuration (every M and every routing
        is covered by the exact worst case); SKIPPED if the guard lets no routed row through; UNDECIDED if stopped.

    Raises:
        ExpressionError: the bound has no value for a configuration.
        ValueError, TypeError: sizes that no model can have.
    """
    cases = _Cases(bound, grid, tile, ids, expert_parallel_size, progress, should_stop)
    best: _Found | None = None
    routable = False
    for case in cases:
        most = case.most_tokens
        routable = routable or most > 0
        if best is not None:  # only fewer rows, or as few, are of interest now
            most = min(most, best.case.routed(best.tokens) // case.routed(1))
        if most >= 0 and case.worst(most) > case.rows:
            best = _smaller(best, _Found(case, case.smallest_tokens(most)))
    if best is not None:
        return _refuted(_shrink(best, grid), cases)
    if cases.stopped:
        return Outcome(verdict=Verdict.UNDECIDED, cases=cases.tried, detail=f"stopped after {cases.range}")
    if not routable:
        return Outcome(
            verdict=Verdict.SKIPPED, cases=0, detail=f"its guard lets no routed row through in {cases.range}"
        )
    return Outcome(
        verdict=Verdict.EXHAUSTED if grid.is_single else Verdict.HELD,
        cases=cases.tried,
        detail=f"exact worst case of {cases.range}",
    )


def _shrink(found: _Found, grid: Grid) -> _Found:
    """Lower max_num_batched_tokens to the tokens of the call, unless it was stated or the bound then holds."""
    if grid.most_tokens is not None:
        return found
    case = found.case.sized_for(found.tokens)
    return _Found(case, found.tokens) if case.worst(found.tokens) > case.rows else found


def _refuted(found: _Found, cases: _Cases) -> Outcome:
    witness = found.witness("overrun")
    if witness.rows <= witness.bound_rows:
        raise AssertionError(f"the worst case is not what its regions sum to: {witness}")
    return Outcome(
        verdict=Verdict.REFUTED,
        cases=cases.tried,
        detail=f"{witness}; the smallest in {cases.range}",
        witness=witness.to_json(),
    )


def check_attained(
    bound: Bound,
    grid: Grid = GRID,
    *,
    tile: int = TILE,
    ids: str | None = None,
    expert_parallel_size: int = 1,
    tight: bool = False,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Outcome:
    """Look whether some routing uses every row of the bound (claim `padding.attained`).

    Configurations whose rows are too few are no question of tightness and are left out. Arguments and errors as
    `find_counterexample`.

    Returns:
        HELD with the smallest configuration in which the bound is attained, else REFUTED with the smallest one and
        its slack. With `tight` the bound must be attained in every configuration: REFUTED by the smallest loose one.
    """
    cases = _Cases(bound, grid, tile, ids, expert_parallel_size, progress, should_stop)
    attained: _Found | None = None
    loose: _Found | None = None
    times_attained = times_loose = 0
    for case in cases:
        most = case.most_tokens
        slack = case.rows - case.worst(most) if most > 0 else -1
        if slack == 0:
            attained = _smaller(attained, _Found(case, most))
            times_attained += 1
        elif slack > 0:
            loose = _smaller(loose, _Found(case, most))
            times_loose += 1
    share = f"attained in {times_attained:,} and loose in {times_loose:,} of {cases.range}"
    if loose is not None and (tight or (attained is None and not cases.stopped)):
        witness = loose.witness("slack")
        return Outcome(
            verdict=Verdict.REFUTED,
            cases=cases.tried,
            detail=f"{witness}; {share}",
            witness=witness.to_json(),
        )
    if attained is None or (tight and cases.stopped):
        stopped = "stopped; " if cases.stopped else ""
        verdict = Verdict.UNDECIDED if cases.stopped else Verdict.SKIPPED
        return Outcome(verdict=verdict, cases=cases.tried, detail=stopped + share)
    return Outcome(
        verdict=Verdict.HELD, cases=cases.tried, detail=share, witness=attained.witness("attained").to_json()
    )


class _Cases:
    """The legal configurations of a grid, counted as they are handed out."""

    def __init__(
        self,
        bound: Bound,
        grid: Grid,
        tile: int,
        ids: str | None,
        expert_parallel_size: int,
        progress: Callable[[int], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.bound, self.grid, self.tile = bound, grid, tile
        self.ids = check_ids(bound.ids if ids is None else ids)
        self.ranks = expert_parallel_size
        self.progress, self.should_stop = progress, should_stop
        self.tried = 0
        self.stopped = False
        self.models = self._models()

    @property
    def range(self) -> str:
        """Return what was tried, in words."""
        ranks = f", {self.ranks} ranks" if self.ranks > 1 else ""
        number = "1 configuration" if self.tried == 1 else f"{self.tried:,} configurations"
        return f"{number} ({self.grid}, tile {self.tile:,}{ranks}, {self.ids} ids)"

    def __iter__(self) -> Iterator[_Case]:
        told = 0
        for case in self._all():
            if self.should_stop is not None and self.should_stop():
                self.stopped = True
                break
            yield case
            self.tried += 1
            if self.progress is not None and self.tried - told == _REPORT_EVERY:
                self.progress(_REPORT_EVERY)
                told = self.tried
        if self.progress is not None and self.tried > told:
            self.progress(self.tried - told)

    def _models(self) -> list[tuple[int, int]]:
        """Return the legal (experts, topk): a rank for every expert share, distinct ids only up to the experts."""
        if max(self.grid.experts) > MOST_EXPERTS:
            raise ValueError(f"experts must be at most {MOST_EXPERTS:,}, got {max(self.grid.experts)}")
        models = [
            (experts, topk)
            for experts in self.grid.experts
            for topk in self.grid.topk
            if experts >= self.ranks and (self.ids == "any" or topk <= experts)
        ]
        if not models:
            largest = max(self.grid.experts)
            local_experts(largest, self.ranks)
            raise ValueError(
                f"topk ({min(self.grid.topk)}) must be at most the number of experts ({largest}) "
                "where the ids of a token are distinct"
            )
        return models

    def _all(self) -> Iterator[_Case]:
        bound, grid = self.bound, self.grid
        batches = grid.max_num_batched_tokens[:1] if bound.capped else grid.max_num_batched_tokens
        for experts, topk in self.models:
            for batch in batches:
                sizing = Sizing(
                    tokens=batch,
                    topk=topk,
                    num_experts=local_experts(experts, self.ranks),
                    num_global_experts=experts,
                    tile=self.tile,
                )
                rows = bound.rows(sizing)
                most = bound.most_tokens(sizing, rows)
                if grid.most_tokens is not None:
                    most = min(most, grid.most_tokens)
                elif bound.capped:
                    sizing = replace(sizing, tokens=max(most, 1))  # the guard is the only limit
                yield _Case(bound, self.ids, sizing, rows, most)
