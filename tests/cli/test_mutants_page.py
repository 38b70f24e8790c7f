"""`nvfp4-moe mutants --matrix --page`: one run writes the JSON and the page."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from nvfp4_moe.cli.main import run
from nvfp4_moe.verification import schema
from nvfp4_moe.verification.mutants import run as catalogue_run
from nvfp4_moe.verification.mutants.harness_variants import HARNESS_VARIANTS
from nvfp4_moe.verification.mutants.judge import Judged
from nvfp4_moe.verification.mutants.page import page
from nvfp4_moe.verification.result import Verdict


@pytest.fixture(autouse=True)
def nothing_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge_all(entries: Sequence[str], **options: object) -> Generator[Judged, None, None]:
        yield from (Judged(id=name, device="cpu", verdict=Verdict.REFUTED) for name in entries)

    monkeypatch.setattr(catalogue_run, "judge_all", judge_all)


def test_json_and_page_of_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Class D has bounds alone: the matrix is empty, and there."""
    found, text = tmp_path / "mutants.json", tmp_path / "faults.md"
    assert run(["mutants", "--class", "D", "--matrix", "--json", str(found), "--page", str(text)]) == 0
    assert "The harness weakened" in capsys.readouterr().out
    document = json.loads(found.read_text())
    Draft202012Validator(schema.load("mutants")).validate(document)
    assert [entry["id"] for entry in document["harness_variants"]] == [v.id for v in HARNESS_VARIANTS]
    assert text.read_text(encoding="utf-8") == page(document)


def test_one_file_for_both_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "both")
    assert run(["mutants", "--class", "D", "--json", path, "--page", path]) == 2
    assert "both" in capsys.readouterr().err
