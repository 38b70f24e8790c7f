"""Figures: each function takes numbers that other modules computed and a theme, and returns a matplotlib Figure.

    figure = draw_bytes_by_model(savings, tokens=8192, theme=THEMES["light"])
    svg = to_svg(figure, name="bytes", label="Peak bytes of ...")   # text, fit to stand in an HTML page
    png = to_png(figure)

Needs matplotlib (extra `plots`); `available` tells, and importing the drawing modules without it raises ImportError. The
only modules of the package that import matplotlib are in this folder. No global state of matplotlib is touched: no
pyplot, style and settings only inside a context.

Every figure is legible without colours (hatches, line styles, markers, numbers in the cells) and its colours are told
apart by colour-blind readers (a palette after Okabe and Ito's; cividis for the map).
"""

from __future__ import annotations

from importlib.util import find_spec


def available() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None
