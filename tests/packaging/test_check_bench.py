"""The comparison of measured with stored ratios: what it lets through and what it stops."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORED = {"quant": {"ratio": 0.9, "noise": 0.1}}


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_bench", ROOT / "tools" / "check_bench.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_bench = _load()


@pytest.mark.parametrize(
    ("measured", "fails", "told"),
    [
        ({"quant": 0.9}, "", ""),
        ({"quant": 0.8101}, "", ""),
        ({"quant": 0.8099}, "quant: 0.810, stored 0.900 with a noise of 10.0%", ""),
        ({"quant": float("nan")}, "quant: nan", ""),
        ({"quant": 0.991}, "", "quant: faster, 0.991, stored 0.900"),
        ({}, "quant: not measured, stored 0.900", ""),
        ({"quant": 0.9, "routing": 1.5}, "", "routing: 1.500, not stored"),
    ],
)
def test_ratios(measured: dict[str, float], fails: str, told: str) -> None:
    slower, remarks = check_bench.compare(measured, STORED)
    assert len(slower) == bool(fails)
    assert len(remarks) == bool(told)
    assert "".join(slower).startswith(fails)
    assert "".join(remarks) == told


@pytest.mark.parametrize(("ratio", "code"), [(0.9, 0), (0.5, 1)])
def test_exit_codes(ratio: float, code: int, tmp_path: Path) -> None:
    measured, baseline = tmp_path / "measured.json", tmp_path / "baseline.json"
    measured.write_text(json.dumps({"chip": "any", "ratios": {"quant": ratio}}))
    baseline.write_text(json.dumps({"ratios": STORED}))
    assert check_bench.main([str(measured), str(baseline)]) == code
    assert check_bench.main([str(measured)]) == 2


@pytest.mark.parametrize("document", ["{}", "[]", '{"ratios": {}}'])
def test_a_file_without_ratios_does_not_pass(document: str, tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text(document)
    with pytest.raises(ValueError, match="no ratios"):
        check_bench.read_ratios(file)
