"""Every form of router trace goes through `replay` and through the trace job of `verify`."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nvfp4_moe.cli.main import run
from nvfp4_moe.verification.result import Verdict
from nvfp4_moe.verification.runner import prepare
from nvfp4_moe.verification.settings import Settings

TOKENS, LAYERS, TOPK, EXPERTS = 6, 2, 2, 8
IDS = 1 + np.arange(TOKENS * LAYERS * TOPK).reshape(TOKENS, LAYERS, TOPK) % (EXPERTS - 1)


def _npy() -> str:
    stream = io.BytesIO()
    np.save(stream, IDS.astype(np.int16))
    return base64.b64encode(stream.getvalue()).decode()


def _raw() -> str:
    return base64.b64encode(IDS.astype("<i4").tobytes()).decode()


def _megatron(path: Path) -> None:
    records = [
        {"layer": layer, "topk": TOPK, "num_tokens": TOKENS, "top_indices": IDS[:, layer].tolist()}
        for layer in range(LAYERS)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def _torch(path: Path) -> None:
    ids = torch.tensor(IDS.transpose(1, 0, 2), dtype=torch.int32)
    counts = torch.ones(LAYERS, EXPERTS, dtype=torch.int32)
    torch.save({"records": [{"topk_ids_of_layer": ids, "global_physical_count": counts}]}, path)


def _vllm(path: Path) -> None:
    path.write_text(json.dumps({"choices": [{"routed_experts": _npy()}], "usage": {"prompt_tokens": TOKENS}}))


def _sglang(path: Path) -> None:
    info = {"routed_experts": _raw(), "prompt_tokens": TOKENS, "completion_tokens": 1}
    path.write_text(json.dumps({"meta_info": info}) + "\n")


FORMS = {
    "rank0.jsonl": (_megatron, "megatron"),
    "recorder.pt": (_torch, "sglang_tokens"),
    "response.json": (_vllm, "responses"),
    "responses.jsonl": (_sglang, "responses"),
}


@pytest.mark.parametrize("name", FORMS)
def test_replay_reports_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    write, form = FORMS[name]
    write(tmp_path / name)
    arguments = ["--experts", str(EXPERTS), "--topk", str(TOPK), "--json", "-"]
    assert run(["replay", str(tmp_path / name), *arguments]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["report"]["form"] == form
    assert result["report"]["real"]["tokens"] == TOKENS * LAYERS
    assert {claim["verdict"] for claim in result["claims"]} == {"HELD"}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("batch", [None, 4])
def test_verify_checks_it(tmp_path: Path, name: str, batch: int | None) -> None:
    FORMS[name][0](tmp_path / name)
    settings = Settings(
        subjects=["reference"],
        traces=[tmp_path / name],
        experts=EXPERTS,
        topk=TOPK,
        max_num_batched_tokens=batch,
        folder=tmp_path,
    )
    (job,) = [job for job in prepare(settings) if job.name == f"trace {name}"]
    rows = list(job.work(lambda done: None))
    assert {row.outcome.verdict for row in rows} == {Verdict.HELD}
    assert {row.outcome.cases for row in rows} == {LAYERS if batch is None else 2 * LAYERS}


def test_a_counterexample_in_json_is_still_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text('{"claims": []}')
    assert run(["replay", str(tmp_path / "x.json")]) in (0, 2)
    assert "no responses of a server" not in capsys.readouterr().err


@pytest.mark.parametrize("name", FORMS)
def test_hostile_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    write, _ = FORMS[name]
    write(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) * 3 // 4])
    assert run(["replay", str(tmp_path / name), "--experts", str(EXPERTS), "--topk", str(TOPK)]) == 2
    streams = capsys.readouterr()
    assert streams.err.count("\n") == 1
    assert streams.err.startswith("nvfp4-moe: error: ")
