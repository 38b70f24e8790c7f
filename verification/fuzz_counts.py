"""Fuzzing with count vectors: whole batches against bounds, placements and predicates.

Each case of a batch is held to every bound (rows needed <= rows given, under the bound's own guard) and to the exact
worst case of its T. What a bound is told are the fewest tokens that can route the counts: ceil(T / topk), and at
least the largest count where ids are distinct - the least that any engine may allocate for this call. The first cases
of a batch are also placed by every placement rule and go through the predicates region by region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from nvfp4_moe.reference.padding import PLACEMENTS, Sizing
from nvfp4_moe.verification import predicates
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.families import FAMILIES, Setting
from nvfp4_moe.verification.families.lanes import Workspace
from nvfp4_moe.verification.families.measure import Measured, Wanted, measure_family
from nvfp4_moe.verification.fuzz_plan import Attained, Batch, BatchResult, Broken, Use
from nvfp4_moe.verification.placements import LIMITS, closed_form_starts, placement_starts
from nvfp4_moe.verification.routing_witness import placement_witness

PLACED_CASES = 8
"""Cases of a batch that are placed region by region."""
_UNKNOWN = torch.iinfo(torch.int64).min
_LARGEST_ROWS = 1 << 62
"""Rows a bound gives are compared as int64; larger ones are cut off here, far above what a batch can need."""


class RowTable:
    """An integer function of a small argument, evaluated once for each value that occurs."""

    def __init__(self, function: Callable[[int], int]) -> None:
        self._function = function
        self._values = torch.full((1,), _UNKNOWN)

    def __call__(self, arguments: torch.Tensor) -> torch.Tensor:
        """Return the function of each element of an int64 tensor of non-negative numbers."""
        most = int(arguments.max())
        if most >= self._values.numel():
            grown = torch.full((1 << (most + 1).bit_length(),), _UNKNOWN)
            grown[: self._values.numel()] = self._values
            self._values = grown
        values = self._values[arguments]
        missing = sorted(set(arguments[values == _UNKNOWN].tolist()))
        if not missing:
            return values
        found = [max(min(self._function(argument), _LARGEST_ROWS), -_LARGEST_ROWS) for argument in missing]
        self._values[torch.tensor(missing)] = torch.tensor(found)
        return self._values[arguments]


@dataclass
class CountsFuzzer:
    """Runs batches of count vectors; keeps tables and buffers between them. One for each thread."""

    bounds: Sequence[Bound]
    _tables: dict[tuple[object, ...], RowTable] = field(default_factory=dict)
    _space: Workspace = field(default_factory=Workspace.allocate)

    def run(self, batch: Batch) -> BatchResult:
        """Check every case of a batch."""
        wanted = Wanted(
            largest=any(bound.ids == "distinct" for bound in self.bounds),
            last=any(bound.placement != "packed" for bound in self.bounds),
        )
        measured = measure_family(
            FAMILIES[batch.family],
            batch.seed,
            batch.setting,
            batch.start,
            batch.cases,
            space=self._space,
            wanted=wanted,
        )
        result = BatchResult(batch=batch, cases=batch.cases)
        result.checked = {"padding.bound": batch.cases, "padding.placement": batch.cases}
        for bound in self.bounds:
            self._check_bound(bound, measured, result)
        self._check_packed(measured, result)
        self._check_placements(result)
        return result

    def _check_bound(self, bound: Bound, measured: Measured, result: BatchResult) -> None:
        batch = result.batch
        sizing = _sizing(batch.setting)
        if bound.ids == "distinct":
            each = min(batch.topk, batch.num_experts)
            assert measured.largest is not None  # asked for in `run`
            tokens = torch.maximum(_ceil_div(measured.routed, each), measured.largest)
        else:
            tokens = _ceil_div(measured.routed, batch.topk)
        tokens = tokens.clamp(min=1)  # an engine is told at least one token
        table = self._table(("bound", bound, batch.setting), lambda m: bound.rows(sizing(m)))
        rows = table(tokens)
        ends = _ends(bound.placement, measured, batch.tile)
        allowed = tokens * batch.topk <= rows if bound.capped else torch.ones_like(rows, dtype=torch.bool)
        use = Use(bound=bound.name, refused=int((~allowed).sum()))
        use.cases = batch.cases - use.refused
        result.uses.append(use)
        if use.cases == 0:
            return
        fullest = int(torch.where(allowed, ends / rows.clamp(min=1), -1.0).argmax())
        use.end, use.rows = int(ends[fullest]), int(rows[fullest])
        full = allowed & (ends == rows)
        use.attained = int(full.sum())
        if use.attained:
            case = int(full.int().argmax())
            use.example = Attained(batch=batch, index=batch.start + case, tokens=int(tokens[case]))
        over = allowed & (ends > rows)
        if bool(over.any()):
            case = _smallest(measured.routed, over)
            witness = bound_witness(bound, batch, batch.start + case, int(tokens[case]), "overrun")
            if witness.rows <= witness.bound_rows:
                raise AssertionError(f"{witness} is not what its regions sum to")
            result.broken.append(
                Broken(
                    claim="padding.bound",
                    detail=f"{bound.name}: {witness}",
                    witness=witness.to_json(),
                    size=(sum(witness.tokens_per_expert), batch.num_experts),
                )
            )

    def _check_packed(self, measured: Measured, result: BatchResult) -> None:
        """S is a multiple of the tile, at least T and at most the exact worst case for T."""
        batch = result.batch
        limit = self._limit("packed", batch)(measured.routed)
        right = (measured.padded >= measured.routed) & _is_multiple(measured.padded, batch.tile)
        _note("padding.placement", "packed", right & (measured.padded <= limit), measured.routed, result)

    def _check_placements(self, result: BatchResult) -> None:
        """Place the first cases by every rule and hold each region to the predicates."""
        batch = result.batch
        cases, tile = min(batch.cases, PLACED_CASES), batch.tile
        counts = FAMILIES[batch.family].counts(batch.seed, batch.start, cases, batch.setting)
        routed = counts.sum(1)
        result.checked["padding.disjoint"] = result.checked["padding.coverage"] = cases * len(PLACEMENTS)
        for placement in PLACEMENTS:
            starts = placement_starts(counts, placement=placement, tile=tile)
            regions, limit = starts[:, :-1], self._limit(placement, batch)(routed)
            held = {
                "padding.disjoint": predicates.regions_disjoint(regions, counts, tile=tile),
                "padding.coverage": predicates.rows_fit(starts, counts),
                "padding.placement": predicates.starts_aligned(starts, tile=tile)
                & predicates.regions_inside(regions, counts, limit, tile=tile),
            }
            for claim, holds in held.items():
                _note(claim, placement, holds, routed, result)

    def _limit(self, placement: str, batch: Batch) -> RowTable:
        experts, tile = batch.num_experts, batch.tile
        return self._table((placement, experts, tile), lambda t: LIMITS[placement](t, experts, tile))

    def _table(self, key: tuple[object, ...], function: Callable[[int], int]) -> RowTable:
        if key not in self._tables:
            self._tables[key] = RowTable(function)
        return self._tables[key]


def bound_witness(bound: Bound, batch: Batch, index: int, tokens: int, relation: str) -> BoundWitness:
    """Make case `index` of a batch's family again, and return it as a witness of a bound told `tokens`."""
    sizing = _sizing(batch.setting)(tokens)
    return BoundWitness(
        bound=bound,
        relation=relation,
        ids=bound.ids,
        placement=bound.placement,
        sizing=sizing,
        tokens=tokens,
        tokens_per_expert=_counts(batch, index - batch.start),
        bound_rows=bound.rows(sizing),
    )


def _sizing(setting: Setting) -> Callable[[int], Sizing]:
    def sized(tokens: int) -> Sizing:
        return Sizing(
            tokens=tokens,
            topk=setting.topk,
            num_experts=setting.num_experts,
            num_global_experts=setting.num_experts,
            tile=setting.tile,
        )

    return sized


def _ends(placement: str, measured: Measured, tile: int) -> torch.Tensor:
    """Return the end of the last region that holds a row, int64 (B,)."""
    if placement == "packed":
        return measured.padded
    assert measured.last is not None  # asked for in `CountsFuzzer.run`
    assert measured.last_rows is not None
    before = measured.routed - measured.last_rows
    starts = closed_form_starts(before, measured.last, placement=placement, tile=tile)
    ends = starts + measured.last_rows + torch.remainder(-measured.last_rows, tile)
    return ends.masked_fill(measured.routed == 0, 0)


def _note(claim: str, placement: str, holds: torch.Tensor, routed: torch.Tensor, result: BatchResult) -> None:
    """Record the smallest case for which `holds` is false, if there is one."""
    if bool(holds.all()):
        return
    batch = result.batch
    counts = _counts(batch, _smallest(routed, ~holds))
    result.broken.append(
        Broken(
            claim=claim,
            detail=f"placement {placement}: {sum(counts)} routed rows on {batch.num_experts} experts",
            witness=placement_witness(claim, counts, placement=placement, tile=batch.tile),
            size=(sum(counts), batch.num_experts),
        )
    )


def _smallest(routed: torch.Tensor, chosen: torch.Tensor) -> int:
    """Return the chosen case with the fewest routed rows, the first of them."""
    return int(torch.where(chosen, routed, torch.iinfo(routed.dtype).max).argmin())


def _counts(batch: Batch, case: int) -> list[int]:
    """Make case `case` of a batch again, from its index."""
    family = FAMILIES[batch.family]
    counts: list[int] = family.counts(batch.seed, batch.start + case, 1, batch.setting)[0].tolist()
    return counts


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _is_multiple(values: torch.Tensor, of: int) -> torch.Tensor:
    """Tell which values, not negative, are multiples; the remainder of a general division is slow."""
    return (values & (of - 1) if _is_power_of_two(of) else torch.remainder(values, of)) == 0


def _ceil_div(values: torch.Tensor, divisor: int) -> torch.Tensor:
    """Return ceil(values / divisor) of values that are not negative."""
    raised = values + (divisor - 1)
    if _is_power_of_two(divisor):
        return raised >> (divisor.bit_length() - 1)
    return torch.div(raised, divisor, rounding_mode="floor")
