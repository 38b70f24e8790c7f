"""The host twin under AddressSanitizer and UndefinedBehaviorSanitizer, and on shapes beyond 2^31 elements.

A stand-alone program (csrc/host_driver.cpp) runs cases from files in heap blocks of exactly the right size: a read or
write past one, and a signed overflow, end the program.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.build import INCLUDE, SOURCES, STRICT_FLOAT
from nvfp4_moe.cuda.silu_table import silu_table
from nvfp4_moe.reference.experts import quantize_masked
from nvfp4_moe.reference.routing import route

SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")
RAGGED, MASKED, ROUTING = range(3)
EMPTY = torch.zeros(0, dtype=torch.uint8)


def compiled(folder: Path, name: str, *flags: str, source: Path = SOURCES / "host_driver.cpp") -> Path:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = folder / name
    subprocess.run(
        [
            compiler, "-std=c++17", "-O0", *STRICT_FLOAT, *flags, f"-I{INCLUDE}", f"-I{SOURCES}", str(source),
            "-o", str(program), "-pthread",
        ],
        check=True,
    )  # fmt: skip
    return program


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("driver"), "host_driver", *SANITIZE)


def run(driver: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run([str(driver), *words], capture_output=True, text=True, timeout=120, env=environment)


def write_case(path: Path, numbers: Sequence[int], arrays: Sequence[Tensor]) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<10q", *numbers))
        for array in arrays:
            raw = array.contiguous().view(torch.uint8).numpy().tobytes() if array.numel() else b""
            file.write(struct.pack("<q", len(raw)) + raw)


def assert_clean(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("counts", "k"), [([1], 16), ([0, 128, 5], 80), ([130, 0, 1], 208)])
def test_ragged(
    driver: Path,
    tmp_path: Path,
    ragged: Callable[..., Any],
    counts: list[int],
    k: int,
    dtype: torch.dtype,
    fused: bool,
) -> None:
    case = ragged(counts, k, dtype, fused=fused, spare_rows=1, spare_scale_rows=0)
    numbers = [
        RAGGED, int(dtype == torch.float16), int(fused), k, len(counts), len(case.input), len(case.true_scale), 0, 0, 0,
    ]  # fmt: skip
    silu = silu_table(dtype) if fused else EMPTY
    arrays = [
        case.input, case.global_encode_scale, case.expert_offsets, case.blockscale_offsets, EMPTY, silu,
        case.true_packed, case.true_scale,
    ]  # fmt: skip
    write_case(tmp_path / "case", numbers, arrays)
    assert_clean(run(driver, "case", str(tmp_path / "case")))


@pytest.mark.parametrize(("most", "masked_m"), [(1, [0, 1]), (130, [129, 130, 0])])
def test_masked(
    driver: Path, tmp_path: Path, patterns: Callable[..., Tensor], most: int, masked_m: list[int]
) -> None:
    k, experts = 80, len(masked_m)
    input = patterns(2, "masked", (experts, most, k), torch.bfloat16)
    counts = torch.tensor(masked_m, dtype=torch.int32)
    scale = torch.ones(experts)
    true = quantize_masked(input, scale, counts)
    for expert, rows in enumerate(masked_m):
        true.packed[expert, rows:] = 0xA5
        true.block_scale[expert, -(-rows // 128) * 128 :] = 0xA5
    scale_rows = true.block_scale.shape[0] * true.block_scale.shape[1]
    numbers = [MASKED, 0, 0, k, experts, experts * most, scale_rows, most, 0, 0]
    arrays = [input, scale, counts, EMPTY, EMPTY, EMPTY, true.packed, true.block_scale]
    write_case(tmp_path / "case", numbers, arrays)
    assert_clean(run(driver, "case", str(tmp_path / "case")))


@pytest.mark.parametrize(("tokens", "topk", "experts"), [(0, 1, 1), (1, 1, 1), (65, 3, 7), (40, 2, 1024)])
def test_routing(driver: Path, tmp_path: Path, tokens: int, topk: int, experts: int) -> None:
    ids = (torch.arange(tokens * topk).reshape(tokens, topk) * 7919 % (experts + 1) - 1).to(torch.int32)
    true = route(ids, experts, n=48, k=80)
    arrays = [
        ids, true.expert_offsets, true.blockscale_offsets, true.problem_sizes1, true.problem_sizes2,
        true.input_permutation, true.output_permutation,
    ]  # fmt: skip
    write_case(tmp_path / "case", [ROUTING, 0, 0, 80, experts, tokens, 0, 0, topk, 48], arrays)
    assert_clean(run(driver, "case", str(tmp_path / "case")))


def test_shapes_beyond_32_bits(driver: Path) -> None:
    assert_clean(run(driver, "huge"))


def test_wrong_bytes_are_noticed(driver: Path, tmp_path: Path, ragged: Callable[..., Any]) -> None:
    case = ragged([3], 16, torch.bfloat16, spare_rows=0, spare_scale_rows=0)
    case.true_scale[5, 0] ^= 1
    arrays = [
        case.input, case.global_encode_scale, case.expert_offsets, case.blockscale_offsets, EMPTY, EMPTY,
        case.true_packed, case.true_scale,
    ]  # fmt: skip
    write_case(tmp_path / "case", [RAGGED, 0, 0, 16, 1, 3, 128, 0, 0, 0], arrays)
    result = run(driver, "case", str(tmp_path / "case"))
    assert result.returncode == 1
    assert "block_scale: byte 20" in result.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("left / kTileRows * kTileRows", "left", "AddressSanitizer: heap-buffer-overflow"),
        ("row * (call.k / 2)", "static_cast<int32_t>(row) * (call.k / 2)", "signed integer overflow"),
    ],
    ids=["past the buffer", "32-bit index"],
)
def test_planted_faults_are_caught(
    tmp_path: Path, ragged: Callable[..., Any], right: str, wrong: str, complaint: str
) -> None:
    """The same program over bodies with one fault each: the sanitizers, not luck, keep the bodies right."""
    headers = tmp_path / "nvfp4_moe"
    shutil.copytree(INCLUDE / "nvfp4_moe", headers)
    text = (headers / "quantize.h").read_text()
    assert text.count(right) == 1
    (headers / "quantize.h").write_text(text.replace(right, wrong))
    program = compiled(tmp_path, "faulty", *SANITIZE, f"-I{tmp_path}")
    case = ragged([3], 16, torch.bfloat16, spare_rows=0, spare_scale_rows=0)
    short = case.true_scale[:120]  # the expert's tile does not fit: nothing of it may be written
    short.fill_(0xA5)
    case.true_packed.fill_(0xA5)
    arrays = [
        case.input, case.global_encode_scale, case.expert_offsets, case.blockscale_offsets, EMPTY, EMPTY,
        case.true_packed, short,
    ]  # fmt: skip
    write_case(tmp_path / "case", [RAGGED, 0, 0, 16, 1, 3, 120, 0, 0, 0], arrays)
    results = [run(program, "case", str(tmp_path / "case")), run(program, "huge")]
    assert any(result.returncode and complaint in result.stderr for result in results), results
