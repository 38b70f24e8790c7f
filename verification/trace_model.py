"""What a router trace is: passes of token-to-expert decisions, with the facts needed to judge them.

A *pass* is one call of one mixture-of-experts layer: the tokens that reached it together. Recordings hold tokens one
after the other; a pass ends where `token_idx` does not grow any more. Engines also record their *profiling* passes
(start-up and warm-up runs on dummy tokens), in which every token takes the same experts; they are told apart by
exactly that: two or more tokens, all rows alike.

Ids are expert numbers in [0, num_experts), or -1 for a slot that is not routed on this rank. Nothing here holds more
than the passes that are still open, so a file's size does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nvfp4_moe.verification.bad_input import BadInput

MAX_EXPERTS = 1 << 16
"""Most experts that a trace may name."""
MAX_TOPK = 1 << 10
MAX_LAYER = (1 << 16) - 1
MAX_TOKEN_INDEX = (1 << 62) - 1
MAX_OPEN_IDS = 1 << 25
"""Most ids (tokens x topk, over all layers) in passes that have not ended: 128 MiB of int32."""
MAX_RANKS = 1 << 10
"""Most expert-parallel ranks that a trace is dealt out to: every pass is routed on each of them."""
MAX_PADDED_ROWS = 1 << 30
"""Most experts (on a rank) x tile: with the ids of a pass the offsets then fit int32."""
UNMARKED_PASS_TOKENS = 8192
"""Tokens of a pass where a recording has no pass boundaries: a common max_num_batched_tokens."""

Ids = NDArray[np.int32]


class TraceError(BadInput):
    """A trace that cannot be read: names the file, the place in it, what stands there and what is legal."""

    def __init__(self, path: Path | str, problem: str, *, place: str = "") -> None:
        super().__init__(f"{path}: {place + ': ' if place else ''}{problem}")
        self.path = Path(path)
        self.place = place


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMeta:
    """Facts about a whole trace, known before its first pass."""

    path: Path
    form: str
    """"jsonl", "npy", "npz", "responses", "megatron", "sglang_tokens" or "sglang_counts"."""
    num_experts: int
    topk: int
    model: str | None = None
    layers: tuple[int, ...] | None = None
    """Layers that the recording announces; None where it does not say."""
    has_passes: bool = True
    """False: the recording has no pass boundaries, and is cut every `UNMARKED_PASS_TOKENS` tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One pass through one layer, or one batch that `rebatch` made of them."""

    layer: int
    index: int
    """Number of the pass in its layer, from 0 (of the batch, after re-batching)."""
    first_token: int
    """Position of the first token among all tokens recorded for the layer."""
    topk_ids: Ids
    """(tokens, topk) int32; -1 is not routed."""
    profiling: bool
    """Every token of the recorded pass takes the same experts."""
    contiguous: bool = True
    """False: token_idx did not run 0, 1, 2, ...: lines are missing or come from several writers."""

    @property
    def tokens(self) -> int:
        """Return M, the tokens of the pass."""
        return int(self.topk_ids.shape[0])


@dataclass(frozen=True, slots=True)
class Trace:
    """A readable trace. Iterating opens the file anew each time and yields its passes in order of their ends.

    Raises (while iterating):
        TraceError: the file breaks its form; passes before the fault have been yielded.
    """

    meta: TraceMeta
    read: Callable[[], Iterator[Step]]
    batched: Callable[[int], Iterator[Step]] | None = None
    """For a trace of requests: its passes if the server batches at most so many tokens. None: `traces.rebatch` does it."""

    def __iter__(self) -> Iterator[Step]:
        try:
            yield from self.read()
        except OSError as error:
            raise TraceError(self.meta.path, f"cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Tokens as a reader delivers them: any layers, in file order, ids already in range."""

    topk_ids: Ids
    """(rows, topk) int32."""
    token_idx: NDArray[np.int64]
    """(rows,)."""
    layer: NDArray[np.int32]
    """(rows,)."""
    new_run: bool = False
    """True: a recording starts anew before this block; passes that are open end."""


@dataclass(slots=True)
class _Open:
    """The pass of one layer that has not ended."""

    parts: list[Ids] = field(default_factory=list)
    tokens: int = 0
    last: int = -1
    contiguous: bool = True
    passes: int = 0
    first_token: int = 0

    def end(self, layer: int) -> Step:
        ids = np.concatenate(self.parts)
        step = Step(
            layer=layer,
            index=self.passes,
            first_token=self.first_token,
            topk_ids=ids,
            profiling=is_profiling(ids),
            contiguous=self.contiguous,
        )
        self.passes += 1
        self.first_token += self.tokens
        self.parts, self.tokens, self.last, self.contiguous = [], 0, -1, True
        return step


def is_profiling(topk_ids: Ids) -> bool:
    """Return whether a pass looks like dummy tokens: at least two, all routed alike."""
    return topk_ids.shape[0] >= 2 and bool((topk_ids == topk_ids[0]).all())


@dataclass(slots=True)
class PassCounter:
    """Numbers the passes of a recording that has them whole, layer by layer."""

    passes: int = 0
    _of_layer: dict[int, tuple[int, int]] = field(default_factory=dict)

    def step(self, layer: int, topk_ids: Ids, *, profiling: bool | None = None) -> Step:
        """Return the next pass of `layer`; `profiling` is told by its ids where it is not given."""
        index, first_token = self._of_layer.get(layer, (0, 0))
        self._of_layer[layer] = index + 1, first_token + topk_ids.shape[0]
        self.passes += 1
        return Step(
            layer=layer,
            index=index,
            first_token=first_token,
            topk_ids=topk_ids,
            profiling=is_profiling(topk_ids) if profiling is None else profiling,
        )


def passes(blocks: Iterable[Block], *, path: Path) -> Iterator[Step]:
    """Yield the passes of `blocks`: within a layer, a new one starts where token_idx does not grow.

    Raises:
        TraceError: more than `MAX_OPEN_IDS` ids in passes that have not ended.
    """
    layers: dict[int, _Open] = {}
    open_ids = 0
    for block in blocks:
        if block.new_run:
            for layer, state in layers.items():
                if state.tokens:
                    yield state.end(layer)
            open_ids = 0
        topk = block.topk_ids.shape[1]
        for layer, rows in _by_layer(block.layer):
            state = layers.setdefault(layer, _Open())
            token_idx = block.token_idx[rows]
            starts = np.flatnonzero(token_idx <= np.concatenate(([state.last], token_idx[:-1])))
            for number, (start, stop) in enumerate(pairwise([0, *starts.tolist(), len(rows)])):
                if number and state.tokens:  # every segment but the first begins a pass
                    open_ids -= state.tokens * topk
                    yield state.end(layer)
                _extend(state, block.topk_ids[rows[start:stop]], token_idx[start:stop])
                open_ids += (stop - start) * topk
        if open_ids > MAX_OPEN_IDS:
            raise TraceError(
                path,
                f"passes that have not ended hold {open_ids} ids, at most {MAX_OPEN_IDS} are legal "
                "(does token_idx start again with every pass?)",
            )
    for layer, state in layers.items():
        if state.tokens:
            yield state.end(layer)


def _by_layer(layer: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each layer with the positions of its rows, in order."""
    order = np.argsort(layer, kind="stable")
    edges = np.flatnonzero(np.diff(layer[order])) + 1
    for rows in np.split(order, edges):
        if len(rows):
            yield int(layer[rows[0]]), rows


def _extend(state: _Open, ids: Ids, token_idx: NDArray[np.int64]) -> None:
    if not len(ids):
        return
    steps = np.diff(token_idx, prepend=state.last)
    state.contiguous = state.contiguous and bool((steps == 1).all())
    state.parts.append(ids)
    state.tokens += len(ids)
    state.last = int(token_idx[-1])
