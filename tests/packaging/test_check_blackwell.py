"""The check of Blackwell's machine code: what it counts, and what it says where it cannot run."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nvfp4_moe.cuda.build import BuildError, MissingToolError

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_blackwell.py"
LISTING = """
        /*1a20*/                   UTCOMMA.2CTA.4X gdesc[UR20], gdesc[UR22], tmem[UR4], tmem[UR14], idesc[UR15], UP0 ;
        /*1a30*/                   UTCOMMA.4X gdesc[UR20], gdesc[UR22], tmem[UR4], tmem[UR14], idesc[UR15], UP0 ;
        /*1a40*/                   UTCOMMA.4X gdesc[UR20], gdesc[UR22], tmem[UR4], tmem[UR14], idesc[UR15], UP0 ;
        /*1a50*/                   OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X R4, R8, R12, R4, R16, R17, URZ ;
        /*1a60*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
"""


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_blackwell", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_instructions_are_counted(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "disassembler", lambda: "nvdisasm")
    done = subprocess.CompletedProcess([], 0, stdout=LISTING)
    monkeypatch.setattr(tool.subprocess, "run", lambda *_, **__: done)
    assert tool.instructions(Path("x.cubin")) == {
        "UTCOMMA.2CTA.4X": 1, "UTCOMMA.4X": 2, "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X": 1,
    }  # fmt: skip


def present(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, check: Any) -> None:
    monkeypatch.setattr(tool, "disassembler", lambda: "nvdisasm")
    monkeypatch.setattr(tool, "cutlass_include", lambda: Path("include"))
    monkeypatch.setattr(tool, "check", check)


@pytest.mark.parametrize(("right", "code"), [(["100a", "103a", "120a"], 0), (["100a", "120a"], 1)])
def test_all_targets_by_default(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, right: list[str], code: int
) -> None:
    seen: list[str] = []
    present(tool, monkeypatch, lambda target: seen.append(target) or target in right)
    assert tool.main([]) == code
    assert seen == ["100a", "103a", "120a"]


def test_another_target(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["90a"]) == 2
    assert "targets are 100a, 103a, 120a, got 90a" in capsys.readouterr().err


def test_what_is_missing_is_named(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking() -> str:
        raise MissingToolError("nvdisasm was not found")

    monkeypatch.setattr(tool, "disassembler", lacking)
    assert tool.main(["120a"]) == 3
    assert "was not checked: nvdisasm was not found" in capsys.readouterr().err


def test_a_compiler_that_refuses(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(target: str) -> bool:
        raise BuildError(f"{target}: nvcc failed")

    present(tool, monkeypatch, refused)
    assert tool.main(["120a"]) == 1
    assert "120a: nvcc failed" in capsys.readouterr().err
