"""Peak bytes of a layer's scale buffers, model by model: today's buffers beside the proposed one."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.theme import HATCHES, Theme, applied, as_label, heading, new_figure
from nvfp4_moe.analysis.savings import EXACT, MEBIBYTE, Saving, Savings
from nvfp4_moe.analysis.tables import mebibytes

BARS = ("vllm_env", "sglang", "proposed")
"""Formulas that have a bar; the exact worst case is a mark."""
_NAMES = {
    "vllm_env": "vllm_env: 163,840 rows x topk, vLLM's environment variable",
    "sglang": "sglang: 65,536 rows x topk",
    "proposed": "proposed: tokens x topk + 127 x experts",
}
_BAR = 0.26
_ROOM = 1.16
"""Width of the axis over the longest bar: the numbers stand behind the bars."""


def draw_bytes_by_model(
    savings: Savings, *, tokens: int, theme: Theme, formulas: Sequence[str] = BARS
) -> Figure:
    """Return bars for each model at one M.

    Args:
        savings: as computed.
        tokens: one of its M.
        theme: light or dark.
        formulas: names that have a bar, at most six.

    Raises:
        ValueError: an M or a formula that `savings` does not have.
    """
    if tokens not in savings.max_num_batched_tokens:
        raise ValueError(f"tokens must be one of {savings.max_num_batched_tokens}, got {tokens}")
    names = [part.model.name for part in savings.shards]
    by_name = {name: {line.formula.name: line for line in savings.of(name, tokens)} for name in names}
    if unknown := [name for name in formulas if any(name not in lines for lines in by_name.values())]:
        raise ValueError(f"no formula is called {unknown[0]!r:.60}")
    with applied(theme):
        figure = new_figure(9, 1.9 + len(names) * (len(formulas) * _BAR + 0.3) * 0.42)
        axes = figure.add_subplot()
        for place, formula in enumerate(formulas):
            lines = [by_name[name][formula] for name in names]
            _bars(axes, lines, place - (len(formulas) - 1) / 2, theme.palette[place], HATCHES[place], theme)
        _exact_marks(axes, [by_name[name][EXACT] for name in names], len(formulas), theme)
        longest = max(by_name[name][formula].peak_bytes for name in names for formula in formulas)
        axes.set_xlim(0, max(longest, 1) / MEBIBYTE * _ROOM)
        axes.set_yticks(range(len(names)), [as_label(name) for name in names])
        axes.set_ylim(len(names) - 0.45, -0.55)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_xlabel("peak bytes of the scale buffers of one layer on one rank (MiB)")
        title = f"NVFP4 scale buffers of one layer at {tokens:,} batched tokens"
        heading(axes, title, _division(savings), theme=theme)
        handles, labels = (
            axes.get_legend_handles_labels()
        )  # bars come behind the mark, as matplotlib sorts them
        figure.legend(
            [*handles[1:], handles[0]],
            [*labels[1:], labels[0]],
            loc="outside lower left",
            ncols=2,
            handlelength=2.6,
            handleheight=1.1,
        )
    return figure


def _bars(axes: Axes, lines: Sequence[Saving], step: float, colour: str, hatch: str, theme: Theme) -> None:
    formula = lines[0].formula.name
    middles = [row + step * _BAR for row in range(len(lines))]
    bars = axes.barh(
        middles,
        [line.peak_bytes / MEBIBYTE for line in lines],
        height=_BAR * 0.92,
        color=colour,
        hatch=hatch,
        edgecolor=theme.background,
        linewidth=0,
        label=_NAMES.get(formula, formula),
    )
    texts = [f"{mebibytes(line.peak_bytes)}{'' if line.safe else '  can be overrun'}" for line in lines]
    axes.bar_label(bars, texts, padding=3, fontsize=7.5, color=theme.ink)


def _exact_marks(axes: Axes, lines: Sequence[Saving], bars: int, theme: Theme) -> None:
    reach = _BAR / 2
    last = (bars - 1) / 2 * _BAR
    for row, line in enumerate(lines):
        axes.plot(
            [line.peak_bytes / MEBIBYTE] * 2,
            [row + last - reach, row + last + reach],
            color=theme.ink,
            linewidth=1.8,
            solid_capstyle="butt",
            label="exact worst case: some routing needs this much" if row == 0 else None,
        )


def _division(savings: Savings) -> str:
    parts = []
    if savings.tensor_parallel_size > 1:
        parts.append(f"tensor parallel {savings.tensor_parallel_size}")
    if savings.expert_parallel_size > 1:
        parts.append(f"expert parallel {savings.expert_parallel_size}")
    ranks = ", ".join(parts) or "one rank"
    return f"{ranks}; the larger of the two buffers, hidden and intermediate width"
