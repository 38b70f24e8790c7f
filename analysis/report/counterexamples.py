"""A refuted claim with what it takes to see it again: the command, the sizes, the place of the wrong byte."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvfp4_moe.analysis.report.text import LONGEST_BLOCK, cut
from nvfp4_moe.verification.conformance.subject import OWN_SUBJECTS
from nvfp4_moe.verification.result import ClaimResult
from nvfp4_moe.verification.witness import can_replay, takes

SpecsOf = Mapping[str, Mapping[str, str]]
"""By a claim's subject: what it was given by, as {"subject": "my_kernel.py", "against": "old_kernel.py"}."""

_PLACEHOLDER = "FILE.py"
_LONGEST_FACT = 160
_MOST_FACTS = 24
_INNER = ("where", "case")
"""Objects of a witness whose entries are facts too."""
_TOLD = ("kind", "text", "before", "subject", "against")
"""Entries that stand elsewhere on the page, or in the JSON alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """One refuted claim."""

    claim: ClaimResult
    command: str
    """Runs it again; empty where nothing can."""
    note: str
    """What the reader must fill in or know before."""
    facts: tuple[tuple[str, str], ...]
    """Sizes and places, as names and values."""
    document: str
    """The witness as JSON, ASCII, cut where it is long."""


def counterexample_of(claim: ClaimResult, *, file: Path | None, specs: SpecsOf) -> Counterexample:
    """Return a refuted claim that has a witness.

    Args:
        claim: the claim.
        file: saved counterexample, or the JSON of the run; None: neither is on disk.
        specs: what subjects were given by.
    """
    witness = claim.witness
    assert witness is not None
    command, note = _command(claim, file, specs)
    return Counterexample(
        claim=claim,
        command=command,
        note=note,
        facts=tuple(_facts(witness))[:_MOST_FACTS],
        document=cut(json.dumps(dict(witness)), most=LONGEST_BLOCK),
    )


def _command(claim: ClaimResult, file: Path | None, specs: SpecsOf) -> tuple[str, str]:
    witness = claim.witness or {}
    if not can_replay(witness):
        return "", "Nothing runs a witness of this kind again."
    name = "COUNTEREXAMPLE.json" if file is None else str(file)
    words = ["nvfp4-moe", "replay", "--", name] if name.startswith("-") else ["nvfp4-moe", "replay", name]
    notes = ["Save the witness below as COUNTEREXAMPLE.json first."] if file is None else []
    options: list[str] = []
    for option in takes(witness):
        spec = specs.get(claim.subject or "", {}).get(option)
        if spec is None and witness.get(option) not in OWN_SUBJECTS:
            spec = _PLACEHOLDER
            notes.append(
                f"Put the file that was tested in place of {_PLACEHOLDER}; an installed package needs no --{option}."
            )
        if spec is not None:
            options += [f"--{option}", spec]
    return shlex.join(words[:2] + options + words[2:]), " ".join(notes)


def _facts(witness: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the place of the wrong byte first, then the witness's own entries, then those of the case."""
    outer = [(key, value) for key, value in witness.items() if key not in (*_INNER, *_TOLD)]
    inner = {name: witness.get(name) for name in _INNER}
    where, case = (
        [(f"{name}: {key}", value) for key, value in found.items()] if isinstance(found, dict) else []
        for name, found in inner.items()
    )
    yield from ((key, _fact(value)) for key, value in (*where, *outer, *case) if value != "")


def _fact(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return cut(text, most=_LONGEST_FACT)
