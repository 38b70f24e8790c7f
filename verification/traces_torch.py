"""Router traces of SGLang's expert distribution recorder: `expert_distribution_recorder_*.pt`.

| recorder mode | what the file holds | read as |
|---|---|---|
| per_token | `records`, each with `topk_ids_of_layer` int32 (layers, tokens, 8) | the ids of each pass; form `sglang_tokens` |
| per_pass | `records`, each with `global_physical_count` (layers, physical experts) | counts; form `sglang_counts` |
| stat, stat_approx | `logical_count` (steps, layers, logical experts), summed over all ranks | counts; form `sglang_counts` |

The recorder has 8 columns whatever the model's top-k, and fills what it does not write with -1: columns that
no record uses are left out, and so are layers without any id (dense ones). Ids are those of physical experts.
Counts say all that padding depends on: a pass of T routed rows is read as T tokens of one expert each. Mind
that stat adds up what all ranks counted: ranks that see the same tokens (tensor parallelism) count them once
each.

Source: SGLang python/sglang/srt/eplb/expert_distribution.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nvfp4_moe.verification.torch_file import checked_tensor, load_torch_file
from nvfp4_moe.verification.trace_model import (
    MAX_EXPERTS,
    MAX_LAYER,
    MAX_OPEN_IDS,
    MAX_TOPK,
    PassCounter,
    Step,
    Trace,
    TraceError,
    TraceMeta,
)

_IDS, _COUNTS, _STAT = "topk_ids_of_layer", "global_physical_count", "logical_count"
_LAYERS_TOKENS_TOPK = _STEPS_LAYERS_EXPERTS = 3
_LAYERS_EXPERTS = 2


def open_torch(path: Path, *, num_experts: int | None = None) -> Trace:
    """Return the trace in a file of SGLang's recorder.

    Args:
        path: the file.
        num_experts: experts of the model, used where ids come without counts that tell them.

    Raises:
        TraceError: a file that is not safe to read (see `torch_file`), or no recording.
    """
    reader = _Reader(path, load_torch_file(path))
    meta = reader.meta(num_experts)
    return Trace(meta, lambda: _Reader(path, load_torch_file(path)).steps(meta))


class _Reader:
    """A loaded recording; its tensors are mapped from the file."""

    def __init__(self, path: Path, content: Any) -> None:
        self.path = path
        if not isinstance(content, dict) or not (
            _STAT in content or isinstance(content.get("records"), list)
        ):
            raise TraceError(path, f'holds neither "records" nor "{_STAT}": no recording of SGLang')
        self.content: dict[str, Any] = content

    def meta(self, num_experts: int | None) -> TraceMeta:
        widths = {counts.shape[-1] for _, counts in self._counts()}
        ids = [ids for _, ids in self._ids()]
        if not widths and not ids:
            raise TraceError(self.path, "holds no pass; a trace needs at least one")
        if len(widths) > 1:
            raise TraceError(self.path, f"counts {sorted(widths)} experts in different records")
        experts = widths.pop() if widths else num_experts
        if experts is None:
            raise TraceError(self.path, "does not say num_experts; give the number of experts (--experts)")
        if not 1 <= experts <= MAX_EXPERTS:
            raise TraceError(self.path, f"counts {experts} experts, legal are 1 to {MAX_EXPERTS}")
        topk = max(map(_used_columns, ids), default=1)
        if not topk:
            raise TraceError(self.path, "holds no id that is not -1: nothing was recorded")
        form = "sglang_tokens" if ids else "sglang_counts"
        return TraceMeta(path=self.path, form=form, num_experts=experts, topk=topk)

    def steps(self, meta: TraceMeta) -> Iterator[Step]:
        counter = PassCounter()
        if meta.form == "sglang_tokens":
            for place, ids in self._ids():
                for layer, of_layer in enumerate(ids[:, :, : meta.topk].numpy()):
                    if (of_layer >= 0).any():
                        self._check_range(f"{place}[{layer}]", of_layer, -1, meta.num_experts - 1)
                        yield counter.step(layer, np.ascontiguousarray(of_layer, dtype=np.int32))
            return
        for place, counts in self._counts():  # all of them may be 0
            for layer, of_layer in enumerate(counts.numpy().astype(np.int64)):
                if of_layer.any():
                    self._check_range(f"{place}[{layer}]", of_layer, 0, MAX_OPEN_IDS)
                    yield counter.step(layer, self._ids_of(f"{place}[{layer}]", of_layer), profiling=False)
        if not counter.passes:
            raise TraceError(self.path, "counts no row: nothing was recorded")

    def _ids_of(self, place: str, counts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return ids (rows, 1) that give these counts: one expert a token, expert by expert."""
        if int(counts.sum()) > MAX_OPEN_IDS:
            raise TraceError(
                self.path, f"counts {int(counts.sum())} rows, at most {MAX_OPEN_IDS} are legal", place=place
            )
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)[:, None]

    def _check_range(self, place: str, values: NDArray[Any], low: int, high: int) -> None:
        if int(values.min()) < low or int(values.max()) > high:
            wrong = int(values.min()) if int(values.min()) < low else int(values.max())
            raise TraceError(self.path, f"must be in [{low}, {high}], got {wrong}", place=place)

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        records = self.content.get("records")
        for number, record in enumerate(records if isinstance(records, list) else []):
            if not isinstance(record, dict):
                raise TraceError(
                    self.path,
                    f"must be a dictionary, got {type(record).__name__}",
                    place=f"records[{number}]",
                )
            yield f"records[{number}]", record

    def _ids(self) -> Iterator[tuple[str, torch.Tensor]]:
        for place, record in self._records():
            if record.get(_IDS) is not None:
                where = f"{place}.{_IDS}"
                ids = checked_tensor(self.path, where, record[_IDS], dimensions=_LAYERS_TOKENS_TOPK)
                if ids.shape[0] > MAX_LAYER or not 1 <= ids.shape[2] <= MAX_TOPK:
                    raise TraceError(
                        self.path, f"must be (layers, tokens, topk), got {tuple(ids.shape)}", place=where
                    )
                yield where, ids

    def _counts(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield (layers, experts) counts of each pass."""
        if _STAT in self.content:
            counts = checked_tensor(self.path, _STAT, self.content[_STAT], dimensions=_STEPS_LAYERS_EXPERTS)
            yield from ((f"{_STAT}[{step}]", of_step) for step, of_step in enumerate(counts))
        for place, record in self._records():
            if record.get(_COUNTS) is not None:
                where = f"{place}.{_COUNTS}"
                yield where, checked_tensor(self.path, where, record[_COUNTS], dimensions=_LAYERS_EXPERTS)


def _used_columns(ids: torch.Tensor) -> int:
    """Return the columns of (layers, tokens, topk) ids up to the last that holds an id."""
    used = torch.nonzero((ids >= 0).any(dim=0).any(dim=0))
    return int(used.max()) + 1 if len(used) else 0
