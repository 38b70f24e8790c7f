"""Places in the buffers of a call, for faults of single bytes: scales of a row, what is left unwritten, bytes outside."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable

import torch

from nvfp4_moe.reference.layouts import scale_byte_index
from nvfp4_moe.reference.padding import TILE, round_up
from nvfp4_moe.verification.mutants.wrap import AnyCall, Factory, MaskedCall, QuantCall, around

LAYOUT = "swizzled_128x4"
BLOCK = 16
"""Columns of one scale."""


def blocks_of(call: QuantCall | MaskedCall) -> int:
    """Return the scales of a row, padding not counted."""
    return call.k // BLOCK


def scale_index(call: QuantCall | MaskedCall, expert: int, row: int, column: int) -> int:
    """Return where the scale of an expert's row and column lies among the bytes of the whole scale buffer."""
    width = call.scales.shape[-1]
    start = call.scale_starts[expert] if isinstance(call, QuantCall) else expert * call.scales.shape[1]
    return start * width + scale_byte_index(row, column, k=call.k, layout=LAYOUT)


def padding_rows(call: QuantCall | MaskedCall, expert: int) -> range:
    """Return the rows behind an expert's own up to the end of its last tile."""
    rows = call.counts[expert]
    return range(rows, round_up(rows, TILE))


def last_with_rows(call: QuantCall | MaskedCall) -> int | None:
    """Return the last expert that has rows, or None."""
    return max((expert for expert, rows in enumerate(call.counts) if rows), default=None)


def scales_unwritten(operation: str, where: Callable[[AnyCall], Iterable[int]]) -> Factory:
    """Return a factory whose quantizer leaves the scale bytes at some places as it found them.

    Args:
        operation: a quantizer.
        where: gives the places in the whole buffer (`scale_index`) of a call that was legal.
    """

    def make(right: Callable[[AnyCall], None]) -> Callable[[AnyCall], None]:
        def wrong(call: AnyCall) -> None:
            stale = call.output_scale.clone()
            right(call)
            places = torch.tensor(list(where(call)), dtype=torch.int64, device=stale.device)
            call.scales.view(-1)[places] = stale.view(torch.uint8).reshape(-1)[places]

        return wrong

    return around(operation, make)


def rows_unwritten(operation: str, where: Callable[[AnyCall], Iterable[int]]) -> Factory:
    """Return a factory whose experts quantizer leaves the codes of some rows as it found them."""

    def make(right: Callable[[AnyCall], None]) -> Callable[[AnyCall], None]:
        def wrong(call: AnyCall) -> None:
            stale = call.output.clone()
            right(call)
            rows = list(where(call))
            call.output[rows] = stale[rows]

        return wrong

    return around(operation, make)


def memory_around(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the memory that a tensor lies in, as bytes, and the tensor's first byte in it.

    In the harness a tensor is a part of a guarded mapping, as in an engine it is a part of a cached block: a kernel
    that runs past its tensor meets what lies behind it there.
    """
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    return whole, int(tensor.storage_offset()) * tensor.element_size()


class _DeviceBytes:
    """Device memory as an object that torch wraps without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def read_outside(tensor: torch.Tensor, offset: int, size: int) -> None:
    """Load bytes at an offset from a tensor's start, as a kernel does, and use them for nothing.

    Where nothing is mapped there, that is a segmentation fault, or an illegal address on a GPU.
    """
    if tensor.is_cuda:
        if tensor.numel():
            whole = torch.as_tensor(_DeviceBytes(tensor.data_ptr(), offset + size), device=tensor.device)
            whole[offset:].sum()
    else:
        ctypes.string_at(tensor.data_ptr() + offset, size)


def write_outside(tensor: torch.Tensor, offset: int, value: int) -> None:
    """Write a byte at an offset from a tensor's start; where no memory is there, nothing happens."""
    whole, first = memory_around(tensor)
    if 0 <= first + offset < whole.numel():
        whole[first + offset] = value
