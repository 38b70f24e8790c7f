"""Guarded memory of the GPU: run where there is one; the layout of the driver's structs everywhere."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest
import torch

from nvfp4_moe.verification.conformance import cuda_memory
from nvfp4_moe.verification.conformance.memory import Edge


def test_structs_have_the_sizes_of_cuda_h() -> None:
    assert ctypes.sizeof(cuda_memory._Location) == 8
    assert ctypes.sizeof(cuda_memory._AllocationProperties) == 32
    assert ctypes.sizeof(cuda_memory._AccessDescription) == 12
    assert cuda_memory._AllocationProperties.allocFlags.offset == 24


@pytest.mark.gpu
@pytest.mark.parametrize("edge", Edge)
@pytest.mark.parametrize("size", [4, 650, 4096, 3_000_001])
def test_canaries_and_contents(size: int, edge: Edge) -> None:
    arena = cuda_memory.CudaArena()
    guarded = arena.tensor("a", (size,), torch.uint8, alignment=16, edge=edge)
    guarded.tensor.fill_(7)
    assert arena.broken() is None
    memory = guarded.mapping.bytes
    assert memory.device.type == "cuda"
    for at in (-1, size, size + 3):
        place = guarded.first + at
        if 0 <= place < len(memory):
            old = memory[place].clone()
            memory[place] ^= 0xFF
            broken = arena.broken()
            assert broken is not None
            assert broken[1] == at
            memory[place] = old
    assert int(guarded.tensor.sum(dtype=torch.int64)) == 7 * size


OVER_READ = """
import sys, torch
from nvfp4_moe.verification.conformance.cuda_memory import CudaArena
from nvfp4_moe.verification.conformance.memory import DeviceFault
arena = CudaArena()
guarded = arena.tensor("a", (4096,), torch.int32, alignment=16)
guarded.tensor.fill_(1)
address = guarded.mapping.start + guarded.first + int(sys.argv[1])
class Wild:
    __cuda_array_interface__ = {"shape": (16384,), "typestr": "|u1", "data": (address, False), "version": 3}
try:
    torch.as_tensor(Wild(), device="cuda") + 1  # a kernel: copies are checked by the driver
    arena.synchronize()
except DeviceFault:
    print("fault")
else:
    print("fine")
"""


@pytest.mark.gpu
@pytest.mark.parametrize(("past", "told"), [(0, "fine"), (16, "fault"), (4096, "fault")])
def test_a_read_past_the_end_is_a_fault_of_the_device(past: int, told: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OVER_READ, str(past)], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == told, ran.stderr
