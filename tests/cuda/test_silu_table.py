"""The kernels' own SiLU table against the golden model's, and its doubtful entries against exact arithmetic."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.cuda.silu_table import _silu_exactly, silu_table
from nvfp4_moe.reference.silu import silu_table as golden_table


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_table_equals_the_golden_one(dtype: torch.dtype) -> None:
    table, golden = silu_table(dtype), golden_table(dtype)
    is_nan = golden.isnan()
    assert table.isnan().equal(is_nan)
    assert table[~is_nan].view(torch.int32).equal(golden[~is_nan].view(torch.int32))


@pytest.mark.parametrize("x", [1.0, -1.0, 0.0078125, -87.5, -104.0, 88.5, 65504.0])
def test_exact_path_agrees_with_the_table(x: float) -> None:
    bits = int(torch.tensor(x, dtype=torch.float16).view(torch.int16)) & 0xFFFF
    assert _silu_exactly(x) == float(silu_table(torch.float16)[bits])


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"bfloat16 or float16 inputs, got torch\.float32"):
        silu_table(torch.float32)
