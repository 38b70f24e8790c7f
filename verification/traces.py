"""Router traces: open a recording of real routings, whatever its form, and re-batch it.

    trace = open_trace("router.jsonl.gz", num_experts=60)
    for step in rebatch(trace, max_num_batched_tokens=8192):
        step.topk_ids  # (tokens, topk) int32

Forms, told by a file's first bytes and keys (only whole JSON documents and torch files by name as well):

- JSON lines, plain or gzip: a line for each token and layer (`traces_jsonl`), for each router call of
  Megatron-LM (`traces_megatron`), or for each response of vLLM or SGLang (`traces_responses`, also as one
  `.json` document);
- `.npy` and `.npz` (`traces_numpy`); `.pt` of SGLang's recorder (`traces_torch`).

Passes, profiling passes and ids are explained in `trace_model`. Reading streams: the memory needed is that of
the passes, or requests, which are open.
"""

from __future__ import annotations

import json
import stat
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.verification.array_file import NPY_MAGIC, ZIP_MAGIC
from nvfp4_moe.verification.bad_input import BadInput
from nvfp4_moe.verification.trace_model import (
    MAX_EXPERTS,
    MAX_OPEN_IDS,
    MAX_TOPK,
    UNMARKED_PASS_TOKENS,
    Ids,
    Step,
    Trace,
    TraceError,
    TraceMeta,
)
from nvfp4_moe.verification.traces_jsonl import MAX_LINE_BYTES, open_jsonl, open_text
from nvfp4_moe.verification.traces_megatron import KEY as MEGATRON_KEY
from nvfp4_moe.verification.traces_megatron import open_megatron
from nvfp4_moe.verification.traces_numpy import open_numpy
from nvfp4_moe.verification.traces_responses import KEYS as RESPONSE_KEYS
from nvfp4_moe.verification.traces_responses import is_document, is_response, open_responses, read_document

__all__ = [
    "MAX_EXPERTS",
    "UNMARKED_PASS_TOKENS",
    "Step",
    "Trace",
    "TraceError",
    "TraceMeta",
    "is_response_document",
    "open_trace",
    "rebatch",
]


TORCH_SUFFIXES = (".pt", ".pth")


def open_trace(path: Path | str, *, num_experts: int | None = None, topk: int | None = None) -> Trace:
    """Return the router trace in a file; its form is told by its first bytes and keys.

    Args:
        path: a regular file.
        num_experts: experts of the model (over all ranks); used where the file itself does not say it.
        topk: experts that a token is routed to; used where the file itself does not say it.

    Raises:
        TraceError: no such file, not a trace, or a number of experts that nobody gave. Faults further inside
            show while iterating.
        TypeError, ValueError: `num_experts` is not an integer in [1, 65536], or `topk` not in [1, 1024].
    """
    path = Path(path)
    if num_experts is not None and check_size("num_experts", num_experts, at_least=1) > MAX_EXPERTS:
        raise ValueError(f"num_experts must be at most {MAX_EXPERTS} for a trace, got {num_experts}")
    if topk is not None and check_size("topk", topk, at_least=1) > MAX_TOPK:
        raise ValueError(f"topk must be at most {MAX_TOPK} for a trace, got {topk}")
    try:
        head = _first_bytes(path)
        if head.startswith(NPY_MAGIC):
            return open_numpy(path, num_experts=num_experts)
        if head.startswith(ZIP_MAGIC) or path.suffix in TORCH_SUFFIXES:
            return _open_archive(path, num_experts)
        if path.suffix in (".npy", ".npz"):
            raise TraceError(
                path, f"is named {path.suffix}, but does not begin like such a file: {head[:8]!r}"
            )
        return _open_text(path, num_experts, topk)
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from error


def is_response_document(path: Path) -> bool:
    """Return whether a `.json` file holds responses of a server; False for any other, damaged ones too."""
    if not is_document(path):
        return False
    try:
        return is_response(read_document(path))
    except (OSError, TraceError):
        return False


def _open_archive(path: Path, num_experts: int | None) -> Trace:
    from nvfp4_moe.verification.torch_file import is_torch_archive  # torch, for a file of its own alone
    from nvfp4_moe.verification.traces_torch import open_torch

    if is_torch_archive(path):
        return open_torch(path, num_experts=num_experts)
    if path.suffix in TORCH_SUFFIXES:
        raise TraceError(
            path,
            f"is named {path.suffix}, but is no archive as torch.save writes it; older forms are pickles and are "
            "not read",
        )
    return open_numpy(path, num_experts=num_experts)


def _open_text(path: Path, num_experts: int | None, topk: int | None) -> Trace:
    if is_document(path):
        if not is_response(read_document(path)):
            raise TraceError(path, f"is JSON without {', '.join(RESPONSE_KEYS)}: no responses of a server")
        return open_responses(path, num_experts=num_experts, topk=topk)
    keys = _first_keys(path)
    if MEGATRON_KEY in keys:
        return open_megatron(path, num_experts=num_experts)
    if any(key in keys for key in RESPONSE_KEYS):
        return open_responses(path, num_experts=num_experts, topk=topk)
    return open_jsonl(path, num_experts=num_experts)


def _first_keys(path: Path) -> frozenset[str]:
    """Return the keys of the first line, or, of a long one, those of other forms that its beginning quotes."""
    with open_text(path) as file:
        try:
            raw = file.readline(MAX_LINE_BYTES + 1)
        except (EOFError, OSError, zlib.error):
            return frozenset()  # the reader says what is wrong, and where
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        marks = (MEGATRON_KEY, *RESPONSE_KEYS)
        return frozenset(key for key in marks if len(raw) > MAX_LINE_BYTES and f'"{key}"'.encode() in raw)
    return frozenset(record) if isinstance(record, dict) else frozenset()


def _first_bytes(path: Path) -> bytes:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
        raise TraceError(path, f"is {kind}; a trace is a .jsonl, .jsonl.gz, .json, .npy, .npz or .pt file")
    with path.open("rb") as file:
        head = file.read(len(NPY_MAGIC))
    if not head:
        raise TraceError(path, "is empty; a trace needs at least one token")
    return head


def rebatch(steps: Iterable[Step], *, max_num_batched_tokens: int) -> Iterator[Step]:
    """Yield the tokens of `steps` again in full batches, as a server that is never idle would batch them.

    The tokens of each layer are strung together in their order and cut every `max_num_batched_tokens`; the
    last batch of a layer is shorter. Longer passes are thereby split and shorter ones joined. Profiling
    passes are strung together apart from the others. `Step.index` counts the batches of a layer,
    `Step.first_token` stays the position of the batch's first token among the recorded ones.

    Args:
        steps: passes in the order of their recording.
        max_num_batched_tokens: tokens of a batch, at least 1.

    Raises:
        TypeError, ValueError: a size that is not legal.
        BadInput: batches too large to hold.
    """
    check_size("max_num_batched_tokens", max_num_batched_tokens, at_least=1)
    streams: dict[tuple[int, bool], _Stream] = {}
    batches: dict[int, int] = {}
    held = 0

    def cut(key: tuple[int, bool], tokens: int) -> Step:
        layer, profiling = key
        first_token, ids = streams[key].take(tokens)
        batches[layer] = batches.get(layer, 0) + 1
        return Step(
            layer=layer, index=batches[layer] - 1, first_token=first_token, topk_ids=ids, profiling=profiling
        )

    for step in steps:
        key = (step.layer, step.profiling)
        stream = streams.setdefault(key, _Stream())
        stream.add(step)
        held += step.topk_ids.size
        while stream.tokens >= max_num_batched_tokens:
            yield (batch := cut(key, max_num_batched_tokens))
            held -= batch.topk_ids.size
        if held > MAX_OPEN_IDS:
            raise BadInput(
                f"batches of max_num_batched_tokens ({max_num_batched_tokens}) hold more than {MAX_OPEN_IDS} ids "
                "before they are full; give a smaller one"
            )
    for key, stream in streams.items():
        if stream.tokens:
            yield cut(key, stream.tokens)


@dataclass(slots=True)
class _Stream:
    """Tokens of one layer that wait for a full batch: pieces with the position of their first token."""

    pieces: deque[tuple[int, Ids]] = field(default_factory=deque)
    tokens: int = 0

    def add(self, step: Step) -> None:
        self.pieces.append((step.first_token, step.topk_ids))
        self.tokens += step.tokens

    def take(self, tokens: int) -> tuple[int, Ids]:
        """Remove the first `tokens` tokens; return the position of the first, and the ids."""
        first_token = self.pieces[0][0]
        taken: list[Ids] = []
        missing = tokens
        while missing:
            position, ids = self.pieces.popleft()
            if len(ids) > missing:
                self.pieces.appendleft((position + missing, ids[missing:]))
                ids = ids[:missing]
            taken.append(ids)
            missing -= len(ids)
        self.tokens -= tokens
        return first_token, np.concatenate(taken)
