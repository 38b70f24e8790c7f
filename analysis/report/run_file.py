"""The JSON of a `verify` run, read without trust: all of it is checked before any of it is used.

Accepted is what `verification/schema/verify.schema.json` accepts, less what no run writes: files above 64 MiB, more than
`MOST_CLAIMS` claims, counts above 10^18, witnesses nested deeper than `DEEPEST`. Of a witness only its kind is looked at:
it is shown, and judged when it is replayed. The check is written out here because the package that reads schemas is no
runtime dependency; a test holds both to each other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from nvfp4_moe.reference.padding import LARGEST_SIZE
from nvfp4_moe.verification.result import SCHEMA_VERSION, ClaimResult, Finding, Method, Result, Verdict
from nvfp4_moe.verification.witness import LARGEST_FILE

MOST_CLAIMS = 10_000
DEEPEST = 40
"""Levels of lists and objects in a witness."""
_LARGEST_SEED = 2**63 - 1

_Check = Callable[[Any], bool]
_CLAIM_ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_VERSION = re.compile(r"[0-9]+\.[0-9]+.*", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{7,64}(-dirty)?")
_KIND = re.compile(r"[a-z_]+")


def read_run(path: Path) -> Result:
    """Return the run that `nvfp4-moe verify --json FILE` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: too large, not JSON, or no such document; the text names the file, the place and what is legal.
    """
    document = _load(path)
    try:
        return run_from_json(document)
    except ValueError as error:
        raise ValueError(f"{path}: not the JSON of a verify run: {error}") from error


def run_from_json(document: Any) -> Result:
    """Return the run of a parsed document.

    Raises:
        ValueError: the text names the place and what is legal.
    """
    _check_object(document, _RUN, place="")
    claims = document["claims"]
    if len(claims) > MOST_CLAIMS:
        raise ValueError(f"'claims' must have at most {MOST_CLAIMS:,} entries, got {len(claims):,}")
    for number, claim in enumerate(claims):
        _check_object(claim, _CLAIM, place=f"claims[{number}]: ")
    return Result(
        version=document["version"],
        seed=int(document["seed"]),
        device=document["device"],
        git=document["git"],
        tables=tuple(document["tables"]),
        claims=tuple(_claim(claim) for claim in claims),
        interrupted=document["interrupted"],
    )


def _claim(claim: Mapping[str, Any]) -> ClaimResult:
    return ClaimResult(
        id=claim["id"],
        statement=claim["statement"],
        method=Method(claim["method"]),
        verdict=Verdict(claim["verdict"]),
        required=claim["required"],
        cases=int(claim["cases"]),
        seconds=claim["seconds"],
        detail=claim.get("detail", ""),
        subject=claim.get("subject"),
        finding=Finding(claim["finding"]) if "finding" in claim else None,
        witness=claim.get("witness"),
        expected=claim.get("expected"),
    )


# --- what is legal -----------------------------------------------------------------------------------------


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _matching(pattern: re.Pattern[str]) -> _Check:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _one_of(values: type[Verdict] | type[Method] | type[Finding]) -> _Check:
    names = [str(value) for value in values]
    return lambda value: isinstance(value, str) and value in names


def _whole(most: int) -> _Check:
    def check(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return 0 <= value <= most and value == int(value)

    return check


def _seconds(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= LARGEST_SIZE and math.isfinite(value)


def _witness(value: Any) -> bool:
    return isinstance(value, dict) and _matching(_KIND)(value.get("kind")) and _shallow(value)


def _shallow(value: Any) -> bool:
    """Return whether lists and objects are nested at most `DEEPEST` deep, without recursion."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False


_RUN: dict[str, tuple[bool, _Check, str]] = {
    # key: needed, check, what is legal
    "schema": (True, lambda value: _whole(SCHEMA_VERSION)(value) and value == SCHEMA_VERSION, "1"),
    "version": (True, _matching(_VERSION), "a version such as 0.1.0"),
    "seed": (True, _whole(_LARGEST_SEED), "an integer from 0 to 2^63 - 1"),
    "device": (True, _text, "text"),
    "git": (True, lambda value: value is None or _matching(_COMMIT)(value), "a commit or null"),
    "tables": (True, lambda value: isinstance(value, list) and all(map(_text, value)), "a list of texts"),
    "interrupted": (True, _flag, "true or false"),
    "claims": (True, lambda value: isinstance(value, list), "a list of objects"),
}
_CLAIM: dict[str, tuple[bool, _Check, str]] = {
    "id": (True, _matching(_CLAIM_ID), "a claim's id, such as quant.golden"),
    "statement": (True, _text, "text"),
    "method": (True, _one_of(Method), f"one of {', '.join(Method)}"),
    "required": (True, _flag, "true or false"),
    "verdict": (True, _one_of(Verdict), f"one of {', '.join(Verdict)}"),
    "cases": (True, _whole(LARGEST_SIZE), "an integer from 0 to 10^18"),
    "seconds": (True, _seconds, "a number from 0 to 10^18"),
    "detail": (False, _text, "text"),
    "subject": (False, _text, "text"),
    "finding": (False, _one_of(Finding), f"one of {', '.join(Finding)}"),
    "witness": (False, _witness, f"an object with a 'kind', at most {DEEPEST} levels deep"),
    "expected": (False, _text, "text"),
}


def _check_object(value: Any, keys: Mapping[str, tuple[bool, _Check, str]], *, place: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{place}must be an object, got {type(value).__name__}")
    for key in value:
        if key not in keys:
            raise ValueError(f"{place}unknown key {key!r:.60}")
    for key, (needed, check, legal) in keys.items():
        if key not in value:
            if needed:
                raise ValueError(f"{place}{key!r} is missing")
        elif not check(value[key]):
            raise ValueError(f"{place}{key!r} must be {legal}, got {value[key]!r:.60}")


# --- the file ----------------------------------------------------------------------------------------------


def _load(path: Path) -> Any:
    with path.open("rb") as stream:
        data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"{path}: more than {LARGEST_FILE >> 20} MiB, no run is that large")
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise ValueError(f"{path}: not JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
