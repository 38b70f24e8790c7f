"""Builds the libraries of the grouped GEMM: `host` (g++), `hopper` (nvcc) and `blackwell` (nvcc and CUTLASS's headers).

They are libraries of their own, so that one that takes a minute to compile is built only where it can run.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from nvfp4_moe.cuda.build import (
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


def _require(lacking: str | None) -> None:
    if lacking is not None:
        raise MissingToolError(lacking)
