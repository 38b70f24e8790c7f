"""Gather, weighted un-permute and scale swizzling against the golden model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.ops import HostOps, Ops
from nvfp4_moe.reference import permute
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.reference.routing import route
from nvfp4_moe.verification import counter

Values = Callable[..., Tensor]
SameBytes = Callable[[str, Tensor, Tensor], None]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.uint8])
@pytest.mark.parametrize("columns", [1, 7, 8, 24, 80, 1024])
def test_shuffle(
    subject: Ops, patterns: Values, same_bytes: SameBytes, columns: int, dtype: torch.dtype
) -> None:
    input = patterns(1, "shuffle", (19, 4 * columns), torch.bfloat16).view(dtype)[:, :columns].contiguous()
    map = counter.below(counter.words(2, "map", 0, 45), 19).to(torch.int32)
    device = subject.device_type
    same_bytes(
        "output", subject.shuffle_rows(input.to(device), map.to(device)), permute.shuffle_rows(input, map)
    )


@pytest.mark.parametrize("columns", [24, 17])
def test_shuffle_of_rows_that_lie_apart(subject: Ops, patterns: Values, columns: int) -> None:
    wide = (
        patterns(1, "shuffle", (19, 64), torch.bfloat16)
        .view(torch.int16)
        .to(torch.float32)
        .to(subject.device_type)
    )
    map = torch.tensor([18, 0, 3], dtype=torch.int32, device=subject.device_type)
    assert subject.shuffle_rows(wide[:, 8 : 8 + columns], map).equal(wide[[18, 0, 3], 8 : 8 + columns])


def test_shuffle_of_nothing(subject: Ops) -> None:
    input = torch.zeros((0, 16), device=subject.device_type)
    map = torch.zeros(0, dtype=torch.int32, device=subject.device_type)
    assert subject.shuffle_rows(input, map).shape == (0, 16)


@pytest.mark.parametrize("index", [-1, 19])
def test_shuffle_refuses_an_index_outside_on_the_host(index: int) -> None:
    input, map = torch.zeros((19, 16)), torch.tensor([0, index], dtype=torch.int32)
    with pytest.raises(ValueError, match=rf"map\[1\] must be in \[0, 19\), got {index}"):
        HostOps().shuffle_rows(input, map)


@pytest.mark.gpu
def test_shuffle_on_the_gpu_gives_zeros_for_an_index_outside() -> None:
    from nvfp4_moe.cuda.ops import CudaOps

    input = torch.ones((19, 16), device="cuda")
    map = torch.tensor([0, -1, 19, 2**31 - 1, 18], dtype=torch.int32, device="cuda")
    assert CudaOps().shuffle_rows(input, map)[:, 0].tolist() == [1, 0, 0, 0, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("tokens", "topk", "columns"), [(0, 2, 16), (1, 1, 16), (37, 8, 48), (5, 3, 1024), (3, 2, 7)]
)
def test_unpermute(
    subject: Ops,
    plain: Values,
    same_bytes: SameBytes,
    tokens: int,
    topk: int,
    columns: int,
    dtype: torch.dtype,
) -> None:
    device = subject.device_type
    raw = counter.words(4, "ids", 0, tokens * topk)
    ids = torch.where(counter.bits(raw, 2) == 0, -1, counter.below(raw, 9)).reshape(tokens, topk)
    routing = route(ids, 9, n=16, k=16)
    input = plain(5, "rows", (tokens * topk, columns), dtype)
    weights = plain(6, "weights", (tokens, topk), torch.float32)
    true = permute.unpermute_rows(input, routing.output_permutation, weights, routed_rows=routing.routed_rows)
    output = torch.full_like(true, float("nan")).to(device)
    subject.unpermute_rows(
        output, input.to(device), routing.output_permutation.to(device), weights.to(device),
        routing.expert_offsets.to(device),
    )  # fmt: skip
    same_bytes("output", output, true)


@pytest.mark.parametrize("layout", ["swizzled_128x4", "swizzled_8x4"])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 127, 5), (3, 130, 4), (2, 8, 13), (1, 256, 64), (0, 4, 4), (2, 0, 4)]
)
def test_swizzle_and_back(
    subject: Ops, same_bytes: SameBytes, shape: tuple[int, int, int], layout: str
) -> None:
    count = shape[0] * shape[1] * shape[2]
    linear = counter.bits(counter.words(7, "scales", 0, count), 8).to(torch.uint8).reshape(shape)
    swizzled = subject.swizzle(linear.to(subject.device_type), layout=layout)
    same_bytes("swizzled", swizzled, to_layout(linear, layout))
    same_bytes("linear", subject.unswizzle(swizzled, rows=shape[1], k=16 * shape[2], layout=layout), linear)


def test_swizzle_of_one_matrix(subject: Ops, same_bytes: SameBytes) -> None:
    linear = torch.arange(36, dtype=torch.uint8).reshape(12, 3)
    swizzled = subject.swizzle(linear.to(subject.device_type))
    assert swizzled.shape == (128, 4)
    same_bytes("swizzled", swizzled, to_layout(linear, "swizzled_128x4"))


@pytest.mark.parametrize("layout", ["linear", "64x4"])
def test_swizzle_refuses_another_layout(layout: str) -> None:
    with pytest.raises(ValueError, match=f"layout must be one of .*'{layout}'"):
        HostOps().swizzle(torch.zeros((4, 4), dtype=torch.uint8), layout=layout)


def test_every_byte_has_one_writer() -> None:
    ops = HostOps(count_writers=True)
    output = torch.zeros((45, 19), dtype=torch.uint8)
    ops.shuffle_rows(output.clone(), torch.zeros(45, dtype=torch.int32), output)
    assert (output == 1).all()
    rows = torch.zeros((6, 5), dtype=torch.bfloat16)
    ops.unpermute_rows(
        rows, torch.ones((12, 5), dtype=torch.bfloat16), torch.arange(12, dtype=torch.int32), torch.ones((6, 2)),
        torch.tensor([12], dtype=torch.int32),
    )  # fmt: skip
    assert (rows.view(torch.uint8) == 1).all()
