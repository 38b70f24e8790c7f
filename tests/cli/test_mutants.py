"""`nvfp4-moe mutants`: the table, the JSON and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from nvfp4_moe.cli.main import run
from nvfp4_moe.verification.mutants import run as catalogue_run
from nvfp4_moe.verification.mutants.catalogue import catalogue
from nvfp4_moe.verification.mutants.judge import Judged
from nvfp4_moe.verification.result import Verdict


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Verdict]:
    """Judge nothing: every entry is refuted, those in the returned table are what it says."""
    known: dict[str, Verdict] = {}

    def judge_all(
        entries: Sequence[str], *, device: str, seed: int, workers: int
    ) -> Generator[Judged, None, None]:
        del seed, workers
        for entry in entries:
            verdict = known.get(entry, Verdict.REFUTED)
            yield Judged(
                id=entry, device=device, verdict=verdict, check="padding.bound", cases=7, detail="why"
            )

    monkeypatch.setattr(catalogue_run, "judge_all", judge_all)
    return known


def test_a_class_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Class D: bounds alone, judged in processes of their own."""
    path = tmp_path / "mutants.json"
    assert run(["mutants", "--class", "d", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "bound_loose.all_ranks" in printed
    assert "Every variant that ran is refuted" in printed
    document = json.loads(path.read_text())
    wanted = [mutant.id for mutant in catalogue() if mutant.fault_class == "D"]
    assert [entry["id"] for entry in document["mutants"]] == wanted
    assert {entry["check"] for entry in document["mutants"]} == {"padding.attained"}
    assert all(entry["witness"]["kind"] == "bound" for entry in document["mutants"])


def test_a_survivor_exits_1(verdicts: dict[str, Verdict], capsys: pytest.CaptureFixture[str]) -> None:
    verdicts["bound_short.one_row"] = Verdict.HELD
    assert run(["mutants", "--class", "C"]) == 1
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if "bound_short.one_row " in line and "│" in line]
    assert "SURVIVED" in line
    assert "SURVIVED: bound_short.one_row" in printed


def test_undecided_exits_3(verdicts: dict[str, Verdict], capsys: pytest.CaptureFixture[str]) -> None:
    verdicts["bound_short.one_row"] = Verdict.UNDECIDED
    assert run(["mutants", "--class", "C"]) == 3
    assert "Not everything could be decided" in capsys.readouterr().out


@pytest.mark.usefixtures("verdicts")
def test_json_on_standard_output_is_alone_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutants", "--class", "A", "--class", "B", "--device", "cuda", "--json", "-"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert {entry["fault_class"] for entry in document["mutants"]} == {"A", "B"}
    assert document["device"] == "cuda"
    assert "Known-wrong variants on cuda" in printed.err


def test_an_unknown_class_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutants", "--class", "Z"]) == 2
    assert "a fault class must be one of A, B" in capsys.readouterr().err
