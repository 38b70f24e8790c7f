"""`nvfp4-moe capacity`: exit codes, the JSON of the contract, vLLM's own flag names, bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from nvfp4_moe.analysis.capacity import capacity
from nvfp4_moe.analysis.serving_flags import ServingFlags
from nvfp4_moe.cli.capacity import _formulas
from nvfp4_moe.cli.main import run
from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification import schema

DEEPSEEK = ["--experts", "256", "--topk", "8", "--max-num-batched-tokens", "8192"]
DATA_PARALLEL = ["--data-parallel-size", "8"]


def capacity_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> dict[str, Any]:
    assert run(["capacity", *arguments, "--json", "-"]) == code
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(parsed, schema.load("capacity"))
    return parsed


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        ([], 0, "safe"),
        (["--tensor-parallel-size", "8"], 0, "safe"),
        (DATA_PARALLEL, 1, "unsafe"),
        (["-dp", "8", "--formula", "loose"], 0, "safe"),
        ([*DATA_PARALLEL, "--formula", "vllm_env"], 0, "safe"),
        ([*DATA_PARALLEL, "--formula", "sglang"], 1, "unsafe"),
        ([*DATA_PARALLEL, "--enable-expert-parallel"], 0, "not_applicable"),
        (["--caller", "op"], 3, "unknown"),
        (["--compilation-config", '{"new_key": 1}'], 3, "unknown"),
        (["-tp", "3", "-cc", '{"pass_config": {"enable_sp": true}}'], 1, "unsafe"),
        (["--prefill-context-parallel-size", "2"], 1, "unsafe"),
        (
            ["--speculative-config", '{"num_speculative_tokens": 2}', "--pipeline-parallel-size", "2"],
            0,
            "safe",
        ),
    ],
)
def test_exit_code_is_that_of_the_chosen_formula(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, verdict: str
) -> None:
    result = capacity_json(capsys, *DEEPSEEK, *arguments, code=code)
    name = arguments[arguments.index("--formula") + 1] if "--formula" in arguments else "proposed"
    assert result["formulas"][name]["verdict"] == verdict
    assert list(result) == ["max_tokens", "rows", "steps", "formulas"]
    assert list(result["formulas"]) == list(FORMULAS)


def test_json_of_data_parallel_serving(capsys: pytest.CaptureFixture[str]) -> None:
    result = capacity_json(capsys, *DEEPSEEK, *DATA_PARALLEL, code=1)
    assert (result["max_tokens"], result["rows"]) == (65_536, 556_800)
    proposed = result["formulas"]["proposed"]
    assert {key: proposed[key] for key in ("verdict", "rows", "required", "failure")} == {
        "verdict": "unsafe",
        "rows": 98_048,
        "required": 556_800,
        "failure": "guard_fires",
    }
    assert proposed["witness"]["tokens"] == 8_193
    assert [step["value"] for step in result["steps"]][:3] == [8_192, 8_192, 65_536]


def test_text_says_verdict_traffic_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capacity", *DEEPSEEK, *DATA_PARALLEL]) == 1
    text = capsys.readouterr().out
    assert "At most 65,536 tokens reach the kernel" in text
    assert "profile run" in text
    assert "What to do: size the buffer from the call itself" in text
    assert "MXFP4 twins" in text
    assert text.rstrip().endswith("proposed: unsafe (from 8,193 tokens on)")


def test_a_model_by_name_gives_experts_and_topk(capsys: pytest.CaptureFixture[str]) -> None:
    named = capacity_json(
        capsys, "--model", "DeepSeek-R1", "--max-num-batched-tokens", "8192", *DATA_PARALLEL, code=1
    )
    assert named == capacity_json(capsys, *DEEPSEEK, *DATA_PARALLEL, code=1)


def test_a_terminal_of_80_columns_cuts_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ServingFlags(max_num_batched_tokens=8192, data_parallel_size=8)
    answer = capacity(flags, experts=256, topk=8)
    Console(width=80).print(_formulas(answer, Console(width=80)))
    printed = capsys.readouterr().out
    assert "…" not in printed
    row = next(line.split() for line in printed.splitlines() if line.strip().startswith("proposed"))
    assert row == ["proposed", "unsafe", "98,048", "556,800", "its", "guard", "fires", "8,193"]


@pytest.mark.parametrize("config", ['{"\\u001b[2Jx\\n": 1}', '{"pass_config": {"\\u001b[2Jx\\n": 1}}'])
def test_keys_from_outside_are_printed_harmlessly(capsys: pytest.CaptureFixture[str], config: str) -> None:
    assert run(["capacity", *DEEPSEEK, "--compilation-config", config]) == 3
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\\x1b[2Jx\\x0a" in "".join(printed.replace("│", "").split())


@pytest.mark.parametrize(("arguments", "code"), [([], 3), (DATA_PARALLEL, 1)])
def test_a_json_that_is_not_delivered_does_not_hide_the_verdict(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    assert run(["capacity", *DEEPSEEK, *arguments, "--json", "/dev/full"]) == code
    assert "/dev/full cannot be written: No space left on device" in capsys.readouterr().err


def test_the_configuration_in_a_folder_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    sizes = {"hidden_size": 128, "moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2}
    file.write_text(json.dumps(sizes))
    arguments = ["--model", str(tmp_path), "--max-num-batched-tokens", "64"]
    assert run(["capacity", *arguments, "--json", str(file)]) == 2
    assert "which this run needs" in capsys.readouterr().err
    assert json.loads(file.read_text()) == sizes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*DEEPSEEK, "--tile", "1000000000"], "tile must be at most 65,536, got 1000000000"),
        (["--max-num-batched-tokens", "8192"], "give --model, or --experts and --topk"),
        ([*DEEPSEEK, "--model", "DeepSeek-R1"], "--model and --experts or --topk contradict"),
        ([*DEEPSEEK, "--formula", "guess"], "--formula must be one of proposed"),
        ([*DEEPSEEK, "-dp", "2", "-pcp", "2"], "contradict"),
        ([*DEEPSEEK, "--all2all-backend", "x"], "--all2all-backend must be one of"),
        ([*DEEPSEEK, "-cc", "{"], "--compilation-config must be JSON"),
        ([*DEEPSEEK, "-dp", "512", "-ep"], "must be at most the number of experts (256)"),
        (["--model", "Mixtral-8x7B", "--max-num-batched-tokens", "1", "-tp", "3"], "does not divide"),
        (["--model", "no-such", "--max-num-batched-tokens", "1"], "no model is called 'no-such'"),
    ],
)
def test_contradicting_flags_and_bad_input(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["capacity", *arguments]) == 2
    streams = capsys.readouterr()
    assert said in streams.err
    assert streams.err.count("\n") == 1
    assert streams.out == ""
