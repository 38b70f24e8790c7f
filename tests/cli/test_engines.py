"""`nvfp4-moe engines`: the table, its JSON, bad input in one line."""

from __future__ import annotations

import json
from functools import partial

import jsonschema
import pytest
from rich.console import Console

from nvfp4_moe.analysis import engines
from nvfp4_moe.cli.engines import _print
from nvfp4_moe.cli.main import run
from nvfp4_moe.verification import schema
from nvfp4_moe.verification.grid import Grid
from nvfp4_moe.verification.proofs.judging import skipped

SMALL = Grid(max_num_batched_tokens=(1, 8192), topk=(1, 8), experts=(8, 2048))


@pytest.fixture(autouse=True)
def _small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "engine_lines", partial(engines.engine_lines, grid=SMALL))
    monkeypatch.setattr(
        engines, "prove_formula", lambda name, tile: skipped(["z3-solver"])
    )  # proofs have their test


def test_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engines", "--json", "-"]) == 0
    streams = capsys.readouterr()
    result = json.loads(streams.out)
    jsonschema.validate(result, schema.load("engines"))
    assert [name for name, line in result["formulas"].items() if not line["safe"]] == ["vllm_env", "sglang"]
    assert "sglang             │ UNSAFE  │ SKIPPED" in streams.err
    assert "vllm_env: 1,281 routed rows on 2,048 experts" in streams.err


def test_a_terminal_of_80_columns_cuts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    lines = engines.engine_lines(tile=128, expert_parallel_size=1)
    _print(Console(width=80), lines, typical=8192, decode=64)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert any(line.split()[:2] == ["flashinfer_cutlass", "safe"] for line in printed.splitlines() if line)
    assert f"sglang: SGLang; {lines[5].domain}" in printed


def test_a_json_that_is_not_delivered(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engines", "--json", "/dev/full"]) == 3
    assert "/dev/full cannot be written: No space left on device" in capsys.readouterr().err


def test_bad_size_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engines", "--expert-parallel-size", "100000"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
