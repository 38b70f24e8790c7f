"""Numbers that the figures draw, computed once, and what every figure must be: legible.

Without matplotlib (extra `plots`) none of the tests here can be imported: they are left out, and test_available.py is
skipped in their place and says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from nvfp4_moe.analysis.savings import Savings, savings
from nvfp4_moe.analysis.savings_padding import PaddingUse, family_padding
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import Shard, shard

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from nvfp4_moe.analysis.figures.theme import Theme

if find_spec("matplotlib") is None:
    collect_ignore_glob = ["test_[!a]*.py"]

SOME = 10
"""Every figure has more texts."""


@pytest.fixture(scope="session")
def zoo_savings() -> Savings:
    return savings(list(ZOO.values()), max_num_batched_tokens=[8192])


@pytest.fixture(scope="session")
def r1() -> Shard:
    return shard(ZOO["DeepSeek-R1"])


@pytest.fixture(scope="session")
def uses() -> list[PaddingUse]:
    few = PaddingUse(
        name="recorded",
        kind="trace",
        num_experts=8,
        topk=2,
        batching="passes as recorded",
        shares=(0.25, 0.5, 0.5),
        worst=(0.9, 1.0, 1.0),
    )
    return [few, *family_padding(shard(ZOO["Mixtral-8x7B"]), max_num_batched_tokens=64, cases=16)]


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> Theme:
    from nvfp4_moe.analysis.figures.theme import THEMES

    return THEMES[request.param]


@pytest.fixture(scope="session")
def assert_legible() -> Callable[[Figure], None]:
    """Return a check: every text that is drawn lies inside the figure, and no two lie on each other."""
    from matplotlib.text import Text

    def check(figure: Figure) -> None:
        edge = figure.bbox.padded(1)
        # of an annotation the text alone, not its arrow
        boxes = [(Text.get_window_extent(text).padded(-1), text.get_text()) for text in drawn_texts(figure)]
        assert len(boxes) > SOME
        assert [said for box, said in boxes if not edge.containsx(box.x0) or not edge.containsx(box.x1)] == []
        assert [said for box, said in boxes if not edge.containsy(box.y0) or not edge.containsy(box.y1)] == []
        pairs = itertools.combinations(boxes, 2)
        assert [(a, b) for (box, a), (other, b) in pairs if box.overlaps(other)] == []

    return check


def drawn_texts(figure: Figure) -> list[Text]:
    """Return the texts that drawing the figure really draws, without titles that leave room for lines below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    drawn: list[Text] = []
    draw = Text.draw

    def recorded(text: Text, renderer: RendererBase) -> None:
        if text.get_visible() and text.get_text().strip() and not text.get_text().endswith("\n"):
            drawn.append(text)
        draw(text, renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", recorded)
        FigureCanvasAgg(figure).draw()
    return drawn
