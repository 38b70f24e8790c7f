"""What a router trace showed: rows, padding, use of every sizing formula, for people and as JSON.

Real and profiling passes are kept apart (`trace_model` tells how they are told apart). The *use* of a formula in a
pass is the end of the last scale region that holds a row, over the rows that the formula gives. It is stated twice: for
a buffer sized for the pass itself (M tokens), and for one buffer sized for `max_num_batched_tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nvfp4_moe.verification.trace_model import UNMARKED_PASS_TOKENS, Step, TraceMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a trace something happened."""

    layer: int
    index: int
    """Number of the pass (or batch) in its layer."""
    first_token: int
    tokens: int
    rank: int = 0
    """Rank of the expert-parallel group."""

    @classmethod
    def of(cls, step: Step, *, rank: int = 0) -> Place:
        """Return the place of a pass."""
        return cls(
            layer=step.layer, index=step.index, first_token=step.first_token, tokens=step.tokens, rank=rank
        )

    def to_json(self) -> dict[str, int]:
        """Return the JSON form."""
        return {
            "layer": self.layer,
            "pass": self.index,
            "first_token": self.first_token,
            "tokens": self.tokens,
            "rank": self.rank,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How much of a formula's rows a pass needs."""

    needed: int
    rows: int
    place: Place

    @property
    def share(self) -> float:
        """Return needed / rows; infinite where the formula gives nothing."""
        return self.needed / self.rows if self.rows > 0 else float("inf")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"needed": self.needed, "rows": self.rows, **self.place.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaUse:
    """What the passes asked of one formula."""

    name: str
    judged: int
    """Passes that the formula is meant for and lets through its guard."""
    repeated: int
    """Passes left out because a token names an expert twice and the formula relies on distinct ids."""
    refused: int
    """Passes left out because the formula's guard refuses them."""
    overruns: int
    """Judged passes that need more rows than the formula gives for their own tokens."""
    own: Use | None
    """Highest use of a buffer sized for the pass itself."""
    fixed: Use | None
    """Highest use of a buffer sized for max_num_batched_tokens."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "judged": self.judged,
            "repeated": self.repeated,
            "refused": self.refused,
            "overruns": self.overruns,
            "own": self.own.to_json() if self.own else None,
            "fixed": self.fixed.to_json() if self.fixed else None,
        }


@dataclass(slots=True, kw_only=True)
class Group:
    """Totals of the real or of the profiling passes."""

    passes: int = 0
    tokens: int = 0
    routed_rows: int = 0
    padded_rows: int = 0
    """Scale rows that the GEMM reads, summed over the passes."""
    dropped: int = 0
    """Ids -1."""
    formulas: Sequence[FormulaUse] = field(default_factory=tuple)

    @property
    def padding_rows(self) -> int:
        """Return the scale rows that hold no routed row."""
        return self.padded_rows - self.routed_rows

    @property
    def padding_share(self) -> float:
        """Return the padding among the scale rows that are read; 0 where none is."""
        return self.padding_rows / self.padded_rows if self.padded_rows else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "passes": self.passes,
            "tokens": self.tokens,
            "routed_rows": self.routed_rows,
            "padded_rows": self.padded_rows,
            "padding_rows": self.padding_rows,
            "padding_share": round(self.padding_share, 6),
            "dropped": self.dropped,
            "formulas": {use.name: use.to_json() for use in self.formulas},
        }


@dataclass(slots=True, kw_only=True)
class TraceReport:
    """Everything that `check_trace` found in one trace."""

    meta: TraceMeta
    tile: int
    expert_parallel_size: int
    rebatched: bool
    """True: batches of max_num_batched_tokens; False: the passes as recorded."""
    max_num_batched_tokens: int = 0
    """As given, else the tokens of the largest pass."""
    layers: Sequence[int] = ()
    real: Group = field(default_factory=Group)
    profiling: Group = field(default_factory=Group)
    irregular: int = 0
    """Passes in which token_idx does not run 0, 1, 2, ...: lines are missing, or several writers share the file."""
    repeated_tokens: int = 0
    """Tokens that name an expert twice."""
    first_repeat: Place | None = None
    broken: dict[str, int] = field(default_factory=dict)
    """Passes in which a claim does not hold, by claim id."""
    stopped: bool = False
    """True: the trace was not read to its end."""

    @property
    def distinct(self) -> bool:
        """Return whether no token names an expert twice."""
        return self.repeated_tokens == 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "file": str(self.meta.path),
            "form": self.meta.form,
            "model": self.meta.model,
            "num_experts": self.meta.num_experts,
            "topk": self.meta.topk,
            "tile": self.tile,
            "expert_parallel_size": self.expert_parallel_size,
            "rebatched": self.rebatched,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "layers": list(self.layers),
            "real": self.real.to_json(),
            "profiling": self.profiling.to_json(),
            "irregular": self.irregular,
            "repeated_tokens": self.repeated_tokens,
            "first_repeat": self.first_repeat.to_json() if self.first_repeat else None,
            "broken": dict(self.broken),
            "stopped": self.stopped,
        }


# --- for people --------------------------------------------------------------------------------------------

FORMULA_COLUMNS = ("formula", "rows for the pass", "use", "rows of one buffer", "use", "passes left out")
"""Columns of `formula_table`: a buffer sized for each pass (at its highest use), and one for all passes."""


def formula_table(group: Group) -> list[tuple[str, ...]]:
    """Return the use of every formula as rows of text under `FORMULA_COLUMNS`."""
    return [
        (use.name, *_use_cells(use.own), *_use_cells(use.fixed), _left_out(use)) for use in group.formulas
    ]


def report_lines(report: TraceReport) -> list[str]:
    """Return the report as lines of plain text."""
    return [*summary_lines(report), *_table_lines("real passes", report.real)]


def summary_lines(report: TraceReport) -> list[str]:
    """Return what the trace is and what was counted, without the table of formulas."""
    meta = report.meta
    lines = [
        f"{meta.path}: {meta.model or 'unnamed model'}, {meta.num_experts} experts, topk {meta.topk}, "
        f"{_layers(report.layers)}",
        _batching(report),
        f"real passes: {_group(report.real)}",
        f"profiling passes (every token takes the same experts): {_group(report.profiling)}",
    ]
    if report.repeated_tokens:
        at = report.first_repeat
        where = f", first in layer {at.layer}, pass {at.index}" if at else ""
        lines.append(
            f"ids are not distinct: {report.repeated_tokens:,} tokens name an expert twice{where}; "
            "formulas for distinct ids do not apply to their passes"
        )
    else:
        lines.append("ids are distinct inside every token")
    if report.irregular:
        lines.append(
            f"{report.irregular:,} passes skip token numbers: lines are missing or several writers share the file"
        )
    lines += [f"BROKEN in {passes:,} passes: {claim}" for claim, passes in report.broken.items()]
    if report.stopped:
        lines.append("stopped before the end of the trace")
    return lines


def _batching(report: TraceReport) -> str:
    tokens = f"{report.max_num_batched_tokens:,}"
    if report.meta.form == "responses":
        text = "requests, batched again as a server that is never idle would"
        limit = f"{UNMARKED_PASS_TOKENS:,}" if not report.rebatched else f"max_num_batched_tokens {tokens}"
        text = f"{text}: steps of at most {limit} tokens"
    elif report.rebatched:
        text = f"re-batched to max_num_batched_tokens {tokens}"
    elif report.meta.has_passes:
        text = f"passes as recorded, the largest of {tokens} tokens"
    else:
        text = f"no pass boundaries recorded: cut into passes of {tokens} tokens"
    ranks = report.expert_parallel_size
    return text if ranks == 1 else f"{text}; each on {ranks} expert-parallel ranks"


def _layers(layers: Sequence[int]) -> str:
    if len(layers) <= 1:
        return f"layer {layers[0]}" if layers else "no layer"
    if len(layers) <= 8:
        return f"layers {', '.join(map(str, layers))}"
    return f"{len(layers)} layers from {layers[0]} to {layers[-1]}"


def _group(group: Group) -> str:
    if not group.passes:
        return "none"
    dropped = f", {group.dropped:,} ids -1" if group.dropped else ""
    return (
        f"{group.passes:,} with {group.tokens:,} tokens, {group.routed_rows:,} routed rows, "
        f"{group.padding_rows:,} padding rows ({group.padding_share:.1%} of the rows read){dropped}"
    )


def _use_cells(use: Use | None) -> tuple[str, str]:
    return ("-", "-") if use is None else (f"{use.rows:,}", f"{use.share:.2%}")


def _left_out(use: FormulaUse) -> str:
    reasons = ((use.repeated, "ids repeat"), (use.refused, "refused by its guard"))
    return ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)


def _table_lines(title: str, group: Group) -> list[str]:
    if not group.passes:
        return []
    rows = [FORMULA_COLUMNS, *formula_table(group)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(FORMULA_COLUMNS))]
    text = ("  ".join(_aligned(row, widths)).rstrip() for row in rows)
    return [f"highest use of each formula in {title}:", *text]


def _aligned(row: tuple[str, ...], widths: Sequence[int]) -> list[str]:
    """Pad the cells: the outer columns are text, those between are numbers."""
    last = len(row) - 1
    return [
        cell.ljust(width) if column in (0, last) else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
