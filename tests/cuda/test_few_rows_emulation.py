"""The text of the kernel for few rows, run by threads of the CPU: every byte as the host twin writes it.

That kernel shares its arithmetic with the host twin, but not its search, its stores and its zeros.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nvfp4_moe.cuda.build import INCLUDE, SOURCES, STRICT_FLOAT

PROGRAM = Path(__file__).with_name("few_rows_emulation.cpp")
KERNEL = "few_rows_kernel.cuh"
FIRST, BEHIND = "// Stores the scales of a row", "// What a thread keeps of the expert"
"""Where the text of `store_scales` begins and ends."""


def differing_bytes(folder: Path, *, old: str = "", new: str = "") -> int:
    """Return the bytes that differ; `old` in the kernel or in `store_scales` is replaced by `new`."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    kernel = (SOURCES / KERNEL).read_text(encoding="utf-8")
    shared = (SOURCES / "quantize_kernel.cuh").read_text(encoding="utf-8")
    stores = shared[shared.index(FIRST) : shared.index(BEHIND)]
    assert (kernel + stores).count(old) == 1 or not old
    if old:
        kernel, stores = kernel.replace(old, new), stores.replace(old, new)
    (folder / KERNEL).write_text(kernel, encoding="utf-8")
    (folder / "quantize_kernel.cuh").write_text("#pragma once\n", encoding="utf-8")
    (folder / "store_scales.h").write_text(stores, encoding="utf-8")
    program = folder / "emulation"
    flags = ["-std=c++20", "-O0", "-fno-strict-aliasing", "-pthread", "-w", *STRICT_FLOAT]
    includes = [f"-I{folder}", f"-I{INCLUDE}", f"-I{SOURCES}", '-DSTORE_SCALES="store_scales.h"']
    subprocess.run([compiler, *flags, *includes, str(PROGRAM), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=True)
    return int(done.stdout)


def test_every_byte_is_the_host_twins(tmp_path: Path) -> None:
    assert differing_bytes(tmp_path) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lane < first_empty_lane(owned)", "lane < first_empty_lane(owned) + 1"),
        ("place <= static_cast<uint32_t>(beside.words_behind)", "place == 0"),
    ],
)
def test_planted_faults_are_seen(old: str, new: str, tmp_path: Path) -> None:
    assert differing_bytes(tmp_path, old=old, new=new) > 0
