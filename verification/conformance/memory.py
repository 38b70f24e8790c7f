"""Guarded memory: every tensor ends before an inaccessible page, with canary bytes on both sides.

One mapping holds one tensor::

    | no access | canary ... | tensor | canary (slack) | no access |

The tensor starts at the highest address that keeps its alignment, so a read or write past the declared slack faults
at once (SIGSEGV on the CPU, an illegal address on the GPU; the subject runs in a child); anything that lands in the canary is found by `Guarded.broken`.
Mappings are kept and reused: making pages costs more than the subject's own work on small cases.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch

from nvfp4_moe.reference.padding import round_up

PAGE = mmap.PAGESIZE
_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAP_PRIVATE_ANONYMOUS = 0x22
_FRONT = 256
"""Least bytes of canary before the tensor."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _HostMapping:
    """Pages between two inaccessible ones."""

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self._size = usable + 2 * PAGE
        base = _libc.mmap(None, self._size, _PROT_NONE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
        if base is None or base == ctypes.c_void_p(-1).value:
            raise MemoryError(f"cannot map {self._size} bytes of guarded memory (errno {ctypes.get_errno()})")
        self._base = base
        self.start: int = base + PAGE
        if _libc.mprotect(self.start, usable, _PROT_READ_WRITE) != 0:
            raise MemoryError(f"cannot open {usable} bytes of guarded memory (errno {ctypes.get_errno()})")
        self.bytes = torch.frombuffer((ctypes.c_uint8 * usable).from_address(self.start), dtype=torch.uint8)


class Mapping(Protocol):
    """Memory whose end is followed by an inaccessible page."""

    usable: int
    bytes: torch.Tensor
    """uint8 (usable,) view of the whole mapping."""


@dataclass(frozen=True, eq=False)
class Guarded:
    """A tensor in guarded memory."""

    name: str
    tensor: torch.Tensor
    mapping: Mapping
    first: int
    """Offset of the tensor's first byte in the mapping."""
    size: int
    """Bytes of the tensor."""
    canary: int

    def bytes(self) -> torch.Tensor:
        """Return the tensor's own bytes, uint8 (size,)."""
        return self.mapping.bytes[self.first : self.first + self.size]

    def broken(self) -> int | None:
        """Return a changed canary byte as an offset from the tensor's start, or None.

        Negative: the nearest before the tensor; at or above `size`: the nearest behind it.
        """
        memory = self.mapping.bytes
        before = (memory[: self.first] != self.canary).nonzero()
        if before.numel():
            return int(before[-1]) - self.first
        behind = (memory[self.first + self.size :] != self.canary).nonzero()
        return self.size + int(behind[0]) if behind.numel() else None


class Arena(Protocol):
    """Hands out guarded tensors on one device and takes their mappings back after each run."""

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: torch.dtype,
        *,
        alignment: int,
        slack: int = 0,
        lower: int = 0,
        offset: int = 0,
        canary: int = 0xC5,
    ) -> Guarded:
        """Return a guarded tensor; its own bytes are whatever the mapping held before."""

    def synchronize(self) -> None:
        """Wait for the device; raises RuntimeError if it faulted."""

    def broken(self) -> tuple[Guarded, int] | None:
        """Return the first live tensor with a changed canary and the byte's offset, or None."""

    def reset(self) -> None:
        """Take every tensor back; the caller must use none of them any more."""


class MappingArena:
    """An `Arena` over any kind of mapping; a subclass says how pages are made."""

    def __init__(self, page: int) -> None:
        self._page = page
        self._free: dict[int, list[Mapping]] = {}
        self._live: list[Guarded] = []

    def make_mapping(self, usable: int) -> Mapping:
        """Return a fresh mapping of `usable` bytes, a whole number of pages."""
        raise NotImplementedError

    def address(self, mapping: Mapping) -> int:
        """Return the address of the mapping's first byte."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for the device; the host has nothing to wait for."""

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: torch.dtype,
        *,
        alignment: int,
        slack: int = 0,
        lower: int = 0,
        offset: int = 0,
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
            offset: bytes, a power of two or 0: the address is this much off a multiple of twice the offset.
            canary: byte around the tensor.
        """
        size = prod(shape) * dtype.itemsize
        grid = max(alignment, 2 * offset)
        usable = round_up(size + slack + (lower + 2) * grid + _FRONT, self._page)
        mapping = self._take(usable)
        base = self.address(mapping)
        end = base + usable - slack - size - lower * grid - offset
        first = end - end % grid + offset - base
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
        """Take every tensor back; the caller must use none of them any more."""
        for guarded in self._live:
            self._free.setdefault(guarded.mapping.usable, []).append(guarded.mapping)
        self._live.clear()

    def _take(self, usable: int) -> Mapping:
        free = self._free.get(usable)
        return free.pop() if free else self.make_mapping(usable)


class HostArena(MappingArena):
    """Guarded memory of the CPU: an access past the end is a SIGSEGV."""

    def __init__(self) -> None:
        super().__init__(PAGE)

    def make_mapping(self, usable: int) -> Mapping:
        return _HostMapping(usable)

    def address(self, mapping: Mapping) -> int:
        assert isinstance(mapping, _HostMapping)
        return mapping.start
