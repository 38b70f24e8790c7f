"""SGLang's recordings: every mode, and files that nobody vouches for."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nvfp4_moe.verification import torch_file
from nvfp4_moe.verification.trace_check import check_trace
from nvfp4_moe.verification.traces import TraceError, open_trace

TOPK, COLUMNS, EXPERTS = 3, 8, 6
IDS = torch.tensor([[[0, 1, 2], [3, 4, 5]], [[5, 0, 1], [2, 3, -1]]], dtype=torch.int32)


def padded(ids: torch.Tensor, layers: int = 3) -> torch.Tensor:
    """As the recorder has them: 8 columns, a dense layer without ids in front, -1 where nothing was written."""
    full = torch.full((layers, ids.shape[1], COLUMNS), -1, dtype=torch.int32)
    full[layers - ids.shape[0] :, :, : ids.shape[2]] = ids
    return full


def counts(ids: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.bincount(layer[layer >= 0], minlength=EXPERTS) for layer in ids]).int()


def per_token(*records: torch.Tensor, **changes: Any) -> dict[str, Any]:
    return {
        "records": [
            {
                "forward_pass_id": number,
                "rank": 0,
                "gatherer_key": "primary",
                "input_ids": [1, 2],
                "forward_mode": 1,
                "topk_ids_of_layer": padded(ids),
                "misc_objects": [],
                "global_physical_count": counts(padded(ids)),
            }
            | changes
            for number, ids in enumerate(records)
        ],
        "last_physical_to_logical_map": torch.arange(EXPERTS).repeat(3, 1),
    }


def save(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path


def test_per_token_gives_the_ids_of_each_layer(tmp_path: Path) -> None:
    path = save(tmp_path / "expert_distribution_recorder_1.5_0.pt", per_token(IDS, IDS[:, :1]))
    trace = open_trace(path)
    meta = trace.meta
    assert (meta.form, meta.num_experts, meta.topk) == ("sglang_tokens", EXPERTS, TOPK)
    steps = [(s.layer, s.index, s.first_token, s.topk_ids.tolist()) for s in trace]
    assert steps == [
        (1, 0, 0, IDS[0].tolist()),
        (2, 0, 0, IDS[1].tolist()),
        (1, 1, 2, IDS[0, :1].tolist()),
        (2, 1, 2, IDS[1, :1].tolist()),
    ]
    assert len(list(trace)) == 4


def test_per_token_without_counts_needs_the_number_of_experts(tmp_path: Path) -> None:
    path = save(tmp_path / "t.pt", per_token(IDS, global_physical_count=None))
    with pytest.raises(TraceError, match=r"does not say num_experts; give the number of experts"):
        open_trace(path)
    assert open_trace(path, num_experts=9).meta.num_experts == 9
    with pytest.raises(TraceError, match=r"topk_ids_of_layer\[1\]: must be in \[-1, 3\], got 5"):
        list(open_trace(path, num_experts=4))


def test_counts_become_rows_of_one_expert(tmp_path: Path) -> None:
    record = {"forward_pass_id": 0, "global_physical_count": torch.tensor([[0, 0, 0], [130, 0, 1]])}
    trace = open_trace(save(tmp_path / "t.pt", {"records": [record]}))
    assert (trace.meta.form, trace.meta.num_experts, trace.meta.topk) == ("sglang_counts", 3, 1)
    (step,) = trace
    assert (step.layer, step.tokens, step.profiling) == (1, 131, False)
    assert step.topk_ids[:, 0].tolist() == [0] * 130 + [2]
    report, outcomes = check_trace(trace)
    assert (report.real.routed_rows, report.real.padded_rows) == (131, 384)
    assert {outcome.verdict for _, outcome in outcomes} == {"HELD"}


def test_stat_gives_a_pass_a_step_and_layer(tmp_path: Path) -> None:
    logical = torch.tensor([[[1, 2], [0, 0]], [[3, 0], [0, 1]]], dtype=torch.int32)
    content = {"rank": 0, "logical_count": logical, "average_utilization_rate_over_window": None}
    trace = open_trace(save(tmp_path / "t.pt", content))
    assert [(s.layer, s.index, s.tokens) for s in trace] == [(0, 0, 3), (0, 1, 3), (1, 0, 1)]


# --- recordings that are none ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], 'holds neither "records" nor "logical_count"'),
        ({"records": 3}, "no recording of SGLang"),
        ({"records": []}, "holds no pass"),
        ({"records": [1]}, r"records\[0\]: must be a dictionary, got int"),
        ({"records": [{"topk_ids_of_layer": [1]}]}, "must be a tensor, got list"),
        (per_token(IDS, topk_ids_of_layer=IDS.float()), "must be an integer tensor of 3 dimensions"),
        (per_token(IDS, topk_ids_of_layer=IDS[0]), "must be an integer tensor of 3 dimensions"),
        (per_token(IDS, topk_ids_of_layer=IDS.bool()), "must be an integer tensor"),
        (per_token(IDS, topk_ids_of_layer=IDS[:, :, :0]), r"must be \(layers, tokens, topk\)"),
        (per_token(IDS, topk_ids_of_layer=torch.full_like(IDS, -1)), "nothing was recorded"),
        (per_token(IDS, topk_ids_of_layer=torch.zeros(1).int().expand(10, 10**9, 8)), "more than is stored"),
        (per_token(IDS, topk_ids_of_layer=IDS + 1), r"must be in \[-1, 5\], got 6"),
        (per_token(IDS, topk_ids_of_layer=IDS - 2), r"must be in \[-1, 5\], got -2"),
        ({"logical_count": torch.tensor([[[-1]]])}, r"logical_count\[0\]\[0\]: must be in \[0, "),
        ({"logical_count": torch.tensor([[[1 << 24] * 3]])}, "counts 50331648 rows, at most"),
        ({"logical_count": torch.zeros(1, 1, 1 << 17, dtype=torch.uint8)}, "counts 131072 experts"),
        (
            {"records": [{"global_physical_count": torch.ones(1, n).int()} for n in (2, 3)]},
            r"counts \[2, 3\] experts in different records",
        ),
    ],
)
def test_bad_recording_is_one_clear_error(tmp_path: Path, content: Any, message: str) -> None:
    path = save(tmp_path / "t.pt", content)
    with pytest.raises(TraceError, match=message) as error:
        list(open_trace(path))
    assert "\n" not in str(error.value)


# --- files that nobody vouches for -----------------------------------------------------------------------------


class _Harmful:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (Path("was-run"),)


class _Bytes:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return bytearray, (1 << 40,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"records": [_Harmful()]}, "only containers and plain tensors are read"),
        ({"records": [_Bytes()]}, "holds .*bytearray; only containers"),
        (torch.nn.Linear(1, 1), "only containers and plain tensors"),
        ({"records": [{"x": torch.ones(2, 2).to_sparse()}]}, "only containers and plain tensors"),
        ({"records": [{"x": torch.nn.Parameter(torch.ones(1))}]}, "only containers and plain tensors"),
    ],
)
def test_nothing_but_plain_tensors_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any, message: str
) -> None:
    path = save(tmp_path / "t.pt", content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch, "load", lambda *a, **k: pytest.fail("torch.load was called"))
    with pytest.raises(TraceError, match=message):
        open_trace(path)
    assert not (tmp_path / "was-run").exists()


def repacked(path: Path, change: Callable[[str, bytes], bytes], **options: Any) -> Path:
    """Write the members of a file anew, each changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, change(name, data))
    return path


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "t.pt", {"logical_count": torch.zeros(1, 1000, 1000, dtype=torch.int32)})
    repacked(path, lambda name, data: data, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(TraceError, match="has compressed members"):
        open_trace(path)


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    """Two entries of the directory that point at the same bytes: more is claimed than there is."""
    path = save(tmp_path / "t.pt", {"logical_count": torch.ones(1, 100, 100, dtype=torch.int32)})
    data = path.read_bytes()
    end = data.rindex(b"PK\x05\x06")
    size, start = struct.unpack_from("<II", data, end + 12)
    entries = data[start : start + size]
    number = struct.unpack_from("<H", data, end + 8)[0]
    again = bytearray(data[end:])
    struct.pack_into("<HHII", again, 8, 2 * number, 2 * number, 2 * size, start)
    path.write_bytes(data[:start] + entries * 2 + bytes(again))
    with pytest.raises(TraceError, match=r"claims more bytes than it has|must hold one data\.pkl"):
        open_trace(path)


def test_a_long_pickle_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_file, "MOST_PICKLE_BYTES", 10)
    with pytest.raises(TraceError, match=r"its data.pkl has \d+ bytes, at most 10 are read"):
        open_trace(save(tmp_path / "t.pt", per_token(IDS)))


def _cut(name: str, data: bytes) -> bytes:
    return data[: len(data) // 2] if name.endswith("data.pkl") else data


def _storage_gone(name: str, data: bytes) -> bytes:
    return b"" if "/data/" in name else data


def _storage_short(name: str, data: bytes) -> bytes:
    return data[:-1] if "/data/" in name else data


def _storage_as_before(name: str, data: bytes) -> bytes:
    """Ask for a storage by a tuple that was written out elsewhere: an opcode is put between the two."""
    return data.replace(b"tq", b"t0(0tq", 1).replace(b"Q", b"0NQ", 1) if name.endswith("data.pkl") else data


def _stack_global(name: str, data: bytes) -> bytes:
    return pickle.dumps(Path, protocol=4) if name.endswith("data.pkl") else data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cut, r"data\.pkl is damaged"),
        (_storage_gone, r"counts \d+ bytes for storage '0', none are there"),
        (_storage_short, r"counts (\d+) bytes for storage '0', \d+ are there"),
        (_storage_as_before, r"asks for a storage as torch\.save never does"),
        (_stack_global, "opcode [A-Z_]*; only containers"),
        (lambda name, data: b"\xff" * 9, r"data\.pkl is damaged"),
    ],
)
def test_damaged_files(tmp_path: Path, change: Callable[[str, bytes], bytes], message: str) -> None:
    path = repacked(save(tmp_path / "t.pt", per_token(IDS)), change)
    with pytest.raises(TraceError, match=message) as error:
        list(open_trace(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [(2, 3, 8), (0, 3, 8), (2, 0, 8)])
def test_counts_of_nothing(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = save(tmp_path / "t.pt", {"logical_count": torch.zeros(shape, dtype=torch.int64)})
    with pytest.raises(TraceError, match=r"nothing was recorded|holds no pass"):
        list(open_trace(path))


def test_an_error_without_words_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*unused: Any, **others: Any) -> Any:
        raise EOFError  # as torch's unpickler does, and several assertions of it

    path = save(tmp_path / "t.pt", per_token(IDS))
    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(TraceError, match=r"torch\.load refuses it: EOFError"):
        open_trace(path)


@pytest.mark.parametrize("keep", [10, 200, -30])
def test_truncated_files(tmp_path: Path, keep: int) -> None:
    path = save(tmp_path / "t.pt", per_token(IDS))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TraceError, match=r"no archive as torch\.save writes it"):
        open_trace(path)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_bare_pickle_is_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = io.BytesIO()
    pickle.dump({"records": [_Harmful()]}, stream, protocol=protocol)
    (tmp_path / "t.pt").write_bytes(stream.getvalue())
    with pytest.raises(TraceError, match="older forms are pickles and are not read"):
        open_trace(tmp_path / "t.pt")
    assert not (tmp_path / "was-run").exists()
