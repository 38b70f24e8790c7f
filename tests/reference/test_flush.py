"""Every public operation on floats keeps subnormals although the caller's thread flushes them to zero."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import IEEE
from nvfp4_moe.reference.casts import pack
from nvfp4_moe.reference.dequantize import dequantize
from nvfp4_moe.reference.experts import quantize_experts, quantize_masked, silu_and_mul_quantize_experts
from nvfp4_moe.reference.permute import shuffle_rows, unpermute_rows
from nvfp4_moe.reference.quantize import Quantized, quantize
from nvfp4_moe.reference.recipes import VLLM
from nvfp4_moe.reference.silu import silu, silu_and_mul


def tiny(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return subnormals of a dtype with the exponents of float32, all different in value and sign."""
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    patterns = (torch.arange(rows * columns) * 37 % 127 + 1).to(bits)
    values = patterns.view(dtype) if dtype == torch.bfloat16 else (patterns << 12).view(dtype)
    return torch.where(torch.arange(rows * columns) % 3 == 0, -values, values).view(rows, columns)


@contextmanager
def flushing() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
        assert bool(torch.full((), 1e-40) * 1.0 == 0), "the caller's setting must survive the call"
    finally:
        torch.set_flush_denormal(False)


def tensors(result: Tensor | tuple[Tensor, ...] | Quantized) -> list[Tensor]:
    if isinstance(result, Quantized):
        kept = [] if result.intermediates is None else list(result.intermediates.values())
        result = (result.packed, result.block_scale, *kept)
    return [
        each.contiguous().view(torch.uint8) for each in ((result,) if isinstance(result, Tensor) else result)
    ]


SUBNORMAL = torch.tensor([3 << 20, 7 << 20], dtype=torch.int32).view(torch.float32)
"""Two legal global scales, which are subnormal."""
SUBNORMAL_NUMBER = float(SUBNORMAL[0])
LARGE = torch.full((4, 32), 2.0**127)
TINY, TINY_BF16 = tiny(4, 32), tiny(4, 32, torch.bfloat16)
GATE_UP = torch.cat((tiny(4, 32), torch.full((4, 32), 3.0)), dim=1)
GATE_UP_BF16 = GATE_UP.to(torch.bfloat16)
OFFSETS = torch.tensor([0, 2, 4], dtype=torch.int32)
PACKED = pack(torch.arange(64).remainder(16).to(torch.uint8).view(2, 32))
ONES = torch.full((2, 2), 0x38, dtype=torch.uint8)

OPERATIONS: dict[str, Callable[[], Tensor | tuple[Tensor, ...] | Quantized]] = {
    "quantize": lambda: quantize(TINY, 2.0**127),
    "quantize_subnormal_scale": lambda: quantize(LARGE, SUBNORMAL[0]),
    "quantize_subnormal_number": lambda: quantize(LARGE, SUBNORMAL_NUMBER),
    "quantize_intermediates": lambda: quantize(LARGE, SUBNORMAL[1], intermediates=True),
    "quantize_torchao": lambda: quantize(LARGE, global_decode_scale=SUBNORMAL[1], recipe="torchao"),
    "quantize_experts": lambda: quantize_experts(LARGE, SUBNORMAL, OFFSETS),
    "quantize_experts_tiny": lambda: quantize_experts(TINY, torch.full((2,), 2.0**127), OFFSETS),
    "silu_and_mul_quantize_experts": lambda: silu_and_mul_quantize_experts(
        torch.full((4, 64), 2.0**63), SUBNORMAL, OFFSETS
    ),
    "quantize_masked": lambda: quantize_masked(LARGE.view(2, 2, 32), SUBNORMAL, torch.tensor([2, 1])),
    "silu": lambda: silu(TINY),
    "silu_and_mul": lambda: silu_and_mul(GATE_UP),
    "silu_and_mul_bf16": lambda: silu_and_mul(GATE_UP_BF16),
    "dequantize": lambda: dequantize(PACKED, ONES, SUBNORMAL[1]),
    "shuffle_rows": lambda: shuffle_rows(TINY, torch.tensor([3, 0, 2])),
    "unpermute_rows": lambda: unpermute_rows(
        TINY, torch.tensor([1, 0, 2, 3]), torch.tensor([[1.0, 0.5], [1.5, 2.0]]), routed_rows=4
    ),
    "unpermute_rows_bf16": lambda: unpermute_rows(
        TINY_BF16, torch.tensor([1, 0, 2, 3]), torch.ones(2, 2), routed_rows=4
    ),
    "recipe": lambda: VLLM.quantize_blocks(TINY.view(8, 1, 16), torch.tensor(2.0**127), IEEE)[0],
    "recipe_values": lambda: VLLM.block_values(torch.full((1, 1), 2.0**127), SUBNORMAL[0], IEEE)["scale"],
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_bytes_do_not_depend_on_the_flush(
    operation: Callable[[], Tensor | tuple[Tensor, ...] | Quantized],
) -> None:
    true = tensors(operation())
    assert any(each.any() for each in true)
    with flushing():
        subject = operation()
    assert [each.tolist() for each in tensors(subject)] == [each.tolist() for each in true]


LEFT_BEHIND = """
import torch
from nvfp4_moe.reference.quantize import quantize

torch.set_num_threads(3)
torch.set_flush_denormal(True)
subnormals = torch.full((1 << 20,), 1e-40)  # starts torch's threads
torch.set_flush_denormal(False)
subnormals.fill_(1e-40)
flushed = subnormals * 1.0 == 0
assert flushed.any() and not flushed[0], "torch's threads flush still, this one does not"
rows = torch.arange(1 << 20, dtype=torch.int32).view(torch.float32).view(4096, 256)
split = quantize(rows, 1e38)
torch.set_num_threads(1)
alone = quantize(rows, 1e38)
assert torch.equal(split.packed, alone.packed)
assert torch.equal(split.block_scale, alone.block_scale)
"""


def test_threads_started_while_the_caller_flushed() -> None:
    """They keep flushing when the caller stops."""
    done = subprocess.run([sys.executable, "-c", LEFT_BEHIND], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
