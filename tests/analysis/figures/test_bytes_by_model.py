"""Bars as long as the numbers, legible in both themes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.bytes_by_model import BARS, draw_bytes_by_model
from nvfp4_moe.analysis.figures.theme import THEMES
from nvfp4_moe.analysis.savings import Savings, savings
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import ModelShape

MEBIBYTE = 1 << 20


def test_bars_are_the_peaks(zoo_savings: Savings) -> None:
    figure = draw_bytes_by_model(zoo_savings, tokens=8192, theme=THEMES["light"])
    (axes,) = figure.axes
    for formula, bars in zip(BARS, axes.containers, strict=True):
        peaks = [x.peak_bytes / MEBIBYTE for x in zoo_savings.lines if x.formula.name == formula]
        assert [bar.get_width() for bar in bars] == peaks
    assert [label.get_text() for label in axes.get_yticklabels()] == list(ZOO)
    assert {"560.0", "224.0", "41.9"} <= {text.get_text() for text in axes.texts}


def test_exact_marks_stand_at_the_exact_worst_case(zoo_savings: Savings) -> None:
    (axes,) = draw_bytes_by_model(zoo_savings, tokens=8192, theme=THEMES["light"]).axes
    exact = [x.peak_bytes / MEBIBYTE for x in zoo_savings.lines if x.formula.name == "exact_any"]
    assert [line.get_xdata()[0] for line in axes.lines] == exact


def test_legible(zoo_savings: Savings, assert_legible: Callable[[Figure], None]) -> None:
    assert_legible(draw_bytes_by_model(zoo_savings, tokens=8192, theme=THEMES["light"]))


def test_what_can_be_overrun_is_said(assert_legible: Callable[[Figure], None]) -> None:
    model = ModelShape(name="m", hidden_size=64, intermediate_size=64, num_experts=128, topk=1, source="test")
    found = savings(
        [model], max_num_batched_tokens=[65_536], tensor_parallel_size=2 // 2, expert_parallel_size=2
    )
    figure = draw_bytes_by_model(found, tokens=65_536, theme=THEMES["light"])
    assert sum("can be overrun" in text.get_text() for text in figure.axes[0].texts) == 1
    assert_legible(figure)


def test_unknown_choices(zoo_savings: Savings) -> None:
    with pytest.raises(ValueError, match=r"tokens must be one of \(8192,\), got 1"):
        draw_bytes_by_model(zoo_savings, tokens=1, theme=THEMES["light"])
    with pytest.raises(ValueError, match="no formula is called 'vllm'"):
        draw_bytes_by_model(zoo_savings, tokens=8192, theme=THEMES["light"], formulas=["vllm"])
