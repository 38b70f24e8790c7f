"""What the grouped GEMM refuses before anything runs: tensors that do not belong together, sizes that a kernel lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda import gemm_build
from nvfp4_moe.cuda.gemm_build import MissingToolError, cutlass_include, host_gemm_library, target_number
from nvfp4_moe.cuda.gemm_ops import grouped_gemm
from nvfp4_moe.verification.bench.gemm_case import GemmCase, make_case

HOPPER, BLACKWELL = False, True


def case_of(n: int = 24, k: int = 96) -> GemmCase:
    return make_case([2, 0, 130], n=n, k=k, values="integer")


def run(case: GemmCase) -> None:
    grouped_gemm(*case.arguments(case.output(torch.bfloat16)))


def changed(name: str, change: Callable[[Tensor], Tensor]) -> GemmCase:
    case = case_of()
    return replace(case, **{name: change(getattr(case, name))})


def placed(tensor: Tensor, offset: int) -> Tensor:
    """The same tensor at `offset` bytes from a multiple of 128."""
    room = torch.empty(tensor.nbytes + 256, dtype=torch.uint8)
    start = -room.data_ptr() % 128 + offset
    moved = room[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
    return moved.copy_(tensor)


def aligned(case: GemmCase, **offsets: int) -> tuple[Tensor, ...]:
    """The arguments of a case, every large tensor on a multiple of 128 bytes or `offsets` from one."""
    names = ("a", "b", "a_blockscale", "b_blockscale")
    moved = replace(case, **{name: placed(getattr(case, name), offsets.get(name, 0)) for name in names})
    return moved.arguments(placed(case.output(torch.bfloat16), offsets.get("out", 0)))


def pushed(vector: Tensor, at: tuple[int, ...], value: int) -> Tensor:
    vector = vector.clone()
    vector[at] = value
    return vector


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("a", lambda t: t.float(), "a must be uint8, got float32"),
        ("a", lambda t: t[0], r"a must be \(rows, K/2\)"),
        ("b", lambda t: t[0], r"b \(E, N, K/2\)"),
        ("b", lambda t: t[:, :, :-8], r"b must have shape \(3, 24, 48\)"),
        ("b", lambda t: t.transpose(0, 1).contiguous().transpose(0, 1), "b must be contiguous"),
        ("a_blockscale", lambda t: t[:, :6].contiguous(), r"a_blockscale \(as bytes\) must have shape \(any, 8\)"),
        ("a_blockscale", lambda t: t[:, ::2], "a_blockscale must be contiguous"),
        ("a_blockscale", lambda t: t.float(), "a_blockscale must be float8_e4m3fn, uint8 or int32"),
        ("b_blockscale", lambda t: t[:, :24].contiguous(), r"must have shape \(3, 128, 8\), got uint8 \(3, 24, 8\)"),
        ("b_blockscale", lambda t: t[:, :, :6].contiguous(), r"must have shape \(3, 128, 8\)"),
        ("alphas", lambda t: t.double(), "alphas must be float32"),
        ("alphas", lambda t: t[:1], r"alphas must have shape \(3\)"),
        ("problem_sizes", lambda t: t.long(), "problem_sizes must be int32"),
        ("problem_sizes", lambda t: pushed(t, (1, 0), -1), r"problem_sizes\[1, 0\] must not be negative, got -1"),
        ("problem_sizes", lambda t: pushed(t, (2, 1), 32), r"problem_sizes\[2\] must be \(rows, 24, 96\)"),
        ("problem_sizes", lambda t: pushed(t, (2, 2), 64), r"problem_sizes\[2\] must be \(rows, 24, 96\)"),
        ("problem_sizes", lambda t: pushed(t, (2, 0), 134), r"expert_offsets\[2\] must leave 134 rows"),
        ("expert_offsets", lambda t: pushed(t, (2,), 1), r"expert_offsets\[2\] must leave 130 rows in \[2, 135\)"),
        ("expert_offsets", lambda t: t[:-1], r"expert_offsets must have shape \(3\)"),
        ("blockscale_offsets", lambda t: pushed(t, (2,), 64), r"blockscale_offsets\[2\] must be a multiple of 128"),
        ("blockscale_offsets", lambda t: pushed(t, (2,), 256), "leaves 256 of 384 scale rows, got 256"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_belong_together(
    name: str, change: Callable[[Tensor], Tensor], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        run(changed(name, change))


@pytest.mark.parametrize("k", [8, 24, 40])
def test_k_is_whole_blocks(k: int) -> None:
    case = case_of(k=96)
    case = replace(case, a=case.a[:, : k // 2].contiguous(), b=case.b[:, :, : k // 2].contiguous())
    with pytest.raises(ValueError, match=f"K must be a multiple of 16 in .*, got {k}"):
        run(case)


def test_n_is_a_multiple_of_8() -> None:
    with pytest.raises(ValueError, match=r"N must be a multiple of 8 in .*, got 20"):
        run(case_of(n=20))


def test_outputs() -> None:
    case = case_of()
    for out, message in (
        (torch.zeros((135, 24)), "out must be bfloat16 or float16, got float32"),
        (torch.zeros((135, 16), dtype=torch.bfloat16), r"out must have shape \(135, 24\)"),
        (torch.zeros((130, 24), dtype=torch.bfloat16), r"out must have shape \(135, 24\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            grouped_gemm(*case.arguments(out))


@pytest.mark.parametrize(
    ("kernel", "k", "message"),
    [
        (HOPPER, 48, "K must be a multiple of 32 for the Hopper kernel, got 48"),
        (HOPPER, 96, None),
        (BLACKWELL, 96, "K must be a multiple of 64 for the Blackwell kernel, got 96"),
        (BLACKWELL, 128, None),
    ],
)
def test_what_a_kernel_asks_of_k(kernel: bool, k: int, message: str | None) -> None:
    arguments = aligned(case_of(k=k))
    if message is None:
        host_gemm_library().check_gemm(*arguments, kernel)
    else:
        with pytest.raises(ValueError, match=message):
            host_gemm_library().check_gemm(*arguments, kernel)


@pytest.mark.parametrize(
    ("name", "kernel", "legal", "offset"),
    [
        *((name, kernel, 16, 8) for name in ("out", "a", "b") for kernel in (HOPPER, BLACKWELL)),
        *((name, HOPPER, 16, 8) for name in ("a_blockscale", "b_blockscale")),
        *((name, BLACKWELL, 128, 64) for name in ("a_blockscale", "b_blockscale")),
    ],
)
def test_where_tensors_may_start(name: str, kernel: bool, legal: int, offset: int) -> None:
    case = case_of(k=128)
    host_gemm_library().check_gemm(*aligned(case, **{name: legal}), kernel)
    with pytest.raises(ValueError, match=f"{name} must start at a multiple of {legal} bytes"):
        host_gemm_library().check_gemm(*aligned(case, **{name: offset}), kernel)


def test_int32_scales_are_the_same_bytes() -> None:
    case = case_of()
    words = replace(
        case,
        a_blockscale=case.a_blockscale.view(torch.int32),
        b_blockscale=case.b_blockscale.view(torch.float8_e4m3fn),
    )
    out, other = case.output(torch.bfloat16), case.output(torch.bfloat16)
    grouped_gemm(*case.arguments(out))
    grouped_gemm(*words.arguments(other))
    assert torch.equal(out.view(torch.int16), other.view(torch.int16))


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_build.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingToolError, match=r"pip install --no-deps nvidia-cutlass==4\.2\.0\.0"):
        cutlass_include()


def test_target_numbers() -> None:
    assert [target_number(c) for c in gemm_build.BLACKWELL] == [100, 103, 120, 121]
