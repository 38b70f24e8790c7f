"""Paths of the grouped GEMM, and the one in plain torch: golden bytes, bounds, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nvfp4_moe.cuda.host_gemm import host_grouped_gemm
from nvfp4_moe.cuda.moe_gemm import PATHS, cutlass_fp4_moe_mm
from nvfp4_moe.reference.grouped_gemm import grouped_gemm
from nvfp4_moe.verification.conformance.gemm_cases import GemmCase
from nvfp4_moe.verification.conformance.gemm_data import DTYPES, GemmInputs, make_gemm


def made(values: str, *, dtype: str = "bf16", k: int = 272, n: int = 136) -> tuple[GemmInputs, list[Any]]:
    case = GemmCase(
        index=1, seed=0, tokens_per_expert=(3, 0, 130), n=n, k=k, dtype=dtype, values=values, alphas="distinct",
        unrouted_rows=2, extra_scale_rows=128,
    )  # fmt: skip
    inputs = make_gemm(case)
    a = torch.cat([inputs.a, torch.full((2, k // 2), 0xFF, dtype=torch.uint8)])
    scales = [t.view(torch.float8_e4m3fn) for t in (inputs.a_blockscale, inputs.b_blockscale)]
    offsets = inputs.form.expert_offsets[:-1], inputs.form.blockscale_offsets[:-1]
    out = torch.full((135, n), 7.0, dtype=DTYPES[dtype])
    return inputs, [out, a, inputs.b, *scales, inputs.alphas, inputs.problem_sizes, *offsets]


@pytest.mark.parametrize("gemm", PATHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", ["integers", "one_hot", "any"])
def test_paths_give_the_golden_bytes(gemm: str, dtype: str, values: str) -> None:
    """Both paths of the CPU round a sum once or in float32: where nothing is rounded, bytes; the rest is the harness's."""
    inputs, arguments = made(values, dtype=dtype, k=272 if values != "any" else 16)
    cutlass_fp4_moe_mm(*arguments, gemm=gemm)
    assert arguments[0][:133].equal(grouped_gemm(inputs.operands, dtype=DTYPES[dtype]))
    assert bool((arguments[0][133:] == 7.0).all())


def test_torch_rounds_the_exact_sum() -> None:
    """Beyond one piece of columns, with sums that float32 cannot hold."""
    inputs, arguments = made("any", k=2064, n=8)
    cutlass_fp4_moe_mm(*arguments, gemm="torch")
    assert arguments[0][:133].equal(grouped_gemm(inputs.operands))


@pytest.mark.parametrize(
    ("place", "wrong", "error", "told"),
    [
        (0, lambda t: t.float(), TypeError, "out must be torch.bfloat16 or torch.float16"),
        (0, lambda t: t[:, :128], ValueError, "out must be"),
        (1, lambda t: t[:, ::2], ValueError, "a must be"),
        (1, lambda t: t.t().contiguous().t(), ValueError, "a must be contiguous"),
        (2, lambda t: t[:, :, :132], ValueError, "K a multiple of 16"),
        (2, lambda t: t[:, :132], ValueError, "N must be a multiple of 8"),
        (3, lambda t: t[:, :17], ValueError, "a_blockscale must be \\(512, 20\\)"),
        (4, lambda t: t[:, :136], ValueError, "b_blockscale must be \\(3, 256, 20\\)"),
        (5, lambda t: t.double(), TypeError, "alphas must be torch.float32"),
        (6, lambda t: t.long(), TypeError, "problem_sizes must be torch.int32"),
        (6, lambda t: t + 16, ValueError, "problem_sizes\\[0\\] says N, K = 152, 288"),
        (7, lambda t: t + 5, ValueError, "expert 2 owns rows 8 to 138, out has 135"),
        (8, lambda t: t + 1, ValueError, "not on a tile of 128"),
        (8, lambda t: t + 1280, ValueError, "outside the 512 rows"),
        (8, lambda t: t[:-1], ValueError, "blockscale_offsets must be \\(3,\\)"),
    ],
)
def test_torch_refuses(place: int, wrong: Any, error: type[Exception], told: str) -> None:
    _, arguments = made("integers")
    arguments[place] = wrong(arguments[place])
    with pytest.raises(error, match=told):
        host_grouped_gemm(*arguments)


def test_an_unknown_path_is_refused() -> None:
    _, arguments = made("zeros")
    with pytest.raises(ValueError, match="gemm must be one of kernel, torch, got 'fast'"):
        cutlass_fp4_moe_mm(*arguments, gemm="fast")
