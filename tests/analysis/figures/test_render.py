"""SVG fit for a page with others: one element, its own ids, no reference outside; the same bytes every time."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from nvfp4_moe.analysis.figures.render import to_png, to_svg
from nvfp4_moe.analysis.figures.theme import THEMES, applied, new_figure

SVG = "{http://www.w3.org/2000/svg}"


def figure() -> Figure:
    with applied(THEMES["light"]):
        drawn = new_figure(3, 2)
        axes = drawn.add_subplot()
        axes.bar([0, 1], [1.23456, 2], hatch=["//", ""], label="<b> & rows")
        axes.text(0, 1, "1.23456")
        axes.legend()
    return drawn


def test_one_element_with_a_name_for_those_who_cannot_see() -> None:
    text = to_svg(figure(), name="bars", label='Two "bars" <& rows>\n and more')
    root = ElementTree.fromstring(text)
    assert (root.tag, root.get("role"), root.get("id")) == (f"{SVG}svg", "img", "bars")
    assert root.get("aria-label") == 'Two "bars" <& rows> and more'
    assert text.startswith("<svg ")


def test_a_matplotlibrc_changes_nothing() -> None:
    plain = to_svg(figure(), name="bars", label="x"), to_png(figure())
    with matplotlib.rc_context(
        {
            "text.usetex": True,
            "savefig.bbox": "tight",
            "figure.dpi": 7,
            "lines.linewidth": 9,
            "path.sketch": (1, 2, 3),
        }
    ):
        assert (to_svg(figure(), name="bars", label="x"), to_png(figure())) == plain


def test_text_is_text_and_is_not_rounded() -> None:
    root = ElementTree.fromstring(to_svg(figure(), name="bars", label="x"))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "<b> & rows" in texts
    assert "1.23456" in texts
    assert not re.search(r'd="[^"]*\.\d{3}', to_svg(figure(), name="bars", label="x"))


def test_every_reference_is_to_an_id_of_its_own() -> None:
    one, other = (to_svg(figure(), name=name, label="x") for name in ("one", "other"))
    ids = [re.findall(r'\bid="([^"]+)"', text) for text in (one, other)]
    assert len(ids[0]) == len(set(ids[0])) > 3
    assert not set(ids[0]) & set(ids[1])
    references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', one)
    assert references
    assert {a or b for a, b in references} <= set(ids[0])


def test_nothing_is_fetched_and_no_style_leaves_the_element() -> None:
    text = to_svg(figure(), name="bars", label="x")
    assert set(re.findall(r'(?:href|src)="([^#"]*)', text)) <= {""}
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) == {"#"}
    assert re.findall(r"<style[^>]*>(.)", text) == ["#"]


def test_the_same_bytes_every_time() -> None:
    assert to_svg(figure(), name="bars", label="x") == to_svg(figure(), name="bars", label="x")
    assert to_png(figure()) == to_png(figure())
    assert to_png(figure()).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["", "1x", "a b", 'a"', "A", "a\n"])
def test_names_that_would_break_ids(name: str) -> None:
    with pytest.raises(ValueError, match="name must be lower-case letters"):
        to_svg(figure(), name=name, label="x")


def test_size_follows_the_resolution() -> None:
    assert imread(io.BytesIO(to_png(figure(), dpi=50))).shape[:2] == (100, 150)
