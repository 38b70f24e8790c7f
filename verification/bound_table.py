"""Every sizing formula for one configuration: rows, guard, what the worst routing needs, and where it overruns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nvfp4_moe.reference.padding import (
    FORMULAS,
    TILE,
    Formula,
    Sizing,
    exact_any_rows,
    local_experts,
    padded_rows,
    worst_tokens_per_expert_any,
)
from nvfp4_moe.verification.bounds import Grid, find_counterexample
from nvfp4_moe.verification.expressions import formula_bound
from nvfp4_moe.verification.result import Verdict
from nvfp4_moe.verification.worst_case import MOST_EXPERTS, worst_end

SCALE_LAYOUT = "swizzled_128x4"
"""Layout whose rows the formulas count; with a hidden size it gives the bytes of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Serving flags that size a buffer.

    Raises (on construction):
        TypeError, ValueError: a size that is not legal, or more ranks than experts.
    """

    max_num_batched_tokens: int
    topk: int
    experts: int
    """Experts of the model, over all ranks."""
    expert_parallel_size: int = 1
    tile: int = TILE
    hidden_size: int | None = None
    """K: elements of a row, a multiple of 16; None: no bytes are given."""

    def __post_init__(self) -> None:
        self.sizing(self.max_num_batched_tokens)
        if self.experts > MOST_EXPERTS:
            raise ValueError(f"experts must be at most {MOST_EXPERTS:,}, got {self.experts}")
        if self.hidden_size is not None:
            _scale_row_bytes(self.hidden_size)

    @property
    def num_experts(self) -> int:
        """Return the experts of the fullest rank."""
        return local_experts(self.experts, self.expert_parallel_size)

    def sizing(self, tokens: int) -> Sizing:
        """Return what a formula is told when it sizes for `tokens` tokens."""
        return Sizing(
            tokens=tokens,
            topk=self.topk,
            num_experts=self.num_experts,
            num_global_experts=self.experts,
            tile=self.tile,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        document = {
            "experts": self.experts,
            "num_experts": self.num_experts,
            "expert_parallel_size": self.expert_parallel_size,
            "topk": self.topk,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "tile": self.tile,
        }
        return document if self.hidden_size is None else document | {"hidden_size": self.hidden_size}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One formula in a configuration."""

    formula: Formula
    rows: int
    guard_tokens: int
    """Most tokens, up to max_num_batched_tokens, that its guard lets through."""
    needed: int
    """Rows of the worst routing of a call of `guard_tokens` tokens, under the formula's own ids and placement."""
    safe: bool | None
    """None: the formula is meant for distinct ids, and topk is larger than the number of experts."""
    smallest_overrun_tokens: int | None = None
    bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without the rows, which have a place of their own."""
        document: dict[str, Any] = {
            "rule": self.formula.rule,
            "source": self.formula.source,
            "ids": self.formula.ids,
            "placement": self.formula.placement,
            "guard_tokens": self.guard_tokens,
            "needed": self.needed,
            "safe": self.safe,
        }
        if self.smallest_overrun_tokens is not None:
            document["smallest_overrun_tokens"] = self.smallest_overrun_tokens
        if self.bytes is not None:
            document["bytes"] = self.bytes
        return document


class CallOutcome(StrEnum):
    """What becomes of a call under a formula, whatever its routing."""

    FITS = "fits"
    OVERRUN = "overrun"
    """Its guard lets the call through, and the worst routing needs more rows than there are."""
    REFUSED = "refused"
    """Its guard refuses the call."""
    NOT_MEANT = "not_meant"
    """The formula is meant for distinct ids, and topk is larger than the number of experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLine:
    """One formula and one call in a configuration."""

    formula: Formula
    rows: int
    """Rows of the buffer that meets the call: told the call's tokens if the formula is sized for the call, else
    max_num_batched_tokens."""
    needed: int
    """Rows of the worst routing of the call, under the formula's own ids and placement."""
    outcome: CallOutcome

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "sized_for": self.formula.sized_for,
            "rows": self.rows,
            "needed": self.needed,
            "outcome": str(self.outcome),
        }


def formula_lines(configuration: Configuration) -> list[Line]:
    """Return a line for every formula of the registry, in its order."""
    return [_line(formula, configuration) for formula in FORMULAS.values()]


def call_lines(configuration: Configuration, tokens: int) -> list[CallLine]:
    """Return what a call of `tokens` tokens meets under every formula of the registry, in its order.

    Raises:
        ValueError, TypeError: `tokens` is no legal size.
    """
    return [_call_line(formula, configuration, tokens) for formula in FORMULAS.values()]


def document(configuration: Configuration, *, tokens: int | None = None) -> dict[str, Any]:
    """Return the JSON of `nvfp4-moe bound`; with `tokens`, also of a call of that many tokens.

    Raises:
        ValueError, TypeError: `tokens` is no legal size.
    """
    lines = formula_lines(configuration)
    result: dict[str, Any] = {
        "config": configuration.to_json(),
        "rows": {line.formula.name: line.rows for line in lines},
        "formulas": {line.formula.name: line.to_json() for line in lines},
        "witness": worst_routing(configuration, configuration.max_num_batched_tokens),
    }
    if tokens is not None:
        result["call"] = {
            "tokens": tokens,
            "rows": rows_for_call(configuration, tokens),
            "formulas": {line.formula.name: line.to_json() for line in call_lines(configuration, tokens)},
            "witness": worst_routing(configuration, tokens),
        }
    return result


def rows_for_call(configuration: Configuration, tokens: int) -> dict[str, int]:
    """Return every formula's rows when it is told the tokens of the call in place of max_num_batched_tokens."""
    sizing = configuration.sizing(tokens)
    return {name: formula.rows(sizing) for name, formula in FORMULAS.items()}


def worst_routing(configuration: Configuration, tokens: int) -> dict[str, Any]:
    """Return the counts that attain `exact_any` for a call of `tokens` tokens, and the rows that they sum to."""
    sizing = configuration.sizing(tokens)
    counts = worst_tokens_per_expert_any(sizing.routed_rows, sizing.num_experts, tile=sizing.tile)
    rows = padded_rows(counts, tile=sizing.tile)
    if rows != exact_any_rows(sizing.routed_rows, sizing.num_experts, tile=sizing.tile):
        raise AssertionError(
            f"the worst routing of {sizing} sums to {rows} rows, not to the exact worst case"
        )
    return {"tokens_per_expert": counts, "rows": rows}


def _line(formula: Formula, configuration: Configuration) -> Line:
    bound = formula_bound(formula)
    sizing = configuration.sizing(configuration.max_num_batched_tokens)
    rows = bound.rows(sizing)
    guard = min(bound.most_tokens(sizing, rows), sizing.tokens)
    needed = worst_end(
        guard, sizing.topk, sizing.num_experts, tile=sizing.tile, ids=bound.ids, placement=bound.placement
    )
    applies = _applies(formula, configuration)
    overruns = applies and needed > rows
    return Line(
        formula=formula,
        rows=rows,
        guard_tokens=guard,
        needed=needed,
        safe=not overruns if applies else None,
        smallest_overrun_tokens=_smallest_overrun(formula, configuration) if overruns else None,
        bytes=None
        if configuration.hidden_size is None
        else rows * _scale_row_bytes(configuration.hidden_size),
    )


def _call_line(formula: Formula, configuration: Configuration, tokens: int) -> CallLine:
    call = configuration.sizing(tokens)
    told = call if formula.sized_for == "call" else configuration.sizing(configuration.max_num_batched_tokens)
    rows = formula.rows(told)
    needed = worst_end(
        tokens,
        call.topk,
        call.num_experts,
        tile=call.tile,
        ids=formula.ids,
        placement=formula.placement,
    )
    if not _applies(formula, configuration):
        outcome = CallOutcome.NOT_MEANT
    elif call.routed_rows > formula.guard_routed_rows(told):
        outcome = CallOutcome.REFUSED
    else:
        outcome = CallOutcome.OVERRUN if needed > rows else CallOutcome.FITS
    return CallLine(formula=formula, rows=rows, needed=needed, outcome=outcome)


def _applies(formula: Formula, configuration: Configuration) -> bool:
    """Return whether routings with the ids that the formula is meant for exist."""
    return formula.ids == "any" or configuration.topk <= configuration.experts


def _smallest_overrun(formula: Formula, configuration: Configuration) -> int:
    found = find_counterexample(
        formula_bound(formula),
        Grid().with_sizes(
            max_num_batched_tokens=configuration.max_num_batched_tokens,
            topk=configuration.topk,
            experts=configuration.experts,
        ),
        tile=configuration.tile,
        expert_parallel_size=configuration.expert_parallel_size,
    )
    if found.verdict is not Verdict.REFUTED or found.witness is None:
        raise AssertionError(
            f"{formula.name} overruns {configuration}, but no routing was found: {found.detail}"
        )
    tokens: int = found.witness["tokens"]
    return tokens


def _scale_row_bytes(hidden_size: int) -> int:
    """Return the bytes of one row of scales; ValueError or TypeError if the size is no multiple of 16."""
    from nvfp4_moe.reference.layouts import scale_shape  # torch, for the one who asks for bytes

    return scale_shape(TILE, hidden_size, SCALE_LAYOUT)[1]
