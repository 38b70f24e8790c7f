"""Where the proposed formula is loose: its rows over the exact worst case, over experts and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.theme import Theme, applied, as_label, heading, new_figure
from nvfp4_moe.analysis.savings_curves import LoosenessMap
from nvfp4_moe.analysis.zoo_shape import ModelShape

_LIGHT_CELL = 0.45
"""Luminance above which a cell has dark text."""
_THREE_DIGITS = 99.5
_NAME_GAP = 0.36
"""Rows of the map between two names."""


def draw_looseness(found: LoosenessMap, *, theme: Theme, models: Sequence[ModelShape] = ()) -> Figure:
    """Return the map, every cell with its number; models with the map's topk are named at their number of experts."""
    with applied(theme):
        figure = new_figure(10.5, 6)
        axes = figure.add_subplot()
        ratio = np.array(found.ratio)
        mesh = axes.imshow(
            ratio,
            origin="lower",
            aspect="auto",
            cmap="cividis",
            norm=LogNorm(1, max(float(ratio.max()), 2)),
            interpolation="nearest",
        )
        colours = np.asarray(mesh.cmap(mesh.norm(ratio)))
        for (row, column), value in np.ndenumerate(ratio):
            red, green, blue = colours[row, column, :3]
            light = 0.2126 * red + 0.7152 * green + 0.0722 * blue > _LIGHT_CELL
            number = axes.text(
                column,
                row,
                _number(float(value)),
                ha="center",
                va="center",
                fontsize=7.5,
                color="#000000" if light else "#ffffff",
            )
            number.set_in_layout(False)  # lies inside the axes, where it takes no room
        axes.set_xticks(range(len(found.tokens)), [f"{m:,}" for m in found.tokens], rotation=45)
        axes.set_yticks(range(len(found.experts)), [f"{e:,}" for e in found.experts])
        axes.set_xlabel("batched tokens (max_num_batched_tokens)")
        axes.set_ylabel("experts on the rank")
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
        heading(
            axes,
            "How loose the proposed formula is: its rows / exact worst case",
            f"topk {found.topk}, tile 128; 1.00 means that some routing uses every row",
            theme=theme,
        )
        steps = [1 << power for power in range(int(ratio.max()).bit_length() + 1)]
        bar = figure.colorbar(mesh, ax=axes, location="bottom", aspect=45, pad=0.02, ticks=steps)
        bar.ax.set_xticklabels([f"{step}x" for step in steps])
        bar.ax.minorticks_off()
        bar.set_label("proposed / exact_any (ratio of rows)")
        bar.outline.set_visible(False)
        _name_models(axes, found, models, theme)
    return figure


def _number(value: float) -> str:
    if value >= _THREE_DIGITS:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _name_models(axes: Axes, found: LoosenessMap, models: Sequence[ModelShape], theme: Theme) -> None:
    """Write the names of models on the right, each with a line to the height of its experts."""
    known = sorted(
        (m for m in models if m.topk == found.topk and m.num_experts <= found.experts[-1]),
        key=lambda model: model.num_experts,
    )
    heights = [log2(model.num_experts) for model in known]
    right = len(found.tokens) - 0.5
    for model, height, at in zip(known, heights, spread(heights, _NAME_GAP), strict=True):
        axes.annotate(
            f"{as_label(model.name)} ({model.num_experts:,})",
            (right, height),
            xytext=(right + 0.6, at),
            va="center",
            fontsize=8,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": theme.muted,
                "linewidth": 0.8,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Return rising places moved as little as needed to lie at least `gap` apart: those too close share a middle."""
    blocks: list[tuple[float, int]] = []  # sum of the places wanted, number of lines
    for place in places:
        blocks.append((place, 1))
        while len(blocks) > 1 and _first(blocks[-1], gap) < _first(blocks[-2], gap) + blocks[-2][1] * gap:
            total, lines = blocks.pop()
            before, others = blocks.pop()
            blocks.append((before + total, others + lines))
    return [_first(block, gap) + line * gap for block in blocks for line in range(block[1])]


def _first(block: tuple[float, int], gap: float) -> float:
    """Return the place of a block's first line: its middle is the mean of the places wanted."""
    total, lines = block
    return total / lines - (lines - 1) / 2 * gap
