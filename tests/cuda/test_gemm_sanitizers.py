"""The grouped GEMM's host twin under AddressSanitizer and UndefinedBehaviorSanitizer, and beyond 2^31 bytes.

A stand-alone program (csrc/gemm/driver.cpp) holds every array in a heap block of exactly its size.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nvfp4_moe.cuda.build import INCLUDE, SOURCES, STRICT_FLOAT
from nvfp4_moe.cuda.gemm_build import GEMM_SOURCES

SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")


def compiled(folder: Path, *includes: Path) -> Path:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = folder / "driver"
    paths = [f"-I{path}" for path in (*includes, INCLUDE, SOURCES)]
    subprocess.run(
        [
            compiler, "-std=c++17", "-O0", *STRICT_FLOAT, *SANITIZE, *paths, str(GEMM_SOURCES / "driver.cpp"),
            "-o", str(program), "-pthread",
        ],
        check=True,
    )  # fmt: skip
    return program


def run(program: Path, what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), what], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("driver"))


@pytest.mark.parametrize("what", ["cases", "huge"])
def test_clean(driver: Path, what: str) -> None:
    result = run(driver, what)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("what", "file", "right", "wrong", "complaint"),
    [
        ("cases", "csrc/gemm_host.h", "column < k ? column : -1", "column", "heap-buffer-overflow"),
        ("cases", "include/nvfp4_moe/gemm.h", "0x0104u", "0x0108u", "differs"),
        ("cases", "include/nvfp4_moe/gemm.h", "round_up(n, kTileRows)", "n", "heap-buffer-overflow"),
        ("huge", "csrc/gemm_host.h", "(int64_t{rows.first} + row) * call.n", "(rows.first + row) * call.n", "signed integer overflow"),
        ("huge", "csrc/gemm_host.h", "int64_t{expert} * call.n", "int32_t{expert} * call.n * 4096", "signed integer overflow"),
    ],
    ids=["past K", "wrong factor", "unpadded slab", "32-bit output", "32-bit weights"],
)  # fmt: skip
def test_planted_faults_are_caught(
    tmp_path: Path, what: str, file: str, right: str, wrong: str, complaint: str
) -> None:
    """The same program over bodies with one fault each: the sanitizers, not luck, keep the bodies right."""
    shutil.copytree(INCLUDE, tmp_path / "include")
    (tmp_path / "csrc").mkdir()
    shutil.copy(SOURCES / "gemm_host.h", tmp_path / "csrc")
    text = (tmp_path / file).read_text()
    assert text.count(right) == 1
    (tmp_path / file).write_text(text.replace(right, wrong))
    result = run(compiled(tmp_path, tmp_path / "include", tmp_path / "csrc"), what)
    assert result.returncode != 0
    assert complaint in result.stdout + result.stderr
