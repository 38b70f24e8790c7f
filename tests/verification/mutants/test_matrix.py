"""The matrix: who is tried, what is counted, and what is told of it."""

from __future__ import annotations

import pytest

from nvfp4_moe.verification.mutants import matrix as module
from nvfp4_moe.verification.mutants.catalogue import catalogue
from nvfp4_moe.verification.mutants.harness_variants import HARNESS_VARIANTS
from nvfp4_moe.verification.mutants.judge import Judged
from nvfp4_moe.verification.mutants.matrix import Matrix, carried_by_one, make_matrix, needed_by
from nvfp4_moe.verification.mutants.mutant import SubjectMutant
from nvfp4_moe.verification.result import Verdict

SUBJECTS = [mutant for mutant in catalogue() if isinstance(mutant.target, SubjectMutant)]
OTHER = next(mutant for mutant in catalogue() if not isinstance(mutant.target, SubjectMutant))


def judged(name: str, verdict: Verdict = Verdict.REFUTED, device: str = "cpu") -> Judged:
    return Judged(id=name, device=device, verdict=verdict, witness={"kind": "subject", "number": 0})


def test_refuted_subjects_on_the_cpu_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def rows(entries):
        asked.extend(name for name, _, _ in entries)
        yield from ((name, ["one_fill"]) for name, _, _ in reversed(entries))

    monkeypatch.setattr(module, "_in_processes", rows)
    done: list[str] = []
    first, second, third, fourth = SUBJECTS[:4]
    made = make_matrix(
        [
            (first, judged(first.id)),
            (OTHER, judged(OTHER.id)),
            (second, judged(second.id, Verdict.HELD)),
            (third, judged(third.id, device="cuda")),
            (fourth, judged(fourth.id)),
        ],
        seed=0,
        finished=done.append,
    )
    assert asked == list(made.escapes) == [first.id, fourth.id]
    assert done == [fourth.id, first.id]
    assert made.escaped("one_fill") == [first.id, fourth.id]
    assert made.escaped("no_laws") == []


def test_processes_answer() -> None:
    assert list(module._in_processes([])) == []


def test_json_has_an_entry_for_each_weakened_harness() -> None:
    entries = Matrix({"a.b": ["one_fill"], "c.d": []}).to_json()
    assert [entry["id"] for entry in entries] == [variant.id for variant in HARNESS_VARIANTS]
    assert {entry["tried"] for entry in entries} == {2}
    assert next(entry for entry in entries if entry["id"] == "one_fill")["escaped"] == ["a.b"]


def test_counts_and_what_carries_a_class_alone() -> None:
    entries = [
        {"id": "one", "escaped": ["a", "b", "c"]},
        {"id": "two", "escaped": ["a"]},
        {"id": "idle", "escaped": []},
    ]
    counts = needed_by(entries, {"a": "A", "b": "A", "c": "C"})
    assert counts == {"one": {"A": 2, "C": 1}, "two": {"A": 1}, "idle": {}}
    assert carried_by_one(counts) == {"C": "one"}
