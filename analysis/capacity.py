"""Which sizing formulas hold for given serving flags, and the smallest traffic that breaks each other one.

`serving.serving_reach` says how many tokens can reach the kernel of one rank. A formula is then judged for
every call up to that size: by its own guard (a call that it refuses ends the server with an assertion:
`guard_fires`), and by the exact worst case of the calls that its guard lets through (rows written behind the
buffer: `overrun`). Ids are any by default: a token may name an expert twice, as simulated and hash routing
do; a formula that counts on distinct ids then fails unless `ids="distinct"` is stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nvfp4_moe.analysis.serving import Reach, ServingReach, serving_reach
from nvfp4_moe.analysis.serving_flags import Caller, ServingFlags
from nvfp4_moe.reference.padding import (
    FORMULAS,
    TILE,
    VLLM_ENV_TOKENS,
    Formula,
    Sizing,
    ceil_div,
    local_experts,
    round_up,
)
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import formula_bound
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED
from nvfp4_moe.verification.worst_case import MOST_EXPERTS, check_ids, worst_end, worst_tokens_per_expert

MOST_TILE = 1 << 16
"""Rows of a tile at most: the smallest call that breaks a formula is looked for among all calls of a tile."""


class Verdict(StrEnum):
    """What becomes of a formula under the flags."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    NOT_APPLICABLE = "not_applicable"
    """The kernel's class refuses the flags, so nothing is sized."""
    UNKNOWN = "unknown"


class Failure(StrEnum):
    """How an unsafe formula fails."""

    GUARD_FIRES = "guard_fires"
    OVERRUN = "overrun"


EXIT_CODES = {
    Verdict.SAFE: EXIT_OK,
    Verdict.NOT_APPLICABLE: EXIT_OK,
    Verdict.UNSAFE: EXIT_REFUTED,
    Verdict.UNKNOWN: EXIT_UNDECIDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenBy:
    """The smallest call that breaks a formula."""

    tokens: int
    routed_rows: int
    limit: int
    """Routed rows that the guard lets through, or rows of the buffer."""
    traffic: str
    """Traffic that makes this call, in words."""
    advice: str
    routing: BoundWitness | None = None
    """For an overrun: the routing that needs more rows than there are."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        document: dict[str, Any] = {
            "tokens": self.tokens,
            "routed_rows": self.routed_rows,
            "limit": self.limit,
            "traffic": self.traffic,
            "advice": self.advice,
        }
        return document if self.routing is None else document | {"routing": self.routing.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One formula under the flags."""

    formula: Formula
    verdict: Verdict
    rows: int | None = None
    """Rows of the buffer that the largest call finds; None where no call is known."""
    required: int | None = None
    """Rows that the worst routing of the largest call needs, under the formula's own placement."""
    failure: Failure | None = None
    witness: BrokenBy | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "verdict": str(self.verdict),
            "rows": self.rows,
            "required": self.required,
            "failure": None if self.failure is None else str(self.failure),
            "witness": None if self.witness is None else self.witness.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The answer for one set of flags."""

    reach: ServingReach
    experts: int
    """Experts of the model; without expert parallelism the kernel has them all."""
    topk: int
    ids: str
    tile: int
    rows: int | None
    """Rows that the worst routing of the largest call needs with packed experts."""
    formulas: dict[str, Judged]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `nvfp4-moe capacity`."""
        return {
            "max_tokens": self.reach.max_tokens,
            "rows": self.rows,
            "steps": [step.to_json() for step in self.reach.steps],
            "formulas": {name: judged.to_json() for name, judged in self.formulas.items()},
        }


def capacity(flags: ServingFlags, *, experts: int, topk: int, ids: str = "any", tile: int = TILE) -> Capacity:
    """Judge every formula of the registry under the flags.

    Args:
        flags: of `vllm serve`.
        experts: experts of the model, over all ranks.
        topk: experts that a token is routed to.
        ids: "any" or "distinct", see `verification.worst_case.IDS`.
        tile: rows of a scale tile.

    Raises:
        TypeError, ValueError: a size that is not legal, a tile above `MOST_TILE`, more experts for a token
            than there are, or fewer experts than expert-parallel ranks.
    """
    check_ids(ids)
    reach = serving_reach(flags)
    Sizing(
        tokens=flags.max_num_batched_tokens * flags.ranks,
        topk=topk,
        num_experts=experts,
        num_global_experts=experts,
        tile=tile,
    )
    if experts > MOST_EXPERTS:
        raise ValueError(f"experts must be at most {MOST_EXPERTS:,}, got {experts}")
    if tile > MOST_TILE:
        raise ValueError(f"tile must be at most {MOST_TILE:,}, got {tile}")
    if topk > experts:
        raise ValueError(f"topk ({topk}) is above the number of experts ({experts})")
    local_experts(experts, flags.expert_parallel_size)
    judge = _Judge(reach, experts=experts, topk=topk, ids=ids, tile=tile)
    return Capacity(
        reach=reach,
        experts=experts,
        topk=topk,
        ids=ids,
        tile=tile,
        rows=None if reach.max_tokens is None else judge.worst(reach.max_tokens, "packed"),
        formulas={name: judge.formula(formula) for name, formula in FORMULAS.items()},
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    reach: ServingReach
    experts: int
    topk: int
    ids: str
    tile: int

    def sizing(self, tokens: int) -> Sizing:
        return Sizing(
            tokens=tokens,
            topk=self.topk,
            num_experts=self.experts,
            num_global_experts=self.experts,
            tile=self.tile,
        )

    def worst(self, tokens: int, placement: str) -> int:
        return worst_end(tokens, self.topk, self.experts, tile=self.tile, ids=self.ids, placement=placement)

    def formula(self, formula: Formula) -> Judged:
        if self.reach.max_tokens is None:
            refused = self.reach.reach is Reach.REFUSED
            return Judged(formula=formula, verdict=Verdict.NOT_APPLICABLE if refused else Verdict.UNKNOWN)
        most = self.reach.max_tokens
        told = self.sizing(most if formula.sized_for == "call" else self.reach.sized_for)
        rows, required = formula.rows(told), self.worst(most, formula.placement)
        broken = self._overrun(formula) or self._refused(formula, told)
        failure, witness = broken or (None, None)
        return Judged(
            formula=formula,
            verdict=Verdict.UNSAFE if broken else Verdict.SAFE,
            rows=rows,
            required=required,
            failure=failure,
            witness=witness,
        )

    def _overrun(self, formula: Formula) -> tuple[Failure, BrokenBy] | None:
        """Return the smallest call that the guard lets through and that needs more rows than it finds."""
        tokens = self._smallest_overrun(formula)
        if tokens is None:
            return None
        told = self.sizing(tokens if formula.sized_for == "call" else self.reach.sized_for)
        rows = formula.rows(told)
        counts = worst_tokens_per_expert(
            tokens,
            self.topk,
            self.experts,
            tile=self.tile,
            ids=self.ids,
            placement=formula.placement,
        )
        routing = BoundWitness(
            bound=formula_bound(formula),
            relation="overrun",
            ids=self.ids,
            placement=formula.placement,
            sizing=self.sizing(max(tokens, told.tokens)),
            tokens=tokens,
            tokens_per_expert=counts,
            bound_rows=rows,
        )
        if routing.rows <= rows:
            raise AssertionError(f"the worst routing of {tokens} tokens does not overrun {formula.name}")
        return Failure.OVERRUN, BrokenBy(
            tokens=tokens,
            routed_rows=sum(counts),
            limit=rows,
            traffic=self.reach.traffic(tokens),
            advice=self._overrun_advice(formula, tokens),
            routing=routing,
        )

    def _smallest_overrun(self, formula: Formula) -> int | None:
        most = self.reach.max_tokens
        assert most is not None
        if formula.sized_for == "call":
            return self._smallest_overrun_of_call(formula, most)
        told = self.sizing(self.reach.sized_for)
        rows = formula.rows(told)
        most = min(most, formula.guard_routed_rows(told) // self.topk)
        if self.worst(most, formula.placement) <= rows:
            return None
        low, high = 0, most
        while low < high:  # the worst case does not fall as tokens grow, the rows stay
            middle = (low + high) // 2
            low, high = (low, middle) if self.worst(middle, formula.placement) > rows else (middle + 1, high)
        return min(self.reach.smallest_call_above(low - 1), most)

    def _smallest_overrun_of_call(self, formula: Formula, most: int) -> int | None:
        """Look at the calls of one tile and at the largest.

        Rows and worst case both grow with the call. A formula that counts on distinct ids falls short where
        an expert may get more rows than tokens and still open no further tile, which a call of at most a tile
        shows first (`tests/analysis/test_capacity.py` looks at every call of small sizes).
        """
        step = self.reach.granularity
        small = range(step, min(most, round_up(self.tile, step)) + 1, step)
        calls: list[int] = [*small, most]
        for tokens in calls:
            if self.worst(tokens, formula.placement) > formula.rows(self.sizing(tokens)):
                return tokens
        return None

    def _refused(self, formula: Formula, told: Sizing) -> tuple[Failure, BrokenBy] | None:
        most = self.reach.max_tokens
        assert most is not None
        if formula.sized_for == "call":
            return None
        limit = formula.guard_routed_rows(told)
        if most * self.topk <= limit:
            return None
        tokens = self.reach.smallest_call_above(limit // self.topk)
        return Failure.GUARD_FIRES, BrokenBy(
            tokens=tokens,
            routed_rows=tokens * self.topk,
            limit=limit,
            traffic=self.reach.traffic(tokens),
            advice=self._guard_advice(formula, limit),
        )

    # --- what to do ---------------------------------------------------------------------------------------------

    def _guard_advice(self, formula: Formula, limit: int) -> str:
        flags, most = self.reach.flags, self.reach.max_tokens
        assert most is not None
        if formula.capped:
            return self._cap_advice(formula, limit // self.topk)
        if flags.caller is Caller.CONFIG:
            return "set FusedMoEConfig.max_num_batched_tokens to the largest call"
        call = "size the buffer from the call itself (formula loose, T + (A-1)*min(T, E), needs no scheduler setting)"
        if flags.pads_to_tensor_parallel and flags.data_parallel_size == 1:
            return f"make --max-num-batched-tokens a multiple of {flags.tensor_parallel_size:,}, or {call}"
        name = "data" if flags.data_parallel_size > 1 else "prefill-context"
        regression = "; vllm_env lets these calls through, so that the change is a regression for this server"
        return (
            f"{call}, or for the {most:,} tokens of all {name}-parallel ranks; another --max-num-batched-tokens "
            "does not help, for both sides grow with it; --enable-expert-parallel runs another back end"
            f"{regression if most <= VLLM_ENV_TOKENS else ''}"
        )

    def _overrun_advice(self, formula: Formula, tokens: int) -> str:
        if formula.capped:
            return self._cap_advice(formula, tokens - 1)
        return "see to it that a token never names an expert twice (and state it: --ids distinct), or use exact_any"

    def _cap_advice(self, formula: Formula, tokens: int) -> str:
        most = self.reach.max_tokens
        assert most is not None
        variable = {
            "vllm_env": "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE",
            "sglang": "MODELOPT_MAX_TOKENS_PER_EXPERT",
        }.get(formula.name, "the cap")
        needed = ceil_div(self.worst(most, formula.placement), self.topk)
        factor = ceil_div(most, self.reach.flags.max_num_batched_tokens)
        return f"set {variable} to {needed:,} or more, or --max-num-batched-tokens to at most {tokens // factor:,}"
