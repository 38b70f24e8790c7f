"""`nvfp4-moe replay TRACE`: the report, exit codes, JSON that replays, and bad input in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from nvfp4_moe.cli.main import run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two passes of three tokens over four experts."""
    path = tmp_path / "trace.npy"
    np.save(path, np.array([[[0, 1], [0, 2], [0, 3]], [[1, 2], [1, 3], [1, 0]]], dtype=np.int32))
    return path


def test_report(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(trace), "--experts", "4"]) == 0
    text = capsys.readouterr().out
    assert "2 with 6 tokens, 12 routed rows" in text
    assert "HELD      padding.bound (proposed)" in text
    assert "routing.permutation" in text
    assert "\x1b" not in text


def test_a_wrong_bound_is_refuted_and_its_json_replays(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    arguments = ["replay", str(trace), "--experts", "4", "--bound", "max_num_batched_tokens*topk"]
    assert run([*arguments, "--json", str(path)]) == 1
    assert "REFUTED   padding.bound (max_num_batched_tokens*topk)" in capsys.readouterr().out
    document = json.loads(path.read_text())
    assert document["report"]["num_experts"] == 4
    assert run(["replay", str(path)]) == 1
    assert "the routing needs 512, the bound gives 6" in capsys.readouterr().out


def test_rebatched_and_dealt_out(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--experts",
        "4",
        "--max-num-batched-tokens",
        "2",
        "--expert-parallel-size",
        "2",
        "--tile",
        "8",
    ]
    assert run(["replay", str(trace), *options, "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert (report["max_num_batched_tokens"], report["expert_parallel_size"], report["tile"]) == (2, 2, 8)


def test_shipped_sample() -> None:
    folder = Path(__file__).parents[2] / "examples" / "router_traces"
    (sample,) = folder.glob("*.jsonl.gz")
    assert run(["replay", str(sample)]) == 0


@pytest.mark.parametrize(
    ("name", "data", "options", "said"),
    [
        ("missing.jsonl", None, [], "No such file"),
        ("short.npy", b"\x93NUMPY", ["--experts", "4"], "short.npy"),
        ("text.npz", b"no zip", ["--experts", "4"], "is named .npz, but does not begin like such a file"),
        ("broken.jsonl", b"not json\n", ["--experts", "4"], "broken.jsonl"),
        ("cut.jsonl.gz", gzip.compress(b"{}\n" * 1000)[:20], ["--experts", "4"], "cut.jsonl.gz"),
    ],
)
def test_bad_traces_are_one_line(
    name: str,
    data: bytes | None,
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    assert run(["replay", str(path), *options]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("nvfp4-moe: error: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "expert"),  # the file does not say how many there are
        (["--experts", "3"], "3"),  # expert 3 is named
        (["--experts", "4", "--expert-parallel-size", "5"], "must be at most the number of experts (4)"),
        (["--experts", "4", "--bound", "topk/2"], "column 5: '/' is not legal"),
        (["--experts", "4", "--bound", "1 // (topk - 2)"], "division by zero with"),
        (["--experts", "4", "--tile", "0"], "must be between 1"),
        (["--experts", "4", "--tile", str(10**17)], "tile must be at most 268,435,456 for a trace with 4"),
        (
            ["--experts", "65536", "--expert-parallel-size", "1025"],
            "expert_parallel_size must be at most 1,024",
        ),
        (["--as-script"], "--as-script needs a counterexample"),
    ],
)
def test_bad_options_are_one_line(
    options: list[str], said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(trace), *options]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert said in captured.err


@pytest.mark.parametrize(
    "options", [["--subject", "nosuch"], ["--against", "nosuch"], ["--subject", "a", "--against", "b"]]
)
def test_options_of_counterexamples_are_refused(
    options: list[str], trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(trace), "--experts", "4", *options]) == 2
    assert "only for counterexamples" in capsys.readouterr().err


def test_the_json_is_not_the_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(trace), "--experts", "4", "--json", str(trace)]) == 2
    assert "which this run needs" in capsys.readouterr().err
    assert len(np.load(trace)) == 2


def test_a_json_that_fails_late_hides_no_refutation(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nvfp4_moe.cli.trace.written", lambda path, text: False)
    given = ["replay", str(trace), "--experts", "4", "--json", str(tmp_path / "x.json")]
    assert run(given) == 3
    assert run([*given, "--bound", "max_num_batched_tokens*topk"]) == 1


def test_text_of_a_trace_drives_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t[red].jsonl"
    meta = {"type": "meta", "model_id": "\x1b[2Jmodel\nHELD", "num_experts": 4, "top_k": 1}
    route = {"type": "route", "token_idx": 0, "layer": 0, "topk_ids": [1]}
    path.write_text(json.dumps(meta) + "\n" + json.dumps(route) + "\n")
    assert run(["replay", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b[2Jmodel\\x0aHELD" in printed
    assert "t[red].jsonl" in printed
    assert "\x1b" not in printed


def test_names_of_arrays_drive_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, **{"\x1b[2Jname": np.array([1])})
    assert run(["replay", str(path), "--experts", "4"]) == 2
    error = capsys.readouterr().err
    assert "\\x1b[2Jname" in error
    assert "\x1b" not in error
