"""How much of the bound's padding routings use: a box for each source, from nothing to the bound."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from nvfp4_moe.analysis.figures.theme import Theme, applied, as_label, counted, heading, new_figure
from nvfp4_moe.analysis.savings_padding import PaddingUse

_HALF = 0.28
_LONGEST_NAME = 28
_FEW = 12
"""Up to so many routings stand as points, a box would say more than they do."""


def draw_padding_used(uses: Sequence[PaddingUse], *, theme: Theme) -> Figure:
    """Return a row for each source, traces first, then families from the least padding to the most.

    Raises:
        ValueError: no source.
    """
    if not uses:
        raise ValueError("there is no routing to draw")
    traces = [use for use in uses if use.kind == "trace"]
    families = sorted((use for use in uses if use.kind != "trace"), key=lambda use: use.quantiles[3])
    rows = [*traces, *families]
    with applied(theme):
        figure = new_figure(9, 2.1 + 0.3 * len(rows))
        axes = figure.add_subplot()
        for row, use in enumerate(rows):
            _row(axes, use, row, theme)
        axes.axvline(1, color=theme.ink, linewidth=1.6)
        axes.text(
            0.995, -0.75, "the bound", ha="right", va="center", fontsize=8.5, color=theme.ink, weight="bold"
        )
        if traces and families:
            axes.axhline(len(traces) - 0.5, color=theme.muted, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(rows)), [_label(use) for use in rows])
        axes.set_ylim(len(rows) - 0.4, -1.1)
        axes.set_xlim(-0.01, 1.03)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_xlabel(
            "padding rows of the routing / padding rows of the bound, 127 x experts (%)", loc="right"
        )
        heading(axes, "Padding that routings use, under the bound", *_sources(traces, families), theme=theme)
        figure.legend(loc="outside lower left", ncols=3)
    return figure


def _sources(traces: Sequence[PaddingUse], families: Sequence[PaddingUse]) -> list[str]:
    said = []
    if traces:
        said.append(f"{'above the line: ' if families else ''}recorded router traces")
    if families:
        one = families[0]
        said.append(
            f"{'below: ' if traces else ''}families at {counted(one.num_experts, 'expert')}, topk {one.topk}, {one.batching}, "
            f"{len(one.shares)} routings each"
        )
    return said


def _label(use: PaddingUse) -> str:
    return (
        use.name if use.kind == "family" else f"{as_label(use.name, longest=_LONGEST_NAME)}, {use.batching}"
    )


def _row(axes: Axes, use: PaddingUse, row: int, theme: Theme) -> None:
    least, low, first, middle, third, high, most = use.quantiles
    colour = theme.palette[1] if use.kind == "trace" else theme.palette[2]
    once = row == 0
    if len(use.shares) <= _FEW:
        axes.plot(use.shares, [row] * len(use.shares), "o", color=colour, markersize=5, alpha=0.8)
    else:
        axes.plot([least, most], [row, row], color=colour, linewidth=1, linestyle=(0, (1, 1.5)))
        axes.plot([low, high], [row, row], color=colour, linewidth=2.2)
        axes.add_patch(
            Rectangle(
                (first, row - _HALF),
                max(third - first, 0.002),
                2 * _HALF,
                facecolor=colour,
                edgecolor=theme.ink,
                linewidth=0.8,
                label="middle half of the routings; line: 5 to 95 %; dotted: all" if once else None,
            )
        )
    axes.plot(
        [middle, middle],
        [row - _HALF, row + _HALF],
        color=theme.ink,
        linewidth=2,
        label="median" if once else None,
    )
    axes.plot(
        [use.typical_worst],
        [row],
        "D",
        markerfacecolor=theme.background,
        markeredgecolor=theme.ink,
        markersize=5,
        linestyle="none",
        label="the worst routing of as many rows (median)" if once else None,
    )
