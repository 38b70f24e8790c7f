"""Megatron-LM's router traces: passes of decoder and MTP layers, and records that are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.verification.traces import TraceError, open_trace
from nvfp4_moe.verification.traces_jsonl import MAX_LINE_BYTES
from nvfp4_moe.verification.traces_megatron import MTP_FIRST_LAYER, MTP_LAYERS


def record(indices: Any, layer: Any = 3, **changes: Any) -> dict[str, Any]:
    fields = {
        "step": 0,
        "stage": "pre_dispatch",
        "block": "decoder",
        "layer": layer,
        "rank": 0,
        "num_tokens": len(indices) if isinstance(indices, list) else 0,
        "topk": 2,
        "top_indices": indices,
    }
    return fields | changes


def write(path: Path, *records: Any) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in records)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["router_trace_rank0.jsonl", "t.jsonl.gz"])
def test_every_record_is_a_pass(tmp_path: Path, name: str) -> None:
    records = [
        record([[1, 2], [3, 4]]),
        record([[0, 5]], layer=4),
        record([[7, 0]], step=1),
        record([], step=1, layer=4),
        record([[1, 0]], layer=0, block="mtp", mtp_idx=1),
    ]
    trace = open_trace(write(tmp_path / name, *records), num_experts=8)
    assert (trace.meta.form, trace.meta.topk, trace.meta.num_experts) == ("megatron", 2, 8)
    steps = [(s.layer, s.index, s.first_token, s.topk_ids.tolist()) for s in trace]
    assert steps == [
        (3, 0, 0, [[1, 2], [3, 4]]),
        (4, 0, 0, [[0, 5]]),
        (3, 1, 2, [[7, 0]]),
        (MTP_FIRST_LAYER + MTP_LAYERS, 0, 0, [[1, 0]]),
    ]
    assert len(list(trace)) == 4


def test_a_first_record_longer_than_a_line_of_other_forms(tmp_path: Path) -> None:
    tokens = MAX_LINE_BYTES
    path = write(tmp_path / "t.jsonl", record([[1, 2]] * tokens))
    (step,) = open_trace(path, num_experts=8)
    assert step.tokens == tokens


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (record([[1]]), r'line 2: "top_indices"\[0\] must hold 2 integers, got \[1\]'),
        (record([[1, 2], [1, 8]]), r'"top_indices"\[1\] must hold ids in \[-1, 8\), got \[1, 8\]'),
        (record([[1, -2]]), r"must hold ids in \[-1, 8\)"),
        (record([[1, True]]), "must hold 2 integers"),
        (record([[1, 2.0]]), "must hold 2 integers"),
        (record([1, 2]), "must hold 2 integers, got 1"),
        (record("x"), "must be a list of tokens, got 'x'"),
        (record([[1, 10**400]]), r"must hold ids in \[-1, 8\)"),
        (record([[1, 2]], num_tokens=2), '"num_tokens" is 2, but "top_indices" holds 1 tokens'),
        (record([[1, 2]], num_tokens=-1), '"num_tokens" must be an integer'),
        (record([[1, 2]], layer="3"), '"layer" must be an integer'),
        (record([[1, 2]], layer=MTP_FIRST_LAYER), '"layer" must be an integer'),
        (record([[1, 2]], block="encoder"), '"block" must be "decoder" or "mtp", got \'encoder\''),
        (record([[1, 2]], block="mtp", mtp_idx=32), '"mtp_idx" must be an integer'),
        (record([[1, 2]], stage="post_dispatch"), '"stage" must be "pre_dispatch"'),
        ({"step": 1}, '"layer" must be an integer in .* got nothing'),
        ("[1]", "must be a JSON object"),
        ('{"layer": 1', "is not JSON"),
    ],
)
def test_bad_record_is_one_clear_error(tmp_path: Path, bad: Any, message: str) -> None:
    path = write(tmp_path / "t.jsonl", record([[1, 2]]), bad)
    trace = open_trace(path, num_experts=8)
    with pytest.raises(TraceError, match=message) as error:
        list(trace)
    assert len(str(error.value)) < 500


def test_what_the_file_does_not_say(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", record([[1, 2]]))
    with pytest.raises(TraceError, match=r"num_experts; give the number of experts \(--experts\)"):
        open_trace(path)
    with pytest.raises(TraceError, match='"topk" must be an integer'):
        open_trace(write(tmp_path / "u.jsonl", record([[1, 2]], topk=0)), num_experts=8)
    with pytest.raises(TraceError, match="holds no token"):
        list(open_trace(write(tmp_path / "v.jsonl", record([])), num_experts=8))


def test_a_line_with_too_many_values_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvfp4_moe.verification.traces_megatron.MAX_LINE_VALUES", 20)
    path = write(tmp_path / "t.jsonl", record([[1, 2]] * 10))
    with pytest.raises(TraceError, match="line 1: holds more than 20 values"):
        open_trace(path, num_experts=8)
