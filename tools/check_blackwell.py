"""Compile Blackwell's grouped GEMM and look for the block-scaled matrix instruction in the machine code.

Usage: python tools/check_blackwell.py [TARGET ...]        targets: 100a 103a 120a; by default all

A target whose architecture macro is missing compiles to an empty kernel without a word, so the instruction itself is
counted: what CUTLASS's kernel must hold for each form. Nothing is run: no Blackwell device is needed, and none was used.

Exit code 1 when the compiler refuses or an instruction is missing; 3 when nvcc, nvdisasm or CUTLASS's headers are not
here; 2 for another target.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nvfp4_moe.cuda.build import INCLUDE, SOURCES, BuildError, MissingToolError, toolkit_root
from nvfp4_moe.cuda.gemm_build import CUTLASS_FLAGS, GEMM_SOURCES, cutlass_include

INSTRUCTIONS = {
    "100a": ("UTCOMMA.4X", "UTCOMMA.2CTA.4X"),
    "103a": ("UTCOMMA.BLOCK16", "UTCOMMA.2CTA.BLOCK16"),
    "120a": ("OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X",),
}
"""Target -> the instruction of each form: tcgen05.mma of one multiprocessor and of a pair, or warp-level mma."""
PATTERN = re.compile(r"\b(?:UTC)?OMMA\.[A-Z0-9.]+")


def compile_target(target: str, folder: Path) -> Path:
    """Compile the kernels with bfloat16 output for one target; return the cubin.

    Raises:
        BuildError: the compiler refused.
    """
    cubin = folder / f"{target}.cubin"
    command = [
        str(toolkit_root() / "bin" / "nvcc"), "-std=c++17", *CUTLASS_FLAGS, f"-DNVFP4_GEMM_TARGET={target[:-1]}",
        f"-I{INCLUDE}", f"-I{SOURCES}", f"-I{cutlass_include()}", f"-gencode=arch=compute_{target},code=sm_{target}",
        "-cubin", str(GEMM_SOURCES / "blackwell_bf16.cu"), "-o", str(cubin),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{target}: nvcc failed:\n{done.stderr}")
    return cubin


def instructions(cubin: Path) -> Counter[str]:
    """Return how often each block-scaled instruction stands in the machine code."""
    listing = subprocess.run(
        [disassembler(), "-c", str(cubin)], capture_output=True, text=True, check=True
    ).stdout
    return Counter(PATTERN.findall(listing))


def disassembler() -> str:
    """Return the path of nvdisasm: on PATH, in the toolkit, or in the package nvidia-cuda-nvdisasm.

    Raises:
        MissingToolError: it is in none of them.
    """
    packaged = [str(Path(folder) / "nvidia" / "cu13" / "bin") for folder in sys.path if folder]
    for path in (None, str(toolkit_root() / "bin"), *packaged):
        found = shutil.which("nvdisasm", path=path)
        if found is not None:
            return found
    raise MissingToolError("nvdisasm was not found (pip install nvidia-cuda-nvdisasm)")


def check(target: str) -> bool:
    """Compile one target and print what it holds; return whether every instruction is there."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = instructions(compile_target(target, Path(folder)))
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    wanted = INSTRUCTIONS[target]
    counted = ", ".join(f"{found[name]} x {name}" for name in wanted)
    print(f"sm_{target}: {counted}; {time.monotonic() - begin:.0f} s, at most {memory:.1f} GiB", flush=True)
    return all(found[name] > 0 for name in wanted)


def main(arguments: Sequence[str]) -> int:
    """Check the targets; return the exit code."""
    targets = list(arguments) or list(INSTRUCTIONS)
    unknown = [target for target in targets if target not in INSTRUCTIONS]
    if unknown:
        print(f"targets are {', '.join(INSTRUCTIONS)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    try:
        disassembler(), cutlass_include()
        right = [check(target) for target in targets]
    except MissingToolError as error:
        print(f"Blackwell's grouped GEMM was not checked: {error}", file=sys.stderr)
        return 3
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    if not all(right):
        print("an instruction is missing: the kernel is empty or on a slower path", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
