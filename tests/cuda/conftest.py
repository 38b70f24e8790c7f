"""Cases and subjects of the kernel tests: the same tests run on the host twin and, marked `gpu`, on the kernels.

Outputs start as `FILL`; true bytes come from `nvfp4_moe.reference` and keep `FILL` wherever nothing may be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.ops import CudaOps, HostOps, Ops
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.padding import round_up
from nvfp4_moe.verification import counter

FILL = 0xA5


def bit_patterns(seed: int, family: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return values whose 16 bits are all equally likely: NaN, Inf, subnormals and both zeros included."""
    count = int(torch.tensor(shape).prod())
    raw = counter.bits(counter.words(seed, family, 0, count), 16)
    return (raw - (raw >= 2**15) * 2**16).to(torch.int16).view(dtype).reshape(tuple(shape))


def plain_values(seed: int, family: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return k * 2^-e with |k| < 512 and e in [0, 16): many ties and zeros, nothing infinite."""
    count = int(torch.tensor(shape).prod())
    raw = counter.words(seed, family, 0, count)
    integers = (counter.bits(raw, 10) - 512).to(torch.float32)
    exponents = counter.bits(raw, 4, at=20).to(torch.float32)
    return (integers * torch.exp2(-exponents)).to(dtype).reshape(tuple(shape))


@dataclass(frozen=True, kw_only=True, eq=False)
class RaggedCase:
    """Inputs of the ragged quantizers, their true outputs, and the outputs to be written."""

    input: Tensor
    global_encode_scale: Tensor
    expert_offsets: Tensor
    blockscale_offsets: Tensor
    packed: Tensor
    block_scale: Tensor
    true_packed: Tensor
    true_scale: Tensor
    beside_rows: Tensor
    """bool like true_scale: the bytes of sectors in which an expert owns a row."""

    def arguments(self) -> tuple[Tensor, ...]:
        """Return the arguments of the op, in its order."""
        return (
            self.packed, self.block_scale, self.input, self.global_encode_scale, self.expert_offsets,
            self.blockscale_offsets,
        )  # fmt: skip

    def with_input(self, input: Tensor) -> RaggedCase:
        return replace(self, input=input)

    def check(self) -> None:
        """Compare every byte of both outputs."""
        assert_same_bytes("packed", self.packed, self.true_packed)
        assert_same_bytes("block_scale", self.block_scale, self.true_scale)


def assert_same_bytes(name: str, subject: Tensor, true: Tensor) -> None:
    """Compare bytes; the message says how many differ and shows the first."""
    subject, true = subject.cpu().contiguous().view(torch.uint8), true.cpu().contiguous().view(torch.uint8)
    assert subject.shape == true.shape, f"{name}: shape {tuple(subject.shape)}, true {tuple(true.shape)}"
    different = torch.nonzero(subject != true)
    if len(different):
        at = tuple(different[0].tolist())
        raise AssertionError(
            f"{name}: {len(different)} of {true.numel()} bytes differ, first at {at}: "
            f"0x{int(subject[at]):02x}, true 0x{int(true[at]):02x}"
        )


def make_ragged(
    counts: Sequence[int],
    k: int,
    dtype: torch.dtype,
    *,
    fused: bool = False,
    values: Callable[..., Tensor] = bit_patterns,
    arithmetic: Any = "ieee",
    spare_rows: int = 3,
    spare_scale_rows: int = 5,
    device: str = "cpu",
    seed: int = 1,
) -> RaggedCase:
    """Return a case: `spare_rows` rows belong to nobody, `spare_scale_rows` scale rows lie behind the last expert."""
    owned = sum(counts)
    rows = owned + spare_rows
    input = values(seed, f"{counts} {k} {dtype}", (rows, 2 * k if fused else k), dtype).to(device)
    experts = torch.arange(len(counts), dtype=torch.float32)
    scale = (3.0 + 37.0 * experts).to(device)
    padded = [round_up(count, 128) for count in counts]
    expert_offsets = torch.tensor([0, *counts], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)
    blockscale_offsets = torch.tensor([0, *padded], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)
    quantize = silu_and_mul_quantize_experts if fused else quantize_experts
    end, scale_rows = sum(padded), sum(padded) + spare_scale_rows
    true = quantize(
        input, scale, expert_offsets, blockscale_offsets=blockscale_offsets, arithmetic=arithmetic
    )
    true_packed = torch.full((rows, k // 2), FILL, dtype=torch.uint8, device=device)
    true_packed[:owned] = true.packed[:owned]
    true_scale = torch.full((scale_rows, true.block_scale.shape[1]), FILL, dtype=torch.uint8, device=device)
    true_scale[:end] = true.block_scale
    return RaggedCase(
        input=input,
        global_encode_scale=scale,
        expert_offsets=expert_offsets,
        blockscale_offsets=blockscale_offsets,
        packed=torch.full_like(true_packed, FILL),
        block_scale=torch.full_like(true_scale, FILL).view(torch.int32),
        true_packed=true_packed,
        true_scale=true_scale,
        beside_rows=_bytes_beside_rows(counts, padded, true_scale),
    )


def _bytes_beside_rows(counts: Sequence[int], padded: Sequence[int], true_scale: Tensor) -> Tensor:
    """Return which bytes of the swizzled buffer lie in a 32-byte sector with scales of an owned row."""
    words = true_scale.shape[1] // 4
    sectors = torch.zeros((-(-true_scale.numel() // 32), 8), dtype=torch.bool)
    owned = sectors.view(-1)
    first = 0
    for count, rows in zip(counts, padded, strict=True):
        row = torch.arange(count)[:, None]
        word = torch.arange(words)[None, :]
        owned[(first + row // 128 * 128) * words + word * 128 + row % 32 * 4 + row % 128 // 32] = True
        first += rows
    sectors[:] = sectors.any(1, keepdim=True)
    whole = owned.repeat_interleave(4)[: true_scale.numel()]
    return whole.reshape(true_scale.shape).to(true_scale.device)


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def subject(request: pytest.FixtureRequest) -> Ops:
    """The host twin or the kernels, arithmetic `ieee`."""
    return HostOps() if request.param == "host" else CudaOps(arithmetic="ieee")


@pytest.fixture
def ragged() -> Callable[..., RaggedCase]:
    """`make_ragged`."""
    return make_ragged


@pytest.fixture
def same_bytes() -> Callable[[str, Tensor, Tensor], None]:
    """`assert_same_bytes`."""
    return assert_same_bytes


@pytest.fixture
def plain() -> Callable[..., Tensor]:
    """`plain_values`."""
    return plain_values


@pytest.fixture
def patterns() -> Callable[..., Tensor]:
    """`bit_patterns`."""
    return bit_patterns
