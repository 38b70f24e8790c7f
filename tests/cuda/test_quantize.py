"""Ragged and masked quantization against the golden model, byte by byte over whole buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.ops import CudaOps, HostOps, Ops
from nvfp4_moe.reference.arithmetic import HardwareOperations
from nvfp4_moe.reference.experts import quantize_experts, quantize_masked
from nvfp4_moe.reference.silu import silu_and_mul

FILL = 0xA5
DTYPES = [torch.bfloat16, torch.float16]
COUNTS = [[1], [0], [128], [5, 0, 0, 130, 127], [0, 1, 129, 0], [1] * 40]
WIDTHS = [16, 32, 48, 64, 80, 208, 1024, 2896]

Ragged = Callable[..., Any]
SameBytes = Callable[[str, Tensor, Tensor], None]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_golden_bytes_for_expert_counts(
    subject: Ops, ragged: Ragged, counts: list[int], dtype: torch.dtype
) -> None:
    case = ragged(counts, 80, dtype, device=subject.device_type)
    subject.scaled_fp4_experts_quant(*case.arguments())
    case.check()


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", WIDTHS)
def test_golden_bytes_for_widths(
    subject: Ops, ragged: Ragged, plain: Callable[..., Tensor], k: int, dtype: torch.dtype, fused: bool
) -> None:
    case = ragged([3, 130], k, dtype, fused=fused, values=plain, device=subject.device_type)
    run = subject.silu_and_mul_scaled_fp4_experts_quant if fused else subject.scaled_fp4_experts_quant
    run(*case.arguments())
    case.check()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [2.0**-126, 2.0**-20, 0.4375, 1.0, 448.0, 6.0e4, 2.0**127])
def test_every_input_value_alone_in_its_block(
    subject: Ops, same_bytes: SameBytes, scale: float, dtype: torch.dtype
) -> None:
    """65,536 blocks, each one bit pattern and fifteen that follow from it, at a global scale."""
    device = subject.device_type
    first = torch.arange(-(2**15), 2**15, dtype=torch.int32)
    rest = (first[:, None] * torch.arange(1, 16, dtype=torch.int32) * 2654435 >> 7) & 0xFFFF
    bits = torch.cat((first[:, None] & 0xFFFF, rest), dim=1)
    input = (bits - (bits >= 2**15) * 2**16).to(torch.int16).view(dtype).reshape(64, -1).to(device)
    offsets = torch.tensor([0, 64], dtype=torch.int32, device=device)
    true = quantize_experts(input, torch.tensor([scale], device=device), offsets)
    packed, block_scale = torch.empty_like(true.packed), torch.empty_like(true.block_scale)
    subject.scaled_fp4_experts_quant(
        packed, block_scale, input, torch.tensor([scale], device=device), offsets,
        torch.tensor([0, 128], dtype=torch.int32, device=device),
    )  # fmt: skip
    same_bytes("packed", packed, true.packed)
    same_bytes("block_scale", block_scale, true.block_scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_gate_value(subject: Ops, same_bytes: SameBytes, dtype: torch.dtype) -> None:
    device = subject.device_type
    gate = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).reshape(64, -1)
    up = torch.full_like(gate, 1.5)
    up[:, 1::2] = -0.3
    input = torch.cat((gate, up), dim=1).to(device)
    offsets = torch.tensor([0, 64], dtype=torch.int32, device=device)
    scale = torch.tensor([20.0], device=device)
    true = quantize_experts(silu_and_mul(input), scale, offsets)
    packed, block_scale = torch.empty_like(true.packed), torch.empty_like(true.block_scale)
    subject.silu_and_mul_scaled_fp4_experts_quant(
        packed, block_scale, input, scale, offsets, torch.tensor([0, 128], dtype=torch.int32, device=device)
    )
    same_bytes("packed", packed, true.packed)
    same_bytes("block_scale", block_scale, true.block_scale)


@pytest.mark.parametrize(
    "counts", [[1], [5, 0, 130, 127], [0, 256], [31, 32, 33, 34], [63, 64, 65], [96, 97, 129, 159]], ids=str
)
def test_unwritten_row_padding_is_zeroed_beside_rows_and_left_alone_elsewhere(
    subject: Ops, ragged: Ragged, same_bytes: SameBytes, counts: list[int]
) -> None:
    case = ragged(counts, 144, torch.bfloat16, device=subject.device_type)
    subject.options(row_padding="unwritten").scaled_fp4_experts_quant(*case.arguments())
    same_bytes("packed", case.packed, case.true_packed)
    true = torch.where(case.beside_rows, case.true_scale, FILL)
    same_bytes("block_scale", case.block_scale, true)


def test_gather_gives_the_bytes_of_shuffle_then_quantize(subject: Ops, ragged: Ragged) -> None:
    case = ragged([7, 0, 129], 96, torch.bfloat16, device=subject.device_type)
    rows = len(case.input)
    order = (torch.arange(rows, device=case.input.device) * 7 % rows).to(torch.int32)  # rows is coprime to 7
    scattered = torch.empty_like(case.input)
    scattered[order.long()] = case.input
    case.with_input(scattered)
    subject.scaled_fp4_experts_quant(*case.with_input(scattered).arguments(), input_map=order)
    case.check()


def test_rows_that_lie_apart_are_honoured(subject: Ops, ragged: Ragged) -> None:
    case = ragged([9, 20], 64, torch.bfloat16, device=subject.device_type)
    wide = torch.zeros((len(case.input), 128), dtype=torch.bfloat16, device=case.input.device)
    wide[:, 64:] = case.input
    subject.scaled_fp4_experts_quant(*case.with_input(wide[:, 64:]).arguments())
    case.check()


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize(
    ("most", "masked_m"), [(1, [0, 1]), (5, [5, 0, 3]), (130, [129, 1, 0]), (128, [128, 127])]
)
def test_masked_form(
    subject: Ops,
    patterns: Callable[..., Tensor],
    same_bytes: SameBytes,
    most: int,
    masked_m: list[int],
    fused: bool,
) -> None:
    device, k, experts = subject.device_type, 80, len(masked_m)
    input = patterns(2, "masked", (experts, most, 2 * k if fused else k), torch.bfloat16).to(device)
    scale = torch.arange(1, experts + 1, dtype=torch.float32, device=device)
    counts = torch.tensor(masked_m, dtype=torch.int32, device=device)
    true = quantize_masked(silu_and_mul(input) if fused else input, scale, counts)
    packed, block_scale = torch.full_like(true.packed, FILL), torch.full_like(true.block_scale, FILL)
    run = subject.silu_and_mul_scaled_fp4_masked_quant if fused else subject.scaled_fp4_masked_quant
    run(packed, block_scale, input, scale, counts)
    for expert, rows in enumerate(masked_m):
        padded = -(-rows // 128) * 128
        same_bytes("packed", packed[expert, :rows], true.packed[expert, :rows])
        same_bytes("block_scale", block_scale[expert, :padded], true.block_scale[expert, :padded])
        assert (packed[expert, rows:] == FILL).all()
        assert (block_scale[expert, padded:] == FILL).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_order_of_tasks_does_not_matter(ragged: Ragged, seed: int) -> None:
    case = ragged([5, 0, 130, 127], 80, torch.bfloat16)
    HostOps(seed=seed).scaled_fp4_experts_quant(*case.arguments())
    case.check()


@pytest.mark.parametrize("k", [16, 80, 128])
@pytest.mark.parametrize("counts", [[5, 0, 130, 128], [1, 2, 31, 32, 33, 64, 97, 127, 158, 159]], ids=str)
def test_every_promised_byte_has_one_writer(ragged: Ragged, counts: list[int], k: int) -> None:
    case = ragged(counts, k, torch.bfloat16)
    case.packed.zero_()
    case.block_scale.zero_()
    HostOps(count_writers=True).scaled_fp4_experts_quant(*case.arguments())
    owned, end = int(case.expert_offsets[-1]), int(case.blockscale_offsets[-1])
    assert (case.packed[:owned] == 1).all()
    assert (case.packed[owned:] == 0).all()
    assert (case.block_scale.view(torch.uint8)[:end] == 1).all()
    assert (case.block_scale.view(torch.uint8)[end:] == 0).all()


Edit = Callable[[Any], tuple[Any, ...]]


def _replaced(index: int, change: Callable[[Tensor], Any]) -> Edit:
    def edit(case: Any) -> tuple[Any, ...]:
        arguments = list(case.arguments())
        arguments[index] = change(arguments[index])
        return tuple(arguments)

    return edit


OUTPUT, SCALE, INPUT, GLOBAL, OFFSETS, STARTS = range(6)
REFUSED_EVERYWHERE: dict[str, tuple[Edit, type[Exception], str]] = {
    "input float32": (_replaced(INPUT, lambda t: t.float()), TypeError, "input must be bfloat16 or float16"),
    "input of one dimension": (_replaced(INPUT, lambda t: t[0]), ValueError, "input must have shape"),
    "K no multiple of 16": (_replaced(INPUT, lambda t: t[:, :72].contiguous()), ValueError, "multiple of 16"),
    "strided columns": (
        _replaced(INPUT, lambda t: t.repeat(1, 2)[:, ::2]),
        ValueError,
        "neighbouring elements",
    ),
    "overlapping rows": (_replaced(INPUT, lambda t: t[:1].expand(len(t), 80)), ValueError, "overlap"),
    "output too narrow": (
        _replaced(OUTPUT, lambda t: t[:, :8].contiguous()),
        ValueError,
        "output must have shape",
    ),
    "output strided": (
        _replaced(OUTPUT, lambda t: t.repeat(1, 2)[:, :40]),
        ValueError,
        "output must be contiguous",
    ),
    "output int32": (_replaced(OUTPUT, lambda t: t.int()), TypeError, "output must be uint8"),
    "scale bytes too few": (_replaced(SCALE, lambda t: t[:, :1].contiguous()), ValueError, "output_scale"),
    "scale int64": (_replaced(SCALE, lambda t: t.long()), TypeError, "output_scale must be int32"),
    "global scale float64": (
        _replaced(GLOBAL, lambda t: t.double()),
        TypeError,
        "input_global_scale must be float32",
    ),
    "no experts": (_replaced(GLOBAL, lambda t: t[:0]), ValueError, "number of experts"),
    "one expert more": (
        _replaced(GLOBAL, lambda t: torch.cat((t, t[:1]))),
        ValueError,
        "input_offset_by_experts",
    ),
    "offsets int64": (
        _replaced(OFFSETS, lambda t: t.long()),
        TypeError,
        "input_offset_by_experts must be int32",
    ),
    "starts too short": (_replaced(STARTS, lambda t: t[1:]), ValueError, "output_scale_offset_by_experts"),
}
REFUSED_ON_THE_HOST: dict[str, tuple[Edit, type[Exception], str]] = {
    "offsets start late": (_replaced(OFFSETS, lambda t: t + 1), ValueError, r"\[0\] must be 0, got 1"),
    "offsets descend": (
        _replaced(OFFSETS, lambda t: t.flip(0) - t[-1] * torch.tensor([1, 0, 0], dtype=torch.int32)),
        ValueError,
        "must ascend",
    ),
    "offsets beyond the rows": (_replaced(OFFSETS, lambda t: t * 9), ValueError, "must ascend up to"),
    "start off the tile grid": (_replaced(STARTS, lambda t: t + 1), ValueError, "multiple of 128"),
    "regions overlap": (_replaced(STARTS, lambda t: t * 0), ValueError, "where the expert before it ends"),
    "scale buffer too short": (_replaced(SCALE, lambda t: t[:130]), ValueError, "rows of output_scale"),
    "zero global scale": (_replaced(GLOBAL, lambda t: t * 0), ValueError, "finite and positive"),
    "infinite global scale": (_replaced(GLOBAL, lambda t: t / 0), ValueError, "finite and positive"),
}


@pytest.mark.parametrize(("edit", "error", "text"), REFUSED_EVERYWHERE.values(), ids=REFUSED_EVERYWHERE)
def test_wrong_tensors_are_refused(
    subject: Ops, ragged: Ragged, edit: Edit, error: type[Exception], text: str
) -> None:
    case = ragged([5, 130], 80, torch.bfloat16, device=subject.device_type)
    with pytest.raises(error, match=text):
        subject.scaled_fp4_experts_quant(*edit(case))
    assert (case.packed == FILL).all()


@pytest.mark.parametrize(("edit", "error", "text"), REFUSED_ON_THE_HOST.values(), ids=REFUSED_ON_THE_HOST)
def test_wrong_values_are_refused_by_the_host_twin(
    ragged: Ragged, edit: Edit, error: type[Exception], text: str
) -> None:
    case = ragged([5, 130], 80, torch.bfloat16)
    with pytest.raises(error, match=text):
        HostOps().scaled_fp4_experts_quant(*edit(case))
    assert (case.packed == FILL).all()


@pytest.mark.parametrize("form", ["plain", "fused", "gathered"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arithmetic", ["ieee", "hardware"])
@pytest.mark.parametrize(
    ("counts", "k"), [([1], 16), ([3, 0, 130], 208), ([1, 0, 2] * 200, 80), ([2, 1, 31, 33], 7168)]
)
@pytest.mark.parametrize("row_padding", ["zero", "unwritten"])
def test_golden_bytes_of_few_rows(
    subject: Ops,
    ragged: Ragged,
    same_bytes: SameBytes,
    row_padding: str,
    counts: list[int],
    k: int,
    arithmetic: str,
    dtype: torch.dtype,
    form: str,
) -> None:
    """Few rows run on a kernel of their own."""
    if arithmetic == "hardware" and subject.device_type == "cuda":
        chip: Any = HardwareOperations(torch.cuda.get_device_name())
    else:
        chip = arithmetic
    case = ragged(counts, k, dtype, fused=form == "fused", arithmetic=chip, device=subject.device_type)
    ops = subject.options(row_padding=row_padding, arithmetic=arithmetic)
    if form == "fused":
        ops.silu_and_mul_scaled_fp4_experts_quant(*case.arguments())
    elif form == "plain":
        ops.scaled_fp4_experts_quant(*case.arguments())
    else:
        order = torch.arange(len(case.input), dtype=torch.int32, device=case.input.device).flip(0)
        backwards = case.with_input(case.input.flip(0).contiguous())
        ops.scaled_fp4_experts_quant(*backwards.arguments(), input_map=order)
    same_bytes("packed", case.packed, case.true_packed)
    unwritten = torch.where(case.beside_rows, case.true_scale, FILL)
    expected = case.true_scale if row_padding == "zero" else unwritten
    same_bytes("block_scale", case.block_scale, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("row_padding", ["zero", "unwritten"])
def test_rows_whose_scales_lie_outside_the_buffer_are_not_written(
    ragged: Ragged, same_bytes: SameBytes, row_padding: str
) -> None:
    case = ragged([5, 130], 80, torch.bfloat16, device="cuda", spare_rows=0, spare_scale_rows=0)
    fitting = 5 + 128  # one tile of the second expert
    packed, _, *rest = case.arguments()
    ops = CudaOps(arithmetic="ieee", row_padding=row_padding)
    ops.scaled_fp4_experts_quant(packed, case.block_scale[:256], *rest)
    same_bytes("packed", packed[:fitting], case.true_packed[:fitting])
    assert (packed[fitting:] == FILL).all()
    assert (case.block_scale[256:].view(torch.uint8) == FILL).all()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "offsets", [[0, 9, 4, 9], [5, 2, 9, 7], [0, 2**31 - 1, 0, 9], [9, 9, 9, 9], [-3, 4, 4, 9]], ids=str
)
def test_offsets_that_do_not_ascend_reach_nothing_outside(ragged: Ragged, offsets: list[int]) -> None:
    case = ragged([4, 0, 5], 80, torch.bfloat16, device="cuda", spare_rows=0)
    guarded = torch.full(
        (len(case.block_scale) + 512, case.block_scale.shape[1]), -1, dtype=torch.int32, device="cuda"
    )
    packed, _, input, scale, _, starts = case.arguments()
    wrong = torch.tensor(offsets, dtype=torch.int32, device="cuda")
    for shift in (0, 128, -128, 10**6):
        for row_padding in ("zero", "unwritten"):
            ops = CudaOps(row_padding=row_padding)
            ops.scaled_fp4_experts_quant(packed, guarded[256:-256], input, scale, wrong, starts + shift)
    torch.cuda.synchronize()
    assert (guarded[:256] == -1).all()
    assert (guarded[-256:] == -1).all()


@pytest.mark.parametrize("unused", [0.0, -1.0, float("inf"), float("nan")], ids=str)
def test_the_global_scale_of_an_expert_without_rows_does_not_matter(
    subject: Ops, ragged: Ragged, patterns: Callable[..., Tensor], same_bytes: SameBytes, unused: float
) -> None:
    device = subject.device_type
    case = ragged([5, 0, 130, 0], 80, torch.bfloat16, device=device)
    case.global_encode_scale[1::2] = unused
    subject.scaled_fp4_experts_quant(*case.arguments())
    case.check()
    input = patterns(3, "masked", (2, 4, 80), torch.bfloat16).to(device)
    scale = torch.tensor([unused, 2.0], device=device)
    counts = torch.tensor([0, 4], dtype=torch.int32, device=device)
    true = quantize_masked(input, scale, counts)
    packed, block_scale = torch.zeros_like(true.packed), torch.zeros_like(true.block_scale)
    subject.scaled_fp4_masked_quant(packed, block_scale, input, scale, counts)
    same_bytes("packed", packed, true.packed)
    same_bytes("block_scale", block_scale, true.block_scale)


def test_map_index_outside_the_input_is_refused_by_the_host_twin(ragged: Ragged) -> None:
    case = ragged([5, 4], 80, torch.bfloat16)
    order = torch.arange(len(case.input), dtype=torch.int32)
    order[3] = len(case.input)
    with pytest.raises(ValueError, match=r"input_map\[3\] must be in \[0, 12\), got 12"):
        HostOps().scaled_fp4_experts_quant(*case.arguments(), input_map=order)


@pytest.mark.parametrize(("field", "value"), [("arithmetic", "exact"), ("row_padding", "ones")])
def test_unknown_options_are_refused(field: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be one of .*'{value}'"):
        HostOps(**{field: value})
