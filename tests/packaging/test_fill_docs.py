"""Filling the documents from a run: what is kept of the output, what is marked as left out, what is refused."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.result import Verdict

ROOT = Path(__file__).resolve().parents[2]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fill_docs", ROOT / "tools" / "fill_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fill_docs = _load()

OUTPUT = """\
fuzz: 3 cases in 0.1 s

Formula proposed
┏━━━━━━━┓
┃verdict┃
┡━━━━━━━┩
│PROVED │ padding.bound │ first
│       │               │ second
│HELD   │ swizzle.injective │ left out
│HELD   │ index.no_wrap │ last
└───────┘

Our own implementations
└───────┘
No foreign subject was given.
All required claims hold.
"""


def test_excerpt_keeps_the_shown_claims_and_marks_what_is_left_out() -> None:
    assert fill_docs.excerpt(OUTPUT).splitlines() == [
        "```text",
        "$ make verify",
        "  [...]",
        "Formula proposed",
        "┏━━━━━━━┓",
        "┃verdict┃",
        "┡━━━━━━━┩",
        "│PROVED │ padding.bound │ first",
        "│       │               │ second",
        "  [...]",
        "│HELD   │ index.no_wrap │ last",
        "└───────┘",
        "  [...]",
        "No foreign subject was given.",
        "All required claims hold.",
        "```",
    ]


def test_subject_excerpt_is_the_table_of_subjects() -> None:
    text = "Subjects under test\n┏━┓\n│REFUTED │ quant.golden\n└─┘\n\n" + OUTPUT
    assert fill_docs.subject_excerpt(text).splitlines()[2:] == [
        "Subjects under test",
        "┏━┓",
        "│REFUTED │ quant.golden",
        "└─┘",
        "  [...]",
        "No foreign subject was given.",
        "All required claims hold.",
        "```",
    ]


def test_content_between_marks_is_replaced() -> None:
    document = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n"
    filled = fill_docs.between_marks(document, "x", "new")
    assert filled == "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n"
    assert fill_docs.between_marks(filled, "x", "new") == filled


def test_missing_marks_are_refused() -> None:
    with pytest.raises(ValueError, match="the marks of 'x' are missing"):
        fill_docs.between_marks("a", "x", "new")


def test_table_has_a_line_for_each_claim_and_method() -> None:
    claim = {"id": "padding.bound", "method": "proof", "verdict": "PROVED", "cases": 1234}
    table = fill_docs.verdict_table(
        {
            "version": "1",
            "git": None,
            "seed": 0,
            "device": "cpu",
            "claims": [claim, {**claim, "subject": "host"}],
        }
    )
    assert table.splitlines()[0] == "Version 1, seed 0, device cpu."
    assert table.splitlines()[-2:] == [
        "| `padding.bound` |  | proof | PROVED | 1,234 |",
        "| `padding.bound` | host | proof | PROVED | 1,234 |",
    ]


def test_documents_show_claims_and_verdicts_that_exist() -> None:
    """What was filled in once does not outlive a renamed claim."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^│([A-Z]+) *│ ([\w.]+)", readme, re.MULTILINE)
    assert {claim for _, claim in shown} <= set(CLAIMS)
    assert {verdict for verdict, _ in shown} <= set(Verdict)
