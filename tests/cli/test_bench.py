"""`nvfp4-moe bench`: output, JSON, comparison with a baseline, exit codes; nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from nvfp4_moe.cli.main import run
from nvfp4_moe.cuda.build import BuildError
from nvfp4_moe.verification.bench import cpu, quantize
from nvfp4_moe.verification.bench import record as bench_record
from nvfp4_moe.verification.bench.quant_case import Shape, WrongBytesError


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The CPU benchmark on sizes that take no time; returns what it was asked."""
    asked: dict[str, Any] = {}
    small = Shape(rows=6, k=64, experts=2)
    measure = cpu.measure

    def quick(*, seed: int, progress: Any) -> dict[str, Any]:
        asked["seed"] = seed
        return measure(seed=seed, progress=progress, shape=small, rounds=1, fuzz_seconds=0.0)

    monkeypatch.setattr(cpu, "measure", quick)
    monkeypatch.setattr(
        cpu.fuzz, "measure", lambda **options: {
            "experts": 256, "workers": 1, "torch": "2", "cpu_capability": "none", "load_average": 0.0, "cpus": 1,
            "speeds": [],
        },
    )  # fmt: skip
    monkeypatch.setattr(quantize, "torchao_quantize", lambda: None)
    return asked


def test_the_cpu_is_measured_and_told(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    assert run(["bench", "--device", "cpu", "--seed", "7", "--json", str(file)]) == 0
    record = json.loads(file.read_text())
    printed = capsys.readouterr()
    assert record["seed"] == measured["seed"] == 7
    assert record["device"]["name"] in printed.out
    assert "golden model" in printed.out
    assert "measuring: golden quantizers" in printed.err
    assert all(entry["ratio"] > 0 for entry in record["ratios"].values())


def test_json_on_standard_output_is_alone_there(
    measured: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "--device", "cpu", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmark"] == "nvfp4-moe bench"


@pytest.mark.parametrize(("factor", "code"), [(1e-3, 0), (1e3, 1)])
def test_a_baseline_decides_the_exit_code(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, code: int
) -> None:
    file = tmp_path / "baseline.json"
    assert run(["bench", "--device", "cpu", "--json", str(file)]) == 0
    stored = json.loads(file.read_text())
    for entry in stored["ratios"].values():
        entry["ratio"] *= factor
        entry["noise"] = 0.0
    file.write_text(json.dumps(stored))
    assert run(["bench", "--device", "cpu", "--baseline", str(file)]) == code
    assert ("slower than the baseline" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (WrongBytesError("quant 8 x 64, ieee: 1 of 9 bytes differ"), 1, "1 of 9 bytes differ"),
        (BuildError("nvcc: line 1"), 3, "not measured: nvcc: line 1"),
    ],
)
def test_what_cannot_be_trusted_or_built_is_no_success(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    message: str,
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(bench_record, "run", fail)
    assert run(["bench", "--device", "cpu"]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "tpu"], "tpu"),
        (["--baseline", "/absent/file.json"], "No such file"),
        (["--baseline", __file__], "not JSON"),
        (["--json", "/absent/file"], "/absent"),
        (["--seed", "-1"], "must be between 0"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_gpu_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(["bench", "--device", "cuda"]) == 2
    assert "no CUDA device is present" in capsys.readouterr().err
