"""Tables fit a terminal: rules and headings in one line only where there is room."""

from __future__ import annotations

import pytest
from rich import box
from rich.console import Console

from nvfp4_moe.cli.tables import ROOMY, heading, titled


@pytest.mark.parametrize(("width", "narrow"), [(ROOMY - 1, True), (ROOMY, False)])
def test_room(width: int, narrow: bool) -> None:
    out = Console(width=width)
    table = titled("Title", out=out)
    assert (table.box, table.padding) == (
        (box.SIMPLE_HEAD, (0, 0, 0, 0)) if narrow else (box.HEAVY_HEAD, (0, 1, 0, 1))
    )
    assert heading("at tokens", out=out) == ("at\ntokens" if narrow else "at tokens")
