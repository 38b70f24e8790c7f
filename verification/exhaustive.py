"""Exhaustive search: every count vector and every `topk_ids` of small sizes.

Count vectors: all ways to route T rows to E experts, for T <= 17, E <= 5 and tiles 2 to 5, where every branch of the
formulas is met (T < E, T >= E, every remainder), and for tile 128 all vectors whose counts lie next to 0, 128 and 256.
Ids: every matrix of ids in [-1, E) for tiny (tokens, topk, experts), through the whole routing path.

Nothing is sampled, so a claim that holds is EXHAUSTED: true for these sizes, whatever a proof or a fuzzer says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, product

import torch

from nvfp4_moe.reference.padding import (
    FORMULAS,
    PLACEMENTS,
    TILE,
    Sizing,
    exact_any_rows,
    exact_distinct_rows,
)
from nvfp4_moe.reference.routing import route as reference_route
from nvfp4_moe.verification import predicates
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import Bound, formula_bound
from nvfp4_moe.verification.placements import LIMITS, last_ends, placement_starts
from nvfp4_moe.verification.result import Outcome, Verdict, Witness
from nvfp4_moe.verification.routing_check import ROUTING_CLAIMS, Route, broken_claims
from nvfp4_moe.verification.routing_witness import placement_witness, routing_witness

TILES = (2, 3, 4, 5)
MOST_EXPERTS = 5
MOST_ROWS = 17
TOPK = (1, 2, 3, 4)
_NEAR_TILE = (0, 1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE - 1, 2 * TILE, 2 * TILE + 1)
_NEAR_TILE_EXPERTS = (1, 2, 3, 4)
_IDS_SIZES = (
    (1, 1, 3),
    (2, 1, 3),
    (1, 2, 3),
    (3, 1, 3),
    (1, 3, 3),
    (2, 2, 2),
    (2, 2, 3),
    (3, 2, 1),
    (3, 2, 2),
)
"""(tokens, topk, experts) whose ids are all tried: (experts + 1) ** (tokens * topk) matrices."""
_IDS_TILE = 2
_MONOTONE_ROWS, _MONOTONE_EXPERTS, _MONOTONE_TILES = 64, 12, (1, 2, 3, 4, 5, 8)

_EXACT = ("exact_any", "exact_distinct")
"""Formulas that claim to be the worst case: each must be attained in every configuration."""

PADDING_CLAIMS = (
    "padding.bound",
    "padding.attained",
    "padding.disjoint",
    "padding.coverage",
    "padding.monotone",
    "padding.placement",
)
"""Claims that `exhaust_padding` tells."""


@dataclass
class _Claim:
    """What is known of one claim so far."""

    cases: int = 0
    detail: str = ""
    witness: Witness | None = None
    refuted: bool = False

    def refute(self, detail: str, witness: Witness) -> None:
        """Keep the first counterexample: groups come in ascending order of size."""
        if not self.refuted:
            self.refuted, self.detail, self.witness = True, detail, witness

    def outcome(self, *, stopped: bool, what: str) -> Outcome:
        verdict = Verdict.EXHAUSTED
        if self.refuted:
            verdict = Verdict.REFUTED
        elif stopped:
            verdict = Verdict.UNDECIDED
        detail = self.detail if self.refuted else "; ".join(part for part in (what, self.detail) if part)
        return Outcome(verdict=verdict, cases=self.cases, detail=detail, witness=self.witness)


@dataclass
class _Attained:
    """In how many configurations (tokens, topk, experts, tile) a bound is attained and loose."""

    configurations: int = 0
    attained: int = 0
    witness: Witness | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    """All count vectors of one T, E and tile."""

    tile: int
    counts: torch.Tensor
    """int64 (B, E)."""
    routed: int
    complete: bool = True
    """All vectors of the T and E are here, so the fullest one is the worst case."""

    @property
    def num_experts(self) -> int:
        return self.counts.shape[1]


@dataclass
class _Search:
    """The state of one exhaustive search over count vectors."""

    bounds: Sequence[Bound]
    claims: dict[str, _Claim] = field(default_factory=lambda: {name: _Claim() for name in PADDING_CLAIMS})
    attained: dict[str, _Attained] = field(default_factory=dict)
    refused: int = 0

    def check(self, group: _Group) -> None:
        """Hold every vector of a group to everything."""
        starts = {
            placement: placement_starts(group.counts, placement=placement, tile=group.tile)
            for placement in PLACEMENTS
        }
        ends = {
            placement: last_ends(group.counts, starts[placement], tile=group.tile) for placement in PLACEMENTS
        }
        for placement in PLACEMENTS:
            self._check_regions(group, placement, starts[placement])
        for bound in self.bounds:
            for topk in TOPK:
                self._check_bound(group, bound, topk, ends[bound.placement])

    def _check_regions(self, group: _Group, placement: str, starts: torch.Tensor) -> None:
        counts, tile, regions = group.counts, group.tile, starts[:, :-1]
        limit = LIMITS[placement](group.routed, group.num_experts, tile)
        held = {
            "padding.disjoint": predicates.regions_disjoint(regions, counts, tile=tile),
            "padding.coverage": predicates.rows_fit(starts, counts),
            "padding.placement": predicates.starts_aligned(starts, tile=tile)
            & predicates.regions_inside(regions, counts, limit, tile=tile),
        }
        for name, holds in held.items():
            claim = self.claims[name]
            claim.cases += len(counts)
            if not bool(holds.all()):
                broken = counts[int(holds.int().argmin())].tolist()
                claim.refute(
                    f"placement {placement}, tile {tile}, tokens_per_expert {broken}",
                    placement_witness(name, broken, placement=placement, tile=tile),
                )

    def _check_bound(self, group: _Group, bound: Bound, topk: int, ends: torch.Tensor) -> None:
        """Hold the vectors to what the bound gives for the fewest tokens that can route them."""
        distinct = bound.ids == "distinct"
        each = min(topk, group.num_experts) if distinct else topk
        fewest = -(-group.routed // each)
        largest = group.counts.amax(1)
        for tokens in range(max(fewest, 1), max(int(largest.max()) if distinct else 0, fewest, 1) + 1):
            sizing = _sizing(group, tokens, topk)
            rows = bound.rows(sizing)
            routable = (
                largest.clamp(min=max(fewest, 1)) == tokens
                if distinct
                else torch.ones_like(largest, dtype=torch.bool)
            )
            cases = int(routable.sum())
            if tokens > bound.most_tokens(sizing, rows):
                self.refused += cases
                continue
            if cases:
                self.claims["padding.bound"].cases += cases
                needed, case = torch.where(routable, ends, -1).max(0)
                if int(needed) > rows:
                    witness = self._witness(group, bound, sizing, int(case), rows, "overrun")
                    self.claims["padding.bound"].refute(f"{bound.name}: {witness}", witness.to_json())
            if tokens * each == group.routed:
                possible = ends.masked_fill(largest > tokens, -1) if distinct else ends
                self._note_attained(group, bound, sizing, rows, possible)

    def _note_attained(
        self, group: _Group, bound: Bound, sizing: Sizing, rows: int, ends: torch.Tensor
    ) -> None:
        """Count whether the fullest routing of exactly these tokens uses every row."""
        known = self.attained.setdefault(bound.name, _Attained())
        needed, case = ends.max(0)
        known.configurations += group.complete or int(needed) == rows
        if int(needed) == rows:
            known.attained += 1
            if known.witness is None:
                known.witness = self._witness(group, bound, sizing, int(case), rows, "attained").to_json()

    @staticmethod
    def _witness(
        group: _Group, bound: Bound, sizing: Sizing, case: int, rows: int, relation: str
    ) -> BoundWitness:
        return BoundWitness(
            bound=bound,
            relation=relation,
            ids=bound.ids,
            placement=bound.placement,
            sizing=sizing,
            tokens=sizing.tokens,
            tokens_per_expert=group.counts[case].tolist(),
            bound_rows=rows,
        )


def exhaust_padding(
    bounds: Sequence[Bound],
    progress: Callable[[int], None],
    should_stop: Callable[[], bool],
) -> list[tuple[str, Outcome]]:
    """Try every count vector of the module's sizes against bounds, placements and the exact worst cases.

    Args:
        bounds: what to hold the vectors to; the exact formulas are always tried too.
        progress: told the vectors done since its last call.
        should_stop: asked between groups of vectors; claims are then UNDECIDED unless refuted.

    Returns:
        (claim id, outcome) for `PADDING_CLAIMS`, `padding.attained` once for each bound.
    """
    exact = [formula_bound(FORMULAS[name]) for name in _EXACT]
    search = _Search([*bounds, *(bound for bound in exact if bound not in bounds)])
    stopped = False
    for group in _groups():
        if should_stop():
            stopped = True
            break
        search.check(group)
        progress(len(group.counts))
    monotone = search.claims["padding.monotone"]
    _check_monotone(monotone)
    what = f"T <= {MOST_ROWS}, E <= {MOST_EXPERTS}, tiles {TILES[0]}..{TILES[-1]}; counts near {TILE} for tile {TILE}"
    outcomes = [
        (name, claim.outcome(stopped=stopped and name != "padding.monotone", what=what))
        for name, claim in search.claims.items()
        if name not in ("padding.attained", "padding.monotone")
    ]
    outcomes.append(
        (
            "padding.monotone",
            monotone.outcome(
                stopped=False,
                what=f"T <= {_MONOTONE_ROWS}, E <= {_MONOTONE_EXPERTS}, tiles {_MONOTONE_TILES}",
            ),
        )
    )
    outcomes += [
        ("padding.attained", _attained_outcome(bound.name, search.attained.get(bound.name), stopped=stopped))
        for bound in search.bounds
    ]
    return sorted(outcomes, key=lambda found: PADDING_CLAIMS.index(found[0]))


def exhaust_routing(
    progress: Callable[[int], None],
    should_stop: Callable[[], bool],
    *,
    route: Route = reference_route,
) -> list[tuple[str, Outcome]]:
    """Route every `topk_ids` of tiny sizes and check all invariants of what comes out.

    Args:
        progress: told the matrices done since its last call.
        should_stop: asked between sizes.
        route: the implementation under test.

    Returns:
        (claim id, outcome) for `ROUTING_CLAIMS`.
    """
    claims = {name: _Claim() for name in ROUTING_CLAIMS}
    stopped = False
    for tokens, topk, experts in _IDS_SIZES:
        if should_stop():
            stopped = True
            break
        for ids in product(range(-1, experts), repeat=tokens * topk):
            topk_ids = torch.tensor(ids, dtype=torch.int32).view(tokens, topk)
            routing = route(topk_ids, experts, n=16, k=32, is_gated=True, tile=_IDS_TILE)
            broken = broken_claims(
                topk_ids, routing, num_experts=experts, n=16, k=32, is_gated=True, tile=_IDS_TILE
            )
            for name, names in broken.items():
                witness = routing_witness(topk_ids, experts, tile=_IDS_TILE, broken=names)
                claims[name].refute(f"{', '.join(names)} for topk_ids {topk_ids.tolist()}", witness)
            for claim in claims.values():
                claim.cases += 1
        progress((experts + 1) ** (tokens * topk))
    what = f"all ids in [-1, E) for {len(_IDS_SIZES)} sizes up to 3 tokens, topk 3, 3 experts"
    return [(name, claim.outcome(stopped=stopped, what=what)) for name, claim in claims.items()]


@lru_cache(maxsize=256)
def compositions(total: int, parts: int) -> torch.Tensor:
    """Return every way to write `total` as an ordered sum of `parts` counts >= 0: int64 (C(total+parts-1, parts-1), parts)."""
    ends = total + parts - 1
    bars = [(-1, *chosen, ends) for chosen in combinations(range(ends), parts - 1)]
    return torch.tensor(bars).diff(dim=1) - 1


def _groups() -> Iterator[_Group]:
    """Give the groups of vectors by ascending T, then E, so that the first counterexample is a smallest one."""
    for routed in range(MOST_ROWS + 1):
        for experts in range(1, MOST_EXPERTS + 1):
            for tile in TILES:
                yield _Group(tile, compositions(routed, experts), routed)
    for experts in _NEAR_TILE_EXPERTS:
        vectors = torch.cartesian_prod(*[torch.tensor(_NEAR_TILE)] * experts).view(-1, experts)
        totals = vectors.sum(1)
        for routed in sorted(set(totals.tolist())):
            yield _Group(TILE, vectors[totals == routed], routed, complete=False)


def _sizing(group: _Group, tokens: int, topk: int) -> Sizing:
    return Sizing(
        tokens=tokens,
        topk=topk,
        num_experts=group.num_experts,
        num_global_experts=group.num_experts,
        tile=group.tile,
    )


def _check_monotone(claim: _Claim) -> None:
    """Compare the exact worst cases with those of one more row, token or expert."""
    grid = product(range(_MONOTONE_ROWS + 1), range(1, _MONOTONE_EXPERTS + 1), _MONOTONE_TILES)
    for rows, experts, tile in grid:
        any_ids = exact_any_rows(rows, experts, tile=tile)
        steps = [
            (any_ids, exact_any_rows(rows + 1, experts, tile=tile)),
            (any_ids, exact_any_rows(rows, experts + 1, tile=tile)),
        ]
        for topk in TOPK:
            distinct = exact_distinct_rows(rows, topk, experts, tile=tile)
            steps += [
                (distinct, exact_distinct_rows(rows + 1, topk, experts, tile=tile)),
                (distinct, exact_distinct_rows(rows, topk, experts + 1, tile=tile)),
            ]
        claim.cases += len(steps)
        if any(more < fewer for fewer, more in steps):
            sizes = {"routed_rows": rows, "num_experts": experts, "tile": tile}
            claim.refute(f"falls after {sizes}", {"kind": "monotone", **sizes})


def _attained_outcome(name: str, known: _Attained | None, *, stopped: bool) -> Outcome:
    if known is None or known.configurations == 0:
        return Outcome(verdict=Verdict.SKIPPED, cases=0, detail=f"{name}: its guard refuses every size tried")
    detail = f"{name}: attained in {known.attained:,} of {known.configurations:,} configurations"
    exact = name in _EXACT
    if exact and known.attained < known.configurations:
        return Outcome(verdict=Verdict.REFUTED, cases=known.configurations, detail=detail)
    undecided = stopped or known.attained == 0  # a bound may be attained at larger sizes
    verdict = Verdict.UNDECIDED if undecided else Verdict.EXHAUSTED
    return Outcome(verdict=verdict, cases=known.configurations, detail=detail, witness=known.witness)
