"""A whole run: its exit code, its JSON, and what is chosen."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence

import pytest
from jsonschema import Draft202012Validator

from nvfp4_moe.verification import schema
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.mutants import run as module
from nvfp4_moe.verification.mutants.catalogue import catalogue
from nvfp4_moe.verification.mutants.judge import Judged, judge
from nvfp4_moe.verification.mutants.mutant import Mutant, RightSubject, SubjectMutant
from nvfp4_moe.verification.mutants.run import CatalogueResult, chosen, run_catalogue
from nvfp4_moe.verification.result import Verdict

MUTANTS = catalogue()[:2]
RIGHT = RightSubject(
    id="test.right", change="nothing", target=SubjectMutant(factory=lambda right: reference_subject())
)
REFUTED, HELD, SKIPPED, UNDECIDED = Verdict.REFUTED, Verdict.HELD, Verdict.SKIPPED, Verdict.UNDECIDED


def result(verdicts: Sequence[Verdict], right: Sequence[Verdict] = ()) -> CatalogueResult:
    return CatalogueResult(
        seed=0,
        device="cpu",
        mutants=[
            (m, Judged(id=m.id, device="cpu", verdict=v)) for m, v in zip(MUTANTS, verdicts, strict=False)
        ],
        right=[(RIGHT, Judged(id=RIGHT.id, device="cpu", verdict=v)) for v in right],
    )


@pytest.mark.parametrize(
    ("verdicts", "right", "code"),
    [
        ((REFUTED, REFUTED), (), 0),
        ((REFUTED, REFUTED), (HELD,), 0),
        ((REFUTED, SKIPPED), (SKIPPED,), 0),
        ((REFUTED, HELD), (HELD,), 1),
        ((REFUTED, REFUTED), (REFUTED,), 1),
        ((HELD, UNDECIDED), (), 1),
        ((REFUTED, UNDECIDED), (HELD,), 3),
        ((REFUTED, REFUTED), (UNDECIDED,), 3),
        ((SKIPPED, SKIPPED), (), 3),
        ((), (), 3),
    ],
)
def test_exit_codes(verdicts: tuple[Verdict, ...], right: tuple[Verdict, ...], code: int) -> None:
    assert result(verdicts, right).exit_code == code


def test_json() -> None:
    document = json.loads(result((REFUTED, HELD), (HELD,)).dumps())
    assert (document["seed"], document["device"], document["interrupted"]) == (0, "cpu", False)
    assert [entry["fault_class"] for entry in document["mutants"]] == ["A", "A"]
    assert {"id", "fault_class", "verdict", "check", "cases", "seconds", "witness"} <= set(
        document["mutants"][0]
    )
    assert document["right_subjects"][0]["id"] == "test.right"


def test_the_schema_accepts_what_is_written_and_nothing_else() -> None:
    validator = Draft202012Validator(schema.load("mutants"))
    document = json.loads(result((REFUTED, HELD), (HELD,)).dumps())
    validator.validate(document)
    found = [(mutant, judge(mutant, device="cpu", seed=0)) for mutant in chosen(("D",))[0][:1]]
    witnessed = CatalogueResult(seed=0, device="cpu", mutants=found, right=[])
    validator.validate(json.loads(witnessed.dumps()))
    for key, value in (("verdict", "PROVED"), ("cases", -1), ("fault_class", "Z"), ("witness", {})):
        wrong = json.loads(witnessed.dumps())
        wrong["mutants"][0][key] = value
        assert not validator.is_valid(wrong), key


def test_classes_are_chosen_by_letter() -> None:
    mutants, right = chosen(("C", "D"))
    assert {mutant.fault_class for mutant in mutants} == {"C", "D"}
    assert right == []
    assert len(chosen()[0]) == len(catalogue())
    with pytest.raises(ValueError, match=r"must be one of A, B, .*, got 'Z'"):
        chosen(("Z",))


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of cpu, cuda, got 'tpu'"):
        run_catalogue(MUTANTS, (), device="tpu")


def test_interrupted_keeps_what_was_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge_all(entries: Sequence[str], **options: object) -> Generator[Judged, None, None]:
        yield Judged(id=entries[0], device="cpu", verdict=REFUTED)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "judge_all", judge_all)
    finished: list[str] = []
    found = run_catalogue(MUTANTS, (), finished=lambda judged: finished.append(judged.id))
    assert found.interrupted
    assert [judged.verdict for _, judged in found.mutants] == [REFUTED, UNDECIDED]
    assert found.mutants[1][1].detail == "interrupted"
    assert finished == [MUTANTS[0].id]
    assert found.exit_code == 3


def test_right_implementations_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def judge_all(entries: Sequence[str], **options: object) -> Generator[Judged, None, None]:
        asked.extend(entries)
        yield from (Judged(id=entry, device="cpu", verdict=SKIPPED) for entry in entries)

    monkeypatch.setattr(module, "judge_all", judge_all)
    few: tuple[Mutant, ...] = MUTANTS
    run_catalogue(few, (RIGHT,))
    assert asked == ["test.right", *(mutant.id for mutant in few)]
