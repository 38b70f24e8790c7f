"""From requests back to passes: the batches in which a server that is never idle would run recorded requests.

Engines that return routed experts do so request by request: a request's ids, token by token. Padding depends
on what was in one batch together, so the requests are batched again, as continuous batching with chunked
prefill does (vLLM's and SGLang's default): each step serves the running requests in turn, one token of each
that decodes and a chunk of each prompt that is not finished, then admits waiting requests while tokens are
left in the step, at most `MOST_RUNNING` at a time. What is held are the running requests, at most
`trace_model.MAX_OPEN_IDS` ids: no further one is admitted beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.verification.trace_model import MAX_OPEN_IDS, PassCounter, Step

MOST_RUNNING = 256
"""Requests that run at a time: vLLM's default max_num_seqs on most GPUs."""


@dataclass(slots=True, eq=False)
class Request:
    """The ids of one request, and how far it has been served."""

    ids: NDArray[Any]
    """(tokens, layers, topk), any integer type, in range."""
    prompt_tokens: int
    """Tokens of `ids` that belong to the prompt and may be served together; the others follow one by one."""
    layers: tuple[int, ...]
    """Number of each layer of `ids`."""
    served: int = 0

    @property
    def tokens(self) -> int:
        """Return the tokens of the request."""
        return int(self.ids.shape[0])

    def serve(self, at_most: int) -> slice:
        """Serve the next tokens, and return which; empty where `at_most` is 0."""
        wanted = self.prompt_tokens - self.served if self.served < self.prompt_tokens else 1
        start = self.served
        self.served = min(start + min(wanted, at_most), self.tokens)
        return slice(start, self.served)


def schedule(requests: Iterable[Request], *, max_num_batched_tokens: int) -> Iterator[Step]:
    """Yield the passes in which the requests are served, each step layer by layer.

    Args:
        requests: in the order of their arrival; read as they are admitted.
        max_num_batched_tokens: tokens of a step, at least 1.

    Raises:
        TypeError, ValueError: a size that is not legal.
    """
    check_size("max_num_batched_tokens", max_num_batched_tokens, at_least=1)
    waiting = iter(requests)
    running: list[Request] = []
    counter = PassCounter()
    exhausted = False
    while running or not exhausted:
        left = max_num_batched_tokens
        batch: list[tuple[Request, slice]] = []
        for request in running:
            if left:
                batch.append((request, request.serve(left)))
                left -= batch[-1][1].stop - batch[-1][1].start
        while left and not exhausted and _may_admit(running):
            admitted = next(waiting, None)
            if admitted is None:
                exhausted = True
            else:
                running.append(admitted)
                batch.append((admitted, admitted.serve(left)))
                left -= batch[-1][1].stop - batch[-1][1].start
        yield from _passes(counter, batch)
        running = [request for request in running if request.served < request.tokens]


def _may_admit(running: list[Request]) -> bool:
    return len(running) < MOST_RUNNING and sum(request.ids.size for request in running) < MAX_OPEN_IDS


def _passes(counter: PassCounter, batch: list[tuple[Request, slice]]) -> Iterator[Step]:
    """Yield a pass for each layer of a step; the ids of a request's layer go in the order of its tokens."""
    parts: dict[int, list[NDArray[Any]]] = {}
    for request, tokens in batch:
        for place, layer in enumerate(request.layers):
            parts.setdefault(layer, []).append(request.ids[tokens, place])
    for layer in sorted(parts):
        ids = np.concatenate(parts[layer]).astype(np.int32)
        if len(ids):
            yield counter.step(layer, ids, profiling=False)
