"""Figures: each function takes numbers that other modules computed and a theme, and returns a matplotlib Figure.

    figure = draw_bytes_by_model(savings, tokens=8192, theme=THEMES["light"])
    svg = to_svg(figure, name="bytes", label="Peak bytes of ...")   # text, fit to stand in an HTML page
    png = to_png(figure)

Needs matplotlib (extra `plots`); `available` and `unavailable` tell, and importing the drawing modules without it raises ImportError. The
only modules of the package that import matplotlib are in this folder. No global state of matplotlib is touched: no
pyplot, style and settings only inside a context, which starts from matplotlib's own defaults: a matplotlibrc changes nothing.

Every figure is legible without colours (hatches, line styles, markers, numbers in the cells) and its colours are told
apart by colour-blind readers (a palette after Okabe and Ito's; cividis for the map).
"""

from __future__ import annotations

from importlib import import_module


def available() -> bool:
    """Return whether matplotlib can be imported."""
    return unavailable() is None


def unavailable() -> str | None:
    """Return why matplotlib cannot be imported, in a line, or None where it can.

    It may be absent, be built for another NumPy, or refuse its environment (MPLBACKEND with a name that it does not know).
    """
    try:
        import_module("matplotlib.figure")
    except Exception as error:  # of any kind: whatever its parts raise as they are imported
        return next((line for line in str(error).splitlines() if line), type(error).__name__)[:_QUOTED]
    return None


_QUOTED = 200  # characters of a reason that are shown
