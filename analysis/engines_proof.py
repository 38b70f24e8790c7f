"""Proofs that an engine's formula covers its routings, for all sizes at once: what is asked of the provers.

Formulas of the packed placement are written in the bound language and proved as any written bound is
(`proofs.expression`): the exact worst case is at most the formula, for every number of tokens, top-k and
experts. That the exact worst case is what it says rests on the obligations of `padding.bound`, which are
proved here as well. `flashinfer_trtllm` and `trtllm_old` count the experts of all ranks; they are written
with those of one rank, and more experts only add rows. Formulas with a placement of their own, and the one
for distinct ids, rest on obligations of `padding.placement` and `padding.bound`.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from nvfp4_moe.verification.expressions import parse
from nvfp4_moe.verification.result import Outcome, Verdict

TIMEOUT_S = 20.0
"""Seconds for one question to one prover."""

_ROUTED = "max_num_batched_tokens*topk"
_REACH = f"({_ROUTED} + (tile - 1)*num_experts) // tile"
_OCCUPIED = f"min({_ROUTED}, num_experts)"

WRITTEN = {
    "proposed": f"{_ROUTED} + (tile - 1)*num_experts",
    "exact_any": f"tile*min({_ROUTED}, {_REACH})",
    "loose": f"{_ROUTED} + (tile - 1)*{_OCCUPIED}",
    "vllm_env": "163840*topk",
    "sglang": "65536*topk",
    "flashinfer_trtllm": f"tile*({_OCCUPIED} + ({_ROUTED} - {_OCCUPIED}) // tile)",
    "trtllm_cutedsl": f"tile*min({_ROUTED}, {_REACH})",
    "trtllm_old": f"round_up({_ROUTED} + (tile - 1)*num_experts, tile)",
    "torchao": f"{_ROUTED} + tile*num_experts",
}
"""Formulas in the bound language, num_experts being the experts of this rank and of all."""

_THEOREM = ("padding.bound.base", "padding.bound.step", "padding.bound.exact_any")

OBLIGATIONS = {
    "exact_distinct": (
        "padding.bound.base",
        "padding.bound.distinct_step",
        "padding.bound.distinct_exact",
        "padding.bound.distinct_one_expert",
        "padding.bound.distinct_expert_parallel_rows",
    ),
    "flashinfer_cutlass": (
        "padding.disjoint.align_up_next",
        "padding.disjoint.later",
        "padding.placement.align_up_last_end",
        "padding.bound.distinct_expert_parallel_rows",
    ),
    "quack": (
        "padding.disjoint.tile_index_next",
        "padding.disjoint.later",
        "padding.placement.tile_index_last_end",
    ),
}
"""Obligations that a formula rests on, by key."""


def prove_formula(name: str, *, tile: int) -> Outcome:
    """Return what the provers say of a formula of the registry.

    Args:
        name: registry name.
        tile: rows of a scale tile, for the written formulas; the obligations are about any tile.

    Returns:
        PROVED; REFUTED (the detail has sizes); UNDECIDED; SKIPPED where a prover is missing.

    Raises:
        KeyError: no formula of that name.
    """
    if name not in WRITTEN:
        return _prove_obligations(OBLIGATIONS[name])
    from nvfp4_moe.verification.proofs.expression import prove_expression

    outcome = prove_expression(parse(WRITTEN[name]), tile=tile, timeout_s=TIMEOUT_S)
    if outcome.verdict is not Verdict.PROVED:
        return outcome
    theorem = _theorem()
    if theorem.verdict is not Verdict.PROVED:
        return theorem
    detail = f"{WRITTEN[name]}: {outcome.detail}; the exact worst case: {theorem.detail}"
    return replace(outcome, cases=outcome.cases + theorem.cases, detail=detail)


@functools.cache
def _theorem() -> Outcome:
    """Return what the provers say of the exact worst case itself, asked once a process."""
    return _prove_obligations(_THEOREM)


def _prove_obligations(keys: tuple[str, ...]) -> Outcome:
    from nvfp4_moe.verification.proofs import obligations, solvers
    from nvfp4_moe.verification.proofs.judging import judge, put, skipped

    absent = solvers.missing()
    if absent:
        return skipped(absent)
    known = {obligation.key: obligation for obligation in obligations(level=2)}
    questions = [put(known[key], timeout_s=TIMEOUT_S) for key in keys]
    return judge([question for question in questions if question is not None])
