"""Every target compiles; Blackwell's use the hardware E2M1 convert, Hopper's has none to use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nvfp4_moe.cuda.build import CUDA_FLAGS, INCLUDE, SOURCES, MissingToolError, toolkit_root

KERNEL = """
#include "quantize_kernel.cuh"
namespace nvfp4_moe::device {
template __global__ void quantize_kernel<Bfloat16, true, Form::kRagged, ChipArithmetic>(
    const __grid_constant__ QuantizeArguments, ChipArithmetic, Split);
}
"""
CONVERT_PTX = "cvt.rn.satfinite.e2m1x2.f32"
CONVERT_SASS = "F2FP.SATFINITE.E2M1"


def compiled(folder: Path, target: str, kind: str) -> Path:
    try:
        nvcc = toolkit_root() / "bin" / "nvcc"
    except MissingToolError:
        pytest.skip("needs nvcc")
    source, output = folder / "kernel.cu", folder / f"kernel.{kind}"
    source.write_text(KERNEL)
    code = f"sm_{target}" if kind == "cubin" else f"compute_{target}"
    subprocess.run(
        [
            str(nvcc), "-std=c++17", *CUDA_FLAGS, f"-gencode=arch=compute_{target},code={code}", f"--{kind}",
            f"-I{INCLUDE}", f"-I{SOURCES}", str(source), "-o", str(output),
        ],
        check=True,
    )  # fmt: skip
    return output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "hardware"),
    [("90a", False), ("100a", True), ("100f", True), ("103a", True), ("120a", True), ("121a", True)],
)
def test_convert_instruction(tmp_path: Path, target: str, hardware: bool) -> None:
    assert (CONVERT_PTX in compiled(tmp_path, target, "ptx").read_text()) is hardware
    cubin = compiled(tmp_path, target, "cubin")
    cuobjdump = shutil.which("cuobjdump") or shutil.which("cuobjdump", path=str(toolkit_root() / "bin"))
    if cuobjdump is not None:
        sass = subprocess.run(
            [cuobjdump, "-sass", str(cubin)], check=True, capture_output=True, text=True
        ).stdout
        assert (CONVERT_SASS in sass) is hardware
