"""Colours can be read on their background and told apart without being seen."""

from __future__ import annotations

import itertools

import matplotlib
import pytest
from matplotlib.colors import to_rgb

from nvfp4_moe.analysis.figures.theme import HATCHES, LINES, THEMES, Theme, applied

TEXT, GRAPHICS = 4.5, 3.0
"""Least contrast by WCAG 2.1: success criteria 1.4.3 and 1.4.11."""


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [("#000000", "#ffffff"), ("#ffffff", "#000000")])
def test_contrast_itself(colours: tuple[str, str]) -> None:
    assert contrast(*colours) == pytest.approx(21)


def test_text_and_series_stand_out(theme: Theme) -> None:
    assert contrast(theme.ink, theme.background) >= TEXT
    assert contrast(theme.muted, theme.background) >= TEXT
    assert [c for c in theme.palette if contrast(c, theme.background) < GRAPHICS] == []


def test_series_differ_without_colour() -> None:
    for ways in (HATCHES, [line for line, _ in LINES], [marker for _, marker in LINES]):
        assert all(a != b for a, b in itertools.combinations(ways, 2))
        assert len(ways) == len(THEMES["light"].palette)


def test_settings_end_with_the_context(theme: Theme) -> None:
    before = dict(matplotlib.rcParams)
    with applied(theme):
        assert matplotlib.rcParams["axes.facecolor"] == theme.background
    assert dict(matplotlib.rcParams) == before
