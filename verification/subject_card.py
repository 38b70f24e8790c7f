"""What a subject says of itself, learned without importing a stranger's code here.

A file or an entry point may print, exit, crash or hang when it is imported. So it is imported in a child alone, which
says the subject's card; our own subjects and objects that the caller already holds are asked here.
"""

from __future__ import annotations

from nvfp4_moe.verification.conformance.subject import (
    OWN_SUBJECTS,
    Subject,
    SubjectUnavailable,
    check_spec,
    load_subject,
)
from nvfp4_moe.verification.task_child import LOAD_SECONDS, ChildEnded, TaskChild
from nvfp4_moe.verification.task_messages import Card


def card_of(spec: str | Subject, *, seconds: float = LOAD_SECONDS) -> Card:
    """Return a subject's card.

    Args:
        spec: a name for `load_subject`, or a Subject.
        seconds: time limit of loading a named one.

    Raises:
        SubjectError, SubjectUnavailable: see `load_subject`; a child that dies or hangs while it loads is unavailable.
    """
    if isinstance(spec, Subject):
        return Card.of(spec)
    check_spec(spec)
    if spec in OWN_SUBJECTS:
        return Card.of(load_subject(spec))
    try:
        with TaskChild(spec, "outputs") as child:  # any task does: none is asked for anything
            return child.card(seconds=seconds)
    except ChildEnded as ended:
        raise SubjectUnavailable(f"{spec}: its process ended while it loaded: {ended}") from ended
