"""The map's numbers, and names that do not lie on each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from nvfp4_moe.analysis.figures.looseness import draw_looseness, spread
from nvfp4_moe.analysis.figures.theme import THEMES
from nvfp4_moe.analysis.savings_curves import looseness_map
from nvfp4_moe.analysis.zoo import ZOO


def test_every_cell_has_its_number() -> None:
    found = looseness_map(8)
    axes = draw_looseness(found, theme=THEMES["light"]).axes[0]
    cells = [text for text in axes.texts if not isinstance(text, Annotation)]
    said = {tuple(text.get_position()): text.get_text() for text in cells}
    for row, column in itertools.product(range(len(found.experts)), range(len(found.tokens))):
        value = found.ratio[row][column]
        assert float(said[column, row]) == pytest.approx(value, rel=0.01)
    assert axes.images[0].get_array().shape == (len(found.experts), len(found.tokens))


def test_models_of_the_same_topk_are_named() -> None:
    axes = draw_looseness(looseness_map(8), theme=THEMES["light"], models=list(ZOO.values())).axes[0]
    said = {text.get_text() for text in axes.texts}
    assert {"DeepSeek-R1 (256)", "Kimi-K2 (384)", "OLMoE-1B-7B (64)"} <= said
    assert "Mixtral-8x7B (8)" not in said


@pytest.mark.parametrize("topk", [1, 8])
def test_legible(topk: int, assert_legible: Callable[[Figure], None]) -> None:
    assert_legible(draw_looseness(looseness_map(topk), theme=THEMES["light"], models=list(ZOO.values())))


@pytest.mark.parametrize(
    ("places", "wanted"),
    [
        ([], []),
        ([3.0], [3.0]),
        ([1.0, 3.0], [1.0, 3.0]),
        ([2.0, 2.0], [1.5, 2.5]),
        ([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]),
        ([0.0, 2.0, 2.0], [0.0, 1.5, 2.5]),
        ([1.0, 2.0, 2.0], [2 / 3, 5 / 3, 8 / 3]),
    ],
)
def test_spread(places: list[float], wanted: list[float]) -> None:
    assert spread(places, 1.0) == pytest.approx(wanted)
