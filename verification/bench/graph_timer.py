"""Times of kernels: nodes of a CUDA graph, cold buffers, subjects in turns.

A graph holds at least `CALLS` calls of one subject, each on the next of the subject's buffers, so that launches follow
one another as closely as the device lets them. Before every replay a buffer four times as large as the L2 cache is
read, so that each call finds its own cold unless it was used earlier in the same graph (see `sets_for`). Subjects
replay in turns, one graph each a round; the first round does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from nvfp4_moe.verification.bench.ratios import Times

CALLS = 20
SMALL_CALLS = 60
"""Calls of a graph where one takes a few microseconds: the start of a graph is shared by all of them."""
SMALL_BYTES = 16 * 2**20
ROUNDS = 9
CACHES = 4
"""Sizes of the L2 cache that lie between two uses of a buffer, or are read between two replays."""

Call = Callable[[], object]


def nothing() -> None:
    """Do nothing: the default before and after."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is timed: one call for each set of buffers, and what surrounds the first replay."""

    calls: Sequence[Call]
    before: Call = nothing
    after: Call = nothing
    """Looks at the results; raises where they are wrong."""


class Timer(Protocol):
    """Times subjects in turns, `calls` calls of each a round."""

    def __call__(self, subjects: Mapping[str, Subject], *, calls: int) -> dict[str, Times]: ...


def calls_for(bytes_a_call: int) -> int:
    """Return how many calls a graph holds."""
    return SMALL_CALLS if bytes_a_call < SMALL_BYTES else CALLS


def sets_for(bytes_a_call: int, cache_bytes: int) -> int:
    """Return how many sets of buffers keep every call of a graph cold: one each, or a few caches full."""
    return min(calls_for(bytes_a_call), -(-CACHES * cache_bytes // bytes_a_call) + 1)


class GraphTimer:
    """Times subjects on one CUDA device."""

    def __init__(self, device: torch.device, *, rounds: int = ROUNDS) -> None:
        cache_bytes = torch.cuda.get_device_properties(device).L2_cache_size
        self._cold = torch.zeros(CACHES * cache_bytes // 4, dtype=torch.int32, device=device)
        self._rounds = rounds

    def __call__(self, subjects: Mapping[str, Subject], *, calls: int) -> dict[str, Times]:
        """Return the times of all subjects, which take turns."""
        graphs = {name: self._graph(subject, calls) for name, subject in subjects.items()}
        for name, subject in subjects.items():
            subject.before()
            graphs[name].replay()
            torch.cuda.synchronize()
            subject.after()
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for turn in range(self._rounds + 1):
            for name, graph in graphs.items():
                microseconds = self._replay(graph) / calls
                if turn > 0:
                    times[name].append(microseconds)
        return {name: Times(rounds=tuple(each)) for name, each in times.items()}

    def _graph(self, subject: Subject, calls: int) -> torch.cuda.CUDAGraph:
        for call in subject.calls[:2]:  # modules are loaded and code is compiled before the capture
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for number in range(calls):
                subject.calls[number % len(subject.calls)]()
        return graph

    def _replay(self, graph: torch.cuda.CUDAGraph) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._cold.sum()
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return 1e3 * float(start.elapsed_time(end))
