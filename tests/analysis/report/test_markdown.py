"""The Markdown form: short, and no text from outside becomes markup, a mention or a link."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from nvfp4_moe.analysis.report import Report, to_markdown, view_run
from nvfp4_moe.analysis.report.markdown import GITHUB_LIMIT, MOST_CLAIMS, MOST_COMMANDS
from nvfp4_moe.verification.result import ClaimResult, Result, Verdict

HOSTILE = (
    "x | y\n\n# head\n- item\n```\n<script>alert(1)</script> `code` [link](http://x) ![i](http://x/i.png) @octocat #12 GH-3 "
    "www.x.org https://x.org *bold* _em_ ~~gone~~ $math$ \\| &lt; \x1b[2J \u202e"
)
REAL_MENTION = re.compile(r"(?<![\w`])@\w|(?<!&)#\d|\bGH-\d|www\.|://|~~|\$\w", re.IGNORECASE)


@pytest.fixture
def hostile(claim: Callable[..., ClaimResult], run_of: Callable[..., Result], report: Report) -> str:
    run = run_of(
        claim(
            detail=HOSTILE,
            subject=HOSTILE,
            verdict=Verdict.REFUTED,
            witness={"kind": "bound"},
        ),
        device=HOSTILE,
    )
    view = view_run(run, bound=HOSTILE, saved={0: Path("a```b @octocat.json")})
    return to_markdown(replace(report, run=view))


def rendered(text: str) -> str:
    """Return the HTML that GitHub's dialect makes of it, raw HTML and links in plain text allowed."""
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)


def test_it_says_what_matters(report: Report) -> None:
    text = to_markdown(report)
    assert "Refuted: 2 required claims do not hold" in text.splitlines()[0]
    assert "quant.golden (mine:WRONG)" in text
    assert "nvfp4-moe replay --subject FILE.py COUNTEREXAMPLE.json" in text
    assert "98,048 rows, 41.9 MiB" in text
    assert "560.0 MiB" in text
    assert "guard fires from 8,193 tokens" in text
    assert "seed 7" in text
    assert text.endswith("\n")
    assert len(text) < 12_000


def test_its_tables_are_tables(report: Report) -> None:
    html = rendered(to_markdown(report))
    assert html.count("<table>") == 3
    assert html.count("<tr>") > len(report.savings.shards)
    assert "<td>DeepSeek-R1</td>" in html


def test_without_a_run_it_says_so(report: Report) -> None:
    text = to_markdown(replace(report, run=None))
    assert "no claim was checked" in text
    assert "hold" not in text.split("|", 1)[0]


def test_hostile_text_is_no_markup(hostile: str) -> None:
    html = rendered(hostile)
    tags = set(re.findall(r"<([a-z0-9]+)", html))
    assert tags <= {
        "h2",
        "p",
        "ul",
        "li",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
        "code",
    }
    assert html.count("<h2>") == html.count("<pre>") == 1
    assert "&lt;script&gt;alert(1)" in html
    assert "head" in html


def test_hostile_text_mentions_nobody_and_links_nowhere(hostile: str) -> None:
    outside_of_blocks = re.sub(r"<pre>.*?</pre>", "", rendered(hostile), flags=re.DOTALL)
    assert "octocat" in outside_of_blocks
    assert REAL_MENTION.findall(outside_of_blocks) == []
    assert REAL_MENTION.findall(
        "see @octocat and #12, GH-3, www.x.org, http://x, ~~x~~, $x$"
    )  # the check can fail


def test_no_character_of_it_drives_a_display(hostile: str) -> None:
    assert {c for c in hostile if not c.isprintable()} <= {"\n", "\u2060", "\N{VARIATION SELECTOR-16}"}


def test_a_command_with_backticks_stays_in_its_block(hostile: str) -> None:
    (block,) = re.findall(r"<pre>.*?</pre>", rendered(hostile), flags=re.DOTALL)
    assert "a```b @octocat.json" in block


def test_many_findings_are_counted(
    claim: Callable[..., ClaimResult], run_of: Callable[..., Result], report: Report
) -> None:
    claims = [
        claim(detail=f"finding {n}", verdict=Verdict.REFUTED, witness={"kind": "bound"}) for n in range(40)
    ]
    view = view_run(run_of(*claims), saved={n: Path(f"{n}.json") for n in range(40)})
    text = to_markdown(replace(report, run=view))
    assert text.count("| REFUTED |") == MOST_CLAIMS
    assert "20 more are in the report" in text
    assert text.count("nvfp4-moe replay") == MOST_COMMANDS
    assert "30 more are in the report." in text


def test_it_stays_below_githubs_limit(
    claim: Callable[..., ClaimResult], run_of: Callable[..., Result], report: Report
) -> None:
    claims = [
        claim(detail="@" * 5_000, subject="|" * 5_000, verdict=Verdict.REFUTED, witness={"kind": "bound"})
        for _ in range(60)
    ]
    lines = report.savings.lines * 40
    long = replace(report, savings=replace(report.savings, lines=lines), run=view_run(run_of(*claims)))
    shards = replace(long, served=report.served * 400)
    text = to_markdown(shards)
    assert len(text) <= GITHUB_LIMIT
    assert "Refuted" in text.splitlines()[0]
    assert "too long for this form" in text
