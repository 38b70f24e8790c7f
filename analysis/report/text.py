"""Foreign text made fit to be shown: one line, no character that drives a display, cut where it is long."""

from __future__ import annotations

LONGEST = 1_000
"""Characters of one text that a page shows."""
LONGEST_BLOCK = 20_000
"""Characters of a block, such as a witness."""


def shown(text: object, *, most: int = LONGEST) -> str:
    """Return text as it may stand on a page.

    White space becomes single spaces. What is not printable (control characters, marks that turn the direction of text,
    halves of surrogate pairs) is written as its escape. What is longer than `most` characters is cut, and the cut says
    how much is missing.
    """
    return printable(cut(" ".join(str(text).split()), most=most))


def printable(line: str) -> str:
    """Return a line with an escape in place of every character that is not printable; spaces stay."""
    return "".join(c if c.isprintable() else _escape(c) for c in line)


def cut(text: str, *, most: int) -> str:
    """Return the first `most` characters, with a note of how many are missing."""
    return text if len(text) <= most else f"{text[:most]} [... {len(text) - most:,} more characters]"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
