"""Light and dark: colours, line styles, hatches and markers, and matplotlib's settings for both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours of one appearance."""

    name: str
    background: str
    ink: str
    """Text, axes, outlines."""
    faint: str
    """Grid lines and areas."""
    muted: str
    """Secondary text; contrast at least 4.5 to 1 on the background."""
    palette: tuple[str, ...]
    """Series in the order of use: after Okabe and Ito, adjusted for contrast with the background."""


THEMES = {
    theme.name: theme
    for theme in (
        Theme(
            name="light",
            background="#ffffff",
            ink="#1f2328",
            faint="#dde1e6",
            muted="#57606a",
            palette=("#d55e00", "#0072b2", "#009e73", "#aa3f7f", "#5a1ec3", "#000000"),
        ),
        Theme(
            name="dark",
            background="#0d1117",
            ink="#e6edf3",
            faint="#30363d",
            muted="#9aa4af",
            palette=("#ff9950", "#56b4e9", "#2fd6a5", "#e89ac7", "#f0e442", "#ffffff"),
        ),
    )
}
"""Both themes by name."""

LINES: tuple[tuple[str | tuple[int, tuple[float, ...]], str], ...] = (
    ("solid", "o"),
    ((0, (6, 2)), "s"),
    ((0, (1.5, 1.5)), "^"),
    ((0, (6, 2, 1.5, 2)), "D"),
    ((0, (10, 3)), "v"),
    ((0, (3, 1, 1, 1, 1, 1)), "P"),
)
"""Line style and marker of the series, in the order of the palette."""
HATCHES = ("////", "||||", "", "xxxx", "----", "++++")
"""Hatch of the bars, in the order of the palette."""

FONT = "DejaVu Sans"
"""Comes with matplotlib, which measures it; an SVG also names one of the same widths."""
_LINE_HEIGHT = 13.5
"""Points from one line of a subtitle to the next."""


@contextlib.contextmanager
def applied(theme: Theme) -> Iterator[None]:
    """Draw inside with the theme's colours and the settings that every figure shares."""
    settings: Any = {
        "figure.facecolor": theme.background,
        "savefig.facecolor": theme.background,
        "axes.facecolor": theme.background,
        "axes.edgecolor": theme.muted,
        "axes.labelcolor": theme.ink,
        "axes.titlecolor": theme.ink,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "text.color": theme.ink,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "grid.color": theme.faint,
        "grid.linewidth": 0.8,
        "hatch.color": theme.background,
        "hatch.linewidth": 1.0,
        "legend.frameon": False,
        "legend.labelcolor": theme.ink,
        "font.family": [FONT],
        "font.size": 9.5,
        "svg.fonttype": "none",
    }
    with only(settings):
        yield


@contextlib.contextmanager
def only(settings: Any) -> Iterator[None]:
    """Let these settings and matplotlib's own defaults hold inside, whatever a matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches that keeps labels apart."""
    return Figure(figsize=(width, height), layout="constrained")


def heading(axes: Axes, title: str, *lines: str, theme: Theme) -> None:
    """Put a title over the axes, and quieter lines between both."""
    axes.set_title(title + "\n" * len(lines), loc="left", linespacing=1.5)
    for place, line in enumerate(reversed(lines)):
        axes.annotate(
            line,
            (0, 1),
            xytext=(0, 6 + place * _LINE_HEIGHT),
            xycoords="axes fraction",
            textcoords="offset points",
            color=theme.muted,
            va="bottom",
            fontsize=9,
        )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 expert, 2 experts."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain(text: str) -> str:
    """Return text from outside with a mark in place of every character that XML or a terminal could not bear."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def as_label(name: str, *, longest: int = 40) -> str:
    """Return a name from outside as matplotlib may draw it: harmless, short, and no mathematics between dollars."""
    short = plain(name)
    if len(short) > longest:
        short = f"{short[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"
    return short.replace("$", r"\$")
