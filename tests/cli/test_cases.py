"""`nvfp4-moe cases`: files, JSON and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvfp4_moe.cli.main import run
from nvfp4_moe.verification.golden_vectors import load_vectors


def test_vectors_are_written_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    arguments = ["--operation", "get_cutlass_moe_mm_data", "--limit", "2", "--json", "-"]
    assert run(["cases", "--out", str(folder), *arguments]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((folder / "manifest.json").read_text())
    assert f"2 cases in {folder}" in printed.err
    assert len(list(load_vectors(folder))) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--operation", "quantize"], "operation must be one of"),
        (["--chip", "none"], "none"),
        (["--recipe", "mine"], "recipe must be one of"),
        (["--limit", "0"], "must be between 1"),
        (["--level", "3"], "must be between 1 and 2"),
        (["--json", "/absent/file"], "does not exist"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cases", "--out", str(tmp_path / "out"), *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    assert run(["cases", "--out", str(tmp_path)]) == 2
    assert "must be an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_json_is_not_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "out")
    assert run(["cases", "--out", path, "--json", path]) == 2
    assert "which this run needs" in capsys.readouterr().err
