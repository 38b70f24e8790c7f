"""Tables for a terminal: between rules where there is room, close together where there is not, so that nothing is cut."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

ROOMY = 120
"""Columns of a terminal from which tables have rules and headings in one line."""


def is_narrow(out: Console) -> bool:
    """Return whether there is little room."""
    return out.width < ROOMY


def titled(title: str, *, out: Console) -> Table:
    """Return an empty table for `out`; `title` is our own text."""
    narrow = is_narrow(out)
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        expand=False,
        pad_edge=False,
        box=box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD,
        padding=(0, 0) if narrow else (0, 1),
    )


def heading(text: str, *, out: Console) -> str:
    """Return the heading of a column of numbers, word under word where there is little room."""
    return text.replace(" ", "\n") if is_narrow(out) else text
