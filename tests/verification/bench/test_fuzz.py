"""The fuzz benchmark runs every family and writes what it prints; no speed is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvfp4_moe.verification.bench import fuzz
from nvfp4_moe.verification.families import FAMILIES


def test_every_family_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fuzz.json"
    fuzz.main(["--experts", "4", "--workers", "2", "--seconds", "0", "--json", str(path)])
    record = json.loads(path.read_text())
    assert record["experts"] == 4
    names = [row["family"] for row in record["speeds"] if row["form"] == "counts"]
    assert len(names) == len(set(names)) >= len(FAMILIES) - 1
    assert all(row["routings"] > 0 and row["routings_per_second"] > 0 for row in record["speeds"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)
