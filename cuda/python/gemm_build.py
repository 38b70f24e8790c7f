"""Builds the libraries of the grouped GEMM: `host` (g++), `hopper` (nvcc) and `blackwell` (nvcc and CUTLASS's headers).

They are libraries of their own, so that one that takes a minute to compile is built only where it can run.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from nvfp4_moe.cuda.build import (
    ARCHITECTURES,
    CUDA_FLAGS,
    HOST_FLAGS,
    SOURCES,
    Recipe,
    load,
    missing,
    toolkit_root,
)
from nvfp4_moe.cuda.build import MissingToolError as MissingToolError

GEMM_SOURCES = SOURCES / "gemm"
HOPPER_TARGET = "9.0a"
BLACKWELL = tuple(capability for capability in ARCHITECTURES if capability >= (10, 0))
"""Compute capabilities that CUTLASS's kernel is for."""
CUTLASS = "nvidia-cutlass==4.2.0.0"
CUTLASS_FLAGS = ("-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-diag-suppress=20012,20013,20015,177")
"""The diagnostics are of CUTLASS's headers."""


@cache
def host_gemm_library() -> Any:
    """Return the host twin as a tvm-ffi module, built if need be.

    Raises:
        MissingToolError: no tvm-ffi, ninja or C++ compiler.
        BuildError: the compiler refused; its lines are in the text.
    """
    _require(missing("host"))
    return load(
        Recipe(
            name="nvfp4_moe_gemm_host",
            sources=[GEMM_SOURCES / "host.cpp"],
            cxx_flags=HOST_FLAGS,
            link_flags=["-pthread"],
        )
    )


@cache
def hopper_gemm_library() -> Any:
    """Return Hopper's kernels as a tvm-ffi module, built if need be; no device is needed to build.

    Raises:
        MissingToolError: no tvm-ffi, ninja, C++ compiler or nvcc.
        BuildError: the compiler refused; its lines are in the text.
    """
    _require(missing("host"))
    root = toolkit_root()
    return load(
        Recipe(
            name="nvfp4_moe_gemm_hopper",
            sources=sorted(GEMM_SOURCES.glob("hopper*.cu")),
            cuda_flags=CUDA_FLAGS,
            link_flags=[f"-L{root / 'lib'}"],
            environment={"CUDA_HOME": str(root), "TVM_FFI_CUDA_ARCH_LIST": HOPPER_TARGET},
        )
    )


@cache
def blackwell_gemm_library(capability: tuple[int, int]) -> Any:
    """Return CUTLASS's kernels for one of `BLACKWELL` as a tvm-ffi module, built if need be (minutes, 6 GB of memory).

    Raises:
        MissingToolError: no tvm-ffi, ninja, C++ compiler, nvcc or CUTLASS.
        BuildError: the compiler refused; its lines are in the text.
    """
    _require(missing("host"))
    root = toolkit_root()
    return load(
        Recipe(
            name="nvfp4_moe_gemm_blackwell",
            sources=sorted(GEMM_SOURCES.glob("blackwell*.cu")),
            cuda_flags=[
                *CUTLASS_FLAGS,
                f"-DNVFP4_GEMM_TARGET={target_number(capability)}",
                f"-I{cutlass_include()}",
            ],
            link_flags=[f"-L{root / 'lib'}"],
            environment={"CUDA_HOME": str(root), "TVM_FFI_CUDA_ARCH_LIST": ARCHITECTURES[capability]},
        )
    )


def target_number(capability: tuple[int, int]) -> int:
    """Return 100 for (10, 0): the number in `sm_100a`."""
    return 10 * capability[0] + capability[1]


def cutlass_include() -> Path:
    """Return the folder of CUTLASS's headers, in the package that carries them.

    Raises:
        MissingToolError: the package is not installed.
    """
    found = importlib.util.find_spec("cutlass_library")
    if found is None or found.origin is None:
        raise MissingToolError(f"CUTLASS's headers are not here (pip install --no-deps {CUTLASS})")
    return Path(found.origin).parent / "source" / "include"


def _require(lacking: str | None) -> None:
    if lacking is not None:
        raise MissingToolError(lacking)
