"""Claims, verdicts and the result of a verification run: the public JSON contract of `nvfp4-moe verify`.

A run checks claims. Each claim is checked by one or more methods, and for each subject where it is about one; every
(id, method, subject) gives one `ClaimResult`. `Result` holds them with what is needed to run the same again, and
knows its exit code. The JSON schema is `schema/verify.schema.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1
"""Version of the JSON layout; a change that could break a reader raises it."""

EXIT_OK, EXIT_REFUTED, EXIT_USAGE, EXIT_UNDECIDED = 0, 1, 2, 3


class Verdict(StrEnum):
    """What a check found."""

    PROVED = "PROVED"  # by a prover, for all values
    EXHAUSTED = "EXHAUSTED"  # by trying every case of the stated range
    HELD = "HELD"  # in every case tried
    REFUTED = "REFUTED"  # a witness breaks it
    UNDECIDED = "UNDECIDED"  # the method could not tell (a prover's unknown, a time limit)
    SKIPPED = "SKIPPED"  # not run: something it needs is missing


PASSES = (Verdict.PROVED, Verdict.EXHAUSTED, Verdict.HELD)
"""Verdicts of a claim that was checked and stands."""


class Method(StrEnum):
    """How a claim was checked."""

    PROOF = "proof"
    EXHAUSTIVE = "exhaustive"
    FUZZ = "fuzz"
    SEARCH = "search"
    TRACE = "trace"
    CONFORMANCE = "conformance"


class Finding(StrEnum):
    """Class of a subject's fault, worst first."""

    MEMORY = "memory"
    BYTES = "bytes"
    CONTRACT = "contract"
    ADVISORY = "advisory"


Witness = Mapping[str, Any]
"""An input that attains or refutes a claim: JSON-ready, with a "kind" that `replay` knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one check found, before it is tied to a claim's statement and timed."""

    verdict: Verdict
    cases: int
    """Cases tried: proof obligations, routings, bytes compared - what the check counts is in `detail`."""
    detail: str = ""
    """One short line for people: the range, the families, the highest use, the reason of a skip."""
    witness: Witness | None = None
    finding: Finding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """One line of the table: a claim, checked by one method, for one subject."""

    id: str
    statement: str
    method: Method
    verdict: Verdict
    required: bool
    cases: int
    seconds: float
    detail: str = ""
    subject: str | None = None
    finding: Finding | None = None
    witness: Witness | None = None
    expected: str | None = None
    """Why a refutation was expected: it fails nothing, and the claim's passing does."""

    @property
    def fails(self) -> bool:
        """Whether the claim makes the run fail: refuted and not known, or known and no longer so."""
        if self.expected is not None:
            return self.verdict in PASSES
        return self.required and self.verdict is Verdict.REFUTED

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; optional keys are left out where there is nothing to say."""
        entry: dict[str, Any] = {
            "id": self.id,
            "statement": self.statement,
            "method": str(self.method),
            "required": self.required,
            "verdict": str(self.verdict),
            "cases": self.cases,
            "seconds": round(self.seconds, 3),
        }
        if self.detail:
            entry["detail"] = self.detail
        if self.subject is not None:
            entry["subject"] = self.subject
        if self.finding is not None:
            entry["finding"] = str(self.finding)
        if self.witness is not None:
            entry["witness"] = dict(self.witness)
        if self.expected is not None:
            entry["expected"] = self.expected
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole run."""

    version: str
    """Version of the package that ran."""
    seed: int
    device: str
    git: str | None
    """Commit of the checkout that ran, or None outside one."""
    tables: Sequence[str] = ()
    """Hardware tables that exact judgements relied on."""
    claims: Sequence[ClaimResult] = field(default_factory=tuple)
    interrupted: bool = False
    """True when the run was stopped early (Ctrl-C, budget): what is listed was finished."""

    @property
    def exit_code(self) -> int:
        """Return 1 if a claim fails, else 3 if a required one is undecided or was not run, else 0."""
        if any(claim.fails for claim in self.claims):
            return EXIT_REFUTED
        verdicts = {claim.verdict for claim in self.claims if claim.required}
        if verdicts & {Verdict.UNDECIDED, Verdict.SKIPPED}:
            return EXIT_UNDECIDED
        return EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of design contract `verify`."""
        return {
            "schema": SCHEMA_VERSION,
            "version": self.version,
            "seed": self.seed,
            "device": self.device,
            "git": self.git,
            "tables": list(self.tables),
            "interrupted": self.interrupted,
            "claims": [claim.to_json() for claim in self.claims],
        }

    def dumps(self) -> str:
        """Return the JSON document as text, one trailing newline."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"
