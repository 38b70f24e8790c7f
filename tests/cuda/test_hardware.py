"""Arithmetic `hardware`: measured tables, the host twin that reads them, and kernels whose every byte they predict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda import measure
from nvfp4_moe.cuda.ops import CudaOps, HostOps, Ops
from nvfp4_moe.reference.arithmetic import HardwareOperations
from nvfp4_moe.reference.expert_layouts import packed_blockscale_offsets
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.tables import Table, find_table
from nvfp4_moe.verification import counter

CHIP = "NVIDIA H200"
DTYPES = [torch.bfloat16, torch.float16]


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def hardware(request: pytest.FixtureRequest) -> Ops:
    """A subject that computes as the H200 does."""
    if request.param == "host":
        return HostOps(arithmetic="hardware", chip=CHIP)
    if torch.cuda.get_device_name() != CHIP:
        pytest.skip(f"no shipped table for {torch.cuda.get_device_name()}")
    return CudaOps()


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [16, 80, 1024])
def test_golden_bytes(
    hardware: Ops, ragged: Callable[..., Any], k: int, dtype: torch.dtype, fused: bool
) -> None:
    operations = HardwareOperations(CHIP)
    case = ragged([5, 0, 130], k, dtype, fused=fused, arithmetic=operations, device=hardware.device_type)
    run = hardware.silu_and_mul_scaled_fp4_experts_quant if fused else hardware.scaled_fp4_experts_quant
    run(*case.arguments())
    case.check()


def blocks_of_ties() -> tuple[Tensor, Tensor, Tensor]:
    """Return input, scales and offsets such that every element but the largest of a block is a tie, exactly.

    Expert m has A = 6m/32 and the scale 2688/A; its block j holds A * 2^-j and, with both signs, a tie of E2M1 times
    A * 2^-j / 6. Whether such an element is computed as a tie hangs on the last bit of the two reciprocals.
    """
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    unit = torch.arange(16, 32).float()[:, None, None] / 32 * torch.exp2(-torch.arange(8.0))[None, :, None]
    block = torch.cat((torch.tensor([6.0]), ties, -ties, torch.tensor([0.0]))) * unit
    scales = torch.div(torch.tensor(2688.0), 6 * torch.arange(16, 32).float() / 32)
    return block.flatten(1).bfloat16(), scales, torch.arange(17, dtype=torch.int32)


def test_arithmetics_differ_at_ties() -> None:
    """Else the tests above would pass for a kernel that ignores the tables."""
    input, scales, offsets = blocks_of_ties()
    true = {
        arithmetic: quantize_experts(input, scales, offsets, arithmetic=arithmetic)
        for arithmetic in ("ieee", HardwareOperations(CHIP))
    }
    packed = torch.empty((16, 64), dtype=torch.uint8)
    block_scale = torch.empty((16 * 128, 8), dtype=torch.uint8)
    starts = packed_blockscale_offsets(offsets)
    for arithmetic, golden in true.items():
        ops = HostOps(arithmetic=arithmetic if isinstance(arithmetic, str) else "hardware", chip=CHIP)
        ops.scaled_fp4_experts_quant(packed, block_scale, input, scales, offsets, starts)
        assert packed.equal(golden.packed)
    assert not true["ieee"].packed.equal(packed)


@pytest.mark.gpu
def test_measured_tables_are_the_shipped_ones() -> None:
    if torch.cuda.get_device_name() != CHIP:
        pytest.skip(f"no shipped table for {torch.cuda.get_device_name()}")
    for table in measure.measure():
        assert table.sha256 == find_table(table.kind, chip=CHIP).sha256, table.name


@pytest.mark.gpu
@pytest.mark.parametrize("arithmetic", ["ieee", "hardware"])
@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize(
    ("rows", "k", "experts"), [(8192, 7168, 256), (20000, 2048, 64), (4097, 2880, 1024), (300, 14336, 7)]
)
def test_many_elements(
    same_bytes: Callable[..., None], rows: int, k: int, experts: int, fused: bool, arithmetic: str
) -> None:
    """Tens of millions of bit patterns and of ties a case, golden model on the GPU as well."""
    device, width = "cuda", 2 * k if fused else k
    raw = counter.words(11, f"{rows} {k} {fused}", 0, rows * width, device=device)
    bits = counter.bits(raw, 16)
    patterns = (bits - (bits >= 2**15) * 2**16).to(torch.int16).view(torch.bfloat16)
    ties = (
        (counter.bits(raw, 10, at=20) - 512).float() * torch.exp2(-counter.bits(raw, 4, at=40).float())
    ).bfloat16()
    input = torch.where(
        torch.arange(rows, device=device)[:, None] % 2 == 0, patterns.view(rows, -1), ties.view(rows, -1)
    )
    counts = torch.bincount(
        counter.below(counter.words(12, "ids", 0, rows, device=device), experts), minlength=experts
    )
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(torch.int32)
    starts = packed_blockscale_offsets(offsets)
    scale = torch.arange(experts, device=device).float() * 7.3 + 0.37
    golden = silu_and_mul_quantize_experts if fused else quantize_experts
    operations: Any = HardwareOperations(torch.cuda.get_device_name()) if arithmetic == "hardware" else "ieee"
    true = golden(input, scale, offsets, arithmetic=operations)
    packed, block_scale = torch.empty_like(true.packed), torch.empty_like(true.block_scale)
    ops = CudaOps(arithmetic=arithmetic)
    run = ops.silu_and_mul_scaled_fp4_experts_quant if fused else ops.scaled_fp4_experts_quant
    run(packed, block_scale, input, scale, offsets, starts)
    same_bytes("packed", packed, true.packed)
    same_bytes("block_scale", block_scale, true.block_scale)


@pytest.mark.gpu
def test_side_stream_and_graph_replay(ragged: Callable[..., Any]) -> None:
    """A call runs on the caller's stream, and a captured one reads its inputs anew at each replay."""
    case = ragged([5, 0, 130], 80, torch.bfloat16, arithmetic="ieee", device="cuda")
    ops, kept = CudaOps(arithmetic="ieee"), case.input.clone()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        ops.scaled_fp4_experts_quant(*case.arguments())
    stream.synchronize()
    case.check()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ops.scaled_fp4_experts_quant(*case.arguments())
    case.input.zero_()
    graph.replay()
    owned = int(case.expert_offsets[-1])
    assert (case.packed[:owned] == 0).all()
    case.input.copy_(kept)
    graph.replay()
    case.check()


@pytest.mark.gpu
@pytest.mark.parametrize("index", [0, 2])
def test_misaligned_tensors_are_refused(ragged: Callable[..., Any], index: int) -> None:
    case = ragged([5], 80, torch.bfloat16, device="cuda")
    arguments = list(case.arguments())
    tensor = arguments[index]
    shifted = torch.empty(tensor.numel() + 2, dtype=tensor.dtype, device="cuda")[2:].view(tensor.shape)
    arguments[index] = shifted.copy_(tensor)
    with pytest.raises(ValueError, match="must start at a multiple of"):
        CudaOps().scaled_fp4_experts_quant(*arguments)


class FakeLibrary:
    """Stands in for the CUDA library: `off` ulps at every mantissa, one more in the binade `odd`."""

    def __init__(self, off: int, odd: int | None = None) -> None:
        self.off, self.odd = off, odd

    def measure_reciprocal(self, ulps: Tensor, base: int) -> None:
        ulps.fill_(self.off)
        if base == self.odd:
            ulps[5] += 1


def test_binades_that_differ_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "cuda_library", lambda: FakeLibrary(1, odd=0x40000000))
    with pytest.raises(
        measure.BinadesDifferError, match=r"mantissa 0x000005 is 1 ulp off .* 2 ulp at base 0x40000000"
    ):
        measure.reciprocal_ulps(torch.device("cpu"))


@pytest.mark.parametrize(("off", "fits"), [(-128, True), (127, True), (128, False)])
def test_distances_must_fit_a_byte(monkeypatch: pytest.MonkeyPatch, off: int, fits: bool) -> None:
    monkeypatch.setattr(measure, "cuda_library", lambda: FakeLibrary(off))
    if fits:
        assert (measure.reciprocal_ulps(torch.device("cpu")) == off).all()
    else:
        with pytest.raises(measure.BinadesDifferError, match="fits no int8"):
            measure.reciprocal_ulps(torch.device("cpu"))


def test_name_of_a_table_file() -> None:
    table = Table(
        kind="silu_bf16",
        chip="NVIDIA GB200 (NVL72)",
        sequence="s",
        values=torch.zeros(2**16, dtype=torch.int32),
    )
    assert measure.file_name(table) == "silu-bf16-nvidia-gb200-nvl72.table"


def test_program_without_a_device_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as exit:
        measure.main(["--out", str(tmp_path / "tables")])
    assert exit.value.code == 2
    assert "no CUDA device is present" in capsys.readouterr().err
    assert not (tmp_path / "tables").exists()
