"""Figures inside the page: drawn in both themes, and nothing but drawings gets in."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from nvfp4_moe.analysis import figures
from nvfp4_moe.analysis.report import Report
from nvfp4_moe.analysis.report.inline_figures import NO_FIGURES, check_svg, draw_all
from nvfp4_moe.analysis.savings_padding import PaddingUse

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
FINE = '<g clip-path="url(#a)"><defs><style>#x *{stroke: red}</style></defs><use xlink:href="#a"/><text>&lt;b&gt;</text></g>'
BAD = {
    "script": "<script>alert(1)</script>",
    "handler": '<path onload="alert(1)"/>',
    "handler in capitals": '<path ONLOAD="alert(1)"/>',
    "foreign object": "<foreignObject><p/></foreignObject>",
    "link": '<a href="http://x"><path/></a>',
    "remote use": '<use xlink:href="http://x#a"/>',
    "remote image": '<image href="http://x/a.png"/>',
    "svg as an image": '<image href="data:image/svg+xml;base64,AAAA"/>',
    "remote fill": '<path fill="url(http://x)"/>',
    "import": "<style>@import 'http://x';</style>",
    "animation": '<animate attributeName="href"/>',
    "other namespace": '<p xmlns="http://www.w3.org/1999/xhtml"/>',
    "not closed": "<g>",
}


def test_a_drawing_passes() -> None:
    check_svg(f"{HEAD}{FINE}</svg>")


@pytest.mark.parametrize("inside", BAD.values(), ids=BAD)
def test_anything_else_is_refused(inside: str) -> None:
    with pytest.raises(ValueError, match="figure"):
        check_svg(f"{HEAD}{FINE}{inside}</svg>")


def test_without_matplotlib_the_report_says_so(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)
    assert draw_all(report.savings, uses=[], shards=[]) == ([], [NO_FIGURES])


def test_hostile_names_are_drawn_as_text(report: Report, use: PaddingUse) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("needs matplotlib (extra plots)")
    name = "</text><script>alert(1)</script>&$\\frac{x_{$\x1b\u202e"
    drawn, missing = draw_all(report.savings, uses=[replace(use, name=name)], shards=[])
    assert missing == []
    assert [figure.name for figure in drawn] == ["bytes_by_model-8192", "padding_used"]
    svg = drawn[1].light
    assert "<script" not in svg
    assert "script>alert(1)" in "".join(ElementTree.fromstring(svg).itertext())
    assert 'id="padding_used-light"' in svg
    assert 'id="padding_used-dark"' in drawn[1].dark
