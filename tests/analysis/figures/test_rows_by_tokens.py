"""Lines over the floor of the exact worst case; what falls below it is crossed out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.rows_by_tokens import draw_rows_by_tokens
from nvfp4_moe.analysis.figures.theme import THEMES
from nvfp4_moe.analysis.savings_curves import rows_by_tokens
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import Shard, shard


def test_lines_are_the_rows(r1: Shard) -> None:
    curves = rows_by_tokens(r1)
    rows, ratio = draw_rows_by_tokens(curves, theme=THEMES["light"]).axes
    for curve, line, relative in zip(curves.curves, rows.lines, ratio.lines, strict=False):
        assert tuple(line.get_ydata()) == curve.rows
        assert tuple(relative.get_ydata()) == tuple(
            r / e for r, e in zip(curve.rows, curves.exact, strict=True)
        )
    labels = rows.get_legend_handles_labels()[1]
    assert "vllm_env" in labels
    assert any(label.startswith("proposed, ") and "(within " in label for label in labels)


@pytest.mark.parametrize(("model", "crossed"), [("DeepSeek-R1", 65_536), ("Llama-4-Maverick", 49_408)])
def test_only_what_falls_short_is_crossed_out(model: str, crossed: int) -> None:
    """sglang has no rows for padding: with topk 1 and 128 experts it is overrun from 49,408 tokens."""
    curves = rows_by_tokens(shard(ZOO[model]))
    rows, _ = draw_rows_by_tokens(curves, theme=THEMES["light"]).axes
    (line,) = [line for line in rows.lines if line.get_label() == "fewer rows than some routing needs"]
    assert set(line.get_ydata()) == {65_536 * ZOO[model].topk}
    assert list(line.get_xdata()) == [tokens for tokens in curves.tokens if tokens >= crossed]


def test_no_cross_where_all_suffice(r1: Shard) -> None:
    curves = rows_by_tokens(r1, tokens=[1, 16, 8192])
    labels = draw_rows_by_tokens(curves, theme=THEMES["light"]).axes[0].get_legend_handles_labels()[1]
    assert not any("fewer rows" in label for label in labels)


@pytest.mark.parametrize("model", ["DeepSeek-R1", "Mixtral-8x7B", "Llama-4-Maverick"])
def test_legible(model: str, assert_legible: Callable[[Figure], None]) -> None:
    assert_legible(draw_rows_by_tokens(rows_by_tokens(shard(ZOO[model])), theme=THEMES["light"]))
