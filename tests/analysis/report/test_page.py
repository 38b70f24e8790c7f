"""The page: whole, accessible by structure, without anything from outside, and harmless whatever a file says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nvfp4_moe.analysis.report import Report, to_html
from nvfp4_moe.analysis.report.tables import saved_in_words

REMOTE = re.compile(
    r"""\b(src|href|action|data)\s*=\s*(?!["']?#)|url\(|@import|<script|<iframe|<link|javascript:""",
    re.IGNORECASE,
)


@pytest.fixture(scope="session")
def html(report: Report) -> str:
    return to_html(report)


@pytest.fixture(scope="session")
def page(html: str, parsed: Callable[[str], Any]) -> Any:
    return parsed(html)


def test_everything_is_there(page: Any) -> None:
    assert page.texts("h1") == ["Refuted: 2 required claims do not hold"]
    assert page.texts("h2") == [
        "Claims",
        "Conformance of each subject",
        "Counterexamples",
        "What a formula costs",
        "Is it safe for a server?",
        "Padding that routings use",
        "Engines side by side",
        "Environment, and how to make this again",
    ]
    text = " ".join(page.texts("body"))
    for said in (
        "98,048",
        "41.9",
        "560.0",
        "guard fires from 8,193 tokens",
        "0123456789abcdef",
        "mine:WRONG",
        "torchao",
    ):
        assert said in text
    assert "nvfp4-moe replay" in " ".join(page.texts("code"))
    assert "Something is left out." in page.texts("li")


def test_deepseek_r1_in_a_sentence(report: Report) -> None:
    """98,048 rows: 8192*8 + 127*256; a row of 7,168 columns has 448 bytes, and the variable gives 163,840*8 rows."""
    assert pytest.approx(41.9, abs=0.05) == 98_048 * 448 / 2**20
    assert 163_840 * 8 * 448 / 2**20 == 560
    assert saved_in_words(report.savings, "DeepSeek-R1") == (
        "DeepSeek-R1 at 8,192 batched tokens: proposed gives 98,048 rows, 41.9 MiB at the peak of a layer, where vllm_env "
        "takes 560.0 MiB: 518.1 MiB less on every GPU."
    )


def test_every_model_of_the_zoo_has_its_table(page: Any, report: Report) -> None:
    captions = page.texts("caption")
    for part in report.savings.shards:
        assert sum(caption.startswith(f"{part.model.name} at 8,192") for caption in captions) == 1


def test_without_a_run_it_says_so_and_promises_nothing(report: Report, parsed: Callable[[str], Any]) -> None:
    page = parsed(to_html(replace(report, run=None)))
    (title,) = page.texts("h1")
    assert "hold" not in title.replace("where they hold", "")
    assert "no claim was checked" in " ".join(page.texts("header"))
    assert {"Claims", "Counterexamples"} & set(page.texts("h2")) == set()


# --- structure ---------------------------------------------------------------------------------------------


def test_headings_go_down_one_step_at_a_time(page: Any) -> None:
    levels = [int(element.tag[1]) for element in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))


def test_landmarks_language_and_skip_link(page: Any) -> None:
    assert page.all("html")[0].attributes["lang"] == "en"
    assert [len(page.all(tag)) for tag in ("header", "nav", "main", "footer")] == [1, 1, 1, 1]
    first = page.all("a")[0]
    assert (first.attributes["class"], first.attributes["href"]) == ("skip", "#main")
    assert page.all("nav")[0].attributes["aria-label"]
    assert len(page.texts("title")[0]) > 10


def test_ids_are_unique_and_every_reference_has_one(page: Any) -> None:
    ids = Counter(e.attributes["id"] for e in page.elements if "id" in e.attributes)
    assert [name for name, times in ids.items() if times > 1] == []
    assert len(ids) > 30
    for element in page.elements:
        for key in ("aria-labelledby", "href", "xlink:href"):
            if key in element.attributes:
                assert element.attributes[key].removeprefix("#") in ids


def test_tables_have_captions_and_scopes(page: Any) -> None:
    tables = page.all("table")
    assert len(tables) > 10
    for table in tables:
        inside = [element for element in page.elements if table in element.parents]
        assert [e.tag for e in inside].count("caption") == 1
        assert [e for e in inside if e.tag == "th" and e.attributes.get("scope") not in ("row", "col")] == []
        assert [e for e in inside if e.tag == "th"]
        box = table.parents[-1]
        assert (box.attributes["class"], box.attributes["tabindex"]) == ("scroll", "0")


def test_drawings_have_names_and_words(page: Any, report: Report) -> None:
    drawings = page.all("svg")
    assert len(drawings) == 2 * len(report.figures)
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        assert len(drawing.attributes["aria-label"]) > 40
    assert len(page.all("figcaption")) == len(report.figures)


def test_pieces_that_scroll_can_be_reached_by_keyboard(page: Any) -> None:
    for element in page.all("pre"):
        assert element.attributes["tabindex"] == "0"
    for element in page.elements:
        if "scroll" in (element.attributes.get("class") or "").split():
            assert element.attributes["tabindex"] == "0"
            assert element.attributes["role"] in ("region", "group")


def test_nothing_comes_from_outside(html: str, page: Any) -> None:
    (policy,) = (
        e.attributes["content"]
        for e in page.all("meta")
        if e.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    drawings = re.compile(r"<svg.*?</svg>", re.DOTALL)
    assert REMOTE.findall(drawings.sub("", html)) == []
    assert REMOTE.search('<a href="http://x">')  # the check can fail


# --- hostile text ------------------------------------------------------------------------------------------


def test_hostile_text_stays_text(hostile: str, parsed: Callable[[str], Any]) -> None:
    page = parsed(hostile)
    assert page.all("script", "img", "iframe") == []
    assert [e for e in page.elements if any(key.startswith("on") for key in e.attributes)] == []
    assert len(page.all("style")) == 1
    links = [e.attributes[key] for e in page.elements for key in ("src", "href") if key in e.attributes]
    assert [link for link in links if not str(link).startswith("#")] == []
    text = " ".join(page.texts("body"))
    assert "<script>alert(1)</script>" in text
    assert "{{ 7*7 }}" in text
    assert "49" not in re.findall(r"\d+", " ".join(page.texts("header")))


def test_no_character_of_it_drives_a_display(hostile: str) -> None:
    assert {c for c in hostile if not c.isprintable()} == {"\n"}
    assert hostile.encode("utf-8")
    assert "\\x1b[2J" in hostile
    assert "\\u202e" in hostile


def test_long_text_is_cut(hostile: str) -> None:
    assert "more characters]" in hostile


def test_the_check_of_structure_can_fail(parsed: Callable[[str], Any]) -> None:
    with pytest.raises(AssertionError):
        parsed("<p><b>wrong</p></b>")
