"""The benchmark's own parts: deterministic input, a complete record, text and JSON, bad sizes. Nothing is timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nvfp4_moe.verification.bench import quantize as bench


def test_input_is_the_same_everywhere_and_bell_shaped() -> None:
    input = bench.activations(8, 256)
    assert torch.equal(input, bench.activations(8, 256))
    assert input[0, :4].tolist() == bench.activations(4, 256)[0, :4].tolist()
    assert input.abs().max() <= 8
    assert abs(float(input.float().mean())) < 0.2
    assert 2.0 < float(input.float().std()) < 2.6


@pytest.mark.parametrize(("rows", "experts"), [(2048, 8), (7, 3), (1, 4)])
def test_offsets_own_every_row(rows: int, experts: int) -> None:
    offsets = bench.ragged_offsets(rows, experts)
    assert (offsets[0], offsets[-1], len(offsets)) == (0, rows, experts + 1)
    assert (offsets.diff() >= 0).all()


def test_record_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    assert (
        bench.main(["--rows", "6", "--k", "64", "--experts", "2", "--rounds", "1", "--json", str(path)]) == 0
    )
    record = json.loads(path.read_text())
    text = capsys.readouterr().out
    assert [timing["subject"] for timing in record["timings"]][:3] == [
        "quantize",
        "quantize, torchao recipe",
        "quantize_experts",
    ]
    assert all(timing["median_ms"] > 0 for timing in record["timings"])
    assert all(timing["subject"] in text for timing in record["timings"])
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_json_on_stdout_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--rows", "2", "--k", "32", "--experts", "1", "--rounds", "1", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2


@pytest.mark.parametrize("arguments", [["--k", "24"], ["--rows", "0"], ["--rounds", "x"]])
def test_bad_sizes_exit_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        bench.main(arguments)
    assert caught.value.code == 2
