"""Responses of vLLM and SGLang as router traces: every form, prompt and generation, and what is refused."""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nvfp4_moe.verification import traces_responses
from nvfp4_moe.verification.trace_check import check_trace
from nvfp4_moe.verification.trace_report import report_lines
from nvfp4_moe.verification.traces import TraceError, is_response_document, open_trace
from nvfp4_moe.verification.traces_jsonl import MAX_LINE_BYTES

TOKENS, LAYERS, TOPK, EXPERTS = 5, 3, 2, 8
IDS = 1 + np.arange(TOKENS * LAYERS * TOPK).reshape(TOKENS, LAYERS, TOPK) % (EXPERTS - 1)
PROMPT = 3
STEPS = [IDS[:PROMPT], IDS[PROMPT : PROMPT + 1], IDS[PROMPT + 1 :]]


def npy(array: np.ndarray[Any, Any], **changes: Any) -> str:
    stream = io.BytesIO()
    np.save(stream, array, **changes)
    return base64.b64encode(stream.getvalue()).decode()


def raw(array: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(array.astype("<i4").tobytes()).decode()


def vllm(value: Any, **changes: Any) -> dict[str, Any]:
    return {"choices": [{"routed_experts": value}], "usage": {"prompt_tokens": PROMPT}} | changes


def sglang(value: Any, **changes: Any) -> dict[str, Any]:
    info = {"routed_experts": value, "prompt_tokens": PROMPT, "completion_tokens": TOKENS - PROMPT + 1}
    return {"text": "x", "meta_info": info | changes}


def write(path: Path, *records: Any) -> Path:
    if ".json" in path.suffixes:
        text = json.dumps(list(records) if len(records) > 1 else records[0], indent=1)
    else:
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in records)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def passes(path: Path, **options: Any) -> dict[int, list[list[list[int]]]]:
    trace = open_trace(path, **({"num_experts": EXPERTS} | options))
    found: dict[int, list[list[list[int]]]] = {}
    for step in trace:
        assert not step.profiling
        found.setdefault(step.layer, []).append(step.topk_ids.tolist())
    return found


EXPECTED = {layer: [step[:, layer].tolist() for step in STEPS] for layer in range(LAYERS)}
FORMS = {
    "vLLM, npy int32": (vllm(npy(IDS.astype(np.int32))), None),
    "vLLM, npy uint8": (vllm(npy(IDS.astype(np.uint8))), None),
    "vLLM, npy uint16, Fortran order, big-endian": (vllm(npy(np.asfortranarray(IDS.astype(">u2")))), None),
    "vLLM 0.21, lists": (
        {
            "prompt_routed_experts": IDS[:PROMPT].tolist(),
            "choices": [{"routed_experts": IDS[PROMPT:].tolist()}],
        },
        None,
    ),
    "vLLM, prompt_token_ids": (
        {"choices": [{"routed_experts": npy(IDS)}], "prompt_token_ids": [7] * PROMPT},
        None,
    ),
    "SGLang": (sglang(raw(IDS)), TOPK),
    "SGLang, num_layers": (
        {"meta_info": {"routed_experts": raw(IDS), "prompt_tokens": PROMPT, "num_layers": LAYERS}},
        TOPK,
    ),
    "SGLang, chat": (
        {"choices": [{"meta_info": sglang(raw(IDS))["meta_info"]}]},
        TOPK,
    ),
}


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.json", "t.json.gz"])
@pytest.mark.parametrize("form", FORMS)
def test_prompt_is_one_pass_and_every_further_token_another(tmp_path: Path, form: str, name: str) -> None:
    record, topk = FORMS[form]
    path = write(tmp_path / name, record)
    assert passes(path, topk=topk) == EXPECTED
    meta = open_trace(path, num_experts=EXPERTS, topk=topk).meta
    assert (meta.form, meta.topk, meta.num_experts, meta.has_passes) == ("responses", TOPK, EXPERTS, False)
    assert is_response_document(path) == (".json" in path.suffixes)


def test_requests_share_batches_and_the_batch_limit_holds(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", vllm(npy(IDS)), vllm(npy(IDS)))
    trace = open_trace(path, num_experts=EXPERTS)
    assert [step.tokens for step in trace if step.layer == 0] == [2 * PROMPT, 2, 2]
    assert trace.batched is not None
    assert [step.tokens for step in trace.batched(4) if step.layer == 0] == [4, 3, 2, 1]
    report, outcomes = check_trace(trace, max_num_batched_tokens=4)
    assert (report.max_num_batched_tokens, report.real.tokens) == (4, 2 * TOKENS * LAYERS)
    assert "steps of at most max_num_batched_tokens 4 tokens" in "\n".join(report_lines(report))
    assert "steps of at most 8,192 tokens" in "\n".join(report_lines(check_trace(trace)[0]))
    assert {outcome.verdict for _, outcome in outcomes} == {"HELD"}


def test_choices_share_the_prompt(tmp_path: Path) -> None:
    choices = [{"routed_experts": npy(IDS)}, {"routed_experts": npy(IDS)}]
    found = passes(write(tmp_path / "t.jsonl", vllm(None, choices=choices)))
    assert [len(step) for step in found[0]] == [PROMPT + 1, 2, 1]


def test_layers_without_ids_are_left_out(tmp_path: Path) -> None:
    ids = IDS.copy()
    ids[:, 1] = 0
    assert sorted(passes(write(tmp_path / "t.jsonl", vllm(npy(ids))))) == [0, 2]
    assert sorted(passes(write(tmp_path / "u.jsonl", vllm(npy(ids[:, :, :1]))))) == [0, 1, 2]


def test_padding_ids_stay(tmp_path: Path) -> None:
    ids = IDS.copy()
    ids[0, 0, 1] = -1
    assert passes(write(tmp_path / "t.jsonl", vllm(npy(ids))))[0][0][0] == [1, -1]


def test_a_prompt_of_unknown_length_is_the_whole_request(tmp_path: Path) -> None:
    found = passes(write(tmp_path / "t.jsonl", {"routed_experts": npy(IDS)}))
    assert [len(step) for step in found[0]] == [TOKENS]


def test_nothing_generated(tmp_path: Path) -> None:
    record = {"prompt_routed_experts": IDS.tolist(), "choices": [{"routed_experts": []}]}
    assert [len(step) for step in passes(write(tmp_path / "t.jsonl", record))[0]] == [TOKENS]


# --- refused ---------------------------------------------------------------------------------------------------

HUGE = base64.b64encode(
    b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000, 3, 2), }".ljust(117)
    + b"\n"
).decode()
EMPTY_AND_HUGE = base64.b64encode(
    b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<i4', 'fortran_order': False, 'shape': (0, 1000000000000000000000000000000, 2), }".ljust(
        117
    )
    + b"\n"
).decode()
NEGATIVE = base64.b64encode(
    b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<i4', 'fortran_order': False, 'shape': (-1, 3, 2), }".ljust(117)
    + b"\n"
).decode()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (vllm(None), "no routed experts: was the server started with --enable-return-routed-experts"),
        (vllm("@@@"), "is not base64"),
        (vllm(npy(IDS)[:-5]), "is not base64"),
        (vllm(npy(IDS)[:-8]), r"bytes of it are there, got \(5, 3, 2\)"),
        (vllm(HUGE), r"0 bytes of it are there, got \(1000000000000, 3, 2\) int32"),
        (vllm(NEGATIVE), "bytes of it are there"),
        (
            vllm(EMPTY_AND_HUGE),
            r"must have 1 to 65535 layers .*, got shape \(0, 1000000000000000000000000000000, 2\)",
        ),
        (vllm(npy(IDS.astype(float))), "must be of an integer type, got float64"),
        (vllm(npy(np.array([None]), allow_pickle=True)), "must be of an integer type, got object"),
        (vllm(npy(IDS[0])), r"must be \(tokens, layers, topk\)"),
        (vllm(base64.b64encode(b"\x93NUMPY\x09\x00").decode()), "has no readable .npy header"),
        (vllm(npy(IDS + 5)), r'"routed_experts"\[.*\] must be an expert id in \[-1, 8\), got'),
        (vllm(npy(IDS.astype(np.uint64) + np.uint64(2**63))), "must be an expert id"),
        (vllm(npy(np.zeros_like(IDS))), "every id is 0: the kernel did not report"),
        (vllm([[1, 2]]), r"must be integers in nested lists \(tokens, layers, topk\)"),
        (vllm([[[1]], [[1, 2]]]), "must be nested lists"),
        (vllm([[[1.5]]]), "must be integers in nested lists"),
        (vllm([[[True, 1]]]), r"must be integers in nested lists .*, got \[\[True, 1\]\]"),
        (vllm([[[1, 2]], [["a" * 999, 2]]]), "must be integers in nested lists .*, got .*aaa"),
        (vllm([[[]]]), r"must be integers in nested lists .*, got shape \(1, 1, 0\)"),
        (vllm([[[10**30]]]), "must be integers in nested lists"),
        (vllm({}), "must be base64 text or nested lists, got {}"),
        (vllm(None, choices={}), '"choices" must be a list of objects'),
        (vllm(None, choices=[1]), '"choices" must be a list of objects'),
        (vllm(npy(IDS), usage={"prompt_tokens": "3"}), '"prompt_tokens" must be an integer'),
        (vllm(npy(IDS), prompt_routed_experts=IDS[:, :1].tolist()), "has shape"),
        (vllm(npy(IDS[:, :0])), "must have 1 to 65535 layers"),
        (vllm(npy(IDS[:, :2])), r"has \(layers, topk\) \(2, 2\), but the first response \(3, 2\)"),
        ({"meta_info": 3, "choices": [{}]}, '"meta_info" must be an object'),
        (sglang(raw(IDS)), r"has no shape; give topk \(--topk\)"),
        ([1], "must be a JSON object"),
    ],
)
@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_bad_response_is_one_clear_error(tmp_path: Path, record: Any, message: str, name: str) -> None:
    path = write(tmp_path / name, vllm(npy(IDS)), record)
    trace = open_trace(path, num_experts=EXPERTS)
    with pytest.raises(TraceError, match=message) as error:
        list(trace)
    assert ("line 2: " if name == "t.jsonl" else "response 1: ") in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (sglang(raw(IDS), completion_tokens=2), "has 30 ids, not"),
        (sglang(raw(IDS), prompt_tokens=None), "needs prompt_tokens and completion_tokens, or num_layers"),
        (sglang(raw(IDS), num_layers=4), "has 30 ids, not"),
        (sglang(raw(IDS), num_layers=0), '"num_layers" must be an integer'),
        (sglang(base64.b64encode(b"abc").decode()), "must be int32 values, got 3 bytes"),
        (sglang(""), "must be int32 values, got 0 bytes"),
        (sglang(raw(IDS), prompt_tokens=0, completion_tokens=1), "has 30 ids, not"),
        (vllm(npy(IDS[:, :, :1])), "has topk 1, but 2 was given"),
    ],
)
def test_bad_raw_ids(tmp_path: Path, record: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        open_trace(write(tmp_path / "t.jsonl", record), num_experts=EXPERTS, topk=TOPK)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.json", "{", "is not JSON"),
        ("t.json", "[" * 100_000, "is not JSON"),
        ("t.json", "[]", "no responses of a server"),
        ("t.json", '{"claims": []}', "is JSON without choices"),
        ("t.json", '[{"choices": []}]', "holds no token"),
        ("t.json", '[[{"choices": []}]]', "is JSON without choices"),
    ],
)
def test_bad_documents(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TraceError, match=message):
        open_trace(tmp_path / name, num_experts=EXPERTS)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.json", '{"choices": ' + "[1]" * 20 + "}", "holds more than 20 values"),
        ("t.json", '{"choices": "' + "x" * 400 + '"}', "is longer than 300 bytes; write a response a line"),
        ("t.jsonl", '{"choices": "' + "x" * 400 + '"}', "line 1: is longer than 300 bytes"),
        ("t.jsonl", '{"choices": [' + "1, " * 30 + "1]}", "line 1: holds more than 20 values"),
    ],
)
def test_files_beyond_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, message: str
) -> None:
    monkeypatch.setattr(traces_responses, "MAX_RESPONSE_VALUES", 20)
    monkeypatch.setattr(traces_responses, "MAX_RESPONSE_BYTES", 300)
    (tmp_path / name).write_text(text)
    with pytest.raises(TraceError, match=message):
        open_trace(tmp_path / name, num_experts=EXPERTS)
    assert not is_response_document(tmp_path / name)


@pytest.mark.parametrize("name", ["t.json.gz", "t.jsonl.gz"])
def test_damaged_gzip(tmp_path: Path, name: str) -> None:
    data = bytearray(write(tmp_path / name, vllm(npy(IDS))).read_bytes())
    data[20:40] = b"\xff" * 20  # no such code: zlib's own error, which is no OSError
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TraceError, match="cannot be read on: Error -3"):
        open_trace(tmp_path / name, num_experts=EXPERTS)
    assert not is_response_document(tmp_path / name)


def test_what_no_response_says(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", vllm(npy(IDS)))
    with pytest.raises(TraceError, match=r"num_experts; give the number of experts \(--experts\)"):
        open_trace(path)
    for topk in (0, 1025, True):
        with pytest.raises((TypeError, ValueError), match="topk must be"):
            open_trace(path, num_experts=EXPERTS, topk=topk)


def test_a_first_response_longer_than_a_line_of_other_forms(tmp_path: Path) -> None:
    ids = np.tile(IDS, (4000, 1, 1)).astype(np.uint8)
    record = json.dumps(vllm(npy(ids)))
    assert len(record) > 2 * MAX_LINE_BYTES
    trace = open_trace(write(tmp_path / "t.jsonl", record), num_experts=EXPERTS)
    assert sum(step.tokens for step in trace if step.layer == 0) == len(ids)


MEMORY_LIMIT = 12 << 20
_CHILD = """
import resource, sys
from nvfp4_moe.verification.traces import open_trace
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
trace = open_trace(sys.argv[1], num_experts=8)
tokens = sum(step.tokens for step in trace.batched(8192))
print(tokens, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def test_many_responses_need_little_memory(tmp_path: Path) -> None:
    """15 MiB of ids in 20 MiB of responses: only the requests that run together are held."""
    ids = np.tile(IDS[:, :1], (1 << 16, 1, 1)).astype(np.uint8)
    line = json.dumps({"routed_experts": npy(ids)}) + "\n"
    (tmp_path / "t.jsonl").write_text(line * 24)
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path / "t.jsonl")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"},
    )
    read, grown = map(int, child.stdout.split())
    assert read == 24 * len(ids)
    assert grown < MEMORY_LIMIT


def test_gzip_bomb_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_responses, "MAX_RESPONSE_BYTES", 1 << 16)
    for name, beginning in (("t.json.gz", b'{"choices": "'), ("t.jsonl.gz", b'{"choices": "')):
        with gzip.open(tmp_path / name, "wb") as file:
            file.write(beginning)
            for _ in range(64):
                file.write(bytes(1 << 20))
        with pytest.raises(TraceError, match="is longer than 65536 bytes"):
            open_trace(tmp_path / name, num_experts=EXPERTS)
