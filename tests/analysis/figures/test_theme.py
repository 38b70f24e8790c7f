"""Colours can be read on their background and told apart without being seen."""

from __future__ import annotations

import itertools

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from nvfp4_moe.analysis.figures.theme import HATCHES, LINES, THEMES, Theme, applied

TEXT, GRAPHICS = 4.5, 3.0
"""Least contrast by WCAG 2.1: success criteria 1.4.3 and 1.4.11."""


SEEN_BY = {
    "most people": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopes": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopes": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopes": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""What is seen of a linear RGB colour: Machado, Oliveira and Fernandes 2009, severity 1."""
APART = 12
"""Least distance of two series' colours in CIE L*a*b* (1976); about 2.3 is just noticed."""


def linear(colour: str) -> list[float]:
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.1."""
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return CIE L*a*b* (D65) of a linear RGB colour."""
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
    x, y, z = np.cbrt(np.array(to_xyz) @ rgb / [0.95047, 1, 1.08883])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


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


@pytest.mark.parametrize("eyes", SEEN_BY)
def test_series_differ_for_all_eyes(theme: Theme, eyes: str) -> None:
    seen = [lab(np.clip(np.array(SEEN_BY[eyes]) @ linear(colour), 0, 1)) for colour in theme.palette]
    pairs = itertools.combinations(zip(theme.palette, seen, strict=True), 2)
    assert [(a, b) for (a, one), (b, other) in pairs if np.linalg.norm(one - other) < APART] == []


def test_series_differ_without_colour() -> None:
    for ways in (HATCHES, [line for line, _ in LINES], [marker for _, marker in LINES]):
        assert all(a != b for a, b in itertools.combinations(ways, 2))
        assert len(ways) == len(THEMES["light"].palette)


def test_settings_end_with_the_context(theme: Theme) -> None:
    before = dict(matplotlib.rcParams)
    with applied(theme):
        assert matplotlib.rcParams["axes.facecolor"] == theme.background
    assert dict(matplotlib.rcParams) == before
