"""Holds `reference` to the second oracle: the same inputs through both, every byte and entry compared.

The oracle (`oracle`, `oracle_silu`, `oracle_layout`, `oracle_routing`) was written apart and imports nothing of
`reference`; this module is the only place where the two meet. Inputs are enumerated where the domain has at most 2^16
members (16-bit inputs, codes, scale bytes, midpoints) and otherwise made from counter-based words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nvfp4_moe.verification.golden.casts import check_e2m1, check_ue4m3
from nvfp4_moe.verification.golden.layouts import check_layouts
from nvfp4_moe.verification.golden.quantize import check_quantize
from nvfp4_moe.verification.golden.routing import check_routing
from nvfp4_moe.verification.golden.tally import Tally
from nvfp4_moe.verification.result import Outcome

CHECKS: dict[str, Callable[[Tally], None]] = {
    "cast.e2m1": check_e2m1,
    "cast.ue4m3": check_ue4m3,
    "quant.golden": check_quantize,
    "quant.layout": check_layouts,
    "routing.golden": check_routing,
}
"""The check of each claim."""


def check_reference(
    *,
    level: int = 1,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[tuple[str, Outcome]]:
    """Compare `reference` with the oracle and return one outcome per claim; the subject of all is "reference".

    Args:
        level: 1 takes seconds; 2 adds every 16-bit input of SiLU and a sweep of float32 patterns.
        seed: of the random scale bytes, rows and ids.
        progress: called with the number of bytes or entries compared since the last call.
        should_stop: asked between batches; when true, claims that are not finished are left out.
    """
    outcomes: list[tuple[str, Outcome]] = []
    for claim_id, check in CHECKS.items():
        tally = Tally(level=level, seed=seed, progress=progress, should_stop=should_stop)
        check(tally)
        if tally.stopped:
            break
        outcomes.append((claim_id, _told(claim_id, tally)))
    return outcomes


def _told(claim_id: str, tally: Tally) -> Outcome:
    """Return a claim's outcome, its witness with what a replay needs."""
    outcome = tally.outcome()
    if outcome.witness is None:
        return outcome
    again = {"claim": claim_id, "level": tally.level, "seed": tally.seed}
    return replace(outcome, witness={**outcome.witness, **again})
