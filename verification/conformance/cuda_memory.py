"""Guarded memory of the GPU: physical pages mapped between reserved addresses that are never mapped.

The CUDA driver's virtual memory management does it (`cuMemAddressReserve`, `cuMemCreate`, `cuMemMap`,
`cuMemSetAccess`), called through ctypes in the child that runs the subject. An access to the addresses before or behind
a mapping is an illegal address: the context is lost, the next synchronization says so, and the child ends. Pages are
2 MiB, so mappings are kept and reused; between runs they stay accessible, unlike the host's.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from nvfp4_moe.verification.conformance.memory import DeviceFault, Mapping, MappingArena

_PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
_MINIMUM = 0  # CU_MEM_ALLOC_GRANULARITY_MINIMUM


class _Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationFlags(ctypes.Structure):
    """The struct `allocFlags` of CUmemAllocationProp."""

    _fields_ = [
        ("compressionType", ctypes.c_ubyte),
        ("gpuDirectRDMACapable", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("requestedHandleTypes", ctypes.c_int),
        ("location", _Location),
        ("win32HandleMetaData", ctypes.c_void_p),
        ("allocFlags", _AllocationFlags),
    ]


class _AccessDescription(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _Driver:
    """The calls of libcuda that a mapping needs; each raises RuntimeError with the driver's own words."""

    def __init__(self, device: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._location = _Location(_DEVICE, device)
        self._properties = _AllocationProperties(type=_PINNED, location=self._location)
        granularity = ctypes.c_size_t()
        self._call(
            "cuMemGetAllocationGranularity",
            ctypes.byref(granularity),
            ctypes.byref(self._properties),
            ctypes.c_int(_MINIMUM),
        )
        self.page: int = granularity.value

    def reserve(self, size: int) -> int:
        """Return the first of `size` reserved addresses; an access to them faults until something is mapped."""
        address = ctypes.c_ulonglong()
        zero = ctypes.c_ulonglong(0)
        self._call(
            "cuMemAddressReserve",
            ctypes.byref(address),
            ctypes.c_size_t(size),
            ctypes.c_size_t(0),
            zero,
            zero,
        )
        return address.value

    def map(self, address: int, size: int) -> None:
        """Put fresh memory at reserved addresses; `size` is a whole number of pages."""
        handle = ctypes.c_ulonglong()
        self._call(
            "cuMemCreate",
            ctypes.byref(handle),
            ctypes.c_size_t(size),
            ctypes.byref(self._properties),
            ctypes.c_ulonglong(0),
        )
        at, length = ctypes.c_ulonglong(address), ctypes.c_size_t(size)
        self._call("cuMemMap", at, length, ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0))
        access = _AccessDescription(self._location, _READ_WRITE)
        self._call("cuMemSetAccess", at, length, ctypes.byref(access), ctypes.c_size_t(1))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(ctypes.c_int(status), ctypes.byref(text))
            raise RuntimeError(f"{name}: error {status}: {(text.value or b'unknown').decode()}")


class _DeviceBytes:
    """Device memory as an object that torch can wrap without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


class _DeviceMapping:
    """Pages between unmapped addresses. Never unmapped: the child that holds them ends soon."""

    def __init__(self, driver: _Driver, usable: int, device: torch.device) -> None:
        self.usable = usable
        self.start = driver.reserve(usable + 2 * driver.page) + driver.page
        driver.map(self.start, usable)
        self.bytes = torch.as_tensor(_DeviceBytes(self.start, usable), device=device)

    def open(self) -> None:
        """Nothing to do: it stays accessible."""

    def close(self) -> None:
        """Nothing to do: it stays accessible."""

    def seal(self) -> None:
        """The device's memory stays writable: an illegal access there ends the whole context."""


class CudaArena(MappingArena):
    """Guarded memory of the current GPU.

    Raises (on construction):
        RuntimeError: no GPU, or a driver without virtual memory management.
    """

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")  # makes the primary context, which the driver calls below use
        self._device = torch.device("cuda", torch.cuda.current_device())
        self._driver = _Driver(torch.cuda.current_device())
        super().__init__(self._driver.page)

    def make_mapping(self, usable: int) -> Mapping:
        return _DeviceMapping(self._driver, usable, self._device)

    def synchronize(self) -> None:
        try:
            torch.cuda.synchronize(self._device)
        except RuntimeError as error:
            raise DeviceFault(f"the device faulted: {error}".splitlines()[0]) from error
