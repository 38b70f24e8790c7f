"""`nvfp4-moe verify`: bad input, output, exit codes and files. The checks themselves are replaced by small ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from nvfp4_moe.cli.main import run
from nvfp4_moe.cli.options import InputError
from nvfp4_moe.cli.verify_report import REPORT_FILES
from nvfp4_moe.verification import schema
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row

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


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """Make the run one job with this one outcome."""
    outcomes = [Outcome(verdict=Verdict.HELD, cases=3, detail="three")]

    def jobs(settings: object) -> list[Job]:
        def work(advance: object) -> Iterable[Row]:
            return [Row(claim_id="padding.bound", method=Method.FUZZ, outcome=outcomes[-1])]

        return [Job(name="small", tells=[("padding.bound", Method.FUZZ)], work=work)]

    monkeypatch.setattr("nvfp4_moe.verification.runner.jobs_for", jobs)
    return outcomes


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures of reports, which take a second and are tested elsewhere."""
    monkeypatch.setattr("nvfp4_moe.analysis.figures.available", lambda: False)


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run, expect exit code 2 and one line, and return it."""
    assert run(["verify", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("nvfp4-moe: error: ")
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 300
    return printed.err


@pytest.mark.usefixtures("outcome")
def test_a_run_that_holds_exits_0_and_says_that_no_subject_was_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["verify"]) == 0
    printed = capsys.readouterr().out
    assert "All required claims hold" in printed
    assert "No foreign subject was given" in printed
    assert "small: 3 cases" in printed


@pytest.mark.usefixtures("outcome")
@pytest.mark.parametrize(("given", "foreign"), [("host", False), ("./host.py", True), ("vllm", True)])
def test_whether_a_subject_was_given_is_no_matter_of_claims(
    given: str, foreign: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "--subject", given]) == 0
    assert ("No foreign subject was given" in capsys.readouterr().out) is not foreign


def test_a_refuted_claim_exits_1_saves_its_witness_and_names_the_replay(
    outcome: list[Outcome], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome.append(Outcome(verdict=Verdict.REFUTED, cases=3, witness=WITNESS))
    folder = tmp_path / "out"
    assert run(["verify", "--out", str(folder)]) == 1
    (saved,) = folder.glob("*.json")
    assert f"nvfp4-moe replay {saved}" in capsys.readouterr().out
    assert run(["replay", str(saved)]) == 1


@pytest.mark.parametrize(
    ("verdict", "code"), [(Verdict.UNDECIDED, 3), (Verdict.SKIPPED, 3), (Verdict.PROVED, 0)]
)
def test_exit_codes_follow_the_verdicts(
    outcome: list[Outcome], verdict: Verdict, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome.append(Outcome(verdict=verdict, cases=0, detail="so"))
    assert run(["verify"]) == code
    assert str(verdict) in capsys.readouterr().out


@pytest.mark.usefixtures("outcome")
def test_json_goes_to_standard_output_alone_and_fits_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "--json", "-", "--seed", "7"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    jsonschema.validate(document, schema.load("verify"))
    assert document["seed"] == 7
    assert "All required claims hold" in printed.err


@pytest.mark.usefixtures("outcome")
def test_report_writes_the_table_the_json_and_the_page(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "report"
    assert run(["verify", "--report", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == set(REPORT_FILES)
    assert "padding.bound" in (folder / "verify.txt").read_text()


def test_no_escape_codes_in_plain_output(
    outcome: list[Outcome], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    outcome.append(Outcome(verdict=Verdict.REFUTED, cases=1))
    run(["verify"])
    assert "\x1b" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--level", "4"], "must be between 1 and 3, got 4"),
        (["--budget", "soon"], "must be a number of seconds or forever"),
        (["--budget", "-1"], "must be more than 0"),
        (["--budget", "nan"], "must be a number of seconds or forever"),
        (["--budget", "1_0"], "must be a number of seconds or forever"),
        (["--budget", "\u0663"], "must be a number of seconds or forever"),
        (["--budget", "inf"], "must be a number of seconds or forever"),
        (["--budget", "1e400"], "at most 10^9 seconds"),
        (["--level", "\u0661"], "is not an integer"),
        (["--bound", "9" * 900], "99..."),
        (["--json", ""], "a file name is needed"),
        (["--experts", "0"], "must be between 1 and"),
        (["--topk", "-3"], "must be between 1 and"),
        (["--experts", "1" + "0" * 30], "must be between 1 and"),
        (["--topk", "2.5"], "is not an integer"),
        (["--tile", "0"], "must be between 1 and"),
        (["--bound", "max_num_batched_tokens ** 2"], "column"),
        (["--bound", "__import__('os')"], "column"),
        (["--bound", ""], "column"),
        (["--expert-parallel-size", "2"], "needs experts"),
        (["--trace", "missing.jsonl"], "missing.jsonl"),
        (["--subject", "missing.py"], "no such file"),
        (["--json", "no/such/folder/x.json"], "does not exist"),
        (["--device", "tpu"], "'tpu'"),
        (["--fail-on", "style"], "'style'"),
        (["--seed", "-1"], "must be between 0 and"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str],
    text: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert text in error_of(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--out", "--report"])
def test_folders_are_checked_at_the_door(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    for name in (taken, taken / "below", "/proc/new"):
        assert f"{option}: " in error_of([option, str(name)], capsys)
    assert list(tmp_path.iterdir()) == [taken]


def test_a_refusal_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error_of(["--bound", "1+", "--report", str(tmp_path / "a" / "b"), "--out", str(tmp_path / "c")], capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("outcome")
def test_a_run_that_finds_nothing_leaves_no_folder(tmp_path: Path) -> None:
    assert run(["verify", "--out", str(tmp_path / "c")]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option", ["--resume", "--expect", "--trace", "--subject", "--against", "--out", "--report"]
)
def test_the_json_is_nothing_that_the_run_needs(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "needed.py"
    if option not in ("--out", "--report"):
        path.write_text("kept")
    assert "which this run needs" in error_of([option, str(path), "--json", str(path)], capsys)
    assert not path.exists() or path.read_text() == "kept"


def test_the_json_is_no_file_of_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--report", str(tmp_path), "--json", str(tmp_path / "verify.json")]
    assert "which this run needs" in error_of(given, capsys)
    (tmp_path / "verify.txt").mkdir()
    assert "verify.txt is a folder" in error_of(given[:2], capsys)


def test_a_save_that_fails_costs_neither_the_table_nor_the_json(
    outcome: list[Outcome],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*unused: object) -> Path:
        raise OSError(28, "No space left on device")

    outcome.append(Outcome(verdict=Verdict.REFUTED, cases=3, witness=WITNESS))
    monkeypatch.setattr("nvfp4_moe.verification.witness.save_counterexample", full)
    path = tmp_path / "run.json"
    assert run(["verify", "--out", str(tmp_path / "out"), "--json", str(path)]) == 1
    printed = capsys.readouterr()
    assert "REFUTED: 1 REFUTED" in printed.out
    assert json.loads(path.read_text())["claims"][0]["witness"] == WITNESS
    assert printed.err == (
        "nvfp4-moe: error: the counterexample of padding.bound is not saved: No space left on device\n"
    )


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.REFUTED, 1), (Verdict.HELD, 3)])
def test_a_json_that_fails_late_hides_no_refutation_and_is_no_pass(
    verdict: Verdict,
    code: int,
    outcome: list[Outcome],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(path: str, text: str) -> None:
        raise InputError(f"{path} cannot be written: No space left on device")

    outcome.append(Outcome(verdict=verdict, cases=3))
    monkeypatch.setattr("nvfp4_moe.cli.outputs.write_json", full)
    given = ["--json", str(tmp_path / "x.json"), "--report", str(tmp_path / "report")]
    assert run(["verify", *given, "--out", str(tmp_path / "out")]) == code
    printed = capsys.readouterr()
    assert f"exit code {0 if verdict is Verdict.HELD else 1}" in printed.out
    assert printed.err.count("cannot be written") == printed.err.count("\n") == 1 + len(REPORT_FILES)


def test_text_from_files_drives_no_terminal(
    outcome: list[Outcome], known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known.write_text(json.dumps([{"id": "padding.bound", "reason": "\x1b[2J[bold]known\nline"}]))
    outcome.append(Outcome(verdict=Verdict.REFUTED, cases=3, detail="\x1b]0;title\x07"))
    assert run(["verify", "--expect", str(known), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b[2J[bold]known\\x0aline" in printed
    assert "\\x1b]0;title\\x07" in printed
    assert "\x1b" not in printed


def test_a_trace_that_breaks_off_late_is_bad_input_not_a_fault_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nvfp4_moe.verification import jobs

    path = tmp_path / "bad.npz"
    np.savez(path, topk_ids=np.array([[0, 1], [1, 99]]), num_experts=np.array(4))
    only_traces = lambda settings: [jobs._trace_job(settings, jobs.parse_bound(settings.bound), 0)]  # noqa: E731
    monkeypatch.setattr("nvfp4_moe.verification.runner.jobs_for", only_traces)
    assert "99" in error_of(["--trace", str(path)], capsys)


@pytest.fixture
def known(tmp_path: Path) -> Path:
    file = tmp_path / "known.json"
    file.write_text(json.dumps([{"id": "padding.bound", "reason": "too small by design"}]))
    return file


def test_a_known_finding_fails_nothing(
    outcome: list[Outcome], known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome.append(Outcome(verdict=Verdict.REFUTED, cases=3, witness=WITNESS))
    assert run(["verify", "--expect", str(known), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "known: too" in printed
    assert "All required claims hold (1 known)" in printed


@pytest.mark.usefixtures("outcome")
def test_an_unexpected_pass_fails_and_is_named(known: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "--expect", str(known)]) == 1
    printed = capsys.readouterr().out
    assert "unexpected pass" in printed
    assert "Listed by --expect but found no longer: padding.bound" in printed
    assert "Unexpected pass: 1 HELD" in printed


@pytest.mark.usefixtures("outcome")
def test_a_list_of_known_findings_is_checked_at_the_door(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known.write_text("{}")
    assert "must be a JSON list" in error_of(["--expect", str(known)], capsys)
    assert "absent.json" in error_of(["--expect", str(tmp_path / "absent.json")], capsys)


def test_against_needs_a_subject(capsys: pytest.CaptureFixture[str]) -> None:
    assert "against needs a subject" in error_of(["--against", "reference"], capsys)
