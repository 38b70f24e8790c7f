"""Known findings: they still run, fail no run while they last, and fail it when they no longer appear.

A file is a JSON list of objects::

    [{"id": "quant.coverage", "subject": "my_kernel", "finding": "contract",
      "reason": "row padding is left unwritten, issue 123"}]

`id` is a claim's; `subject` the name in the result, left out for claims without one; `method` limits the entry to one
method, else it speaks of all that the claim was checked by; `finding` is the worst class that is known of a subject, so
that a worse one under the same id still fails: memory and bytes must be named, without it "contract" is known; `bound`
is the run's formula or expression that an entry about it means ("proposed" without it), so that another one is not
excused; `reason` is told with the claim. A refuted claim that an entry speaks of does not fail the run. An entry all of whose claims pass does: it is to be taken out of the file. An entry that no claim of the run
answers to is listed as SKIPPED.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.result import PASSES, ClaimResult, Finding, Method, Verdict

LARGEST_FILE = 1 << 20
"""Bytes; larger files are refused before they are read."""

Member = TypeVar("Member", Method, Finding)

_REQUIRED, _OPTIONAL = ("id", "reason"), ("subject", "method", "finding", "bound")

DEFAULT_BOUND = "proposed"
"""What an entry about the bound means that names none: what a run without `--bound` checks."""

BOUND_CLAIMS = ("padding.bound", "padding.bound.written", "padding.attained")
"""Claims about the bound of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One known finding."""

    id: str
    reason: str
    subject: str | None = None
    method: Method | None = None
    """None: any."""
    finding: Finding | None = None
    """The worst class that is known; None: contract."""
    bound: str | None = None
    """Formula or expression that an entry of `BOUND_CLAIMS` is about; None: `DEFAULT_BOUND`."""

    def speaks_of(self, claim: ClaimResult, *, bound: str) -> bool:
        """Return whether the entry is about the claim in a run with this bound."""
        if claim.id in BOUND_CLAIMS and _plain(self.bound or DEFAULT_BOUND) != _plain(bound):
            return False
        return (claim.id, claim.subject) == (self.id, self.subject) and self.method in (None, claim.method)

    def covers(self, claim: ClaimResult) -> bool:
        """Return whether the claim's finding is the known one, or a milder one."""
        if claim.finding is None:
            return True
        return list(Finding).index(claim.finding) >= list(Finding).index(self.worst)

    @property
    def worst(self) -> Finding:
        """The worst class that the entry excuses."""
        return self.finding or Finding.CONTRACT

    def __str__(self) -> str:
        return " ".join(filter(None, [self.id, self.subject and f"({self.subject})", self.method]))


def _plain(bound: str) -> str:
    return "".join(bound.split())


def load_expectations(path: Path) -> list[Expectation]:
    """Return the entries of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError, TypeError: too large, not JSON, or not such a list; the text names the file, the entry and the fault.
    """
    with path.open("rb") as stream:
        data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"{path}: more than {LARGEST_FILE >> 20} MiB, no list of findings is that large")
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, list):
        raise TypeError(f"{path}: must be a JSON list of objects, got {type(document).__name__}")
    found: list[Expectation] = []
    for place, entry in enumerate(document):
        try:
            expectation = _expectation(entry)
            if any(_key(earlier) == _key(expectation) for earlier in found):
                raise ValueError(f"{expectation} is listed twice")
        except (ValueError, TypeError) as error:
            raise type(error)(f"{path}: entry {place}: {error}") from error
        found.append(expectation)
    return found


def _key(expectation: Expectation) -> tuple[str, str | None, Method | None, str | None]:
    return expectation.id, expectation.subject, expectation.method, expectation.bound


def _expectation(entry: Any) -> Expectation:
    if not isinstance(entry, dict):
        raise TypeError(f"must be an object, got {entry!r:.60}")
    unknown = [key for key in entry if key not in (*_REQUIRED, *_OPTIONAL)]
    if unknown:
        known = ", ".join((*_REQUIRED, *_OPTIONAL))
        raise ValueError(f"unknown key {unknown[0]!r:.60}; known are {known}")
    for key in _REQUIRED:
        if key not in entry:
            raise ValueError(f"{key!r} is missing")
    for key, value in entry.items():
        if not isinstance(value, str) or not value.strip():
            raise TypeError(f"{key!r} must be text, got {value!r:.60}")
    if entry["id"] not in CLAIMS:
        raise ValueError(f"'id' must be a claim's id, such as quant.golden, got {entry['id']!r:.60}")
    if "bound" in entry and entry["id"] not in BOUND_CLAIMS:
        raise ValueError(f"'bound' is for {', '.join(BOUND_CLAIMS)}, not for {entry['id']}")
    return Expectation(
        id=entry["id"],
        reason=entry["reason"],
        subject=entry.get("subject"),
        method=_member(Method, entry, "method"),
        finding=_member(Finding, entry, "finding"),
        bound=entry.get("bound"),
    )


def _member(kind: type[Member], entry: dict[str, str], key: str) -> Member | None:
    if key not in entry:
        return None
    if entry[key] not in list(kind):
        raise ValueError(f"{key!r} must be one of {', '.join(kind)}, got {entry[key]!r:.60}")
    return kind(entry[key])


def apply_expectations(
    claims: Iterable[ClaimResult], expectations: Sequence[Expectation], *, bound: str = DEFAULT_BOUND
) -> list[ClaimResult]:
    """Return the claims of a run of a bound with `expected` set where a finding is known, or was and is gone."""
    found = list(claims)
    for entry in expectations:
        about = [place for place, claim in enumerate(found) if entry.speaks_of(claim, bound=bound)]
        if not about:
            found.append(_unanswered(entry))
        refuted = [place for place in about if found[place].verdict is Verdict.REFUTED]
        all_pass = all(found[place].verdict in PASSES for place in about)
        for place in refuted or (about if all_pass else []):
            claim = found[place]
            if entry.covers(claim):
                found[place] = replace(claim, expected=entry.reason)
            else:
                worse = f"worse than the known finding ({entry.worst}: {entry.reason})"
                found[place] = replace(claim, detail="; ".join(filter(None, [claim.detail, worse])))
    return found


def _unanswered(entry: Expectation) -> ClaimResult:
    return ClaimResult(
        id=entry.id,
        statement=CLAIMS[entry.id].statement,
        method=entry.method or Method.CONFORMANCE,
        verdict=Verdict.SKIPPED,
        required=True,
        cases=0,
        seconds=0.0,
        detail=f"a known finding{_of_bound(entry)} that this run did not check: {entry.reason}",
        subject=entry.subject,
    )


def _of_bound(entry: Expectation) -> str:
    return f" of bound {entry.bound or DEFAULT_BOUND}" if entry.id in BOUND_CLAIMS else ""
