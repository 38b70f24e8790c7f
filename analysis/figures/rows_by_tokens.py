"""Rows of every formula over the batched tokens, with the exact worst case as the floor."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nvfp4_moe.analysis.figures.theme import LINES, Theme, applied, as_label, counted, heading, new_figure
from nvfp4_moe.analysis.savings_curves import Curve, Curves

_MARKS = 8
"""A marker stands on every such point of a line."""


def draw_rows_by_tokens(curves: Curves, *, theme: Theme) -> Figure:
    """Return two panels over M: rows, and rows over those of the exact worst case."""
    model = curves.shard.model
    with applied(theme):
        figure = new_figure(9, 7.2)
        rows, ratio = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        rows.fill_between(
            curves.tokens,
            1,
            curves.exact,
            color=theme.faint,
            linewidth=0,
            label="needed by some routing (up to exact_any)",
        )
        for place, curve in enumerate(curves.curves):
            _line(rows, curves, curve, place, theme, relative=False)
            _line(ratio, curves, curve, place, theme, relative=True)
        heading(
            rows,
            f"Scale rows against batched tokens: {as_label(model.name)}",
            f"{counted(curves.shard.num_experts, 'expert')} on the rank, topk {model.topk}, tile 128; every formula told the "
            "tokens of the axis",
            theme=theme,
        )
        _too_small(rows, curves, theme)
        rows.set_ylabel("rows of the scale buffer")
        rows.set_yscale("log")
        rows.set_ylim(curves.exact[0] / 2, 2 * max(max(curve.rows) for curve in curves.curves))
        rows.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ratio.set_ylabel("rows / exact worst case")
        ratio.set_yscale("log", base=2)
        ratio.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}x"))
        _token_axis(ratio)
        for axes in (rows, ratio):
            axes.grid()
            axes.set_xlim(curves.tokens[0], curves.tokens[-1])
        figure.legend(*rows.get_legend_handles_labels(), loc="outside lower left", handlelength=4)
    return figure


def _too_small(axes: Axes, curves: Curves, theme: Theme) -> None:
    """Cross out the points at which a formula for any ids gives fewer rows than some routing needs."""
    crossed = [
        (tokens, rows)
        for curve in curves.curves
        if curve.names != ("exact_distinct",)
        for tokens, rows, exact in zip(curves.tokens, curve.rows, curves.exact, strict=True)
        if rows < exact
    ]
    if crossed:
        axes.plot(
            *zip(*crossed, strict=True),
            linestyle="none",
            marker="X",
            markersize=10,
            markerfacecolor=theme.background,
            markeredgecolor=theme.ink,
            label="fewer rows than some routing needs",
            zorder=3,
            clip_on=False,
        )


def _token_axis(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=4, numticks=20))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("batched tokens (max_num_batched_tokens)")


def _line(axes: Axes, curves: Curves, curve: Curve, place: int, theme: Theme, *, relative: bool) -> None:
    style, marker = LINES[place % len(LINES)]
    values = [r / e for r, e in zip(curve.rows, curves.exact, strict=True)] if relative else curve.rows
    first = place * 2 % _MARKS  # markers of lines that lie on each other stand beside each other
    axes.plot(
        curves.tokens,
        values,
        color=theme.palette[place % len(theme.palette)],
        linestyle=style,
        marker=marker,
        markevery=(first, _MARKS),
        markersize=5,
        linewidth=1.8,
        label=_label(curve),
    )


def _label(curve: Curve) -> str:
    names = ", ".join(curve.names)
    return f"{names} (within {curve.within:.1%})" if curve.within else names
