"""The bytes of `savings`, measured: the same buffers are allocated on a GPU and the caching allocator is asked.

The two scale buffers of a layer are allocated as vLLM's run_cutlass_moe_fp4 does, int32 words and never written: the one of
the hidden width, dropped, then the one of the intermediate width. The statistics of PyTorch's allocator are reset before.

- *requested*: bytes that were asked for; the peak must equal the formula's to the byte.
- *allocated*: bytes of the blocks handed out, 512 at a time. A block of a segment is split only where more than 1 MiB of it
  would be left (c10 CUDACachingAllocator, kMinBlockSize and kSmallSize), so up to `MOST_SLACK` more than requested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nvfp4_moe.analysis.savings import Saving

_MIN_BLOCK = 512
_KEPT_WHOLE = 1 << 20
MOST_SLACK = _KEPT_WHOLE + _MIN_BLOCK - 1
"""Bytes that the allocator may hand out beyond those requested, in one block."""
_WORD = 4
"""Bytes of an int32: four scales."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one formula's buffers took."""

    saving: Saving
    requested_bytes: int
    allocated_bytes: int

    @property
    def agrees(self) -> bool:
        """Return whether the peak is the formula's, and the allocator added no more than it may."""
        slack = self.allocated_bytes - self.requested_bytes
        return self.requested_bytes == self.saving.peak_bytes and 0 <= slack <= MOST_SLACK

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "model": self.saving.model.name,
            "max_num_batched_tokens": self.saving.max_num_batched_tokens,
            "formula": self.saving.formula.name,
            "peak_bytes": self.saving.peak_bytes,
            "requested_bytes": self.requested_bytes,
            "allocated_bytes": self.allocated_bytes,
            "agrees": self.agrees,
        }


def measure_memory(
    savings: Sequence[Saving], *, progress: Callable[[int], None] | None = None
) -> list[Measured]:
    """Allocate the buffers of each line on the current CUDA device and return what they took.

    Memory that others hold on the device does not matter; what this process caches is given back first.

    Raises:
        RuntimeError: no CUDA device, or too little memory on it (torch.OutOfMemoryError).
    """
    found = []
    for saving in savings:
        found.append(_measure(saving))
        if progress is not None:
            progress(1)
    return found


def _measure(saving: Saving) -> Measured:
    torch.cuda.init()  # statistics are empty before
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    for row_bytes in (saving.shard.hidden_row_bytes, saving.shard.intermediate_row_bytes):
        buffer = torch.empty(saving.rows, row_bytes // _WORD, dtype=torch.int32, device="cuda")
        del buffer
    after = torch.cuda.memory_stats()
    return Measured(
        saving=saving,
        requested_bytes=_rise(before, after, "requested_bytes"),
        allocated_bytes=_rise(before, after, "allocated_bytes"),
    )


def _rise(before: dict[str, Any], after: dict[str, Any], name: str) -> int:
    return int(after[f"{name}.all.peak"]) - int(before.get(f"{name}.all.current", 0))
