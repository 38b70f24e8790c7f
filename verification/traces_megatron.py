"""Router traces of Megatron-LM: JSON lines, one for each router call.

Its RouterTracer (`--moe-routing-trace-path`) writes one file a rank, and in it one object for each step and
layer: `{"step": 0, "stage": "pre_dispatch", "block": "decoder", "layer": 3, "rank": 0, "num_tokens": 128,
"topk": 8, "top_indices": [[12, 45, ..], ..]}`, for layers of multi-token prediction with `"block": "mtp"` and
`"mtp_idx"`. Every object is a pass. Sidecar files (hidden states, logits) are not read; the number of experts
is not in the file.

Layers of multi-token prediction are numbered from `MTP_FIRST_LAYER`, so that they stay apart from the
decoder's.

Source: Megatron-LM megatron/core/transformer/moe/router_trace.py (pull request 5220).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nvfp4_moe.verification.trace_model import (
    MAX_LAYER,
    MAX_OPEN_IDS,
    MAX_TOPK,
    Ids,
    PassCounter,
    Step,
    Trace,
    TraceError,
    TraceMeta,
)
from nvfp4_moe.verification.traces_jsonl import JsonLines, open_text, shown

MAX_LINE_BYTES = 1 << 26
MAX_LINE_VALUES = 1 << 22
"""Most values of a line: some 190,000 tokens with 22 experts each."""
MTP_FIRST_LAYER = 1 << 15
MTP_LAYERS = 1 << 10
"""Numbers that each head of multi-token prediction has for its layers."""
KEY = "top_indices"
"""The key that tells this form from others."""


def open_megatron(path: Path, *, num_experts: int | None = None) -> Trace:
    """Return the trace in a file of Megatron-LM's RouterTracer, plain or gzip.

    Args:
        path: the file.
        num_experts: experts of the model, which the file does not say.

    Raises:
        TraceError: unreadable file, a first line that is no such record, or a number of experts that
            nobody gave.
    """
    if num_experts is None:
        raise TraceError(path, "does not say num_experts; give the number of experts (--experts)")
    meta = TraceMeta(path=path, form="megatron", num_experts=num_experts, topk=0)
    with open_text(path) as file:
        for record in _lines(path, file):
            meta = replace(meta, topk=_int(record[0], record[1], "topk", 1, MAX_TOPK))
            break
        else:
            raise TraceError(path, "holds no record; a trace needs at least one token")
    return Trace(meta, lambda: _steps(meta))


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[JsonLines, dict[str, Any]]]:
    lines = JsonLines(path, file, most_bytes=MAX_LINE_BYTES, most_values=MAX_LINE_VALUES)
    for record in lines:
        yield lines, record


def _steps(meta: TraceMeta) -> Iterator[Step]:
    counter = PassCounter()
    with open_text(meta.path) as file:
        for lines, record in _lines(meta.path, file):
            layer, ids = _layer(lines, record), _ids(lines, record, meta)
            if len(ids):
                yield counter.step(layer, ids)
    if not counter.passes:
        raise TraceError(meta.path, "holds no token; a trace needs at least one")


def _layer(lines: JsonLines, record: dict[str, Any]) -> int:
    stage, block = record.get("stage", "pre_dispatch"), record.get("block", "decoder")
    if stage != "pre_dispatch":
        lines.fail(f'"stage" must be "pre_dispatch", got {shown(repr(stage))}')
    if block == "decoder":
        return _int(lines, record, "layer", 0, MTP_FIRST_LAYER - 1)
    if block != "mtp":
        lines.fail(f'"block" must be "decoder" or "mtp", got {shown(repr(block))}')
    heads = (MAX_LAYER + 1 - MTP_FIRST_LAYER) // MTP_LAYERS
    head = _int(lines, record, "mtp_idx", 0, heads - 1) if "mtp_idx" in record else 0
    return MTP_FIRST_LAYER + head * MTP_LAYERS + _int(lines, record, "layer", 0, MTP_LAYERS - 1)


def _ids(lines: JsonLines, record: dict[str, Any], meta: TraceMeta) -> Ids:
    rows = record.get(KEY)
    if not isinstance(rows, list):
        lines.fail(
            f'"{KEY}" must be a list of tokens, got {shown(repr(rows)) if KEY in record else "nothing"}'
        )
    tokens = _int(lines, record, "num_tokens", 0, MAX_OPEN_IDS) if "num_tokens" in record else len(rows)
    if tokens != len(rows):
        lines.fail(f'"num_tokens" is {tokens}, but "{KEY}" holds {len(rows)} tokens')
    for token, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != meta.topk or set(map(type, row)) != {int}:
            lines.fail(f'"{KEY}"[{token}] must hold {meta.topk} integers, got {shown(repr(row))}')
        if min(row) < -1 or max(row) >= meta.num_experts:
            lines.fail(f'"{KEY}"[{token}] must hold ids in [-1, {meta.num_experts}), got {shown(repr(row))}')
    return np.array(rows, dtype=np.int32).reshape(len(rows), meta.topk)


def _int(lines: JsonLines, record: dict[str, Any], key: str, low: int, high: int) -> int:
    value = record.get(key)
    if type(value) is not int or not low <= value <= high:
        got = shown(repr(value)) if key in record else "nothing"
        lines.fail(f'"{key}" must be an integer in [{low}, {high}], got {got}')
    return value
