"""`nvfp4-moe report` and the page of `verify --report`: files, exit codes, commands, bad input in one line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.analysis import engines
from nvfp4_moe.cli.main import run
from nvfp4_moe.cli.options import InputError
from nvfp4_moe.cli.report import DEFAULT_FOLDER, REPORT_FILES
from nvfp4_moe.verification.grid import Grid
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import ClaimResult, Method, Outcome, Result, Verdict
from nvfp4_moe.verification.rows import Row

TRACE = Path(__file__).resolve().parents[2] / "examples" / "router_traces" / "qwen1.5-moe-a2.7b.layer0.npz"
SMALL = Grid(max_num_batched_tokens=(1, 8192), topk=(1, 8), experts=(8, 2048))
WITNESS = {
    "kind": "bound",
    "max_num_batched_tokens": 1,
    "topk": 1,
    "num_experts": 1,
    "tile": 128,
    "tokens_per_expert": [1],
    "rows": 128,
    "bound": 127,
    "expression": "max_num_batched_tokens*topk + 126*num_experts",
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, no proofs, a small grid, few routings: each is tested where it is made."""
    real = engines.engine_lines
    skipped = Outcome(verdict=Verdict.SKIPPED, cases=0, detail="z3-solver is not installed")
    monkeypatch.setattr("nvfp4_moe.analysis.figures.available", lambda: False)
    monkeypatch.setattr(engines, "prove_formula", lambda name, tile: skipped)
    monkeypatch.setattr(
        "nvfp4_moe.analysis.report.build.engine_lines", lambda progress: real(grid=SMALL, progress=progress)
    )
    monkeypatch.setattr("nvfp4_moe.analysis.report.build.family_padding", lambda part, **more: [])


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    claim = ClaimResult(
        id="padding.bound",
        statement="no routing needs more rows",
        method=Method.SEARCH,
        verdict=Verdict.REFUTED,
        required=True,
        cases=3,
        seconds=0.5,
        witness=WITNESS,
    )
    path = tmp_path / "verify.json"
    path.write_text(Result(version="0.1.0", seed=3, device="cpu", git=None, claims=(claim,)).dumps())
    return path


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """Make a run of verify one job with this one outcome."""
    outcomes = [Outcome(verdict=Verdict.HELD, cases=3, detail="three")]

    def jobs(settings: object) -> list[Job]:
        def work(advance: object) -> Iterable[Row]:
            return [Row(claim_id="padding.bound", method=Method.FUZZ, outcome=outcomes[-1], subject="mine")]

        return [Job(name="small", tells=[], work=work, subject="mine", notes=["a line beside"])]

    monkeypatch.setattr("nvfp4_moe.verification.runner.jobs_for", jobs)
    return outcomes


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run, expect exit code 2 and one line, and return it."""
    assert run(["report", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("nvfp4-moe: error: ")
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 400
    return printed.err


def report_json(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return document


def test_one_command_gives_the_whole_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DeepSeek-R1 at 8,192 tokens, 98,048 rows and 41.9 MiB against 560 MiB, and every model of the zoo."""
    monkeypatch.chdir(tmp_path)
    assert run(["report"]) == 0
    assert {path.name for path in DEFAULT_FOLDER.iterdir()} == set(REPORT_FILES)
    assert f"Report: {DEFAULT_FOLDER / 'report.html'}" in capsys.readouterr().out
    document = report_json(DEFAULT_FOLDER)
    lines = {(x["model"], x["formula"]): x for x in document["savings"]["savings"]}
    assert lines["DeepSeek-R1", "proposed"]["rows"] == 98_048
    assert lines["DeepSeek-R1", "proposed"]["peak_bytes"] == 98_048 * 448
    assert lines["DeepSeek-R1", "vllm_env"]["peak_bytes"] == 560 << 20
    assert len({model for model, _ in lines}) == 18
    assert document["run"] is None
    assert {x["setup"] for x in document["capacity"]} > {"one GPU", "--data-parallel-size 8"}
    assert set(document["engines"]["formulas"]) == {formula for _, formula in lines}
    assert "matplotlib is not installed" in document["missing"][0]
    page = (DEFAULT_FOLDER / "report.html").read_text()
    assert "matplotlib is not installed" in page
    assert "DeepSeek-R1 at 8,192 batched tokens: proposed gives 98,048 rows, 41.9 MiB" in page


def test_a_refuted_run_is_reported_with_exit_0_and_its_counterexample_replays(
    run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "report"
    assert (
        run(["report", str(run_file), "--out", str(folder), "--model", "Mixtral-8x7B", "--trace", str(TRACE)])
        == 0
    )
    assert "Refuted: 1 required claim does not hold" in capsys.readouterr().out
    document = report_json(folder)
    (replayed,) = document["run"]["replay"]
    assert run(shlex.split(replayed["command"])[1:]) == 1
    assert [use["batching"] for use in document["padding"]] == ["passes as recorded", "batches of up to 256"]
    assert document["commands"][0]["command"] == shlex.join(
        [
            "nvfp4-moe",
            "report",
            "--model",
            "Mixtral-8x7B",
            "--trace",
            str(TRACE),
            "--out",
            str(folder),
            str(run_file),
        ]
    )
    assert "--seed 3" in document["commands"][1]["command"]


def test_markdown_and_json_elsewhere(
    run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = tmp_path / "report", tmp_path / "other.json"
    given = ["report", str(run_file), "--out", str(folder), "--json", str(other), "--markdown", "-"]
    assert run([*given, "--max-num-batched-tokens", "16"]) == 0
    printed = capsys.readouterr()
    assert printed.out == (folder / "report.md").read_text()
    assert "Report: " in printed.err
    assert other.read_text() == (folder / "report.json").read_text()
    assert report_json(folder)["savings"]["config"]["max_num_batched_tokens"] == [16]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.json"], "missing.json: No such file"),
        (["bad.json"], "bad.json: not JSON"),
        (["foreign.json"], "foreign.json: not the JSON of a verify run: unknown key 'report'"),
        (["--model", "nobody"], "no model is called 'nobody'"),
        (["--trace", "missing.npz"], "missing.npz"),
        (["--trace", "bad.json"], "bad.json"),
        (["--max-num-batched-tokens", "0"], "must be between 1 and"),
        (["--max-num-batched-tokens", "1" + "0" * 19], "must be between 1 and"),
        (["--markdown", ""], "a file name is needed"),
        (["--markdown", "-", "--json", "-"], "cannot both be standard output"),
        (["--json", "out/report.json"], "same file"),
        (["--markdown", "out/report.html"], "same file"),
        (["bad.json", "--json", "bad.json"], "same file"),
        (["--out", "bad.json"], "not a folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{")
    Path("foreign.json").write_text('{"report": 1}')
    Path("out").mkdir()
    folder = [] if "--out" in arguments else ["--out", "out"]
    assert said in error_of([*arguments, *folder], capsys)
    assert list(Path("out").iterdir()) == []


def test_a_page_that_cannot_be_written_is_exit_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: str, text: str) -> None:
        raise InputError(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr("nvfp4_moe.cli.outputs.write_json", full)
    assert run(["report", "--out", str(tmp_path / "out"), "--model", "Mixtral-8x7B"]) == 3
    assert capsys.readouterr().err.count("No space left") == len(REPORT_FILES)


class TestOfVerify:
    """`verify --report`."""

    def test_it_has_the_run_and_says_what_it_leaves_out(self, outcome: list[Outcome], tmp_path: Path) -> None:
        outcome.append(
            Outcome(verdict=Verdict.REFUTED, cases=3, witness={"kind": "subject", "subject": "mine"})
        )
        folder = tmp_path / "report"
        given = ["verify", "--report", str(folder), "--out", str(tmp_path / "out"), "--subject", "mine.py:X"]
        assert run([*given, "--trace", str(TRACE)]) == 1
        document = report_json(folder)
        assert document["engines"] is None
        assert [use["kind"] for use in document["padding"]] == ["trace", "trace"]
        assert document["commands"][0]["command"].startswith("nvfp4-moe verify --subject mine.py:X")
        (replayed,) = document["run"]["replay"]
        saved = next((tmp_path / "out").iterdir())
        assert replayed["command"] == shlex.join(
            ["nvfp4-moe", "replay", "--subject", "mine.py:X", str(saved)]
        )
        (left,) = [line for line in document["missing"] if "engines side by side" in line]
        assert run(shlex.split(left.split("This adds them: ")[1])[1:]) == 0
        assert report_json(folder)["engines"] is not None
        assert "a line beside" in (folder / "verify.txt").read_text()

    @pytest.mark.usefixtures("outcome")
    def test_a_fault_in_the_page_keeps_the_verdict_and_is_no_pass(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(*given: object, **more: object) -> None:
            raise RuntimeError("no page today")

        monkeypatch.setattr("nvfp4_moe.analysis.report.build_report", broken)
        assert run(["verify", "--report", str(tmp_path)]) == 3
        printed = capsys.readouterr()
        assert "All required claims hold" in printed.out
        assert "the page of the report is not made: RuntimeError: no page today" in printed.err
        assert {path.name for path in tmp_path.iterdir()} == {"verify.json", "verify.txt"}

    @pytest.mark.usefixtures("outcome")
    @pytest.mark.parametrize("tokens", [1, 10**18])
    def test_memory_is_shown_for_the_runs_own_tokens(self, tokens: int, tmp_path: Path) -> None:
        given = ["--topk", "1", "--max-num-batched-tokens", str(tokens)]
        assert run(["verify", "--report", str(tmp_path), *given]) == 0
        assert report_json(tmp_path)["savings"]["config"]["max_num_batched_tokens"] == [tokens]
