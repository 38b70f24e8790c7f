"""Tables are named where they decide bytes, and measured once where none ships."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from nvfp4_moe.reference.tables import FOLDER_VARIABLE, KINDS, Table, find_table, measured_folder, save_table
from nvfp4_moe.verification import hardware_tables
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.hardware_tables import tables_for

CHIP = "a chip that nobody makes"


def subject(device: str = "cuda", arithmetic: Any = "hardware") -> Subject:
    return Subject("kernel", device, Contract(arithmetic=arithmetic), shuffle_rows=lambda *a: None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of measured tables, and a GPU that has none."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "tables"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: CHIP)
    return tmp_path / "tables"


def write_tables(where: Path) -> None:
    for kind, (dtype, entries) in KINDS.items():
        table = Table(kind=kind, chip=CHIP, sequence="made up", values=torch.zeros(entries, dtype=dtype))
        save_table(table, where / f"{kind}.table")


def test_tables_are_measured_once_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[str]] = []

    def run(command: list[str], **unused: object) -> subprocess.CompletedProcess[str]:
        runs.append(command)
        write_tables(folder)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(hardware_tables.subprocess, "run", run)
    first = tables_for(subject())
    assert len(first) == len(KINDS)
    assert all(CHIP in name for name in first)
    assert tables_for(subject()) == first
    assert len(runs) == 1
    assert str(folder) in runs[0]
    assert find_table("reciprocal", chip=CHIP).sequence == "made up"


@pytest.mark.usefixtures("folder")
def test_a_machine_that_cannot_measure_has_no_tables_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\nRuntimeError: no compiler\n")
    monkeypatch.setattr(hardware_tables.subprocess, "run", lambda *a, **k: failed)
    assert tables_for(subject()) == []
    assert "RuntimeError: no compiler" in capsys.readouterr().err


@pytest.mark.parametrize(("device", "arithmetic"), [("cuda", "ieee"), ("cpu", "hardware"), ("cpu", "ieee")])
def test_nothing_is_measured_where_no_table_decides(
    device: str, arithmetic: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware_tables, "_measure", lambda: pytest.fail("measured"))
    assert tables_for(subject(device, arithmetic)) == []
    assert not folder.exists()


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert measured_folder() == tmp_path
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert measured_folder() == tmp_path / "cache" / "nvfp4-moe" / "tables"
