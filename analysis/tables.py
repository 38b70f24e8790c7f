"""Tables of text cells, apart from where they are shown: terminal, CSV, Markdown, HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nvfp4_moe.analysis.savings import MEBIBYTE, Saving, Savings
from nvfp4_moe.analysis.savings_padding import QUANTILES, PaddingUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under a heading; cells are as they came, not yet made harmless for any medium."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[int] = frozenset({0})
    """Columns that hold words; the others hold numbers and are aligned to the right."""
    long_columns: frozenset[int] = frozenset()
    """Columns whose words may be folded where there is little room; the others are kept whole."""
    notes: tuple[str, ...] = ()


def mebibytes(size: int) -> str:
    """Return bytes as MiB with one decimal; small ones with three, so that none reads as nothing."""
    value = size / MEBIBYTE
    return f"{value:,.1f}" if value == 0 or abs(value) >= 1 else f"{value:,.3f}"


PEAK_NOTE = (
    "peak: the larger of the two scale buffers of a layer; the first is freed before the second is allocated"
)
FITS_NOTE = (
    "fits: every routing of a call that the formula's own guard lets through; distinct: those without a repeated id in a "
    "token; n/a: ids cannot be distinct"
)
_MEDIAN = QUANTILES.index(0.5)
SUMMARY = ("vllm_env", "sglang", "proposed", "exact_any")
"""Formulas of the summary; the others lie close to exact_any, as the full tables show."""


def formula_table(savings: Savings, model: str, tokens: int) -> Table:
    """Return every formula for one model and one M."""
    lines = savings.of(model, tokens)
    part = lines[0].shard
    local = f" ({part.num_experts:,} on a rank)" if part.expert_parallel_size > 1 else ""
    split = f" (on a rank, {part.model.intermediate_size:,} in all)" if part.tensor_parallel_size > 1 else ""
    return Table(
        title=f"{model} at {tokens:,} batched tokens: {part.model.num_experts:,} experts{local}, "
        f"topk {part.model.topk}, hidden {part.model.hidden_size:,}, intermediate {part.intermediate_size:,}{split}",
        columns=("formula", "rows", "hidden MiB", "interm. MiB", "peak MiB", "saved MiB", "x exact", "fits"),
        rows=tuple(_formula_row(line) for line in lines),
        text_columns=frozenset({0, 7}),
        notes=(
            PEAK_NOTE,
            f"saved: peak of {savings.baseline} less this one; x exact: rows over exact_any",
            FITS_NOTE,
        ),
    )


def _formula_row(line: Saving) -> tuple[str, ...]:
    fits = {True: "yes" if line.formula.ids == "any" else "distinct", False: "NO", None: "n/a"}[line.safe]
    return (
        line.formula.name,
        f"{line.rows:,}",
        mebibytes(line.hidden_bytes),
        mebibytes(line.intermediate_bytes),
        mebibytes(line.peak_bytes),
        mebibytes(line.saved_bytes),
        f"{line.over_exact:.3f}",
        fits,
    )


def summary_table(savings: Savings) -> Table:
    """Return one line for each model and M: the peak by the formulas of `SUMMARY`, and what `proposed` saves."""
    rows = []
    for part in savings.shards:
        for tokens in savings.max_num_batched_tokens:
            found = {line.formula.name: line for line in savings.of(part.model.name, tokens)}
            proposed = found["proposed"]
            rows.append(
                (
                    part.model.name,
                    f"{tokens:,}",
                    f"{proposed.rows:,}",
                    *(mebibytes(found[name].peak_bytes) for name in SUMMARY),
                    mebibytes(proposed.saved_bytes),
                )
            )
    return Table(
        title="Peak of the scale buffers of one layer, MiB",
        columns=("model", "tokens", "rows, proposed", *SUMMARY, "saved"),
        rows=tuple(rows),
        notes=(
            PEAK_NOTE,
            f"saved: peak of {savings.baseline} less that of proposed",
            *(f"left out: {refused.reason}" for refused in savings.refused),
        ),
    )


def padding_table(uses: Sequence[PaddingUse]) -> Table:
    """Return one line for each source of routings: how much of the bound's padding they use."""
    rows = []
    for use in uses:
        name = use.name if use.kind == "family" else f"trace {use.name}"
        sizes = (f"{use.num_experts:,}", f"{use.topk:,}", use.batching, f"{len(use.shares):,}")
        shares = (use.shares[0], use.quantiles[_MEDIAN], use.shares[-1], use.typical_worst)
        rows.append((name, *sizes, *(f"{share:.1%}" for share in shares)))
    return Table(
        title="Padding that routings use, of the 127 rows an expert that the bound allows",
        columns=("routings", "experts", "topk", "batching", "number", "least", "median", "most", "worst"),
        rows=tuple(rows),
        text_columns=frozenset({0, 3}),
        long_columns=frozenset({0, 3}),
        notes=("worst: what the worst routing of as many rows uses (median)",),
    )


def to_csv(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return mappings with the same keys as CSV with a heading (RFC 4180; true, false and nothing for null).

    Raises:
        ValueError: no line, or lines with other keys than the first.
    """
    if not lines:
        raise ValueError("a CSV needs at least one line")
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(lines[0]), lineterminator="\r\n")
    writer.writeheader()
    for line in lines:
        writer.writerow({key: _cell(value) for key, value in line.items()})
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


def to_markdown(table: Table) -> str:
    """Return a table as GitHub Markdown, its title above it and its notes below."""
    rule = ("---" if number in table.text_columns else "---:" for number in range(len(table.columns)))
    lines = [table.columns, tuple(rule), *table.rows]
    body = "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)
    return "\n\n".join([f"**{_escaped(table.title)}**", body, *map(_escaped, table.notes)])


def _escaped(text: str) -> str:
    one_line = " ".join(text.split())
    for character in "\\|&<*_`[":
        one_line = one_line.replace(character, f"\\{character}")
    return one_line
