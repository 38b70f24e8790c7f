"""What became of a case: the parent's reading of a child's messages and of its end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nvfp4_moe.verification.conformance.subject import SubjectUnavailable
from nvfp4_moe.verification.result import Finding


@dataclass(frozen=True)
class CaseReport:
    """What became of one case."""

    number: int
    faults: tuple[dict[str, Any], ...] = ()
    refused: str | None = None
    refusal_legal: bool = False
    admissible: int = 0
    """Bytes that documented instruction errors excuse."""
    not_run: str | None = None
    """Why the case was given up."""
    before: tuple[int, ...] = ()
    """Numbers of the cases that the same child ran before, in order; only where there are faults."""
    hung: bool = False
    """The fault is that it gave no answer; without `before` it gives none alone."""


class HarnessFault(Exception):
    """The harness failed in a child: our fault, not the subject's."""


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return a child's message, or None where the line is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


BAD_ACCESS = ("SIGSEGV", "SIGBUS")
"""How a child ends that wrote where it must not."""
WRITTEN_AS_IT_WAS: dict[str, Any] = {
    "check": "inputs",
    "finding": str(Finding.MEMORY),
    "text": "an input was written, with what it held",
    "where": {},
}
"""The finding where only the fault tells of the write."""


def crash_fault(ending: str) -> dict[str, Any]:
    """Return the finding of a child's death."""
    return {
        "check": "guard",
        "finding": str(Finding.MEMORY),
        "text": f"the subject's process died: {ending}",
        "where": {"ending": ending},
    }


def report_of(message: dict[str, Any]) -> CaseReport:
    """Return the report that a child's answer to a case makes.

    Raises:
        SubjectUnavailable, HarnessFault: the message says so.
    """
    if "unavailable" in message:
        raise SubjectUnavailable(message["unavailable"])
    if "harness" in message:
        raise HarnessFault(message["harness"])
    number = message["done"]
    if "refused" in message:
        return CaseReport(number, refused=message["refused"], refusal_legal=message["legal"])
    if "raised" in message:
        text = message["raised"].strip()
        fault = {
            "check": "golden",
            "finding": str(Finding.BYTES),
            "text": f"an exception inside the domain: {text.splitlines()[-1]}",
            "where": {"traceback": text},
        }
        return CaseReport(number, faults=(fault,))
    return CaseReport(number, faults=tuple(message["faults"]), admissible=message["admissible"])
