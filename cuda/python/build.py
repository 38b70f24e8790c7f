"""Builds the two libraries and loads them: `host` (g++) and `cuda` (nvcc), both bound by apache-tvm-ffi.

A library is built on first use into a folder named after the content of its sources, its flags, the compiler's version
and tvm-ffi's, so that any change builds anew and nothing stale is ever loaded. A lock in that folder lets two
processes ask at once: one builds, the other waits. A marker is written last; a build that was cut short is begun again.

Cache: `$NVFP4_MOE_CACHE_DIR`, else `$XDG_CACHE_HOME/nvfp4-moe`, else `~/.cache/nvfp4-moe`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent
INCLUDE = PACKAGE / "include"
SOURCES = PACKAGE / "csrc"

STRICT_FLOAT = ("-fno-fast-math", "-ffp-contract=off")
"""One float32 operation is one rounding: no contraction to fused multiply-adds, no reassociation."""
HOST_FLAGS = ("-O2", "-pthread", *STRICT_FLOAT, "-fno-trapping-math")
"""Without trapping semantics g++ may vectorize comparisons; results are the same."""
CUDA_FLAGS = ("-O3", "-fmad=false", "--expt-relaxed-constexpr", "-Xcompiler", "-ffp-contract=off")

ARCHITECTURES: Mapping[tuple[int, int], str] = {
    (9, 0): "9.0a",
    (10, 0): "10.0a",
    (10, 3): "10.3a",
    (12, 0): "12.0a",
    (12, 1): "12.1a",
}
"""Compute capability -> target. The `a` targets have the instructions that the kernels choose by architecture."""


class BuildError(RuntimeError):
    """A library could not be built; the text holds the compiler's own lines."""


class MissingToolError(BuildError):
    """A compiler or package that a build needs is not there."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a library is made of."""

    name: str
    sources: Sequence[Path]
    cxx_flags: Sequence[str] = ()
    cuda_flags: Sequence[str] = ()
    link_flags: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    """Set while the build runs: the toolkit's root and the target."""


@cache
def host_library() -> Any:
    """Return the host twin as a tvm-ffi module, built if need be.

    Raises:
        MissingToolError: no tvm-ffi, ninja or C++ compiler.
        BuildError: the compiler refused; its lines are in the text.
    """
    _require_tools("c++")
    return load(
        Recipe(
            name="nvfp4_moe_host",
            sources=[SOURCES / "host_quantize.cpp", SOURCES / "host_rows.cpp"],
            cxx_flags=HOST_FLAGS,
            link_flags=["-pthread"],
        )
    )


@cache
def cuda_library(target: str | None = None) -> Any:
    """Return the CUDA kernels as a tvm-ffi module, built for `target` (such as "9.0a") or for the present device.

    Raises:
        MissingToolError: no tvm-ffi, ninja, C++ compiler, nvcc or device.
        BuildError: the compiler refused; its lines are in the text.
    """
    _require_tools("c++")
    root = toolkit_root()
    environment = {"CUDA_HOME": str(root), "TVM_FFI_CUDA_ARCH_LIST": target or _present_target()}
    return load(
        Recipe(
            name="nvfp4_moe_cuda",
            sources=sorted(SOURCES.glob("*.cu")),
            cuda_flags=CUDA_FLAGS,
            link_flags=[f"-L{root / 'lib'}"],
            environment=environment,
        )
    )


def load(recipe: Recipe) -> Any:
    """Build `recipe` unless its library is in the cache, and load it."""
    import tvm_ffi

    return tvm_ffi.load_module(str(build(recipe)))


def build(recipe: Recipe) -> Path:
    """Return the path of the built library.

    Raises:
        BuildError: the compiler refused; its lines are in the text.
    """
    from tvm_ffi.cpp import build as build_with_ninja

    folder = cache_root() / f"{recipe.name}-{_content_hash(recipe)}"
    library = folder / f"{recipe.name}.so"
    marker = folder / "complete"
    if marker.exists() and library.exists():
        return library
    with _environment(recipe.environment or {}):
        try:
            built = build_with_ninja(
                recipe.name,
                sources=[str(source) for source in recipe.sources],
                extra_cflags=list(recipe.cxx_flags),
                extra_cuda_cflags=list(recipe.cuda_flags),
                extra_ldflags=list(recipe.link_flags),
                extra_include_paths=[str(INCLUDE), str(SOURCES)],
                build_directory=str(folder),
                backend="cuda",
            )
        except RuntimeError as error:
            raise BuildError(
                f"building {recipe.name} in {folder} failed:\n{_compiler_lines(str(error))}"
            ) from None
    marker.touch()
    return Path(built)


def missing(library: str) -> str | None:
    """Return in one line what `library` ("host" or "cuda") lacks to be built here, or None.

    Raises:
        ValueError: another name.
    """
    if library not in ("host", "cuda"):
        raise ValueError(f'library must be "host" or "cuda", got {library!r}')
    try:
        _require_tools("c++")
        if library == "cuda":
            toolkit_root()
            _present_target()
    except MissingToolError as error:
        return str(error)
    return None


def cache_root() -> Path:
    """Return the folder that holds all built libraries."""
    chosen = os.environ.get("NVFP4_MOE_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "nvfp4-moe"


@cache
def toolkit_root() -> Path:
    """Return the root of the CUDA toolkit: what nvcc says of itself, since `nvcc` on PATH may be a link or a shim.

    Raises:
        MissingToolError: no nvcc in `$CUDA_HOME/bin` or on PATH.
    """
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    nvcc = shutil.which("nvcc", path=f"{home}/bin") if home else None
    nvcc = nvcc or shutil.which("nvcc")
    if nvcc is None:
        raise MissingToolError("nvcc was not found in $CUDA_HOME/bin or on PATH")
    shown = subprocess.run([nvcc, "--dryrun", "none.cu"], capture_output=True, text=True, check=False)
    top = re.search(r"^#\$ TOP=(.+)$", shown.stderr, re.MULTILINE)
    return Path(top.group(1)).resolve() if top else Path(nvcc).resolve().parent.parent


def _present_target() -> str:
    import torch

    if not torch.cuda.is_available():
        raise MissingToolError("no CUDA device is visible to torch")
    capability = torch.cuda.get_device_capability()
    if capability not in ARCHITECTURES:
        known = ", ".join(f"{major}.{minor}" for major, minor in ARCHITECTURES)
        raise MissingToolError(f"compute capability {capability[0]}.{capability[1]} is none of {known}")
    return ARCHITECTURES[capability]


def _require_tools(*programs: str) -> None:
    if importlib.util.find_spec("tvm_ffi") is None:
        raise MissingToolError("the package apache-tvm-ffi is not installed (pip install nvfp4-moe[cuda])")
    compiler = os.environ.get("CXX")
    for program in (
        *(compiler if compiler and program == "c++" else program for program in programs),
        "ninja",
    ):
        if shutil.which(program) is None:
            raise MissingToolError(f"{program} was not found on PATH")


def _content_hash(recipe: Recipe) -> str:
    digest = hashlib.sha256()
    headers = [*INCLUDE.rglob("*.h"), *SOURCES.glob("*.h"), *SOURCES.glob("*.cuh")]
    for path in sorted({*recipe.sources, *headers}):
        content = path.read_bytes()
        digest.update(f"{path.resolve()} {len(content)}\n".encode() + content)
    facts = (
        *recipe.cxx_flags, *recipe.cuda_flags, *recipe.link_flags, str(sorted((recipe.environment or {}).items())),
        importlib.metadata.version("apache-tvm-ffi"), _compiler_version(), *(_nvcc_version(recipe),),
    )  # fmt: skip
    digest.update("\n".join(facts).encode())
    return digest.hexdigest()[:16]


@cache
def _compiler_version() -> str:
    compiler = os.environ.get("CXX", "c++")
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _nvcc_version(recipe: Recipe) -> str:
    root = (recipe.environment or {}).get("CUDA_HOME")
    if root is None:
        return ""
    return subprocess.run(
        [f"{root}/bin/nvcc", "--version"], capture_output=True, text=True, check=False
    ).stdout


def _compiler_lines(report: str) -> str:
    """Return the part of ninja's report that says what failed, without the long command lines."""
    lines = [
        line
        for line in report.splitlines()
        if not re.match(r"\[\d+/\d+\]|FAILED:|ninja|stdout:|stderr:", line)
    ]
    kept = [line for line in lines if " -c " not in line and " -o " not in line]
    return "\n".join(kept or lines).strip() or report


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
