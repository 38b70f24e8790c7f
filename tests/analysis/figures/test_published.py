"""The figures in the documents are those that the code draws today: the same words and numbers."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nvfp4_moe.analysis.figures.plan import plan_figures
from nvfp4_moe.analysis.figures.render import to_svg
from nvfp4_moe.analysis.figures.theme import Theme
from nvfp4_moe.analysis.savings import Savings

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "docs" / "figures"


def texts(svg: str) -> list[str | None]:
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_figure_is_what_the_command_draws(zoo_savings: Savings, theme: Theme) -> None:
    (planned,) = plan_figures(zoo_savings)
    published = (PUBLISHED / f"{planned.name}.{theme.name}.svg").read_text(encoding="utf-8")
    drawn = to_svg(planned.draw(theme), name=f"{planned.name}-{theme.name}", label=planned.label)
    assert texts(published) == texts(drawn)
    assert re.findall('aria-label="([^"]*)"', published) == [planned.label]
    assert {"560.0", "41.9"} <= set(texts(published))


def test_every_published_figure_is_shown_and_there() -> None:
    shown = set(re.findall(r'(?:src|srcset)="docs/figures/([^"]+)"', (ROOT / "README.md").read_text("utf-8")))
    assert shown == {path.name for path in PUBLISHED.iterdir()}


@pytest.mark.parametrize("name", ["README.md"])
def test_an_image_has_words_in_its_place(name: str) -> None:
    images = re.findall(r"<img\b[^>]*>", (ROOT / name).read_text("utf-8"), re.DOTALL)
    assert images
    assert [image for image in images if not re.search(r'alt="[^"]{20,}"', image)] == []
