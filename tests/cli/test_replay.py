"""`nvfp4-moe replay`: exit codes, what it prints, the script, JSON, and bad input in one line."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.cli import replay as replay_command
from nvfp4_moe.cli.main import run
from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.bounds import check_attained, find_counterexample
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.result import ClaimResult, Method, Outcome, Result, Verdict
from nvfp4_moe.verification.witness import save_counterexample


@lru_cache
def overrun() -> Outcome:
    return find_counterexample(parse_bound("max_num_batched_tokens*topk + 126*num_experts"))


@lru_cache
def slack() -> Outcome:
    return check_attained(parse_bound("torchao"))


def claim(outcome: Outcome, **changes: Any) -> ClaimResult:
    fields: dict[str, Any] = {
        "id": "padding.bound",
        "statement": "no routing needs more rows than the bound",
        "method": Method.SEARCH,
        "verdict": outcome.verdict,
        "required": True,
        "cases": outcome.cases,
        "seconds": 0.1,
        "witness": outcome.witness,
    }
    return ClaimResult(**fields | changes)


def run_file(folder: Path, *claims: ClaimResult) -> Path:
    path = folder / "verify.json"
    path.write_text(Result(version="0.1.0", seed=0, device="cpu", git=None, claims=claims).dumps())
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_counterexample(tmp_path, claim(overrun()))


def test_it_reproduces(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(saved)]) == 1
    text = capsys.readouterr().out
    assert "the routing needs 128, the bound gives 127" in text
    assert "padding.bound\n" in text
    assert text.endswith("  reproduces\n")
    assert "\x1b" not in text


def test_it_no_longer_reproduces(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(saved.read_text())
    document["expression"] = document["expression"].replace("126", "127")
    saved.write_text(json.dumps(document))
    assert run(["replay", str(saved)]) == 0
    assert capsys.readouterr().out.endswith("  does not reproduce\n")


def test_a_run_is_replayed_claim_by_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = Outcome(verdict=Verdict.PROVED, cases=1)
    path = run_file(
        tmp_path, claim(overrun()), claim(slack(), id="padding.attained", required=False), claim(held)
    )
    assert run(["replay", str(path), "--json", "-"]) == 1
    captured = capsys.readouterr()
    replays = json.loads(captured.out)["replays"]
    assert [(r["claim"], r["required"], r["reproduces"]) for r in replays] == [
        ("padding.bound", True, True),
        ("padding.attained", False, True),
    ]
    assert "padding.attained (informs)" in captured.err


def test_a_claim_that_informs_does_not_fail(tmp_path: Path) -> None:
    path = run_file(tmp_path, claim(slack(), id="padding.attained", required=False))
    assert run(["replay", str(path)]) == 0


def test_a_run_without_refutations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(run_file(tmp_path))]) == 0
    assert "no refuted claim" in capsys.readouterr().out


def test_a_refuted_claim_without_a_witness_is_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_file(tmp_path, claim(Outcome(verdict=Verdict.REFUTED, cases=1), subject="mine"))
    assert run(["replay", str(path)]) == 3
    assert "padding.bound (mine)" in capsys.readouterr().out


def test_a_kind_that_nothing_runs_is_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = Outcome(verdict=Verdict.REFUTED, cases=1, witness={"kind": "told"})
    assert run(["replay", str(run_file(tmp_path, claim(told)))]) == 3
    assert "nothing runs a witness of kind 'told' again" in capsys.readouterr().out


def test_script(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(saved), "--as-script"]) == 0
    text = capsys.readouterr().out
    compile(text, "script", "exec")
    assert "import torch\n" in text
    assert "bound = max_num_batched_tokens*topk+126*num_experts\n" in text


def test_script_needs_one_counterexample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_file(tmp_path, claim(overrun()), claim(slack(), id="padding.attained"))
    assert run(["replay", str(path), "--as-script"]) == 2
    assert "this one has 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory"),
        ("", "not JSON"),
        ("{}", "neither a saved counterexample"),
        ('{"kind": "dance"}', "must be one of bound"),
        ('{"kind": "bound"}', "needs 'max_num_batched_tokens'"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--as-script"]])
def test_bad_files_are_one_line(
    text: str | None, said: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    assert run(["replay", str(path), *options]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("nvfp4-moe: error: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_a_folder_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--experts", "--tile", "--expert-parallel-size", "--max-num-batched-tokens"]
)
def test_options_of_traces_are_refused_elsewhere(
    option: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(saved), option, "8"]) == 2
    assert f"{option}: only for router traces" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--subject", "missing.py"], "--subject: "),
        (["--against", "host"], "--against: "),
        (["--as-script", "--subject", "host"], "--subject: not with --as-script"),
        (["--as-script", "--json", "-"], "--json: not with --as-script"),
        (["--json", ""], "a file name is needed"),
    ],
)
def test_options_that_say_nothing_here_are_refused(
    options: list[str], said: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(saved), *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_the_json_is_not_the_file_that_is_replayed(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = saved.read_bytes()
    assert run(["replay", str(saved), "--json", str(saved)]) == 2
    assert "which this run needs" in capsys.readouterr().err
    assert saved.read_bytes() == before


def test_a_bad_witness_names_its_file(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(saved.read_text()) | {"tile": "wide"}
    saved.write_text(json.dumps(document))
    assert run(["replay", str(saved)]) == 2
    assert f"{saved}: " in capsys.readouterr().err


@pytest.mark.parametrize(("good", "code"), [(overrun, 1), (None, 2)])
def test_a_bad_witness_ends_no_other_replay(
    good: Any, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = claim(Outcome(verdict=Verdict.REFUTED, cases=1, witness={"kind": "bound", "tile": "wide"}))
    others = [] if good is None else [claim(good())]
    path = run_file(tmp_path, bad, *others)
    assert run(["replay", str(path), "--json", "-"]) == code
    captured = capsys.readouterr()
    replays = json.loads(captured.out)["replays"]
    assert [entry["reproduces"] for entry in replays] == [None, *(True for _ in others)]
    assert f"nvfp4-moe: error: {path}: claims[0]: " in captured.err


def test_a_member_of_the_wrong_type_names_its_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_file(tmp_path, claim(overrun()))
    document = json.loads(path.read_text())
    document["claims"][0]["witness"] = 3
    path.write_text(json.dumps(document))
    assert run(["replay", str(path)]) == 2
    assert f"{path}: claims[0]: 'witness' must be an object" in capsys.readouterr().err


def test_text_of_a_file_drives_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = Outcome(verdict=Verdict.REFUTED, cases=1, witness={"kind": "\x1b[2J"})
    path = run_file(tmp_path, claim(told, id="\x1b]0;title\x07\nclaim", subject="\x9bsubject"))
    assert run(["replay", str(path)]) == 3
    printed = capsys.readouterr().out
    assert "\\x1b]0;title\\x07\\x0aclaim (\\x9bsubject)\n" in printed
    assert "\x1b" not in printed


def test_what_cannot_be_run_here_is_undecided(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(witness: object, **subjects: str | None) -> None:
        raise CannotReplay("needs a device")

    monkeypatch.setattr(replay_command, "replay", refuses)
    assert run(["replay", str(saved)]) == 3
    assert "cannot be run again here: needs a device" in capsys.readouterr().out
