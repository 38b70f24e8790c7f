"""Readers of router traces: both forms, passes, re-batching, hostile files, memory."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nvfp4_moe.verification import trace_model, traces
from nvfp4_moe.verification.trace_model import UNMARKED_PASS_TOKENS
from nvfp4_moe.verification.traces import Step, TraceError, open_trace, rebatch
from nvfp4_moe.verification.traces_jsonl import MAX_LINE_BYTES

EXAMPLES = Path(__file__).parents[2] / "examples" / "router_traces"
META = {"type": "meta", "model_id": "m", "layers_logged": [0], "top_k": 2, "num_experts": 8}


def route(token_idx: Any, topk_ids: Any, layer: Any = 0) -> dict[str, Any]:
    return {
        "type": "route",
        "req_id": "r0",
        "token_idx": token_idx,
        "layer": layer,
        "topk_ids": topk_ids,
        "topk_weights": [0.5, float("nan")],
    }


def write_jsonl(path: Path, records: Iterable[dict[str, Any] | str]) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def shape_of(steps: Iterable[Step]) -> list[tuple[int, int, int, int]]:
    return [(step.layer, step.index, step.first_token, step.tokens) for step in steps]


def npz(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


# --- what a trace says ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "no_suffix"])
def test_jsonl_passes_end_where_token_idx_does_not_grow(tmp_path: Path, name: str) -> None:
    records = [META, route(0, [1, 2]), route(1, [3, 4]), route(0, [5, 6]), route(0, [7, -1])]
    trace = open_trace(write_jsonl(tmp_path / name, records))
    assert (trace.meta.num_experts, trace.meta.topk, trace.meta.model, trace.meta.layers) == (8, 2, "m", (0,))
    steps = list(trace)
    assert shape_of(steps) == [(0, 0, 0, 2), (0, 1, 2, 1), (0, 2, 3, 1)]
    assert [step.topk_ids.tolist() for step in steps] == [[[1, 2], [3, 4]], [[5, 6]], [[7, -1]]]
    assert all(step.topk_ids.dtype == np.int32 for step in steps)


def test_a_trace_can_be_read_twice(tmp_path: Path) -> None:
    trace = open_trace(write_jsonl(tmp_path / "t.jsonl", [META, route(0, [1, 2])]))
    assert shape_of(trace) == shape_of(trace) == [(0, 0, 0, 1)]


@pytest.mark.parametrize("order", ["layer by layer", "token by token"])
def test_layers_have_passes_of_their_own(tmp_path: Path, order: str) -> None:
    lines = [(layer, token) for layer in (3, 12) for token in range(3)]
    if order == "token by token":
        lines.sort(key=lambda line: line[1])
    records = [route(token, [layer % 8, token], layer) for _ in range(2) for layer, token in lines]
    steps = list(open_trace(write_jsonl(tmp_path / "t.jsonl", [META, *records])))
    assert sorted(shape_of(steps)) == [(3, 0, 0, 3), (3, 1, 3, 3), (12, 0, 0, 3), (12, 1, 3, 3)]
    for step in steps:
        assert step.topk_ids.tolist() == [[step.layer % 8, token] for token in range(3)]


def test_passes_do_not_depend_on_how_the_reader_blocks_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        route(i % period, [i % 8, 0], layer) for period in (1, 2, 5) for i in range(11) for layer in (0, 1)
    ]
    path = write_jsonl(tmp_path / "t.jsonl", [META, *records])
    found = []
    for size in (1, 2, 3, 7, 4096):
        monkeypatch.setattr("nvfp4_moe.verification.traces_jsonl.BLOCK_TOKENS", size)
        found.append(
            sorted((*shape, str(s.topk_ids.tolist())) for s in open_trace(path) for shape in shape_of([s]))
        )
    assert all(other == found[0] for other in found[1:])
    assert len(found[0]) == 2 * (11 + 6 + 3)


def test_a_second_meta_line_ends_the_open_passes(tmp_path: Path) -> None:
    records = [META, route(0, [1, 2]), META, route(1, [1, 2]), {"type": "meta"}, route(2, [1, 2])]
    steps = list(open_trace(write_jsonl(tmp_path / "t.jsonl", records)))
    assert [(step.tokens, step.contiguous) for step in steps] == [(1, True), (1, False), (1, False)]


def test_missing_lines_are_noticed(tmp_path: Path) -> None:
    records = [META, route(0, [1, 2]), route(2, [1, 3]), route(0, [1, 2]), route(1, [1, 3])]
    steps = list(open_trace(write_jsonl(tmp_path / "t.jsonl", records)))
    assert [step.contiguous for step in steps] == [False, True]


def test_profiling_passes_have_two_tokens_or_more_all_alike(tmp_path: Path) -> None:
    records = [META, route(0, [1, 2]), route(1, [1, 2]), route(0, [1, 2]), route(0, [1, 2]), route(1, [2, 1])]
    steps = list(open_trace(write_jsonl(tmp_path / "t.jsonl", records)))
    assert [(step.tokens, step.profiling) for step in steps] == [(2, True), (1, False), (2, False)]


def test_the_meta_line_goes_before_the_given_number_of_experts(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [META, route(0, [1, 2])])
    assert open_trace(path, num_experts=64).meta.num_experts == 8
    without = {key: value for key, value in META.items() if key not in ("num_experts", "top_k")}
    path = write_jsonl(tmp_path / "u.jsonl", [without, route(0, [1, 2, 3])])
    meta = open_trace(path, num_experts=64).meta
    assert (meta.num_experts, meta.topk) == (64, 3)


def test_a_file_without_meta_line_needs_only_the_number_of_experts(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [route(0, [1, 2, 3]), route(1, [1, 2, 4])])
    trace = open_trace(path, num_experts=5)
    assert trace.meta.topk == 3
    assert shape_of(trace) == [(0, 0, 0, 2)]


IDS = np.array([[1, 2], [3, 4], [5, 6], [7, -1]])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_without_passes_is_one_stretch(tmp_path: Path, dtype: str, order: Any) -> None:
    np.save(tmp_path / "t.npy", np.asarray(IDS, dtype=dtype, order=order))
    trace = open_trace(tmp_path / "t.npy", num_experts=8)
    assert not trace.meta.has_passes
    (step,) = trace
    assert np.array_equal(step.topk_ids, IDS)


def test_long_npy_is_cut_where_no_pass_boundary_is_known(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.arange(2 * UNMARKED_PASS_TOKENS + 5).reshape(-1, 1) % 100)
    steps = list(open_trace(tmp_path / "t.npy", num_experts=100))
    assert [step.tokens for step in steps] == [UNMARKED_PASS_TOKENS, UNMARKED_PASS_TOKENS, 5]
    ids = np.concatenate([step.topk_ids for step in steps])
    assert np.array_equal(ids[:, 0], np.arange(len(ids)) % 100)


@pytest.mark.parametrize("block_ids", [1, 4, 1 << 18])
def test_npz_with_token_idx_and_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_ids: int
) -> None:
    monkeypatch.setattr("nvfp4_moe.verification.traces_numpy.BLOCK_IDS", block_ids)
    path = npz(
        tmp_path / "t.npz",
        topk_ids=IDS,
        token_idx=np.array([0, 0, 1, 0]),
        layer=np.array([5, 2, 2, 5], dtype=np.int16),
        num_experts=np.int32(8),
        model_id=np.array("m"),
        other=np.array([None]),  # pickled, never touched
    )
    trace = open_trace(path, num_experts=99)
    assert (trace.meta.num_experts, trace.meta.topk, trace.meta.model) == (8, 2, "m")
    steps = {(step.layer, step.index): step.topk_ids.tolist() for step in trace}
    assert steps == {(5, 0): [[1, 2]], (2, 0): [[3, 4], [5, 6]], (5, 1): [[7, -1]]}


@pytest.mark.parametrize("layer", [None, 4, [1, 2, 1]])
@pytest.mark.parametrize("tokens", [1, 2])
def test_npz_with_steps(tmp_path: Path, layer: Any, tokens: int) -> None:
    ids = np.arange(3 * tokens * 2).reshape(3, tokens, 2)
    extra = {} if layer is None else {"layer": np.array(layer)}
    trace = open_trace(npz(tmp_path / "t.npz", topk_ids=ids, **extra), num_experts=12)
    layers = np.broadcast_to(np.array(0 if layer is None else layer), 3).tolist()
    steps = sorted((step.topk_ids.tolist(), step.layer) for step in trace)
    assert steps == [(ids[i].tolist(), layers[i]) for i in range(3)]


# --- re-batching ----------------------------------------------------------------------------------------------


def steps_of(sizes: Sequence[int], *, layer: int = 0, profiling: bool = False, first: int = 0) -> list[Step]:
    found = []
    for index, size in enumerate(sizes):
        ids = np.arange(first, first + size, dtype=np.int32)[:, None]
        found.append(Step(layer=layer, index=index, first_token=first, topk_ids=ids, profiling=profiling))
        first += size
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9, 10, 11, 100])
def test_rebatch_keeps_every_token_in_order(size: int) -> None:
    batches = list(rebatch(steps_of([3, 1, 5, 1]), max_num_batched_tokens=size))
    full, rest = divmod(10, size)
    assert [batch.tokens for batch in batches] == [size] * full + [rest] * (rest > 0)
    assert np.concatenate([batch.topk_ids for batch in batches])[:, 0].tolist() == list(range(10))
    assert [batch.first_token for batch in batches] == [batch.topk_ids[0, 0] for batch in batches]
    assert [batch.index for batch in batches] == list(range(len(batches)))


def test_rebatch_keeps_layers_and_profiling_passes_apart() -> None:
    steps = (
        steps_of([4], profiling=True)
        + steps_of([3], first=4)
        + steps_of([2], layer=1)
        + steps_of([3], first=7)
    )
    batches = list(rebatch(steps, max_num_batched_tokens=5))
    assert [(b.layer, b.profiling, b.first_token, b.tokens) for b in batches] == [
        (0, False, 4, 5),
        (0, True, 0, 4),
        (0, False, 9, 1),
        (1, False, 0, 2),
    ]


def test_rebatch_refuses_batches_that_it_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_OPEN_IDS", 10)
    assert len(list(rebatch(steps_of([10]), max_num_batched_tokens=10**18))) == 1
    with pytest.raises(
        ValueError, match=r"max_num_batched_tokens \(1000000000000000000\) hold more than 10 ids"
    ):
        list(rebatch(steps_of([10, 1]), max_num_batched_tokens=10**18))


@pytest.mark.parametrize("size", [0, -1, 10**30, True, 1.5])
def test_rebatch_refuses_sizes(size: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="max_num_batched_tokens must be"):
        list(rebatch([], max_num_batched_tokens=size))


# --- hostile JSON lines ---------------------------------------------------------------------------------------

BAD_LINES: list[tuple[str, Any, str]] = [
    ("not json", "hello", "line 3: is not JSON: 'hello'"),
    ("control characters", "\x1b[2J", r"line 3: is not JSON: '\\x1b\[2J'"),
    ("deep nesting", "[" * 20000, r"line 3: is not JSON: '\[\[\["),
    ("long integer", "1" * 5000, "line 3: is not JSON"),
    ("array", "[1, 2]", r"line 3: must be a JSON object, got \[1, 2\]"),
    ("other type", {"type": "x"}, 'line 3: "type" must be "meta" or "route", got "x"'),
    ("no type", {}, '"type" must be "meta" or "route", got null'),
    ("type of another type", {"type": ["route"]}, r'"type" must be "meta" or "route", got \["route"\]'),
    ("too large", route(1, [1, 8]), r'line 3: "topk_ids"\[1\] must be an integer in \[-1, 8\), got 8'),
    ("huge", route(1, [1, 10**30]), r"must be an integer in \[-1, 8\), got 1000000"),
    ("negative", route(1, [-2, 1]), r'"topk_ids"\[0\] must be an integer in \[-1, 8\), got -2'),
    ("float", route(1, [1.0, 2]), r"got 1\.0"),
    ("nan", route(1, [float("nan"), 2]), "got NaN"),
    ("bool", route(1, [True, 2]), "got true"),
    ("null", route(1, [None, 2]), "got null"),
    ("text", route(1, ["1", 2]), 'got "1"'),
    ("nested", route(1, [[1], [2]]), r"got \[1\]"),
    ("narrow", route(1, [1]), r"must hold 2 ids as before, got 1: \[1\]"),
    ("wide", route(1, [1, 2, 3]), "must hold 2 ids as before, got 3"),
    ("no ids", route(1, []), r"must be a list of 1 to 1024 expert ids, got \[\]"),
    ("ids are no list", route(1, 5), "must be a list of 1 to 1024 expert ids, got 5"),
    ("ids missing", {"type": "route", "token_idx": 0, "layer": 0}, "must be a list .*, got nothing"),
    (
        "token_idx missing",
        {"type": "route", "layer": 0, "topk_ids": [1, 2]},
        r'"token_idx" must .*, got nothing',
    ),
    ("token_idx negative", route(-1, [1, 2]), '"token_idx" must be an integer in .*, got -1'),
    ("token_idx float", route(0.5, [1, 2]), r'"token_idx" must be an integer in .*, got 0\.5'),
    ("token_idx huge", route(2**63, [1, 2]), '"token_idx" must be an integer in'),
    ("layer bool", route(1, [1, 2], True), '"layer" must be an integer in .*, got true'),
    ("layer huge", route(1, [1, 2], 1 << 16), r'"layer" must be an integer in \[0, 65535\], got 65536'),
    ("other model", {**META, "num_experts": 9}, '"num_experts" is 9, but the recording began with 8'),
    ("other topk", {**META, "top_k": 4}, '"top_k" is 4, but the recording began with 2'),
    ("long line", '{"a": "' + "x" * MAX_LINE_BYTES + '"}', f"line 3: is longer than {MAX_LINE_BYTES} bytes"),
]


@pytest.mark.parametrize("end", [[""], ["", " \t\r", ""], ["\n" * 10_000]])
def test_blank_lines_may_end_a_file(tmp_path: Path, end: list[str]) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [META, route(0, [1, 2]), *end])
    assert shape_of(open_trace(path)) == [(0, 0, 0, 1)]


def test_blank_lines_in_between_are_refused_with_the_first_of_them(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [META, route(0, [1, 2]), "", " ", route(1, [1, 2])])
    with pytest.raises(TraceError, match="line 3: is blank, yet lines follow"):
        list(open_trace(path))


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize(("line", "message"), [pytest.param(*b[1:], id=b[0]) for b in BAD_LINES])
def test_bad_line_is_one_clear_error(tmp_path: Path, line: Any, message: str, suffix: str) -> None:
    path = write_jsonl(tmp_path / f"t.{suffix}", [META, route(0, [1, 2]), line])
    trace = open_trace(path)
    with pytest.raises(TraceError, match=message) as error:
        list(trace)
    assert str(error.value).startswith(f"{path}: line 3: ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300 + len(str(path))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        pytest.param([META], "holds no route line", id="meta only"),
        pytest.param(
            [{"type": "meta", "num_experts": 4}], "holds no route line", id="meta without topk only"
        ),
        pytest.param(
            [{**META, "num_experts": 0}], r'"num_experts" must be an integer in \[1, 65536\]', id="0 experts"
        ),
        pytest.param(
            [{**META, "num_experts": 10**30}], '"num_experts" must be an integer', id="10^30 experts"
        ),
        pytest.param(
            [{**META, "num_experts": "60"}], '"num_experts" must be .* got "60"', id="experts as text"
        ),
        pytest.param(
            [{**META, "top_k": -1}], r'"top_k" must be an integer in \[1, 1024\], got -1', id="negative topk"
        ),
        pytest.param([{"type": "meta"}], r"does not say num_experts .*\(--experts\)", id="no expert count"),
        pytest.param(
            [route(0, [1])], r"does not say num_experts .*\(--experts\)", id="neither meta nor experts"
        ),
        pytest.param(["hello"], "line 1: is not JSON", id="text"),
        pytest.param(["\x00\xff\xfe"], "line 1: is not JSON", id="binary"),
    ],
)
def test_bad_beginning(tmp_path: Path, records: list[Any], message: str) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", records)
    with pytest.raises(TraceError, match=message):
        list(open_trace(path))


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [META, route(0, [1, 2])])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert shape_of(open_trace(path)) == [(0, 0, 0, 1)]


def test_truncated_line_says_so(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [META, route(0, [1, 2]), route(1, [1, 2])])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match=r"line 3: is not JSON: .* \(the file ends here: cut off\?\)"):
        list(open_trace(path))


@pytest.mark.parametrize("keep", [5, 12, 60, -1])
def test_truncated_gzip(tmp_path: Path, keep: int) -> None:
    path = write_jsonl(tmp_path / "t.jsonl.gz", [META, *(route(i, [i % 8, 1]) for i in range(100))])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TraceError, match=r"after line .*: cannot be read on: "):
        list(open_trace(path))


def test_damaged_gzip(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl.gz", [META, *(route(i, [i % 8, 1]) for i in range(100))])
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(bytes(data))
    with pytest.raises(TraceError):
        list(open_trace(path))


def test_gzip_bomb_stops_at_the_line_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    with pytest.raises(TraceError, match="line 1: is longer than"):
        open_trace(path)


def test_passes_that_never_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_model, "MAX_OPEN_IDS", 10)
    ends = write_jsonl(tmp_path / "a.jsonl", [META, *(route(i % 5, [1, 2]) for i in range(50))])
    assert len(list(open_trace(ends))) == 10
    never = write_jsonl(tmp_path / "b.jsonl", [META, *(route(i, [1, 2]) for i in range(6))])
    with pytest.raises(TraceError, match="passes that have not ended hold 12 ids, at most 10 are legal"):
        list(open_trace(never))


# --- hostile files --------------------------------------------------------------------------------------------


def _header(shape: str, descr: str = "'<i4'", *, version: int = 1, fortran: bool = False) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text


def _pickled() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([[{}]]), allow_pickle=True)
    return stream.getvalue()


BAD_NPY: list[tuple[str, bytes, str]] = [
    ("magic only", b"\x93NUMPY", "topk_ids: has no readable .npy header"),
    ("cut header", _header("(2, 2)")[:30], "has no readable .npy header"),
    (
        "long header",
        b"\x93NUMPY\x01\x00" + (60000).to_bytes(2, "little") + b" " * 60000,
        "no readable .npy header",
    ),
    ("4 GB header", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "no readable .npy header"),
    (
        "nested header",
        b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000,
        "no readable .npy header",
    ),
    ("structured version", b"\x93NUMPY\x03\x00\x00\x00\x00\x00", r"format version 3\.0"),
    ("version 9", b"\x93NUMPY\x09\x00\x00\x00", "has no readable .npy header"),
    ("objects", _pickled(), r"dtype must be an integer type, got object \(objects need pickle"),
    ("float", _header("(1, 2)", "'<f4'") + bytes(8), "dtype must be an integer type, got float32"),
    ("bool", _header("(1, 2)", "'|b1'") + bytes(2), "dtype must be an integer type, got bool"),
    ("complex", _header("(1, 2)", "'<c8'") + bytes(16), "dtype must be an integer type, got complex64"),
    ("datetime", _header("(1, 2)", "'<M8[s]'") + bytes(16), "dtype must be an integer type, got datetime64"),
    ("structured", _header("(1, 2)", "[('a', '<i4')]") + bytes(8), "dtype must be an integer type"),
    (
        "scalar",
        _header("()") + bytes(4),
        r"shape must be \(tokens, topk\) or \(steps, tokens, topk\), got \(\)",
    ),
    ("1-d", _header("(4,)") + bytes(16), r"shape must be \(tokens, topk\) .* got \(4,\)"),
    ("4-d", _header("(1, 1, 1, 1)") + bytes(4), "shape must be"),
    ("no token", _header("(0, 4)"), "holds no token"),
    ("no slot", _header("(4, 0)"), r"topk must be in \[1, 1024\]"),
    ("wide", _header("(1, 2000)") + bytes(8000), r"topk must be in \[1, 1024\]"),
    ("huge", _header(f"({10**18}, 4)"), r"needs 160000000000000000\d\d bytes, the file has"),
    ("absurd", _header(f"({10**30}, {10**30})"), "bytes, the file has"),
    ("negative", _header("(-4, 4)"), r"has a negative size in its shape \(-4, 4\)"),
    ("truncated", _header("(4, 2)") + bytes(31), "needs .* bytes, the file has"),
    ("huge step", _header("(1, 100000000, 8)"), "bytes, the file has"),
    (
        "out of range",
        _header("(1, 2)") + np.array([0, 8], "<i4").tobytes(),
        r"topk_ids\[0, 1\]: must be .*, got 8",
    ),
    ("negative id", _header("(1, 2)") + np.array([-2, 0], "<i4").tobytes(), r"topk_ids\[0, 0\]: .* got -2"),
    (
        "unsigned",
        _header("(1, 1)", "'<u8'") + b"\xff" * 8,
        r"must be .* in \[-1, 8\), got 18446744073709551615",
    ),
    ("step id", _header("(1, 2, 1)") + np.array([0, 9], "<i4").tobytes(), r"topk_ids\[0, 1, 0\]: .* got 9"),
]


@pytest.mark.parametrize("archived", [False, True], ids=["npy", "npz"])
@pytest.mark.parametrize(("data", "message"), [pytest.param(*b[1:], id=b[0]) for b in BAD_NPY])
def test_bad_array_is_one_clear_error(tmp_path: Path, data: bytes, message: str, archived: bool) -> None:
    path = tmp_path / ("t.npz" if archived else "t.npy")
    if archived:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("topk_ids.npy", data)
    else:
        path.write_bytes(data)
    with pytest.raises(TraceError, match=message) as error:
        list(open_trace(path, num_experts=8))
    assert str(error.value).startswith(f"{path}: ")


def _resized(data: bytes, size: int) -> bytes:
    """Return an archive of one member whose directory claims that it unpacks to `size` bytes."""
    at = data.rindex(b"PK\x01\x02") + 24
    return data[:at] + size.to_bytes(4, "little") + data[at + 4 :]


def test_archive_that_lies_about_its_size(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("topk_ids.npy", _header("(1000000, 4)") + bytes(1600))
    path.write_bytes(_resized(path.read_bytes(), 17_000_000))
    with pytest.raises(TraceError, match="topk_ids: ends inside the rows from"):
        list(open_trace(path, num_experts=8))


def _encrypted(data: bytes) -> bytes:
    at = data.rindex(b"PK\x01\x02") + 8
    return data[:6] + b"\x01" + data[7:at] + b"\x01" + data[at + 1 :]


BAD_ARCHIVES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("magic only", lambda data: data[:4], "is no readable .npz archive"),
    ("truncated", lambda data: data[: len(data) // 2], "is no readable .npz archive"),
    (
        "damaged",
        lambda data: data.replace(IDS.tobytes()[:16], bytes(16)),
        "topk_ids: cannot be read: Bad CRC-32",
    ),
    ("encrypted", _encrypted, "topk_ids: cannot be read: .*encrypted"),
]


@pytest.mark.parametrize(("change", "message"), [pytest.param(*b[1:], id=b[0]) for b in BAD_ARCHIVES])
def test_bad_archive(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, topk_ids=IDS)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(TraceError, match=message):
        list(open_trace(path, num_experts=8))


BAD_COMPANIONS: list[tuple[str, dict[str, Any], str]] = [
    ("no ids", {"ids": IDS}, "has no array topk_ids; it has ids"),
    ("no experts", {"topk_ids": IDS}, r"does not say num_experts; give the number of experts \(--experts\)"),
    (
        "two experts",
        {"topk_ids": IDS, "num_experts": [1, 2]},
        r"num_experts: must be a single integer, got shape \(2,\)",
    ),
    ("no expert", {"topk_ids": IDS, "num_experts": 0}, r"num_experts: must be in \[1, 65536\], got 0"),
    ("many experts", {"topk_ids": IDS, "num_experts": 1 << 17}, r"num_experts: must be in \[1, 65536\]"),
    (
        "half experts",
        {"topk_ids": IDS, "num_experts": 8.5},
        "num_experts: dtype must be an integer type, got float64",
    ),
    (
        "short token_idx",
        {"topk_ids": IDS, "token_idx": [0, 1]},
        r"token_idx: shape must be \(4,\) .* got \(2,\)",
    ),
    (
        "float token_idx",
        {"topk_ids": IDS, "token_idx": [0.0] * 4},
        "token_idx: dtype must be an integer type",
    ),
    (
        "negative token_idx",
        {"topk_ids": IDS, "token_idx": [0, 1, -5, 2]},
        r"token_idx\[2\]: must be .* got -5",
    ),
    ("long layer", {"topk_ids": IDS, "layer": [0] * 5}, r"layer: shape must be \(4,\)"),
    (
        "high layer",
        {"topk_ids": IDS, "layer": [0, 0, 0, 70000]},
        r"layer\[3\]: must be in \[0, 65535\], got 70000",
    ),
    ("high only layer", {"topk_ids": IDS, "layer": 70000}, r"layer: must be in \[0, 65535\], got 70000"),
    (
        "token_idx of steps",
        {"topk_ids": IDS[None], "token_idx": [0]},
        r"token_idx: goes with .* \(tokens, topk\)",
    ),
    ("long name", {"topk_ids": IDS, "model_id": "x" * 300}, "model_id: must be a single text of at most 200"),
    ("number as name", {"topk_ids": IDS, "model_id": 5}, "model_id: dtype must be text, got int64"),
]


@pytest.mark.parametrize(("arrays", "message"), [pytest.param(*b[1:], id=b[0]) for b in BAD_COMPANIONS])
def test_bad_companion_arrays(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = npz(tmp_path / "t.npz", **{name: np.array(value) for name, value in arrays.items()})
    known = None if message.startswith("does not say") else 8
    with pytest.raises(TraceError, match=message):
        list(open_trace(path, num_experts=known))


def test_large_fortran_array_is_refused_small_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz(tmp_path / "t.npz", topk_ids=np.asfortranarray(IDS))
    assert np.array_equal(next(iter(open_trace(path, num_experts=8))).topk_ids, IDS)
    monkeypatch.setattr("nvfp4_moe.verification.array_file.MAX_FORTRAN_BYTES", 10)
    with pytest.raises(
        TraceError, match="64 bytes in Fortran order, at most 10 are legal; save it in C order"
    ):
        list(open_trace(path, num_experts=8))


def test_no_file_and_no_regular_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.jsonl: cannot be read: No such file or directory"):
        open_trace(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match=r"is a directory; a trace is a \.jsonl"):
        open_trace(tmp_path)
    with pytest.raises(TraceError, match="is no regular file"):
        open_trace("/dev/null")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(TraceError, match="is empty; a trace needs at least one token"):
        open_trace(tmp_path / "empty.jsonl")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_name_and_content_must_agree(tmp_path: Path, suffix: str) -> None:
    path = write_jsonl(tmp_path / f"t{suffix}", [META])
    with pytest.raises(TraceError, match=f"is named {suffix}, but does not begin like such a file"):
        open_trace(path)


def test_file_that_disappears(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [META, route(0, [1, 2])])
    trace = open_trace(path)
    path.unlink()
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        list(trace)


@pytest.mark.parametrize("experts", [0, -3, 10**30, (1 << 16) + 1, True, 2.0, "8"])
def test_bad_number_of_experts(tmp_path: Path, experts: Any) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [route(0, [0])])
    with pytest.raises((ValueError, TypeError), match="num_experts must be"):
        open_trace(path, num_experts=experts)


# --- memory ---------------------------------------------------------------------------------------------------

MEMORY_LIMIT = 24 << 20
"""Growth that reading may cause, far below the data that is read (64 MiB and more)."""
_CHILD = """
import resource, sys
from nvfp4_moe.verification.traces import open_trace, rebatch
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
trace = open_trace(sys.argv[1], num_experts=60)
tokens = sum(step.tokens for step in rebatch(trace, max_num_batched_tokens=8192))
print(tokens, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def _large_jsonl(path: Path) -> int:
    line = json.dumps({**route(0, [1, 2]), "topk_weights": [0.1] * 2000}) + "\n"
    lines = (64 << 20) // len(line)
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(json.dumps(META) + "\n")
        file.writelines(line.replace('"token_idx": 0', f'"token_idx": {i % 50}') for i in range(lines))
    return lines


def _large_npy(path: Path) -> int:
    tokens = 4 << 20
    np.save(path, np.zeros((tokens, 4), np.int32))
    return tokens


def _large_npz(path: Path) -> int:
    tokens = 4 << 20
    np.savez_compressed(path, topk_ids=np.zeros((tokens, 4), np.int32), token_idx=np.arange(tokens) % 1000)
    return tokens


@pytest.mark.parametrize(
    ("name", "write"),
    [("t.jsonl.gz", _large_jsonl), ("t.npy", _large_npy), ("t.npz", _large_npz)],
)
def test_reading_a_large_file_needs_little_memory(
    tmp_path: Path, name: str, write: Callable[[Path], int]
) -> None:
    tokens = write(tmp_path / name)
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"},
    )
    read, grown = map(int, child.stdout.split())
    assert read == tokens
    assert grown < MEMORY_LIMIT
