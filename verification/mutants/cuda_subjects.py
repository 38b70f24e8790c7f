"""Wrong subjects on a GPU, by id: what a fresh process is told to load (`.../cuda_subjects.py:ID`)."""

from __future__ import annotations

from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.mutants.catalogue import entry_of
from nvfp4_moe.verification.mutants.judge import subject_of


def __getattr__(name: str) -> Subject:
    """Return the subject on a GPU of the catalogue's entry with this id."""
    try:
        entry = entry_of(name)
    except KeyError:
        raise AttributeError(name) from None
    return subject_of(entry, "cuda")
