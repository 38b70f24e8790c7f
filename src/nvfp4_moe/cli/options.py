"""Options that the commands share: seeds, sizes, the JSON file; and errors at the door."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

LARGEST_SEED = 2**63 - 1
LARGEST_SECONDS = 10**9

_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_QUOTED = 40  # characters of a wrong value that an error shows


class InputError(Exception):
    """Bad input from outside: printed as one line, exit code 2."""


@contextlib.contextmanager
def at_the_door() -> Iterator[None]:
    """Turn the errors of validation (ValueError, TypeError, OSError) into one line and exit code 2.

    Only for code that checks input: a ValueError deeper down is a fault of ours and keeps its traceback.
    """
    try:
        yield
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise InputError(f"{name}{error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error


class _Size(click.ParamType[int]):
    """A positive integer up to 10^18; absurd sizes are refused before any arithmetic."""

    name = "integer"

    def __init__(self, at_least: int, at_most: int) -> None:
        self.at_least = at_least
        self.at_most = at_most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        digits = text.lstrip("+-")
        if not digits.isascii() or not digits.isdigit() or len(text) - len(digits) > 1:
            self.fail(f"{_cut(text)!r} is not an integer", param, ctx)
        if len(digits) > len(str(self.at_most)) + 1 or not self.at_least <= int(text) <= self.at_most:
            self.fail(f"must be between {self.at_least} and {self.at_most}, got {_cut(text)}", param, ctx)
        return int(text)


def _cut(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


class Seconds(click.ParamType[float]):
    """Seconds, or "forever" (infinity)."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if value == "forever" or isinstance(value, float):
            return float("inf") if value == "forever" else value
        text = str(value).strip()
        if not _DECIMAL.fullmatch(text):  # float() alone takes 1_0, nan and the digits of every script
            self.fail(f"must be a number of seconds or forever, got {_cut(text)!r}", param, ctx)
        seconds = float(text)
        if not 0 < seconds <= LARGEST_SECONDS:
            self.fail(f"must be more than 0 and at most 10^9 seconds, got {_cut(text)}", param, ctx)
        return seconds


def size(at_least: int = 1, at_most: int = 10**18) -> click.ParamType[int]:
    """Return the click type of a size option."""
    return _Size(at_least, at_most)


def json_option(command: Decorated) -> Decorated:
    """Add `--json FILE`."""
    return click.option(
        "--json", "json_path", metavar="FILE", help="Write the result as JSON to FILE; - is standard output."
    )(command)


def seed_option(command: Decorated) -> Decorated:
    """Add `--seed N`; the same seed gives the same cases on any machine."""
    return click.option(
        "--seed",
        type=size(0, LARGEST_SEED),
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of the cases; the same seed gives the same cases on any machine.",
    )(command)


def tile_option(command: Decorated) -> Decorated:
    """Add `--tile N`."""
    return click.option(
        "--tile", type=size(), default=128, show_default=True, metavar="N", help="Rows of a scale tile."
    )(command)
