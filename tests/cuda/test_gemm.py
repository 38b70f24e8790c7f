"""The grouped GEMM against the golden one: the host twin, and marked `gpu` Hopper's kernel in all its forms.

Every case poisons every padding byte with NaN scales, and rows that no expert owns with other bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.gemm_build import host_gemm_library
from nvfp4_moe.cuda.gemm_ops import dequantized_operands, grouped_gemm, hopper_gemm
from nvfp4_moe.reference.formats import E2M1, E4M3
from nvfp4_moe.verification.bench.gemm_case import GemmCase, make_case

Gemm = Callable[..., None]
FORMS = 2


def hopper_form(form: int) -> Gemm:
    def run(*tensors: Tensor) -> None:
        hopper_gemm(*tensors, form=form)

    return run


def every_form(out: Tensor, *tensors: Tensor) -> None:
    """The op as it is called, after the same in every form of the kernel, which must give the same bits."""
    before = out.clone()
    grouped_gemm(out, *tensors)
    for form in range(FORMS):
        other = before.clone()
        hopper_gemm(other, *tensors, form=form)
        assert torch.equal(other.view(torch.int16), out.view(torch.int16)), f"form {form}"


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def gemm(request: pytest.FixtureRequest) -> tuple[str, Gemm]:
    """(device, op)."""
    return ("cpu", grouped_gemm) if request.param == "host" else ("cuda", every_form)


def result(op: Gemm, case: GemmCase, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    out = case.output(dtype)
    op(*case.arguments(out))
    return out


COUNTS = [[0, 3, 1], [130, 0, 7, 17], [40, 1, 129]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("values", ["integer", "wide"])
@pytest.mark.parametrize(("n", "k"), [(8, 32), (136, 96), (264, 416), (384, 512)])
@pytest.mark.parametrize("counts", COUNTS)
def test_golden(
    gemm: tuple[str, Gemm], counts: Sequence[int], n: int, k: int, values: str, dtype: torch.dtype
) -> None:
    device, op = gemm
    if device == "cpu" and sum(counts) * n * k > 10_000_000:
        counts = counts[-2:]
    case = make_case(counts, n=n, k=k, values=values, device=device)
    if values == "wide":  # float16 would overflow
        case = replace(case, alphas=case.alphas / 2**16)
    case.check("subject", result(op, case, dtype), exact=values == "integer")


@pytest.mark.gpu
@pytest.mark.parametrize("counts", [[700], [33, 97, 0, 256, 161], [65, 257, 12]])
def test_golden_of_many_rows(counts: list[int]) -> None:
    case = make_case(counts, n=520, k=1120, values="integer", device="cuda")
    case.check("hopper", result(every_form, case), exact=True)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(4))
def test_all_codes_and_scales_on_the_gpu(first: int) -> None:
    """Every code times every scale byte, NaN bytes included, alone in a row of weights."""
    case = make_case([1], n=256, k=32, values="integer", device="cuda")
    case.a.fill_(0)
    case.a[0, 0] = 2  # the code of 1
    for code in range(4 * first, 4 * first + 4):
        case.b.fill_(0)
        case.b[0, :, 0] = code
        columns = torch.arange(256, device="cuda")
        at = columns // 128 * 512 + columns % 32 * 16 + columns % 128 // 32 * 4
        case.b_blockscale.view(-1)[at] = columns.to(
            torch.uint8
        )  # of block 0; block 1 keeps a scale of 1 or 2
        out = result(every_form, replace(case, alphas=torch.ones_like(case.alphas)))
        weights = torch.tensor(E2M1.values)[code] * torch.tensor(E4M3.values)
        true = weights * torch.tensor(E4M3.values)[int(case.a_scale[0, 0])]
        subject = out[0].cpu().float()
        assert torch.equal(subject.isnan(), true.isnan())
        assert torch.equal(subject.nan_to_num(), true.nan_to_num())


def test_poison_has_no_influence(gemm: tuple[str, Gemm]) -> None:
    device, op = gemm
    outs = [
        result(op, make_case([5, 0, 130], n=72, k=96, values="wide", device=device, poison=poison))
        for poison in (0, 0x7F, 0xFF, 0x7E)
    ]
    assert all(torch.equal(outs[0].view(torch.int16), out.view(torch.int16)) for out in outs[1:])


def test_a_row_does_not_depend_on_its_company(gemm: tuple[str, Gemm]) -> None:
    device, op = gemm
    many = [90, 140, 3] if device == "cpu" else [300, 140, 1]
    case = make_case(many, n=136, k=416, values="wide", device=device)
    whole = result(op, case)
    for kept in ([1, 1, 1], [0, 17, 0], [70, 33, 0]):
        starts = case.expert_offsets.tolist()
        rows = torch.tensor(
            [starts[e] + many[e] - 1 - i for e, count in enumerate(kept) for i in range(count)], device=device
        )
        part = result(op, case.only(rows, kept))
        assert torch.equal(part[: len(rows)].view(torch.int16), whole[rows].view(torch.int16))


@pytest.mark.gpu
def test_runs_agree_bit_for_bit() -> None:
    case = make_case([300, 0, 1, 40, 96, 12], n=520, k=2080, values="wide", device="cuda")
    first = result(every_form, case)
    for _ in range(5):
        assert torch.equal(first.view(torch.int16), result(every_form, case).view(torch.int16))


@pytest.mark.gpu
def test_captured_in_a_cuda_graph() -> None:
    case = make_case([5, 0, 130], n=136, k=416, values="integer", device="cuda")
    out = case.output(torch.bfloat16)
    grouped_gemm(*case.arguments(out))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        grouped_gemm(*case.arguments(out))
    out.copy_(case.output(torch.bfloat16))
    graph.replay()
    torch.cuda.synchronize()
    case.check("graph", out, exact=True)


def test_no_rows(gemm: tuple[str, Gemm]) -> None:
    device, op = gemm
    case = make_case([0, 0], n=16, k=32, values="integer", device=device, spare_rows=0)
    assert result(op, case).shape == (0, 16)
    case = make_case([0, 0], n=16, k=32, values="integer", device=device)
    case.check("subject", result(op, case), exact=True)


def test_operands_are_exact() -> None:
    """All codes times all scale bytes, in each of the eight places that a code has in a word."""
    operands = torch.empty((8, 16, 256))
    host_gemm_library().gemm_operands(operands)
    true = torch.tensor(E2M1.values)[:, None] * torch.tensor(E4M3.values)
    number = ~true.isnan()
    for found in operands:
        assert torch.equal(found.isnan(), true.isnan())
        assert torch.equal(found[number], true[number])
        assert torch.equal(found[number].signbit(), true[number].signbit())
    assert torch.equal(true[number].to(torch.bfloat16).float(), true[number])


def test_order_of_k_is_a_permutation() -> None:
    order = torch.empty(128, dtype=torch.int32)
    host_gemm_library().gemm_order_of_k(order)
    assert sorted(order.tolist()) == list(range(128))


def test_expert_of_a_tile() -> None:
    tiles = [0, 2, 0, 0, 1, 3, 0]
    ends = torch.tensor(tiles, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    found = torch.empty(sum(tiles), dtype=torch.int32)
    host_gemm_library().gemm_experts_of_tiles(found, ends)
    assert found.tolist() == [1, 1, 4, 5, 5, 5]


def test_every_output_has_one_writer() -> None:
    case = make_case([2, 0, 3], n=24, k=32, values="integer")
    out = torch.zeros((8, 24), dtype=torch.bfloat16)
    host_gemm_library().grouped_gemm_host(*case.arguments(out), 1, 7, True)
    assert (out[:5].view(torch.uint8) == 1).all()
    assert (out[5:].view(torch.uint8) == 0).all()


@pytest.mark.gpu
def test_plain_dequantization() -> None:
    case = make_case([5, 0, 130], n=136, k=416, values="wide", device="cuda")
    rows, weights = dequantized_operands(*case.arguments(case.output(torch.bfloat16)))
    for expert in range(3):
        owned, operands = case.operands(expert)
        assert torch.equal(rows[owned].double(), operands.a)
        assert torch.equal(weights[expert].double(), operands.b[0])
    assert not rows[case.rows :].any()
