"""Standard streams: text from outside, any encoding, and streams that take no more."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from nvfp4_moe.cli.outputs import write_json
from nvfp4_moe.cli.streams import OutputError, console, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 你 [x] \\", "plain é 你 [x] \\"),
        ("\x1b[31m\x07\r\n\t", "\\x1b[31m\\x07\\x0d\\x0a\\x09"),
        ("\x9b\x7f", "\\x9b\\x7f"),
        ("\u202e\u2028\ud800\U000e0001", "\\u202e\\u2028\\ud800\\U000e0001"),
        (Path("a\nb"), "a\\x0ab"),
    ],
)
def test_text_from_outside(text: object, expected: str) -> None:
    assert shown(text) == expected


def test_a_console_takes_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console().print("é \udcff :smile:", markup=False)
    assert raw.getvalue() == b"\\xe9 \\udcff :smile:\n"


@pytest.mark.parametrize(
    ("fault", "gone"), [(BrokenPipeError(32, "Broken pipe"), True), (OSError(28, "Full"), False)]
)
def test_a_stream_that_takes_no_more(fault: OSError, gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def flush(self) -> None:
            raise fault

    monkeypatch.setattr(sys, "stdout", Broken())
    for write in (lambda: console().print("x"), lambda: write_json("-", "{}")):
        with pytest.raises(OutputError) as caught:
            write()
        assert caught.value.reader_has_gone is gone
