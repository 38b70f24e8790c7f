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
from nvfp4_moe.verification import counter
from nvfp4_moe.verification.result import Verdict
from nvfp4_moe.verification.runner import prepare
from nvfp4_moe.verification.settings import Settings
from nvfp4_moe.verification.traces import TraceError, open_trace

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


def _npz(path: Path) -> None:
    np.savez(path, topk_ids=IDS[:, 0], token_idx=np.arange(TOKENS), num_experts=EXPERTS)


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


@pytest.mark.parametrize("name", [*FORMS, "t.npz"])
def test_a_damaged_file_is_a_trace_error_and_nothing_else(tmp_path: Path, name: str) -> None:
    """Bytes are changed, cut out and put in; what still reads has legal ids."""
    (FORMS[name][0] if name in FORMS else _npz)(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    errors = []
    for case in range(150):
        (tmp_path / name).write_bytes(_damaged(data, name, case))
        try:
            trace = open_trace(tmp_path / name, num_experts=EXPERTS, topk=TOPK)
            for step in trace:
                assert -1 <= step.topk_ids.min() <= step.topk_ids.max() < trace.meta.num_experts
        except TraceError as error:
            errors.append(str(error))
    assert len(errors) > 75
    assert all(error.startswith(str(tmp_path / name)) for error in errors)


def _damaged(data: bytes, name: str, case: int) -> bytes:
    numbers = [counter.word(case, f"damage {name}", index) for index in range(12)]
    changed = bytearray(data)
    for kind, place, value in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        at = place % len(changed)
        if kind % 3 == 0:
            changed[at] = value % 256
        elif kind % 3 == 1:
            del changed[at : at + 1 + value % 8]
        else:
            changed[at:at] = value.to_bytes(8, "little", signed=value < 0)
        if place % 2:
            break
    return bytes(changed)


def test_names_inside_an_archive_that_are_no_text(tmp_path: Path) -> None:
    """A member's name is read twice by zipfile, and the second time it fails otherwise than an archive does."""
    for name, write, member in (("recorder.pt", _torch, b"data.pkl"), ("t.npz", _npz, b"topk_ids.npy")):
        write(tmp_path / name)
        data = (tmp_path / name).read_bytes()
        at = data.index(member)
        (tmp_path / name).write_bytes(data[: at + 2] + b"\x80" + data[at + 3 :])
        flags = data.index(b"PK\x03\x04") if name == "t.npz" else data.rindex(b"PK\x03\x04", 0, at)
        marked = bytearray((tmp_path / name).read_bytes())
        marked[flags + 7] |= 8  # names are UTF-8
        (tmp_path / name).write_bytes(bytes(marked))
        with pytest.raises(TraceError, match=name):
            list(open_trace(tmp_path / name))
