"""The witness of a difference between two subjects: the case that shows it. A replay runs that case on both again.

A witness has the subjects' names alone: a replay runs no file that the witness names. Own subjects and entry points are
found by their names, anything else is given by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.verification.against import Comparison
from nvfp4_moe.verification.bound_witness import CannotReplay, Replay
from nvfp4_moe.verification.conformance.plan import case_from_json
from nvfp4_moe.verification.conformance.subject import SubjectUnavailable
from nvfp4_moe.verification.result import Verdict

KIND = "against"


def replay(document: Mapping[str, Any], *, subject: str | None = None, against: str | None = None) -> Replay:
    """Run the case of the witness on both subjects again; any difference reproduces it.

    Args:
        document: the witness.
        subject, against: what `verify --subject` and `--against` take; None: by the names in the witness, never a file.

    Raises:
        ValueError, TypeError: the document is no such witness, or a file or attribute that was given is missing.
        CannotReplay: a subject cannot be loaded here, or the case is none of theirs any more.
    """
    one = _spec(document, "subject", subject)
    other = _spec(document, "against", against)
    level = check_size("level", document.get("level"), at_least=1)  # type: ignore[arg-type]  # it checks the type
    recorded = document.get("case")
    if not isinstance(recorded, dict):
        raise TypeError(f"case must be an object, got {recorded!r:.60}")
    case = case_from_json(recorded)
    seed = check_size("seed", getattr(case, "seed", None), at_least=0)  # type: ignore[arg-type]
    try:
        comparison = Comparison(one, other, level=level, seed=seed)
    except SubjectUnavailable as error:
        raise CannotReplay(f"{error}; if it is a file, give it with --subject or --against") from error
    try:
        comparison.cases = [known for known in comparison.cases if known == case]
        if not comparison.cases:
            raise CannotReplay(f"level {level} has no such case for {comparison.name} any more")
        rows = list(comparison.rows())
    finally:
        comparison.close()
    told = [row.outcome.detail for row in rows if row.outcome.verdict is Verdict.REFUTED]
    return Replay(bool(told), (comparison.name, *(told or ["no difference"])))


def _spec(document: Mapping[str, Any], key: str, given: str | None) -> str:
    name = document.get(key)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{key} must be text, got {name!r:.60}")
    if given is None and (".py" in name or "/" in name):
        raise CannotReplay(f"give the file of {name} with --{key}")
    return given or name
