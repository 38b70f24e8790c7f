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

from collections.abc import Callable

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.bound_cases import Cases, Found
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.grid import GRID as GRID
from nvfp4_moe.verification.grid import Grid as Grid
from nvfp4_moe.verification.result import Outcome, Verdict


def check_values(
    bound: Bound,
    grid: Grid = GRID,
    *,
    tile: int = TILE,
    ids: str | None = None,
    expert_parallel_size: int = 1,
) -> None:
    """Evaluate the bound in every configuration, so that one without a value is refused before long work.

    Raises:
        ExpressionError, ValueError, TypeError: as `find_counterexample`.
    """
    for _ in _cases(bound, grid, tile, ids, expert_parallel_size, None, None):
        pass


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
    cases = _cases(bound, grid, tile, ids, expert_parallel_size, progress, should_stop)
    best: Found | None = None
    routable = False
    for case in cases:
        most = case.most_tokens
        routable = routable or most > 0
        if best is not None:  # only fewer rows, or as few, are of interest now
            most = min(most, best.case.routed(best.tokens) // case.routed(1))
        if most >= 0 and case.worst(most) > case.rows:
            best = _smaller(best, Found(case, case.smallest_tokens(most)))
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


def _shrink(found: Found, grid: Grid) -> Found:
    """Lower max_num_batched_tokens to the tokens of the call, unless it was stated or the bound then holds."""
    if grid.most_tokens is not None:
        return found
    case = found.case.sized_for(found.tokens)
    return Found(case, found.tokens) if case.worst(found.tokens) > case.rows else found


def _refuted(found: Found, cases: Cases) -> Outcome:
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
    cases = _cases(bound, grid, tile, ids, expert_parallel_size, progress, should_stop)
    attained: Found | None = None
    loose: Found | None = None
    times_attained = times_loose = 0
    for case in cases:
        most = case.most_tokens
        slack = case.rows - case.worst(most) if most > 0 else -1
        if slack == 0:
            attained = _smaller(attained, Found(case, most))
            times_attained += 1
        elif slack > 0:
            loose = _smaller(loose, Found(case, most))
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


def _smaller(best: Found | None, found: Found) -> Found:
    return found if best is None or found.size < best.size else best


def _cases(
    bound: Bound,
    grid: Grid,
    tile: int,
    ids: str | None,
    ranks: int,
    progress: Callable[[int], None] | None,
    should_stop: Callable[[], bool] | None,
) -> Cases:
    return Cases(
        bound=bound,
        grid=grid,
        tile=tile,
        ids=bound.ids if ids is None else ids,
        ranks=ranks,
        progress=progress,
        should_stop=should_stop,
    )
