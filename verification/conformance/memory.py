"""Guarded memory: every tensor lies between inaccessible pages, with canary words on both sides.

One mapping holds one tensor::

    | no access | canary ... | tensor | canary (slack) | no access |
    | no access | tensor | canary ...                  | no access |      (`Edge.FRONT`)

By default the tensor starts at the highest address that keeps its alignment, so a read or write past the declared
slack faults at once (SIGSEGV on the CPU, an illegal address on the GPU; the subject runs in a child); at the front,
an access before its start does. Anything that lands in the canary is found by `Guarded.broken`. Between the runs the
pages are closed: a subject that keeps a pointer and uses it after its call faults too (on the CPU).

Mappings are kept and reused, the one that rested longest first: making pages costs more than the subject's own work
on small cases. Their sizes go in steps of at most a quarter, so that few are needed.
"""

from __future__ import annotations

import ctypes
import mmap
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Protocol

import torch

from nvfp4_moe.reference.padding import round_up

PAGE = mmap.PAGESIZE
_PROT_NONE, _PROT_READ, _PROT_READ_WRITE = 0, 1, 3
_MAP_PRIVATE_ANONYMOUS = 0x22
_RESTING = 3
"""Mappings of a size that stay closed: a pointer into one faults for a while after its call."""
_FRONT = 256
"""Least bytes of canary before the tensor."""
WORD = 4
"""Bytes of a canary word. Tensors start on one; the bytes between an odd end and the next are canary too."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class DeviceFault(Exception):
    """The device reported an error of the subject's work; nothing more can run in this process."""


class Edge(Enum):
    """Which end of the tensor an inaccessible page adjoins."""

    BACK = "back"
    FRONT = "front"


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
        self.protect(_PROT_READ_WRITE)
        self.bytes = torch.frombuffer((ctypes.c_uint8 * usable).from_address(self.start), dtype=torch.uint8)

    def open(self) -> None:
        self.protect(_PROT_READ_WRITE)

    def close(self) -> None:
        self.protect(_PROT_NONE)

    def seal(self) -> None:
        self.protect(_PROT_READ)

    def protect(self, access: int) -> None:
        if _libc.mprotect(self.start, self.usable, access) != 0:
            raise MemoryError(
                f"cannot protect {self.usable} bytes of guarded memory (errno {ctypes.get_errno()})"
            )


class Mapping(Protocol):
    """Memory whose end is followed by an inaccessible page."""

    usable: int
    start: int
    """Address of the first byte."""
    bytes: torch.Tensor
    """uint8 (usable,) view of the whole mapping."""

    def open(self) -> None:
        """Make it accessible again."""

    def close(self) -> None:
        """Make every access fault, where the device can."""

    def seal(self) -> None:
        """Make every write fault until it is opened, where the device can."""


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
    """The word around it, unsigned 32 bits."""

    def bytes(self) -> torch.Tensor:
        """Return the tensor's own bytes, uint8 (size,)."""
        return self.mapping.bytes[self.first : self.first + self.size]

    def paint(self) -> None:
        """Write the canary around the tensor."""
        before, rest, behind = self._around()
        before.fill_(_signed(self.canary))
        behind.fill_(_signed(self.canary))
        if rest.numel():
            rest.copy_(self._canary_bytes(rest))

    def changed(self) -> torch.Tensor:
        """Return whether a canary byte changed, as a bool tensor on the device."""
        before, rest, behind = self._around()
        canary = _signed(self.canary)
        changed = (before != canary).any() | (behind != canary).any()
        return changed | (rest != self._canary_bytes(rest)).any() if rest.numel() else changed

    def broken(self) -> int | None:
        """Return a changed canary byte as an offset from the tensor's start, or None.

        Negative: in the nearest word before the tensor; at or above `size`: in the nearest behind it.
        """
        before, rest, behind = self._around()
        canary = _signed(self.canary)
        found = (before != canary).nonzero()
        if found.numel():
            word = int(found[-1])
            return word * WORD + _changed_bytes(before, word, self.canary)[-1] - self.first
        found = (rest != self._canary_bytes(rest)).nonzero()
        if found.numel():
            return self.size + int(found[0])
        found = (behind != canary).nonzero()
        if not found.numel():
            return None
        word = int(found[0])
        return self.size + rest.numel() + word * WORD + _changed_bytes(behind, word, self.canary)[0]

    def _around(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the canary: words before the tensor, bytes up to the next word, words behind."""
        memory, end = self.mapping.bytes, self.first + self.size
        words, next_word = memory.view(torch.int32), round_up(end, WORD)
        return words[: self.first // WORD], memory[end:next_word], words[next_word // WORD :]

    def _canary_bytes(self, rest: torch.Tensor) -> torch.Tensor:
        """Return the last bytes of a canary word, as many as `rest` has."""
        whole = list(self.canary.to_bytes(WORD, "little"))
        return torch.tensor(whole[WORD - rest.numel() :], dtype=torch.uint8, device=rest.device)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _changed_bytes(words: torch.Tensor, word: int, canary: int) -> list[int]:
    """Return which bytes of a changed word differ from the canary's, little end first."""
    differs = (int(words[word]) & 0xFFFFFFFF) ^ canary
    return [byte for byte in range(WORD) if differs >> 8 * byte & 0xFF]


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
        edge: Edge = Edge.BACK,
        canary: int = 0xC5C5C5C5,
    ) -> Guarded:
        """Return a guarded tensor; its own bytes are whatever the mapping held before."""

    def synchronize(self) -> None:
        """Wait for the device.

        Raises:
            DeviceFault: it reported an error.
        """

    def broken(self) -> tuple[Guarded, int] | None:
        """Return the first live tensor with a changed canary and the byte's offset, or None."""

    def seal(self, tensors: Sequence[Guarded]) -> None:
        """Make these read-only, where the arena is one that does."""

    def unseal(self, tensors: Sequence[Guarded]) -> None:
        """Make them writable again."""

    def reset(self) -> None:
        """Take every tensor back; the caller must use none of them any more."""


class MappingArena:
    """An `Arena` over any kind of mapping; a subclass says how pages are made."""

    def __init__(self, page: int, *, seals: bool = False) -> None:
        self._page = page
        self._seals = seals
        self._free: dict[int, deque[Mapping]] = {}
        self._live: list[Guarded] = []

    def make_mapping(self, usable: int) -> Mapping:
        """Return a fresh mapping of `usable` bytes, a whole number of pages."""
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
        edge: Edge = Edge.BACK,
        canary: int = 0xC5C5C5C5,
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
            edge: the end of the tensor that an inaccessible page adjoins.
            canary: word around the tensor, unsigned 32 bits.
        """
        size = prod(shape) * dtype.itemsize
        grid = max(
            alignment, dtype.itemsize, 2 * offset, WORD
        )  # torch looks at int64 from multiples of 8 only
        slack = round_up(slack, WORD)
        mapping = self._take(self._step(size + slack + (lower + 2) * grid + _FRONT))
        usable = mapping.usable
        base = mapping.start
        if edge is Edge.FRONT:
            first = -base % grid + offset
        else:
            end = base + usable - slack - size - lower * grid - offset
            first = end - end % grid + offset - base
        tensor = mapping.bytes[first : first + size].view(dtype).view(tuple(shape))
        guarded = Guarded(name, tensor, mapping, first, size, canary)
        guarded.paint()
        self._live.append(guarded)
        return guarded

    def broken(self) -> tuple[Guarded, int] | None:
        """Return the first live tensor with a changed canary and the byte's offset, or None."""
        if not self._live or not bool(torch.stack([guarded.changed() for guarded in self._live]).any()):
            return None  # one wait for the device, not one for each tensor
        for guarded in self._live:
            offset = guarded.broken()
            if offset is not None:
                return guarded, offset
        return None

    def seal(self, tensors: Sequence[Guarded]) -> None:
        """Make these read-only, where the arena is one that does: a write faults at once."""
        for guarded in tensors if self._seals else ():
            guarded.mapping.seal()

    def unseal(self, tensors: Sequence[Guarded]) -> None:
        """Make them writable again."""
        for guarded in tensors if self._seals else ():
            guarded.mapping.open()

    def reset(self) -> None:
        """Take every tensor back; the caller must use none of them any more."""
        for guarded in self._live:
            guarded.mapping.close()
            self._free.setdefault(guarded.mapping.usable, deque()).append(guarded.mapping)
        self._live.clear()

    def _take(self, usable: int) -> Mapping:
        free = self._free.get(usable, ())
        if len(free) <= _RESTING:
            return self.make_mapping(usable)
        mapping = self._free[usable].popleft()
        mapping.open()
        return mapping

    def _step(self, size: int) -> int:
        """Return the mapping size for `size` bytes: whole pages, four steps for each doubling."""
        quarter = (1 << size.bit_length() - 1) // 4
        return round_up(size, max(quarter, self._page))


class HostArena(MappingArena):
    """Guarded memory of the CPU: an access past the end is a SIGSEGV."""

    def __init__(self, *, seals: bool = False) -> None:
        """Take `seals` to make inputs read-only during a call: a write into one is a SIGSEGV too."""
        super().__init__(PAGE, seals=seals)

    def make_mapping(self, usable: int) -> Mapping:
        return _HostMapping(usable)
