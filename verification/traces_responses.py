"""Router traces as the responses of an inference server, one JSON object a line, or a `.json` file of one or
a list.

| server | where the ids are | form |
|---|---|---|
| vLLM | `choices[].routed_experts` | base64 of a `.npy` file, (tokens, layers, topk), prompt included |
| vLLM 0.21 | `prompt_routed_experts`, `choices[].routed_experts` | nested lists, (prompt tokens, layers, topk) and (generated, ..) |
| SGLang | `meta_info.routed_experts`, or the same inside `choices[]` | base64 of raw little-endian int32, (tokens - 1, layers, topk) |

The prompt's length is that of `prompt_routed_experts`, else `usage.prompt_tokens`, `meta_info.prompt_tokens`
or the length of `prompt_token_ids`; unknown, the request counts as one prompt. Choices after the first share
the prompt of the first. SGLang's raw ids have no shape: topk must be given, and the tokens come from
`prompt_tokens + completion_tokens - 1`, or from `num_layers`, a key that the user may add. Ids are those of
logical experts; their number is in no response.

A layer whose ids are 0 everywhere in a request, topk being 2 or more, is a dense layer, or one whose kernel
does not report, and is left out. Base64 must be strict; a `.npy` header is held against the bytes that are
there; nothing is ever unpickled.

Sources: vLLM docs/training/routed_experts.md, routed_experts_replay.md (0.21), pull requests 28284, 44116;
SGLang pull request 12162.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nvfp4_moe.verification.array_file import NPY_MAGIC, npy_header
from nvfp4_moe.verification.trace_model import (
    MAX_LAYER,
    MAX_OPEN_IDS,
    MAX_TOPK,
    UNMARKED_PASS_TOKENS,
    Step,
    Trace,
    TraceError,
    TraceMeta,
)
from nvfp4_moe.verification.traces_jsonl import JsonLines, open_text, shown, values_in
from nvfp4_moe.verification.traces_requests import Request, schedule

MAX_RESPONSE_BYTES = 1 << 26
"""Longest line, or `.json` file, that is read."""
MAX_RESPONSE_VALUES = 1 << 22
"""Most values of one: nested lists take some ten times the memory of their text."""
KEYS = ("choices", "meta_info", "routed_experts", "prompt_routed_experts")
"""Keys that tell a response from other JSON."""

_IDS = "routed_experts"
_PROMPT_IDS = "prompt_routed_experts"
_DIMENSIONS = 3
_ABSENT = "no routed experts: was the server started with --enable-return-routed-experts, and asked for them?"


def open_responses(path: Path, *, num_experts: int | None = None, topk: int | None = None) -> Trace:
    """Return the trace in a file of responses, plain or gzip.

    Args:
        path: the file; `.json` and `.json.gz` hold one response or a list of them, others a response a line.
        num_experts: experts of the model, which no response says.
        topk: experts of a token, needed where ids come without a shape (SGLang).

    Raises:
        TraceError: unreadable file, a first response without ids, or a number of experts that nobody gave.
    """
    if num_experts is None:
        raise TraceError(path, "does not say num_experts; give the number of experts (--experts)")
    reader = _Reader(path, num_experts, topk)
    first = next(reader.requests(), None)
    if first is None:
        raise TraceError(path, "holds no token; a trace needs at least one")
    meta = TraceMeta(
        path=path, form="responses", num_experts=num_experts, topk=int(first.ids.shape[2]), has_passes=False
    )

    def batched(max_num_batched_tokens: int) -> Iterator[Step]:
        return schedule(reader.requests(), max_num_batched_tokens=max_num_batched_tokens)

    return Trace(meta, lambda: batched(UNMARKED_PASS_TOKENS), batched)


def is_document(path: Path) -> bool:
    """Return whether a file's name says that it is JSON as a whole, not line by line."""
    return path.name.endswith((".json", ".json.gz"))


def is_response(record: Any) -> bool:
    """Return whether a JSON value looks like a response, or a list of them."""
    if isinstance(record, list):
        record = (
            record[0] if record else None
        )  # of that one alone: lists in lists can be as deep as they like
    return isinstance(record, dict) and any(key in record for key in KEYS)


def read_document(path: Path) -> Any:
    """Return the JSON value of a whole file, plain or gzip.

    Raises:
        TraceError: too long, too many values, damaged, or not JSON.
    """
    with open_text(path) as file:
        try:
            raw = file.read(MAX_RESPONSE_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise TraceError(path, f"cannot be read on: {error}") from error
    if len(raw) > MAX_RESPONSE_BYTES:
        raise TraceError(path, f"is longer than {MAX_RESPONSE_BYTES} bytes; write a response a line (.jsonl)")
    if values_in(raw) > MAX_RESPONSE_VALUES:
        raise TraceError(
            path, f"holds more than {MAX_RESPONSE_VALUES} values; write a response a line (.jsonl)"
        )
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise TraceError(path, f"is not JSON: {shown(str(error))}") from error


@dataclass(slots=True)
class _Reader:
    """Reads the requests of a file, each time anew."""

    path: Path
    num_experts: int
    topk: int | None

    def requests(self) -> Iterator[Request]:
        shape: tuple[int, int] | None = None
        for record, fail in self._records():
            for request, of in _Response(record, fail, self.num_experts, self.topk).requests():
                if shape is not None and of != shape:
                    fail(f"has (layers, topk) {of}, but the first response {shape}; one file, one model")
                shape = of
                if request.tokens:
                    yield request

    def _records(self) -> Iterator[tuple[dict[str, Any], Callable[[str], NoReturn]]]:
        if not is_document(self.path):
            with open_text(self.path) as file:
                lines = JsonLines(
                    self.path, file, most_bytes=MAX_RESPONSE_BYTES, most_values=MAX_RESPONSE_VALUES
                )
                for record in lines:
                    yield record, lines.fail
            return
        document = read_document(self.path)
        for number, record in enumerate(document if isinstance(document, list) else [document]):
            fail = _Failing(self.path, f"response {number}")
            if not isinstance(record, dict):
                fail(f"must be a JSON object, got {shown(repr(record))}")
            yield record, fail


@dataclass(frozen=True, slots=True)
class _Failing:
    path: Path
    place: str

    def __call__(self, problem: str) -> NoReturn:
        raise TraceError(self.path, problem, place=self.place)


@dataclass(slots=True)
class _Response:
    """One response, and how to refuse it."""

    record: dict[str, Any]
    fail: Callable[[str], NoReturn]
    num_experts: int
    topk: int | None

    def requests(self) -> Iterator[tuple[Request, tuple[int, int]]]:
        """Yield each request with the layers and top-k of its ids, before layers are left out."""
        choices = self.record.get("choices", [self.record])
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            self.fail(f'"choices" must be a list of objects, got {shown(repr(choices))}')
        for number, choice in enumerate(choices):
            yield self._request(choice, shares_prompt=number > 0)

    def _request(self, choice: dict[str, Any], *, shares_prompt: bool) -> tuple[Request, tuple[int, int]]:
        info = choice.get("meta_info", self.record.get("meta_info", {}))
        if not isinstance(info, dict):
            self.fail(f'"meta_info" must be an object, got {shown(repr(info))}')
        value = choice.get(_IDS, info.get(_IDS))
        if value is None:
            self.fail(_ABSENT)
        prompt = self.record.get(_PROMPT_IDS, choice.get(_PROMPT_IDS))
        ids = self._ids(value, _IDS, info)
        if prompt is not None:
            before = self._ids(prompt, _PROMPT_IDS, info)
            if len(before) and len(ids) and before.shape[1:] != ids.shape[1:]:
                self.fail(f'"{_PROMPT_IDS}" has shape {before.shape}, "{_IDS}" {ids.shape}')
            prompt_tokens = len(before)
            parts = [part for part in (before, ids) if len(part)]
            ids = np.concatenate(parts) if parts else ids
        else:
            prompt_tokens = min(self._prompt_tokens(choice, info, len(ids)), len(ids))
        if shares_prompt:
            ids, prompt_tokens = ids[prompt_tokens:], 0
        layers = self._layers(ids)
        shape = int(ids.shape[1]), int(ids.shape[2])
        recorded = ids if len(layers) == ids.shape[1] else ids[:, list(layers)]
        return Request(ids=recorded, prompt_tokens=prompt_tokens, layers=layers), shape

    def _prompt_tokens(self, choice: dict[str, Any], info: dict[str, Any], otherwise: int) -> int:
        usage = self.record.get("usage")
        for place in (usage if isinstance(usage, dict) else {}, info):
            if place.get("prompt_tokens") is not None:
                return self._int(place, "prompt_tokens", 0, MAX_OPEN_IDS)
        for place in (choice, self.record):
            if isinstance(place.get("prompt_token_ids"), list):
                return len(place["prompt_token_ids"])
        return otherwise

    def _layers(self, ids: NDArray[Any]) -> tuple[int, ...]:
        """Return the layers that were recorded."""
        if not len(ids) or ids.shape[2] == 1:
            return tuple(range(ids.shape[1]))
        kept = np.flatnonzero((ids != 0).any(axis=(0, 2)))
        if not len(kept):
            self.fail(
                "every id is 0: the kernel did not report its routing (a known fault of some monolithic kernels)"
            )
        return tuple(kept.tolist())

    # --- ids ------------------------------------------------------------------------------------------------

    def _ids(self, value: Any, name: str, info: dict[str, Any]) -> NDArray[Any]:
        """Return ids (tokens, layers, topk), checked."""
        if isinstance(value, str):
            data = self._decoded(value, name)
            ids = self._npy(data, name) if data.startswith(NPY_MAGIC) else self._raw(data, name, info)
        elif isinstance(value, list):
            ids = self._nested(value, name)
        else:
            self.fail(f'"{name}" must be base64 text or nested lists, got {shown(repr(value))}')
        self._check_layers_topk(ids.shape, name)
        if ids.size > MAX_OPEN_IDS:
            self.fail(f'"{name}" holds {ids.size} ids, at most {MAX_OPEN_IDS} are legal')
        if self.topk is not None and ids.shape[2] != self.topk:
            self.fail(f'"{name}" has topk {ids.shape[2]}, but {self.topk} was given')
        if ids.size and not -1 <= int(ids.min()) <= int(ids.max()) < self.num_experts:
            wrong = tuple(np.argwhere((ids < -1) | (ids >= self.num_experts))[0].tolist())
            self.fail(
                f'"{name}"{list(wrong)} must be an expert id in [-1, {self.num_experts}), got {int(ids[wrong])}'
            )
        return ids

    def _check_layers_topk(self, shape: tuple[int, ...], name: str) -> None:
        if not 1 <= shape[1] <= MAX_LAYER or not 1 <= shape[2] <= MAX_TOPK:
            self.fail(
                f'"{name}" must have 1 to {MAX_LAYER} layers and topk in [1, {MAX_TOPK}], got shape {shape}'
            )

    def _decoded(self, text: str, name: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            self.fail(f'"{name}" is not base64: {error}')

    def _npy(self, data: bytes, name: str) -> NDArray[Any]:
        stream = io.BytesIO(data)
        try:
            shape, fortran, dtype = npy_header(stream)
        except ValueError as error:
            self.fail(f'"{name}" has no readable .npy header: {error}')
        if dtype.kind not in "iu":
            self.fail(f'"{name}" must be of an integer type, got {dtype}')
        there = len(data) - stream.tell()
        wanted = dtype.itemsize
        for size in shape:
            wanted *= max(size, 0)
        if len(shape) != _DIMENSIONS or min(shape) < 0 or wanted != there:
            self.fail(
                f'"{name}" must be (tokens, layers, topk), {there} bytes of it are there, got {shape} {dtype}'
            )
        self._check_layers_topk(shape, name)  # a shape with a 0 in it may otherwise claim any size for free
        return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran else "C")

    def _raw(self, data: bytes, name: str, info: dict[str, Any]) -> NDArray[Any]:
        if self.topk is None:
            self.fail(f'"{name}" has no shape; give topk (--topk)')
        values = np.frombuffer(data[: len(data) // 4 * 4], "<i4")
        if len(data) % 4 or not len(values):
            self.fail(f'"{name}" must be int32 values, got {len(data)} bytes')
        if "num_layers" in info or "num_layers" in self.record:
            place = info if "num_layers" in info else self.record
            width = self._int(place, "num_layers", 1, MAX_LAYER) * self.topk
        else:
            if info.get("prompt_tokens") is None or info.get("completion_tokens") is None:
                self.fail(
                    f'"{name}" has no shape: "meta_info" needs prompt_tokens and completion_tokens, or num_layers'
                )
            routed = (
                self._int(info, "prompt_tokens", 0, MAX_OPEN_IDS)
                + self._int(info, "completion_tokens", 0, MAX_OPEN_IDS)
                - 1  # the last token that is sampled is not routed
            )
            width = len(values) // routed if routed > 0 and len(values) % routed == 0 else 0
        if not width or len(values) % width or width % self.topk:
            self.fail(
                f'"{name}" has {len(values)} ids, not (tokens, layers, topk {self.topk}) for its tokens and layers'
            )
        return values.reshape(-1, width // self.topk, self.topk)

    def _nested(self, value: list[Any], name: str) -> NDArray[Any]:
        if not value:
            return np.zeros((0, 1, self.topk or 1), np.int32)
        for token in value:
            if not isinstance(token, list) or not all(map(_integers, token)):
                self.fail(
                    f'"{name}" must be integers in nested lists (tokens, layers, topk), got {shown(repr(token))}'
                )
        try:
            ids = np.array(value)
        except ValueError:
            self.fail(f'"{name}" must be nested lists (tokens, layers, topk) of one shape')
        if (
            ids.ndim != _DIMENSIONS or ids.dtype.kind not in "iu"
        ):  # none in a token or a layer, or beyond 64 bits
            self.fail(
                f'"{name}" must be integers in nested lists (tokens, layers, topk), got shape {ids.shape} {ids.dtype}'
            )
        return ids

    def _int(self, place: dict[str, Any], key: str, low: int, high: int) -> int:
        value = place.get(key)
        if type(value) is not int or not low <= value <= high:
            self.fail(f'"{key}" must be an integer in [{low}, {high}], got {shown(repr(value))}')
        return value


def _integers(value: Any) -> bool:
    """Return whether a JSON value is a list of integers alone: NumPy would make ids of booleans, and of texts as many
    characters for each entry as the longest has."""
    return isinstance(value, list) and set(map(type, value)) <= {int}
