"""A box for each source, traces on top, points where they are few."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.padding_used import draw_padding_used
from nvfp4_moe.analysis.figures.theme import THEMES
from nvfp4_moe.analysis.savings_padding import PaddingUse


def test_rows_and_boxes(uses: list[PaddingUse]) -> None:
    (axes,) = draw_padding_used(uses, theme=THEMES["light"]).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[0] == "recorded, passes as recorded"
    families = sorted((use for use in uses if use.kind == "family"), key=lambda use: use.quantiles[3])
    assert labels[1:] == [use.name for use in families]
    assert [box.get_x() for box in axes.patches] == [use.quantiles[2] for use in families]


def test_few_routings_are_points(uses: list[PaddingUse]) -> None:
    (axes,) = draw_padding_used(uses[:1], theme=THEMES["light"]).axes
    assert len(axes.patches) == 0
    assert tuple(axes.lines[0].get_xdata()) == uses[0].shares


@pytest.mark.parametrize("which", [slice(None), slice(1), slice(1, None)], ids=["both", "traces", "families"])
def test_legible(uses: list[PaddingUse], which: slice, assert_legible: Callable[[Figure], None]) -> None:
    assert_legible(draw_padding_used(uses[which], theme=THEMES["light"]))


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="no routing to draw"):
        draw_padding_used([], theme=THEMES["light"])
