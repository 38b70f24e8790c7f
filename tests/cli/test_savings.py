"""`nvfp4-moe savings`: numbers, files, traces, figures, bad input in one line."""

from __future__ import annotations

import csv
import errno
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator
from rich.console import Console

from nvfp4_moe.analysis import figures, measured_memory
from nvfp4_moe.analysis.measured_memory import Measured
from nvfp4_moe.analysis.savings import Saving, savings
from nvfp4_moe.analysis.tables import formula_table, summary_table
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.cli.main import run
from nvfp4_moe.cli.savings import _rich
from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification import schema

TRACE = Path(__file__).resolve().parents[2] / "examples" / "router_traces" / "qwen1.5-moe-a2.7b.layer0.npz"
SCHEMA = Draft202012Validator(schema.load("savings"))
CONFIG = {"hidden_size": 128, "moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2}


def savings_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["savings", *arguments, "--json", "-"]) == 0
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    SCHEMA.validate(parsed)
    return parsed


def small(folder: Path, **changes: Any) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIG | changes))
    return str(path)


def test_the_whole_zoo_in_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-R1 at 8,192 tokens: 98,048 rows, 41.9 MiB against 560 MiB; and every other model."""
    assert run(["savings"]) == 0
    text = capsys.readouterr().out
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line
    ]
    by_first = {row[0]: row for row in rows}
    assert by_first["proposed"][1:5] == ["98,048", "41.9", "12.0", "41.9"]
    assert by_first["DeepSeek-R1"] == [
        "DeepSeek-R1",
        "8,192",
        "98,048",
        "560.0",
        "224.0",
        "41.9",
        "41.9",
        "518.1",
    ]
    assert set(ZOO) | set(FORMULAS) <= set(by_first)
    assert "\x1b" not in text


def test_json_of_named_models_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model", "deepseek-r1", "--model", "DeepSeek-V3", "--model", "mixtral-8x7b"]
    sizes = [
        "--max-num-batched-tokens",
        "1",
        "--max-num-batched-tokens",
        "8192",
        "--max-num-batched-tokens",
        "1",
    ]
    document = savings_json(
        capsys, *arguments, *sizes, "--tensor-parallel-size", "2", "--expert-parallel-size", "4"
    )
    assert [model["name"] for model in document["models"]] == ["DeepSeek-R1", "Mixtral-8x7B"]
    assert document["config"]["max_num_batched_tokens"] == [1, 8192]
    assert len(document["savings"]) == 2 * 2 * len(FORMULAS)
    found = {
        (line["model"], line["max_num_batched_tokens"]): line["rows"]
        for line in document["savings"]
        if line["formula"] == "proposed"
    }
    assert found == {
        ("DeepSeek-R1", 1): 8 + 127 * 64,
        ("DeepSeek-R1", 8192): 8192 * 8 + 127 * 64,
        ("Mixtral-8x7B", 1): 2 + 127 * 2,
        ("Mixtral-8x7B", 8192): 8192 * 2 + 127 * 2,
    }
    assert document["padding"] == []


def test_a_narrow_terminal_cuts_no_number() -> None:
    models = [ZOO["DeepSeek-R1"], ZOO["Qwen3-Next-80B-A3B"]]
    found = savings(models, max_num_batched_tokens=[65_536])
    out = Console(file=io.StringIO(), width=80, highlight=False)
    for table in (summary_table(found), formula_table(found, "DeepSeek-R1", 65_536)):
        out.print(_rich(table, narrow=True))
        printed = out.file.getvalue()
        assert max(map(len, printed.splitlines())) <= 80
        assert [cell for row in table.rows for cell in row if cell not in printed] == []


def test_a_configuration_file_and_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = small(tmp_path)
    one = savings_json(capsys, "--model", file)
    other = savings_json(capsys, "--model", str(tmp_path))
    assert one == other
    assert one["models"][0]["name"] == tmp_path.name
    assert one["savings"][0]["rows"] == 8192 * 2 + 127 * 4
    assert one["savings"][0]["hidden_bytes"] == one["savings"][0]["rows"] * 8


def test_traces(capsys: pytest.CaptureFixture[str]) -> None:
    document = savings_json(capsys, "--model", "OLMoE-1B-7B", "--trace", str(TRACE))
    uses = {(use["name"], use["batching"]): use for use in document["padding"]}
    assert uses["qwen1.5-moe-a2.7b.layer0", "passes as recorded"]["routings"] == 104
    assert uses["qwen1.5-moe-a2.7b.layer0", "batches of up to 256"]["routings"] == 10
    assert all(0 < use["share"]["0.5"] <= use["worst_share"] <= 1 for use in uses.values())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that --out filled, three figures of one model and one of routings."""
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("needs the package matplotlib (extra plots)")
    out = tmp_path_factory.mktemp("savings") / "new" / "out"
    file = small(tmp_path_factory.mktemp("model"))
    arguments = ["--model", file, "--max-num-batched-tokens", "16", "--trace", str(TRACE)]
    assert run(["savings", *arguments, "--out", str(out)]) == 0
    return out


class TestFolder:
    """What --out writes: tables, and figures in both forms and both themes."""

    def test_figures(self, written: Path) -> None:
        stems = {path.name.split(".")[0] for path in written.iterdir()}
        kinds = {stem.split("-")[0] for stem in stems}
        assert kinds == {"savings", "bytes_by_model", "rows_by_tokens", "padding_used", "looseness"}
        for stem in stems - {"savings"}:
            for theme in ("light", "dark"):
                assert (written / f"{stem}.{theme}.svg").read_text().startswith(f'<svg id="{stem}-{theme}"')
                assert (written / f"{stem}.{theme}.png").read_bytes().startswith(b"\x89PNG")
        assert len(list(written.iterdir())) == 2 + 4 * (len(stems) - 1)

    def test_tables(self, written: Path) -> None:
        document = json.loads((written / "savings.json").read_text())
        SCHEMA.validate(document)
        with (written / "savings.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert [int(line["peak_bytes"]) for line in lines] == [x["peak_bytes"] for x in document["savings"]]
        assert {use["kind"] for use in document["padding"]} == {"trace", "family"}


def test_without_matplotlib_there_are_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "unavailable", lambda: "No module named 'matplotlib'")
    out = tmp_path / "out"
    assert (
        run(["savings", "--model", small(tmp_path), "--max-num-batched-tokens", "4", "--out", str(out)]) == 3
    )
    captured = capsys.readouterr()
    assert "figures need matplotlib: pip install 'nvfp4-moe[plots]' (No module named" in captured.err
    assert "proposed" in captured.out
    assert sorted(path.name for path in out.iterdir()) == ["savings.csv", "savings.json"]


class TestFilesThatAreThere:
    """What --out and --json would replace is looked at first."""

    @pytest.fixture(autouse=True)
    def _tables_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(figures, "unavailable", lambda: "not here")

    def refused(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
        assert run(["savings", "--max-num-batched-tokens", "4", *map(str, arguments)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        return captured.err

    @pytest.mark.parametrize("name", ["savings.csv", "savings.json"])
    def test_folders_read_only_files_and_inputs_stay(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        out = tmp_path / "out"
        (out / name).mkdir(parents=True)
        assert f"{out / name} is a folder" in self.refused(capsys, "--model", "GLM-4.5", "--out", out)
        (out / name).rmdir()
        (out / name).write_text(json.dumps(CONFIG))
        assert "which this run needs" in self.refused(capsys, "--model", out / name, "--out", out)
        (out / name).chmod(0o444)
        assert "is there and not writable" in self.refused(capsys, "--model", "GLM-4.5", "--out", out)
        assert [path.name for path in out.iterdir()] == [name]
        assert json.loads((out / name).read_text()) == CONFIG

    def test_the_configuration_in_a_folder_stays(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = small(tmp_path)
        assert "which this run needs" in self.refused(capsys, "--model", tmp_path, "--json", file)
        assert json.loads(Path(file).read_text()) == CONFIG

    def test_an_empty_name_is_not_the_current_folder(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert "a folder name is needed, got an empty one" in self.refused(capsys, "--out", "")
        assert not list(tmp_path.iterdir())

    def test_a_link_that_leads_nowhere_is_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "savings.csv").symlink_to("/no/such/folder/file")
        assert run(["savings", "--model", small(tmp_path), "--out", str(tmp_path)]) == 3
        assert (tmp_path / "savings.csv").read_text().startswith("model,")

    def test_a_json_that_is_not_delivered(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["savings", "--model", "GLM-4.5", "--json", "/dev/full"]) == 3
        captured = capsys.readouterr()
        assert "/dev/full cannot be written: No space left on device" in captured.err
        assert "GLM-4.5" in captured.out

    def test_a_folder_that_takes_no_more(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(source: object, target: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(source))

        monkeypatch.setattr("os.replace", full)
        out = tmp_path / "out"
        assert run(["savings", "--model", "GLM-4.5", "--out", str(out)]) == 3
        assert f"{out / 'savings.csv'} cannot be written: No space left on device" in capsys.readouterr().err
        assert not list(out.iterdir())

    def test_without_a_gpu_there_are_files_nevertheless(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert run(["savings", "--model", "GLM-4.5", "--measure", "--out", str(tmp_path)]) == 3
        assert {"savings.csv", "savings.json"} <= {path.name for path in tmp_path.iterdir()}


def test_one_model_left_is_not_the_whole_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["savings", "--tensor-parallel-size", "7"]) == 0
    text = capsys.readouterr().out
    assert "Mixtral-8x7B at 8,192" in text
    assert text.count("left out: ") == len(ZOO) - 1


def test_the_zoo_lists_what_the_ranks_do_not_divide(capsys: pytest.CaptureFixture[str]) -> None:
    document = savings_json(capsys, "--tensor-parallel-size", "8")
    refused = {model["model"] for model in document["refused"]}
    assert {"gpt-oss-20b", "gpt-oss-120b", "Nemotron-3-Nano"} <= refused
    assert {model["name"] for model in document["models"]} == set(ZOO) - refused
    assert run(["savings", "--tensor-parallel-size", "8"]) == 0
    assert "left out: gpt-oss-20b: intermediate_size / 8 is 360, no multiple of 16" in capsys.readouterr().out


class TestMeasured:
    """--measure: refused without a GPU, and its verdict is the exit code."""

    def test_without_a_gpu(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert run(["savings", "--model", "GLM-4.5", "--measure"]) == 3
        assert "not measured: no CUDA device is present" in capsys.readouterr().err

    @pytest.mark.parametrize(("off", "code"), [(0, 0), (1, 1)])
    def test_verdict(
        self, off: int, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def measured(saving: Saving) -> Measured:
            requested = saving.peak_bytes + off
            return Measured(saving=saving, requested_bytes=requested, allocated_bytes=requested)

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
        monkeypatch.setattr(measured_memory, "_measure", measured)
        assert run(["savings", "--model", "GLM-4.5", "--measure", "--json", "-"]) == code
        captured = capsys.readouterr()
        document = json.loads(captured.out)
        SCHEMA.validate(document)
        assert [line["agrees"] for line in document["measured"]] == [not off] * len(FORMULAS)
        assert ("DIFFERS" in captured.err) == bool(off)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "DeepSeek-R9"], "did you mean DeepSeek-R1?"),
        (["--model", "absent/config.json"], "no such file: 'absent/config.json'"),
        (["--model", "/dev/zero"], "no regular file"),
        (["--model", str(TRACE)], "not JSON"),
        (["--model", "gpt-oss-20b", "--tensor-parallel-size", "8"], "360, no multiple of 16"),
        (["--tensor-parallel-size", "17"], "does not divide by tensor_parallel_size 17"),
        (["--expert-parallel-size", "1000"], "must be at most the number of experts (256)"),
        (["--tensor-parallel-size", "0"], "must be between 1"),
        (["--max-num-batched-tokens", "0"], "must be between 1"),
        (["--max-num-batched-tokens", "12.5"], "'12.5' is not an integer"),
        (["--baseline", "vllm"], "baseline must be one of proposed"),
        (["--trace", "absent.npz"], "absent.npz: cannot be read"),
        (["--out", "/proc/none"], "--out: "),
        (["--json", "/no/such/folder/x.json"], "does not exist"),
        (["--trace", str(TRACE), "--json", str(TRACE)], "which this run needs"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["savings", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_hostile_name_is_printed_harmlessly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a\x1b[31m[bold]b"
    folder.mkdir()
    small(folder)
    assert run(["savings", "--model", str(folder), "--max-num-batched-tokens", "4"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "a\\x1b[31m[bold]b" in printed
