"""Router traces as NumPy files: `.npy`, and `.npz` with the key `topk_ids`. Never pickle.

`topk_ids` is an integer array, (tokens, topk) or (steps, tokens, topk); in the second form every step is a pass.
An `.npz` may also hold `token_idx` (tokens,), which starts again with every pass; `layer` (tokens,), (steps,) or a
scalar; `num_experts` and `model_id` (scalars). Other keys are left alone. (tokens, topk) without `token_idx` has no
pass boundaries and is cut every `UNMARKED_PASS_TOKENS` tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvfp4_moe.verification.array_file import ArrayFile, StoredArray
from nvfp4_moe.verification.trace_model import (
    MAX_EXPERTS,
    MAX_LAYER,
    MAX_OPEN_IDS,
    MAX_TOKEN_INDEX,
    MAX_TOPK,
    UNMARKED_PASS_TOKENS,
    Block,
    Ids,
    Step,
    Trace,
    TraceError,
    TraceMeta,
    passes,
)

BLOCK_IDS = 1 << 18
"""Ids read at once."""
_TOKENS, _STEPS = 2, 3  # dimensions of the two forms


def open_numpy(path: Path, *, num_experts: int | None = None) -> Trace:
    """Return the trace in a `.npy` or `.npz` file.

    Args:
        path: the file.
        num_experts: experts of the model, used when the file does not say it.

    Raises:
        TraceError: unreadable file, wrong dtype or shape, or a number of experts that nobody gave.
    """
    with ArrayFile.open(path) as file:
        meta = _meta(file, num_experts)
    return Trace(meta, lambda: _steps(meta))


def _steps(meta: TraceMeta) -> Iterator[Step]:
    with ArrayFile.open(meta.path) as file:
        yield from passes(_blocks(file, meta), path=meta.path)


def _meta(file: ArrayFile, num_experts: int | None) -> TraceMeta:
    if "topk_ids" not in file.names:
        raise TraceError(
            file.path, f"has no array topk_ids; it has {', '.join(sorted(file.names)[:10]) or 'nothing'}"
        )
    ids = file.array("topk_ids")
    _check_shape(file, ids)
    if "num_experts" in file.names:
        num_experts = file.scalar("num_experts", 1, MAX_EXPERTS)
    if num_experts is None:
        raise TraceError(file.path, "does not say num_experts; give the number of experts (--experts)")
    return TraceMeta(
        path=file.path,
        form=file.form,
        num_experts=num_experts,
        topk=ids.shape[-1],
        model=file.text("model_id") if "model_id" in file.names else None,
        has_passes=len(ids.shape) == _STEPS or "token_idx" in file.names,
    )


def _check_shape(file: ArrayFile, ids: StoredArray) -> None:
    shape = ids.shape
    if len(shape) not in (_TOKENS, _STEPS):
        file.fail("topk_ids", f"shape must be (tokens, topk) or (steps, tokens, topk), got {shape}")
    if not 1 <= shape[-1] <= MAX_TOPK:
        file.fail("topk_ids", f"topk must be in [1, {MAX_TOPK}], got shape {shape}")
    if 0 in shape:
        file.fail("topk_ids", f"holds no token: shape {shape}")
    if len(shape) == _STEPS and ids.row_items > MAX_OPEN_IDS:
        file.fail("topk_ids", f"a step holds {ids.row_items} ids, at most {MAX_OPEN_IDS} are legal")
    if len(shape) == _STEPS and "token_idx" in file.names:
        file.fail("token_idx", f"goes with topk_ids of shape (tokens, topk), which here is {shape}")


def _blocks(file: ArrayFile, meta: TraceMeta) -> Iterator[Block]:
    ids = file.array("topk_ids")
    rows_at_once = max(1, BLOCK_IDS // ids.row_items)
    tokens_a_row = ids.row_items // meta.topk  # 1, or the tokens of a step
    layers = _companion(file, ids, "layer", rows_at_once, MAX_LAYER)
    positions = _companion(file, ids, "token_idx", rows_at_once, MAX_TOKEN_INDEX)
    first = 0
    for values in file.rows(ids, rows_at_once):
        rows = values.shape[0]
        layer, token_idx = next(layers), next(positions)
        if len(ids.shape) == _STEPS:
            token_idx = np.tile(np.arange(tokens_a_row), rows)
        elif token_idx is None:  # no pass boundaries
            token_idx = np.arange(first, first + rows) % UNMARKED_PASS_TOKENS
        yield Block(
            topk_ids=_checked_ids(file, values, first, meta),
            token_idx=token_idx.astype(np.int64),
            layer=np.repeat(np.broadcast_to(0 if layer is None else layer, rows), tokens_a_row).astype(
                np.int32
            ),
        )
        first += rows


def _companion(
    file: ArrayFile, ids: StoredArray, name: str, rows_at_once: int, highest: int
) -> Iterator[NDArray[Any] | None]:
    """Yield the blocks of an optional array that has one value a row of `ids`, or its one value for ever."""
    if name not in file.names:
        return repeat(None)
    array = file.array(name)
    if array.shape in ((), (1,)) and ids.shape[0] > 1 and name == "layer":
        return repeat(np.array(file.scalar(name, 0, highest)))
    if array.shape != ids.shape[:1]:
        file.fail(name, f"shape must be ({ids.shape[0]},) as topk_ids has {ids.shape}, got {array.shape}")
    return _in_range(file, array, rows_at_once, highest)


def _in_range(file: ArrayFile, array: StoredArray, rows_at_once: int, highest: int) -> Iterator[NDArray[Any]]:
    for number, values in enumerate(file.rows(array, rows_at_once)):
        wrong = (values < 0) | (values > highest)
        if wrong.any():
            row = int(np.argmax(wrong))
            file.fail(
                f"{array.name}[{number * rows_at_once + row}]",
                f"must be in [0, {highest}], got {values[row]}",
            )
        yield values


def _checked_ids(file: ArrayFile, values: NDArray[Any], first: int, meta: TraceMeta) -> Ids:
    """Return ids (tokens, topk) int32 of a block whose first row is `first`; refuse those out of range."""
    low, high = int(values.min()), int(values.max())
    if low < -1 or high >= meta.num_experts:
        wrong = tuple(np.argwhere((values < -1) | (values >= meta.num_experts))[0].tolist())
        place = ", ".join(str(n) for n in (first + wrong[0], *wrong[1:]))
        file.fail(
            f"topk_ids[{place}]",
            f"must be an expert id in [-1, {meta.num_experts}), got {int(values[wrong])}",
        )
    return values.reshape(-1, meta.topk).astype(np.int32)
