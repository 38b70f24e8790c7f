"""Standard output and standard error: consoles, lines that tell what is wrong, and text from outside made harmless."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, TextIO, cast

from rich.console import Console

_LONGEST_LINE = 600
"""Characters of a line that `tell` prints: what was given may be as long as its author likes."""
PLAIN_WIDTH = 140  # plain output goes to logs: do not fold it at 80 columns


class OutputError(Exception):
    """Standard output or standard error takes no more: its reader has gone, its disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.reader_has_gone = isinstance(error, BrokenPipeError)


def shown(text: object) -> str:
    """Return text from outside (files, names) as it may be printed: one line, no character that drives a terminal."""
    return "".join(c if c.isprintable() else _escaped(ord(c)) for c in str(text))


def _escaped(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class _Stream:
    """A standard stream whose faults are `OutputError`, and that takes any text, whatever its encoding."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"
        with _faults():
            return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def flush(self) -> None:
        with _faults():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error) from error


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Make the faults of standard output `OutputError` for all who print to it, click's help included."""
    stream = sys.stdout
    sys.stdout = cast("TextIO", _Stream(stream))
    try:
        yield
    finally:
        sys.stdout = stream


def console(*, stderr: bool = False) -> Console:
    """Return a console that is plain when its stream is no terminal and respects NO_COLOR."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=cast("IO[str]", _Stream(stream)), width=width, highlight=False, emoji=False)


def text_console(json_path: str | None) -> Console:
    """Return the console for people: standard error when standard output carries the JSON."""
    return console(stderr=json_path == "-")


def write_text(text: str) -> None:
    """Write `text` to standard output as it is.

    Raises:
        OutputError: it takes no more.
    """
    stream = _Stream(sys.stdout)
    stream.write(text)
    stream.flush()


def tell(text: str) -> None:
    """Print one line on standard error, whatever the text holds; where that takes no more, nobody is told."""
    line = shown(" ".join(text.split()))
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 :]}"
    try:
        print(f"nvfp4-moe: {line}", file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let what the stream still holds go nowhere: Python flushes it at exit and would exit with a code of its own."""
    with contextlib.suppress(OSError, ValueError):  # no descriptor: nothing is flushed at exit
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
