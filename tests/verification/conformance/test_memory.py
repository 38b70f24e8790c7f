"""Guarded memory: canaries, page ends, alignment, closed pages."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from collections.abc import Callable

import pytest
import torch

from nvfp4_moe.verification.conformance.memory import PAGE, Edge, Guarded, HostArena

MAKE = {
    "back": {},
    "front": {"edge": Edge.FRONT},
    "lower": {"lower": 2},
    "offset": {"offset": 32},
    "slack": {"slack": 40},
}


def poke(address: int) -> None:
    byte = ctypes.c_uint8.from_address(address)
    byte.value ^= 0xFF


def ending(work: Callable[[], object]) -> int:
    """Return the exit status of a fork that does the work: 0, or minus the signal."""
    pid = os.fork()
    if not pid:
        faulthandler.disable()  # the signal is the answer
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("alignment", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.int64, torch.float64])
@pytest.mark.parametrize("options", MAKE.values(), ids=MAKE.keys())
def test_a_small_alignment_is_raised_to_the_type(
    options: dict[str, object], dtype: torch.dtype, alignment: int
) -> None:
    for elements in range(5):
        guarded = HostArena().tensor("a", (elements,), dtype, alignment=alignment, **options)  # type: ignore[arg-type]
        assert (guarded.mapping.start + guarded.first) % dtype.itemsize == 0
        guarded.tensor.fill_(3)
        assert guarded.broken() is None


@pytest.mark.parametrize("options", MAKE.values(), ids=MAKE.keys())
@pytest.mark.parametrize("alignment", [4, 16, 128])
@pytest.mark.parametrize("rows", [0, 1, 3, 300])
def test_address_and_contents(options: dict[str, object], alignment: int, rows: int) -> None:
    arena = HostArena()
    guarded = arena.tensor("a", (rows, 12), torch.int32, alignment=alignment, **options)  # type: ignore[arg-type]
    address = guarded.mapping.start + guarded.first
    offset = int(options.get("offset", 0))  # type: ignore[call-overload]
    if offset:
        assert address % (2 * offset) == offset
    else:
        assert address % alignment == 0
    if rows:
        assert guarded.tensor.data_ptr() == address
        guarded.tensor.fill_(7)
        assert guarded.bytes().view(torch.int32).tolist() == [7] * (rows * 12)
    assert guarded.broken() is None
    assert arena.broken() is None


@pytest.mark.parametrize("options", MAKE.values(), ids=MAKE.keys())
def test_a_write_beside_the_tensor_is_found(options: dict[str, object]) -> None:
    for distance in (1, 2, 3, 4, 5, 17):
        for before in (True, False):
            arena = HostArena()
            guarded = arena.tensor("a", (5, 3), torch.int32, alignment=128, **options)  # type: ignore[arg-type]
            at = -distance if before else guarded.size + distance - 1
            if not 0 <= guarded.first + at < guarded.mapping.usable:
                continue
            poke(guarded.mapping.start + guarded.first + at)
            assert guarded.broken() == at
            broken = arena.broken()
            assert broken is not None
            assert broken[1] == at


@pytest.mark.parametrize("shape", [(16,), (512,), (3, 1024)])
def test_the_first_byte_past_the_end_faults_in_a_child(shape: tuple[int, ...]) -> None:
    guarded = HostArena().tensor("a", shape, torch.int32, alignment=64)
    end = guarded.mapping.start + guarded.first + guarded.size
    assert ending(lambda: ctypes.string_at(end - 1, 1)) == 0
    assert ending(lambda: ctypes.string_at(end, 1)) == -signal.SIGSEGV


def test_the_byte_before_the_start_faults_at_the_front() -> None:
    guarded = HostArena().tensor("a", (16,), torch.int32, alignment=64, edge=Edge.FRONT)
    start = guarded.mapping.start + guarded.first
    assert ending(lambda: ctypes.string_at(start, 1)) == 0
    assert ending(lambda: ctypes.string_at(start - 1, 1)) == -signal.SIGSEGV


def test_declared_slack_may_be_read_and_no_byte_more() -> None:
    guarded = HostArena().tensor("a", (16,), torch.int32, alignment=16, slack=48)
    end = guarded.mapping.start + guarded.first + guarded.size
    assert ending(lambda: ctypes.string_at(end, 48)) == 0
    assert ending(lambda: ctypes.string_at(end + 48, 1)) == -signal.SIGSEGV


def test_memory_that_was_taken_back_faults_until_it_is_used_again() -> None:
    arena = HostArena()

    def make() -> Guarded:
        return arena.tensor("a", (16,), torch.int32, alignment=16)

    guarded = make()
    start = guarded.mapping.start + guarded.first
    for _ in range(3):
        arena.reset()
        assert ending(lambda: ctypes.string_at(start, 1)) == -signal.SIGSEGV
        assert make().mapping is not guarded.mapping
    arena.reset()
    assert make().mapping is guarded.mapping
    assert ending(lambda: ctypes.string_at(start, 1)) == 0


def test_mappings_are_reused_and_live_ones_are_not() -> None:
    arena = HostArena()
    seen = set()
    for _ in range(20):
        live = [arena.tensor(name, (16,), torch.int32, alignment=16).mapping for name in "abc"]
        assert len({id(mapping) for mapping in live}) == 3
        seen |= {mapping.start for mapping in live}
        arena.reset()
    assert len(seen) == 6


def test_sizes_go_in_steps() -> None:
    arena = HostArena()
    usable = [
        arena.tensor("a", (size,), torch.uint8, alignment=16).mapping.usable for size in range(1, 10**6, 997)
    ]
    assert usable == sorted(usable)
    assert len(set(usable)) < 45
    assert all(given >= size for given, size in zip(usable, range(1, 10**6, 997), strict=True))
    assert all(
        given <= 1.25 * size + 2 * PAGE for given, size in zip(usable, range(1, 10**6, 997), strict=True)
    )


def test_decoys_lie_around_the_tensor() -> None:
    guarded = HostArena().tensor("a", (4,), torch.int32, alignment=16, lower=1, canary=7)
    words = guarded.mapping.bytes.view(torch.int32)
    first = guarded.first // 4
    assert words[first - 1] == words[first + 4] == 7
    assert guarded.broken() is None


@pytest.mark.parametrize("size", [1, 2, 3, 5, 650])
def test_the_bytes_behind_an_odd_size_are_watched(size: int) -> None:
    guarded = HostArena().tensor("a", (size,), torch.uint8, alignment=16, canary=0x04030201)
    guarded.tensor.fill_(9)
    assert guarded.broken() is None
    assert not bool(guarded.changed())
    for distance in range(9):
        address = guarded.mapping.start + guarded.first + size + distance
        if address >= guarded.mapping.start + guarded.mapping.usable:
            break
        poke(address)
        assert guarded.broken() == size + distance
        assert bool(guarded.changed())
        poke(address)


def test_the_alignment_may_be_a_page() -> None:
    guarded = HostArena().tensor("a", (4,), torch.int32, alignment=PAGE)
    assert guarded.tensor.data_ptr() % PAGE == 0
