"""Router traces as JSON lines, plain or gzip: the form that users of vLLM record.

A first line `{"type": "meta", "model_id": ..., "layers_logged": [..], "top_k": 4, "num_experts"?: ..}`, then one line
for each token and layer: `{"type": "route", "req_id": "r0", "token_idx": 0, "layer": 0, "topk_ids": [..],
"topk_weights": [..]}`. Only `token_idx`, `layer` and `topk_ids` are read. Recorders append to their file, so a meta
line may stand anywhere; it ends the passes that are open and must agree with the first on top_k and num_experts.
Without a meta line the number of experts must be given and topk is that of the first line. Blank lines may end the
file; anywhere else they are refused, for what was cut out there is not known.

One line is in memory at a time, at most `MAX_LINE_BYTES` of it, so neither a large file nor a zip bomb needs memory.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np

from nvfp4_moe.verification.trace_model import (
    MAX_EXPERTS,
    MAX_LAYER,
    MAX_TOKEN_INDEX,
    MAX_TOPK,
    Block,
    Step,
    Trace,
    TraceError,
    TraceMeta,
    passes,
)

MAX_LINE_BYTES = 1 << 16
"""Longest line that is read: about 30 times a line with 22 experts and their weights."""
BLOCK_TOKENS = 4096
"""Lines gathered before they are handed on."""
GZIP_MAGIC = b"\x1f\x8b"
_DECODE = json.JSONDecoder().decode  # json.loads guesses the encoding of every line anew
_QUOTED = 60  # characters of a wrong line or value that an error shows


def open_jsonl(path: Path, *, num_experts: int | None = None) -> Trace:
    """Return the trace in a JSON-lines file, plain or gzip.

    Args:
        path: the file.
        num_experts: experts of the model, used when no meta line says it.

    Raises:
        TraceError: unreadable file, or a first line that is neither a meta nor a route line.
    """
    with open_text(path) as file:
        meta = _first_meta(JsonLines(path, file), num_experts)
    return Trace(meta, lambda: _steps(meta))


def _steps(meta: TraceMeta) -> Iterator[Step]:
    with open_text(meta.path) as file:
        step = None
        for step in passes(_blocks(JsonLines(meta.path, file), meta), path=meta.path):
            yield step
        if step is None:
            raise TraceError(meta.path, "holds no route line; a trace needs at least one token")


def open_text(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open the bytes of a text file, plain or gzip, told apart by its first bytes."""
    with path.open("rb") as file:
        zipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return cast("BinaryIO", gzip.open(path, "rb")) if zipped else path.open("rb")


@dataclass(slots=True)
class JsonLines:
    """Parsed lines of a file, each a JSON object, with the number of the line that was read last."""

    path: Path
    file: BinaryIO
    number: int = 0
    _: KW_ONLY
    most_bytes: int = MAX_LINE_BYTES
    """Longest line that is read."""
    most_values: int | None = None
    """Most values that a line may hold: nested lists take many times the memory of their text. None: as they come."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        blank = 0
        while raw := self._readline():
            self.number += 1
            if len(raw) > self.most_bytes:
                self.fail(f"is longer than {self.most_bytes} bytes, the most that a line may have")
            if not raw.strip():
                blank = blank or self.number
                continue
            if blank:
                raise TraceError(
                    self.path,
                    "is blank, yet lines follow; blank lines may only end the file",
                    place=f"line {blank}",
                )
            yield self._parse(raw)

    def _readline(self) -> bytes:
        try:
            return self.file.readline(self.most_bytes + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise TraceError(
                self.path, f"cannot be read on: {error}", place=f"after line {self.number}"
            ) from error

    def _parse(self, raw: bytes) -> dict[str, Any]:
        if self.most_values is not None and values_in(raw) > self.most_values:
            self.fail(f"holds more than {self.most_values} values, the most that a line may have")
        try:
            record = _DECODE(raw.decode() if self.number > 1 else raw.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            cut = "" if raw.endswith(b"\n") else " (the file ends here: cut off?)"
            self.fail(f"is not JSON: {shown(repr(raw.decode(errors='replace').strip()))}{cut}")
        if not isinstance(record, dict):
            self.fail(f"must be a JSON object, got {shown(json.dumps(record))}")
        return record

    def fail(self, problem: str) -> NoReturn:
        raise TraceError(self.path, problem, place=f"line {self.number}")


def values_in(raw: bytes) -> int:
    """Return a number that no JSON text of these bytes exceeds in values, without parsing it."""
    return 1 + sum(raw.count(mark) for mark in (b",", b"[", b"{"))


def shown(text: str) -> str:
    """Return text from outside cut to what an error quotes."""
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "..."


# --- the first line ----------------------------------------------------------------------------------------


def _first_meta(lines: JsonLines, num_experts: int | None) -> TraceMeta:
    """Read as far as needed to know topk: the meta line, and the first route line where that does not say it."""
    meta: TraceMeta | None = None
    for record in lines:
        kind = _kind(lines, record)
        if kind == "meta":
            meta = _meta(lines, record, meta, num_experts)
            if meta.topk:
                return meta
        else:
            if meta is None:
                meta = _meta(lines, {}, None, num_experts)
            return replace(meta, topk=len(_id_list(lines, record)))
    raise TraceError(lines.path, "holds no route line; a trace needs at least one token")


def _kind(lines: JsonLines, record: dict[str, Any]) -> str:
    kind = record.get("type")
    if kind not in ("meta", "route"):
        lines.fail(f'"type" must be "meta" or "route", got {shown(json.dumps(kind))}')
    return cast("str", kind)


def _meta(
    lines: JsonLines, record: dict[str, Any], known: TraceMeta | None, num_experts: int | None
) -> TraceMeta:
    experts = _optional_int(lines, record, "num_experts", 1, MAX_EXPERTS)
    if experts is None:
        experts = known.num_experts if known else num_experts
    if experts is None:
        raise TraceError(
            lines.path, "does not say num_experts in its meta line; give the number of experts (--experts)"
        )
    layers = record.get("layers_logged")
    model = record.get("model_id")
    return TraceMeta(
        path=lines.path,
        form="jsonl",
        num_experts=experts,
        topk=_optional_int(lines, record, "top_k", 1, MAX_TOPK) or 0,
        model=model if isinstance(model, str) and model else None,
        layers=tuple(layers) if isinstance(layers, list) and all(type(n) is int for n in layers) else None,
    )


def _optional_int(lines: JsonLines, record: dict[str, Any], key: str, low: int, high: int) -> int | None:
    return None if record.get(key) is None else _int(lines, record, key, low, high)


def _int(lines: JsonLines, record: dict[str, Any], key: str, low: int, high: int) -> int:
    value = record.get(key)
    if type(value) is not int or not low <= value <= high:
        got = shown(json.dumps(value)) if key in record else "nothing"
        lines.fail(f'"{key}" must be an integer in [{low}, {high}], got {got}')
    return value


# --- the lines after it ------------------------------------------------------------------------------------


def _blocks(lines: JsonLines, meta: TraceMeta) -> Iterator[Block]:
    ids: list[list[int]] = []
    token_idx: list[int] = []
    layer: list[int] = []
    new_run = False

    def block() -> Block:
        return Block(
            topk_ids=np.array(ids, dtype=np.int32).reshape(-1, meta.topk),
            token_idx=np.array(token_idx, dtype=np.int64),
            layer=np.array(layer, dtype=np.int32),
            new_run=new_run,
        )

    for record in lines:
        if _kind(lines, record) == "meta":
            _check_same(lines, record, meta)
            if ids:
                yield block()
            ids, token_idx, layer, new_run = [], [], [], True
            continue
        ids.append(_ids(lines, record, meta))
        token_idx.append(_int(lines, record, "token_idx", 0, MAX_TOKEN_INDEX))
        layer.append(_int(lines, record, "layer", 0, MAX_LAYER))
        if len(ids) == BLOCK_TOKENS:
            yield block()
            ids, token_idx, layer, new_run = [], [], [], False
    if ids:
        yield block()


def _check_same(lines: JsonLines, record: dict[str, Any], meta: TraceMeta) -> None:
    """Refuse a later meta line that describes another model."""
    for key, high, first in (("num_experts", MAX_EXPERTS, meta.num_experts), ("top_k", MAX_TOPK, meta.topk)):
        value = _optional_int(lines, record, key, 1, high)
        if value is not None and value != first:
            lines.fail(f'"{key}" is {value}, but the recording began with {first}; one file, one model')


def _id_list(lines: JsonLines, record: dict[str, Any]) -> list[Any]:
    ids = record.get("topk_ids")
    if not isinstance(ids, list) or not 1 <= len(ids) <= MAX_TOPK:
        got = shown(json.dumps(ids)) if "topk_ids" in record else "nothing"
        lines.fail(f'"topk_ids" must be a list of 1 to {MAX_TOPK} expert ids, got {got}')
    return ids


def _ids(lines: JsonLines, record: dict[str, Any], meta: TraceMeta) -> list[int]:
    ids = _id_list(lines, record)
    if len(ids) != meta.topk:
        lines.fail(
            f'"topk_ids" must hold {meta.topk} ids as before, got {len(ids)}: {shown(json.dumps(ids))}'
        )
    if set(map(type, ids)) != {int} or min(ids) < -1 or max(ids) >= meta.num_experts:
        _fail_at_slot(lines, ids, meta)
    return ids


def _fail_at_slot(lines: JsonLines, ids: list[Any], meta: TraceMeta) -> NoReturn:
    """Refuse ids of which at least one is not legal, and name the first."""
    legal = (type(value) is int and -1 <= value < meta.num_experts for value in ids)
    slot = list(legal).index(False)
    lines.fail(
        f'"topk_ids"[{slot}] must be an integer in [-1, {meta.num_experts}), got {shown(json.dumps(ids[slot]))}'
    )
