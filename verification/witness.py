"""Counterexamples on disk: saved so that they cannot be half-written, read back without trust, run again.

A saved file is the witness of one refuted claim, with `found_by` (claim, method, required, subject) added. `replay
FILE` also takes the JSON of a whole `verify` run: every refuted claim in it is run again. `KINDS` says which module
knows a witness kind.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nvfp4_moe.verification.bound_witness import Replay
from nvfp4_moe.verification.result import SCHEMA_VERSION, ClaimResult, Verdict, Witness

KINDS: dict[str, str] = {
    "bound": "nvfp4_moe.verification.bound_witness",
    "golden": "nvfp4_moe.verification.golden_witness",
    "monotone": "nvfp4_moe.verification.monotone_witness",
    "operator": "nvfp4_moe.verification.operator_witness",
    "index": "nvfp4_moe.verification.index_witness",
    "placement": "nvfp4_moe.verification.routing_witness",
    "proof": "nvfp4_moe.verification.proof_witness",
    "routing": "nvfp4_moe.verification.routing_witness",
    "subject": "nvfp4_moe.verification.subject_witness",
    "trace": "nvfp4_moe.verification.trace_witness",
    "against": "nvfp4_moe.verification.against_witness",
}
"""Module of each witness kind, loaded when one is replayed; it has `replay(document) -> Replay`. Those of
`_SUBJECTS` also take what to run."""

_SUBJECTS = {"subject": ("subject",), "against": ("subject", "against")}
"""Kinds that run implementations, and the names under which these are given."""

SCRIPTS: dict[str, str] = {
    "bound": "nvfp4_moe.verification.script",
    "subject": "nvfp4_moe.verification.subject_script",
}
"""Module of each witness kind that can be written as a script; it has `as_script(document) -> str`."""

LARGEST_FILE = 64 << 20
"""Bytes; larger files are refused before they are read."""

_CLAIM_ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_DIGEST_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A witness from a file."""

    claim: str | None
    required: bool
    witness: Witness | None
    """None: the claim was refuted without one."""
    subject: str | None = None
    place: str = ""
    """Where the file holds it, such as "claims[3]"; empty for the only one."""


def write_atomically(path: Path, text: str) -> None:
    """Write `text` under a temporary name in the same folder, then rename: readers see all of it or nothing.

    Raises:
        OSError: the folder is missing or not writable.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def save_counterexample(folder: Path, claim: ClaimResult) -> Path:
    """Save the witness of a refuted claim and return its path; the same witness gets the same name.

    Raises:
        ValueError: the claim has no witness, or its id is no dotted name.
        OSError: the folder cannot be made or written.
    """
    if claim.witness is None:
        raise ValueError(f"claim {claim.id} has no witness to save")
    if not _CLAIM_ID.fullmatch(claim.id):
        raise ValueError(f"a claim id is a dotted name, got {claim.id!r}")
    found_by: dict[str, Any] = {"claim": claim.id, "method": str(claim.method), "required": claim.required}
    if claim.subject is not None:
        found_by["subject"] = claim.subject
    text = json.dumps(dict(claim.witness) | {"found_by": found_by}, allow_nan=False) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{claim.id}-{claim.method}-{digest}.json"
    write_atomically(path, text)
    return path


def load_counterexamples(path: Path) -> list[Counterexample]:
    """Return the counterexample of a saved file, or those of the JSON of a `verify` run: its refuted claims.

    Raises:
        OSError: the file cannot be read.
        ValueError, TypeError: too large, not JSON, or neither of the two; the text names the file and the fault.
    """
    document = _read(path)
    try:
        if "claims" in document:
            return _of_run(document)
        if "kind" in document:
            found_by = document.get("found_by", {})
            if not isinstance(found_by, dict):
                raise TypeError(f"'found_by' must be an object, got {found_by!r:.60}")
            return [_counterexample(found_by, document)]
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}: {error}") from error
    raise ValueError(
        f"{path}: neither a saved counterexample (key 'kind') nor the JSON of a verify run (key 'claims')"
    )


def takes(witness: Witness) -> tuple[str, ...]:
    """Return what a witness of this kind can be run on: "subject", "against", or nothing."""
    kind = witness.get("kind")
    return _SUBJECTS.get(kind, ()) if isinstance(kind, str) else ()


def can_replay(witness: Witness) -> bool:
    """Return whether something here knows the witness's kind."""
    return witness.get("kind") in list(KINDS)


def replay(witness: Witness, *, subject: str | None = None, against: str | None = None) -> Replay:
    """Run a witness again.

    Args:
        witness: the document.
        subject: what to run the case of a subject's fault on, as `verify --subject` takes it; None: by its name.
        against: the same of what it was compared with.

    Raises:
        ValueError, TypeError: an unknown kind, or a witness that its kind does not accept.
        CannotReplay: something that the witness needs is missing on this machine.
    """
    run: Callable[..., Replay] = _module(witness, KINDS, "a counterexample").replay
    given = {"subject": subject, "against": against}
    return run(witness, **{name: given[name] for name in takes(witness)})


def as_script(witness: Witness) -> str:
    """Return a stand-alone torch script that fails while the counterexample holds.

    Raises:
        ValueError, TypeError: a kind that has no script, or a witness that its kind does not accept.
    """
    write: Callable[[Witness], str] = _module(
        witness, SCRIPTS, "a counterexample that becomes a script"
    ).as_script
    return write(witness)


def _module(witness: Witness, modules: Mapping[str, str], what: str) -> Any:
    kind = witness.get("kind")
    if not isinstance(kind, str) or kind not in modules:
        raise ValueError(f"the kind of {what} must be one of {', '.join(modules)}, got {kind!r:.60}")
    return importlib.import_module(modules[kind])


def _counterexample(found_by: Mapping[str, Any], witness: Any, *, place: str = "") -> Counterexample:
    if witness is not None and not isinstance(witness, dict):
        raise TypeError(f"'witness' must be an object, got {witness!r:.60}")
    return Counterexample(
        claim=_optional_text(found_by, "claim"),
        required=_flag(found_by, "required"),
        witness=witness,
        subject=_optional_text(found_by, "subject"),
        place=place,
    )


def _of_run(document: Mapping[str, Any]) -> list[Counterexample]:
    if document.get("schema") != SCHEMA_VERSION:
        raise ValueError(
            f"'schema' of a verify run must be {SCHEMA_VERSION}, got {document.get('schema')!r:.60}"
        )
    claims = document["claims"]
    if not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims):
        raise TypeError("'claims' must be a list of objects")
    found = []
    for place, claim in enumerate(claims):
        if claim.get("verdict") not in tuple(Verdict):
            raise ValueError(f"claims[{place}]: 'verdict' must be one of {', '.join(Verdict)}")
        if claim["verdict"] == Verdict.REFUTED:
            about = claim | {"claim": claim.get("id")}
            try:
                found.append(_counterexample(about, claim.get("witness"), place=f"claims[{place}]"))
            except TypeError as error:
                raise TypeError(f"claims[{place}]: {error}") from error
    return found


def _optional_text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name!r} must be text, got {value!r:.60}")
    return value


def _flag(document: Mapping[str, Any], name: str) -> bool:
    value = document.get(name, True)
    if not isinstance(value, bool):
        raise TypeError(f"{name!r} must be true or false, got {value!r:.60}")
    return value


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"{path}: more than {LARGEST_FILE >> 20} MiB, no counterexample is that large")
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise TypeError(f"{path}: must be a JSON object, got {type(document).__name__}")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
