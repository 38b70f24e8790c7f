"""Guarded host memory: every tensor ends before an inaccessible page, with canary bytes on both sides.

One mapping holds one tensor::

    | no access | canary ... | tensor | canary (slack) | no access |

The tensor starts at the highest address that keeps its alignment, so a read or write past the declared slack faults
at once (SIGSEGV in the child that runs the subject); anything that lands in the canary is found by `Guarded.broken`.
Mappings are kept and reused: making pages costs more than the subject's own work on small cases.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

PAGE = mmap.PAGESIZE
_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAP_PRIVATE_ANONYMOUS = 0x22
_FRONT = 256
"""Least bytes of canary before the tensor."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class _Mapping:
    """Pages between two inaccessible ones."""

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self._size = usable + 2 * PAGE
        base = _libc.mmap(None, self._size, _PROT_NONE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
        if base is None or base == ctypes.c_void_p(-1).value:
            raise MemoryError(f"cannot map {self._size} bytes of guarded memory (errno {ctypes.get_errno()})")
        self._base = base
        self.start = base + PAGE
        if _libc.mprotect(self.start, usable, _PROT_READ_WRITE) != 0:
            raise MemoryError(f"cannot open {usable} bytes of guarded memory (errno {ctypes.get_errno()})")
        self.bytes = torch.frombuffer((ctypes.c_uint8 * usable).from_address(self.start), dtype=torch.uint8)

    def release(self) -> None:
        _libc.munmap(self._base, self._size)


@dataclass(frozen=True, eq=False)
class Guarded:
    """A tensor in guarded memory."""

    name: str
    tensor: torch.Tensor
    mapping: _Mapping
    first: int
    """Offset of the tensor's first byte in the mapping."""
    size: int
    """Bytes of the tensor."""
    canary: int

    def broken(self) -> int | None:
        """Return the first changed canary byte as an offset from the tensor's start, or None.

        Negative: before the tensor; at or above `size`: behind it.
        """
        memory = self.mapping.bytes
        for start, stop in ((0, self.first), (self.first + self.size, self.mapping.usable)):
            changed = (memory[start:stop] != self.canary).nonzero()
            if changed.numel():
                return int(changed[0 if start else -1]) + start - self.first
        return None


class HostArena:
    """Hands out guarded tensors and takes their mappings back after each case."""

    def __init__(self) -> None:
        self._free: dict[int, list[_Mapping]] = {}
        self._live: list[Guarded] = []

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: torch.dtype,
        *,
        alignment: int,
        slack: int = 0,
        lower: int = 0,
        canary: int = 0xC5,
    ) -> Guarded:
        """Return a guarded tensor; its own bytes are whatever the mapping held before.

        Args:
            name: parameter name, for reports.
            shape: of the contiguous tensor.
            dtype: its type.
            alignment: bytes, a power of two.
            slack: bytes behind the tensor that may be read.
            lower: whole alignments to move the start down, to vary what lies behind the tensor.
            canary: byte around the tensor.
        """
        size = prod(shape) * dtype.itemsize
        room = size + slack + (lower + 1) * alignment + _FRONT
        usable = -(-room // PAGE) * PAGE
        mapping = self._take(usable)
        end = mapping.start + usable - slack - size - lower * alignment
        first = end - end % alignment - mapping.start
        memory = mapping.bytes
        memory[:first] = canary
        memory[first + size :] = canary
        tensor = memory[first : first + size].view(dtype).view(tuple(shape))
        guarded = Guarded(name, tensor, mapping, first, size, canary)
        self._live.append(guarded)
        return guarded

    def broken(self) -> tuple[Guarded, int] | None:
        """Return the first live tensor with a changed canary and the byte's offset, or None."""
        for guarded in self._live:
            offset = guarded.broken()
            if offset is not None:
                return guarded, offset
        return None

    def reset(self) -> None:
        """Take every tensor back; the caller must hold none of them any more."""
        for guarded in self._live:
            self._free.setdefault(guarded.mapping.usable, []).append(guarded.mapping)
        self._live.clear()

    def _take(self, usable: int) -> _Mapping:
        free = self._free.get(usable)
        return free.pop() if free else _Mapping(usable)
