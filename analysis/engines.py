"""Every engine's sizing formula beside the others: safe for which routings, attained or not, how loose.

Safety is proved for all sizes where the provers can (`engines_proof`), and searched on the grid of `verify
--bound`, each formula with the ids, the placement and the guard that its engine has; an unsafe one comes with
the smallest routing that overruns it. Looseness is its rows over those of the exact worst case of packed
experts, for the ids that it is meant for:

- worst: the highest of the grid;
- typical: the median over the models of the zoo, for `TYPICAL_TOKENS` tokens in a buffer for as many;
- decode: the same for a call of `DECODE_TOKENS` tokens in the same buffer. What is sized for the call shrinks
  with it, what is sized once does not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nvfp4_moe.analysis.engines_proof import prove_formula
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.reference.padding import FORMULAS, TILE, Formula, Sizing, check_size, local_experts
from nvfp4_moe.verification.bound_cases import Case, Cases
from nvfp4_moe.verification.bounds import GRID, Grid, find_counterexample
from nvfp4_moe.verification.expressions import formula_bound
from nvfp4_moe.verification.result import Outcome, Verdict
from nvfp4_moe.verification.worst_case import worst_end

TYPICAL_TOKENS = 8_192
DECODE_TOKENS = 64

ENGINES = {
    "proposed": "vLLM, proposed change",
    "exact_any": "none: the exact worst case, any ids",
    "exact_distinct": "none: the exact worst case, distinct ids",
    "loose": "none: closed form without a scheduler setting",
    "vllm_env": "vLLM",
    "sglang": "SGLang",
    "flashinfer_trtllm": "FlashInfer trtllm-gen",
    "trtllm_cutedsl": "TensorRT-LLM, FlashInfer CuteDSL",
    "flashinfer_cutlass": "FlashInfer and TensorRT-LLM, CUTLASS back end",
    "trtllm_old": "TensorRT-LLM, older",
    "torchao": "torchao MXFP8",
    "quack": "quack",
}
"""Who uses a formula, by registry name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looseness:
    """Rows of a formula over those of the exact worst case."""

    rows: int
    exact: int
    max_num_batched_tokens: int
    tokens: int
    """Of the call."""
    topk: int
    num_experts: int

    @property
    def ratio(self) -> float:
        """Return rows / exact."""
        return self.rows / self.exact

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "ratio": self.ratio,
            "rows": self.rows,
            "exact": self.exact,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "tokens": self.tokens,
            "topk": self.topk,
            "num_experts": self.num_experts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLine:
    """One formula."""

    formula: Formula
    search: Outcome
    """HELD, or REFUTED with the smallest overrun."""
    proof: Outcome
    attained: int
    """Configurations of the grid in which the largest call's worst routing uses every row."""
    configurations: int
    worst: Looseness
    typical: float
    decode: float

    @property
    def engine(self) -> str:
        """Return who uses it."""
        return ENGINES[self.formula.name]

    @property
    def safe(self) -> bool:
        """Return whether no routing was found that overruns it."""
        return self.search.verdict is not Verdict.REFUTED

    @property
    def domain(self) -> str:
        """Return the routings that the verdict is about."""
        return domain(self.formula)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "engine": self.engine,
            "rule": self.formula.rule,
            "source": self.formula.source,
            "ids": self.formula.ids,
            "placement": self.formula.placement,
            "sized_for": self.formula.sized_for,
            "domain": self.domain,
            "safe": self.safe,
            "proof": {"verdict": str(self.proof.verdict), "detail": self.proof.detail},
            "search": {"verdict": str(self.search.verdict), "detail": self.search.detail},
            "attained": {"configurations": self.attained, "of": self.configurations},
            "looseness": {"worst": self.worst.to_json(), "typical": self.typical, "decode": self.decode},
            "witness": None if self.search.witness is None else dict(self.search.witness),
        }


def domain(formula: Formula) -> str:
    """Return the routings that a formula is judged for, in words."""
    calls = {
        "call": "every call",
        "max_num_batched_tokens": "calls of at most max_num_batched_tokens tokens",
        "cap": "calls whose routed rows are at most the cap",
    }[formula.sized_for]
    return f"{calls}, {formula.ids} ids, experts placed {formula.placement}"


def engine_lines(
    *,
    tile: int = TILE,
    expert_parallel_size: int = 1,
    grid: Grid = GRID,
    progress: Callable[[str], None] = lambda name: None,
) -> list[EngineLine]:
    """Return a line for every formula of the registry, in its order.

    Args:
        tile: rows of a scale tile.
        expert_parallel_size: ranks that experts are dealt out to; models with fewer experts are left out.
        grid: configurations of the search.
        progress: told the formula before it is looked at.

    Raises:
        TypeError, ValueError: a size that is not legal, or more ranks than any configuration has experts.
    """
    check_size("tile", tile, at_least=1)
    check_size("expert_parallel_size", expert_parallel_size, at_least=1)
    if expert_parallel_size > max(model.num_experts for model in ZOO.values()):
        raise ValueError(
            f"expert_parallel_size ({expert_parallel_size}) is above the experts of every known model"
        )
    lines = []
    for name, formula in FORMULAS.items():
        progress(name)
        lines.append(_line(formula, tile=tile, ranks=expert_parallel_size, grid=grid))
    return lines


def document(lines: list[EngineLine], *, tile: int, expert_parallel_size: int) -> dict[str, Any]:
    """Return the JSON of `nvfp4-moe engines`."""
    return {
        "tile": tile,
        "expert_parallel_size": expert_parallel_size,
        "typical_tokens": TYPICAL_TOKENS,
        "decode_tokens": DECODE_TOKENS,
        "models": list(ZOO),
        "formulas": {line.formula.name: line.to_json() for line in lines},
    }


def _line(formula: Formula, *, tile: int, ranks: int, grid: Grid) -> EngineLine:
    attained = configurations = 0
    loosest: tuple[int, int, Case] | None = None  # rows, exact rows, and where
    for case in _cases(formula, tile, ranks, grid):
        if case.most_tokens < 1:
            continue
        configurations += 1
        needed = case.worst(case.most_tokens)
        attained += case.rows == needed
        tokens = min(case.most_tokens, case.sizing.tokens)
        same = tokens == case.most_tokens and formula.placement == "packed"
        exact = needed if same else _exact(formula, case.sizing, tokens)
        if loosest is None or case.rows * loosest[1] > loosest[0] * exact:
            loosest = case.rows, exact, case
    assert loosest is not None
    case = loosest[2]
    worst = _looseness(formula, case.sizing, case.rows, min(case.most_tokens, case.sizing.tokens))
    typical, decode = _medians(formula, tile, ranks)
    return EngineLine(
        formula=formula,
        search=find_counterexample(formula_bound(formula), grid, tile=tile, expert_parallel_size=ranks),
        proof=prove_formula(formula.name, tile=tile),
        attained=attained,
        configurations=configurations,
        worst=worst,
        typical=typical,
        decode=decode,
    )


def _cases(formula: Formula, tile: int, ranks: int, grid: Grid) -> Cases:
    bound = formula_bound(formula)
    if formula.capped:  # its rows do not depend on the batch, but how loose they are does
        grid = replace(grid, most_tokens=max(grid.max_num_batched_tokens))
        bound = replace(bound, capped=False)
    return Cases(
        bound=bound, grid=grid, tile=tile, ids=bound.ids, ranks=ranks, progress=None, should_stop=None
    )


def _medians(formula: Formula, tile: int, ranks: int) -> tuple[float, float]:
    """Return the typical looseness and that of a decoding call, over the models of the zoo."""
    typical, decode = [], []
    for model in ZOO.values():
        if model.num_experts < ranks:
            continue
        full = Sizing(
            tokens=TYPICAL_TOKENS,
            topk=model.topk,
            num_experts=local_experts(model.num_experts, ranks),
            num_global_experts=model.num_experts,
            tile=tile,
        )
        small = replace(full, tokens=DECODE_TOKENS)
        typical.append(_looseness(formula, full, formula.rows(full), full.tokens).ratio)
        told = small if formula.sized_for == "call" else full
        decode.append(_looseness(formula, told, formula.rows(told), DECODE_TOKENS).ratio)
    return statistics.median(typical), statistics.median(decode)


def _looseness(formula: Formula, sizing: Sizing, rows: int, tokens: int) -> Looseness:
    return Looseness(
        rows=rows,
        exact=_exact(formula, sizing, tokens),
        max_num_batched_tokens=sizing.tokens,
        tokens=tokens,
        topk=sizing.topk,
        num_experts=sizing.num_experts,
    )


def _exact(formula: Formula, sizing: Sizing, tokens: int) -> int:
    """Return the rows that the worst routing of a call needs with packed experts and the formula's ids."""
    return worst_end(tokens, sizing.topk, sizing.num_experts, tile=sizing.tile, ids=formula.ids)
