"""`nvfp4-moe bound`: numbers of known configurations, JSON of the contract, and bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.cli.main import run
from nvfp4_moe.reference.padding import FORMULAS, padded_rows

DEEPSEEK = ["--experts", "256", "--topk", "8", "--max-num-batched-tokens", "8192"]


def bound_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["bound", *arguments, "--json", "-"]) == 0
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_known_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    result = bound_json(capsys, *DEEPSEEK)
    assert list(result["rows"]) == list(FORMULAS)
    named = {name: result["rows"][name] for name in ("proposed", "exact_any", "loose", "vllm_env", "sglang")}
    assert named == {
        "proposed": 98_048,
        "exact_any": 98_048,
        "loose": 98_048,
        "vllm_env": 1_310_720,
        "sglang": 524_288,
    }
    assert result["witness"] == {"tokens_per_expert": [65_281] + [1] * 255, "rows": 98_048}
    assert padded_rows(result["witness"]["tokens_per_expert"]) == result["rows"]["exact_any"]
    assert result["config"] == {
        "experts": 256,
        "num_experts": 256,
        "expert_parallel_size": 1,
        "topk": 8,
        "max_num_batched_tokens": 8192,
        "tile": 128,
    }
    assert all(formula["safe"] for formula in result["formulas"].values())


def test_a_call_of_one_token(capsys: pytest.CaptureFixture[str]) -> None:
    """A decode step of one token needs 1,024 rows, and the buffer sized for the largest call stays as it is."""
    call = bound_json(capsys, *DEEPSEEK, "--tokens", "1")["call"]
    assert call["tokens"] == 1
    assert (call["rows"]["exact_any"], call["rows"]["proposed"]) == (1_024, 8 + 127 * 256)
    assert call["witness"] == {"tokens_per_expert": [1] * 8 + [0] * 248, "rows": 1_024}


def test_a_call_is_judged_by_each_formulas_own_guard_and_placement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Far above max_num_batched_tokens: the cap of vllm_env lets the call through and is overrun, that of sglang and
    the buffer sized for the batch refuse it, and what is sized for the call itself fits it."""
    arguments = ["--experts", "128", "--topk", "1", "--max-num-batched-tokens", "8192", "--tokens", "150000"]
    formulas = bound_json(capsys, *arguments)["call"]["formulas"]
    assert formulas["vllm_env"] == {
        "sized_for": "cap",
        "rows": 163_840,
        "needed": 166_144,
        "outcome": "overrun",
    }
    outcomes = {name: formula["outcome"] for name, formula in formulas.items()}
    assert outcomes.pop("vllm_env") == "overrun"
    assert (outcomes.pop("sglang"), outcomes.pop("proposed")) == ("refused", "refused")
    assert set(outcomes.values()) == {"fits"}
    assert {formulas[name]["sized_for"] for name in outcomes} == {"call"}


def test_a_call_needs_what_the_placement_of_the_formula_needs(capsys: pytest.CaptureFixture[str]) -> None:
    formulas = bound_json(capsys, *DEEPSEEK, "--tokens", "1")["call"]["formulas"]
    assert formulas["exact_any"]["needed"] == 1_024
    assert formulas["quack"]["needed"] == formulas["quack"]["rows"] == 32_768
    assert formulas["flashinfer_cutlass"]["needed"] == 32_640  # R(7 + 255 * 127) + 128
    assert {formula["outcome"] for formula in formulas.values()} == {"fits"}
    distinct = ["--experts", "4", "--topk", "8", "--max-num-batched-tokens", "16", "--tokens", "1"]
    assert bound_json(capsys, *distinct)["call"]["formulas"]["exact_distinct"]["outcome"] == "not_meant"


def test_help_says_that_it_informs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bound", "--help"]) == 0
    assert "whatever it finds, the exit status is 0" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "tokens", "guard"), [("vllm_env", 147_712, 163_840), ("sglang", 49_408, 65_536)]
)
def test_caps_overrun_near_the_cap(
    name: str, tokens: int, guard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--experts", "128", "--topk", "1", "--max-num-batched-tokens", "163840"]
    formula = bound_json(capsys, *arguments)["formulas"][name]
    assert (formula["safe"], formula["smallest_overrun_tokens"], formula["guard_tokens"]) == (
        False,
        tokens,
        guard,
    )
    assert formula["needed"] > guard
    arguments[-1] = str(tokens - 1)
    assert bound_json(capsys, *arguments)["formulas"][name]["safe"] is True


def test_ranks_and_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    result = bound_json(capsys, *DEEPSEEK, "--expert-parallel-size", "16", "--hidden-size", "7168")
    assert result["config"]["num_experts"] == 16
    assert result["rows"]["exact_distinct"] == 67_456  # 128 * (65,536 + 127*16) // 128
    assert result["formulas"]["proposed"]["bytes"] == result["rows"]["proposed"] * 448
    assert len(result["witness"]["tokens_per_expert"]) == 16


def test_distinct_formulas_do_not_apply_above_the_experts(capsys: pytest.CaptureFixture[str]) -> None:
    result = bound_json(capsys, "--experts", "4", "--topk", "8", "--max-num-batched-tokens", "16")
    safe = {name: formula["safe"] for name, formula in result["formulas"].items()}
    assert (safe["exact_distinct"], safe["flashinfer_cutlass"], safe["exact_any"]) == (None, None, True)


def test_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "bound.json"
    arguments = [
        "--experts",
        "128",
        "--topk",
        "1",
        "--max-num-batched-tokens",
        "163840",
        "--tokens",
        "100000",
    ]
    assert run(["bound", *arguments, "--hidden-size", "2048", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    for said in (
        *FORMULAS,
        "OVERRUN from 147,712 tokens",
        "OVERRUN from 49,408 tokens",
        "tokens_per_expert [163713] + [1] * 127",
        "A call of 100,000 tokens",
        " the largest ",
        " refused ",
    ):
        assert said in text
    assert "\x1b" not in text
    assert json.loads(path.read_text())["call"]["tokens"] == 100_000


def test_table_of_a_call_that_overruns_a_cap(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--experts", "128", "--topk", "1", "--max-num-batched-tokens", "8192", "--tokens", "150000"]
    assert run(["bound", *arguments]) == 0
    call = capsys.readouterr().out.partition("A call of 150,000 tokens")[2].splitlines()
    (line,) = [line for line in call if "vllm_env" in line]
    assert [cell.strip() for cell in line.strip("│").split("│")] == [
        "vllm_env",
        "a fixed cap",
        "163,840",
        "166,144",
        "OVERRUN",
        "packed",
    ]


def test_json_on_standard_output_keeps_the_table_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bound", *DEEPSEEK, "--json", "-"]) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert "proposed" in captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topk", "8", "--max-num-batched-tokens", "1"], "Missing option '--experts'"),
        ([*DEEPSEEK, "--topk", "0"], "must be between 1 and 1000000000000000000, got 0"),
        ([*DEEPSEEK, "--topk", "-3"], "must be between 1"),
        ([*DEEPSEEK, "--max-num-batched-tokens", "1" + "0" * 30], "must be between 1"),
        ([*DEEPSEEK, "--tile", "12.5"], "'12.5' is not an integer"),
        ([*DEEPSEEK, "--tokens", "-1"], "must be between 0"),
        ([*DEEPSEEK, "--expert-parallel-size", "257"], "must be at most the number of experts (256)"),
        ([*DEEPSEEK, "--experts", "1048577"], "experts must be at most 1,048,576, got 1048577"),
        ([*DEEPSEEK, "--hidden-size", "100"], "multiple of 16, got 100"),
        ([*DEEPSEEK, "--json", "/no/such/folder/x.json"], "does not exist"),
        ([*DEEPSEEK, "--colour"], "No such option"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bound", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
