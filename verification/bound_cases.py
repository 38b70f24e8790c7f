"""The configurations of a search for a bound's counterexample: what the bound gives in each, and its worst calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nvfp4_moe.reference.padding import Sizing, local_experts
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.grid import Grid
from nvfp4_moe.verification.worst_case import (
    MOST_EXPERTS,
    check_ids,
    routed_rows,
    worst_end,
    worst_tokens_per_expert,
)

_REPORT_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class Case:
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

    def sized_for(self, tokens: int) -> Case:
        """Return the configuration whose max_num_batched_tokens is the call itself."""
        sizing = replace(self.sizing, tokens=max(tokens, 1))
        return replace(self, sizing=sizing, rows=self.bound.rows(sizing))


@dataclass(frozen=True, slots=True)
class Found:
    """A configuration and the tokens of a call."""

    case: Case
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


@dataclass(slots=True, kw_only=True)
class Cases:
    """The legal configurations of a grid, counted as they are handed out."""

    bound: Bound
    grid: Grid
    tile: int
    ids: str
    ranks: int
    """Expert-parallel ranks; the fullest one is looked at."""
    progress: Callable[[int], None] | None
    should_stop: Callable[[], bool] | None
    tried: int = 0
    stopped: bool = False

    def __post_init__(self) -> None:
        check_ids(self.ids)
        self._models()

    @property
    def range(self) -> str:
        """Return what was tried, in words."""
        ranks = f", {self.ranks} ranks" if self.ranks > 1 else ""
        number = "1 configuration" if self.tried == 1 else f"{self.tried:,} configurations"
        return f"{number} ({self.grid}, tile {self.tile:,}{ranks}, {self.ids} ids)"

    def __iter__(self) -> Iterator[Case]:
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

    def _all(self) -> Iterator[Case]:
        bound, grid = self.bound, self.grid
        batches = grid.max_num_batched_tokens[:1] if bound.capped else grid.max_num_batched_tokens
        for experts, topk in self._models():
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
                yield Case(bound, self.ids, sizing, rows, most)
