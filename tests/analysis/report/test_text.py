"""Foreign text: one line, nothing that drives a display, cut with a note."""

from __future__ import annotations

import pytest

from nvfp4_moe.analysis.report.text import LONGEST, cut, printable, shown


@pytest.mark.parametrize(
    ("given", "true"),
    [
        ("plain, with accents: é", "plain, with accents: é"),
        ("two\n lines\tand  gaps ", "two lines and gaps"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("right\u202eleft", "right\\u202eleft"),
        ("half \ud800", "half \\ud800"),
        (7, "7"),
    ],
)
def test_shown(given: object, true: str) -> None:
    assert shown(given) == true
    assert shown(given).encode("utf-8")


def test_long_text_is_cut_and_says_how_much_is_missing() -> None:
    assert shown("x" * (LONGEST + 1234)) == "x" * LONGEST + " [... 1,234 more characters]"
    assert cut("abc", most=3) == "abc"


def test_spaces_of_a_printable_line_stay() -> None:
    assert printable("a   b\x00") == "a   b\\x00"
