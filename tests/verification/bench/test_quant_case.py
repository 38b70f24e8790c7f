"""The case of a benchmark: what the plain roof is told of each row is what the kernels write."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.cuda.build import missing
from nvfp4_moe.cuda.ops import HostOps
from nvfp4_moe.verification.bench.quant_case import FILL, QuantCase, Shape

needs_host_twin = pytest.mark.skipif(missing("host") is not None, reason=str(missing("host")))


@needs_host_twin
@pytest.mark.parametrize(("rows", "experts"), [(1, 1), (37, 5), (300, 9), (700, 4), (2000, 256)])
def test_places_are_those_that_the_kernels_write(rows: int, experts: int) -> None:
    case = QuantCase(Shape(rows=rows, k=80, experts=experts), seed=1, device=torch.device("cpu"), sets=1)
    case.fill()
    case.calls(HostOps(row_padding="unwritten").scaled_fp4_experts_quant)[0]()
    words = case.shape.words
    scales = case.sets[0].block_scale.view(-1)
    told = torch.zeros_like(scales, dtype=torch.bool)
    for scale_row, beside in zip(*(vector.tolist() for vector in case.places()), strict=True):
        in_tile = scale_row % 128
        first = (scale_row - in_tile) * words + in_tile % 32 * 4 + in_tile // 32
        count = 1 + beside % 4
        for word in range(words):
            told[first + 128 * word : first + 128 * word + count] = True
            if beside >= 4:
                told[first + 128 * word + 4 : first + 128 * word + 8] = True
    untouched = scales == torch.full((4,), FILL, dtype=torch.uint8).view(torch.int32)
    assert told.equal(~untouched)
    assert told.equal(case.written_scale_bytes().reshape(-1, 4).all(1))


def test_dense_places_are_those_of_one_expert() -> None:
    case = QuantCase(Shape(rows=130, k=64, experts=3), seed=1, device=torch.device("cpu"), sets=1)
    scale_rows, beside = case.places(dense=True)
    assert scale_rows.tolist() == list(range(130))
    assert beside.tolist() == [*[0] * 128, 3, 3]
