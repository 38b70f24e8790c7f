"""Hopper's grouped GEMM as the compiler leaves it: asynchronous products of every size, none of them serialized."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nvfp4_moe.cuda.build import CUDA_FLAGS, INCLUDE, SOURCES, MissingToolError, toolkit_root
from nvfp4_moe.cuda.gemm_build import GEMM_SOURCES

COLUMNS = {8, 16, 32, 64, 128, 192, 256}
SERIALIZED = "wgmma.mma_async instructions are serialized"
"""What ptxas says, as information, when it waits for each product: a right kernel of a fraction of the speed."""


def test_products_are_asynchronous(tmp_path: Path) -> None:
    try:
        nvcc = toolkit_root() / "bin" / "nvcc"
    except MissingToolError:
        pytest.skip("needs nvcc")
    done = subprocess.run(
        [
            str(nvcc), "-std=c++17", *CUDA_FLAGS, "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas=-v", "-cubin",
            f"-I{INCLUDE}", f"-I{SOURCES}", str(GEMM_SOURCES / "hopper_bf16.cu"), "-o", str(tmp_path / "out.cubin"),
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "gemm_kernel" in done.stderr
    assert SERIALIZED not in done.stderr
    nvdisasm = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=str(toolkit_root() / "bin"))
    if nvdisasm is not None:
        code = subprocess.run(
            [nvdisasm, "-c", str(tmp_path / "out.cubin")], check=True, capture_output=True, text=True
        ).stdout
        assert {int(found) for found in re.findall(r"HGMMA\.64x(\d+)x16\.F32\.BF16", code)} == COLUMNS
