"""`nvfp4-moe describe`: the text, the JSON and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.cli.main import run
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.describe import Description, Line
from nvfp4_moe.verification.task_messages import Card

CARD = Card("mine", "cpu", ("scaled_fp4_experts_quant",), Contract())
PADDING = Line("row_padding", "unwritten", {"row_padding": "unspecified"})


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """Make these lines what was measured."""
    found = [PADDING]

    def describe(spec: str, seed: int, progress: Any) -> Description:
        progress("padding")
        return Description(CARD, found)

    monkeypatch.setattr("nvfp4_moe.verification.describe.describe", describe)
    return found


@pytest.mark.usefixtures("lines")
def test_the_contract_is_printed_as_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", "mine.py"]) == 0
    printed = capsys.readouterr().out
    assert "mine (cpu): scaled_fp4_experts_quant" in printed
    assert "\nContract(row_padding='unspecified')\n" in printed
    assert "Closest preset: vllm or sglang" in printed
    assert "own contract says otherwise: row_padding 'zero', measured 'unspecified'" in printed


@pytest.mark.usefixtures("lines")
def test_json_on_standard_output_is_alone_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", "mine.py", "--json", "-"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["code"] == "Contract(row_padding='unspecified')"
    assert document["contract"]["row_padding"] == "unspecified"
    assert "Closest preset" in printed.err


def test_what_could_not_be_determined_exits_3(lines: list[Line], capsys: pytest.CaptureFixture[str]) -> None:
    lines.append(Line("strided", "misread", determined=False))
    assert run(["describe", "mine.py"]) == 3
    assert "undetermined: misread" in capsys.readouterr().out


def test_subjects_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", str(tmp_path / "absent.py")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert run(["describe", "a_subject_that_nobody_registered"]) == 3
    assert "unknown subject" in capsys.readouterr().out


def test_the_json_is_not_the_subject(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "subject.py"
    path.write_text("kept")
    assert run(["describe", f"{path}:Subject", "--json", str(path)]) == 2
    assert "which this run needs" in capsys.readouterr().err
    assert path.read_text() == "kept"
