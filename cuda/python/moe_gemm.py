"""`cutlass_fp4_moe_mm` by path: the kernel of the device, or plain torch on the host.

| path | what runs | CUDA graphs |
|---|---|---|
| `kernel` | `nvfp4_moe.cuda.gemm_ops.grouped_gemm`, CUDA tensors only | yes |
| `torch` | `nvfp4_moe.cuda.host_gemm`, any device | no: it reads row counts on the host |
| `auto` | `kernel` for CUDA tensors, `torch` for those of the CPU | |

`auto` never falls back: a GPU without a kernel is refused with the word that asks for the other path.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from torch import Tensor

from nvfp4_moe.cuda.host_gemm import host_grouped_gemm

PATHS = ("auto", "kernel", "torch")
KERNEL_MODULE = "nvfp4_moe.cuda.gemm_ops"

GroupedGemm = Callable[..., None]


def grouped_gemm_of(path: str, *, on_cuda: bool) -> GroupedGemm:
    """Return the grouped GEMM of a path.

    Raises:
        ValueError: unknown path, or the kernel for tensors of the CPU.
        NotImplementedError: this build has no kernel.
    """
    if path not in PATHS:
        raise ValueError(f"gemm must be one of {', '.join(PATHS)}, got {path!r}")
    if path == "torch" or (path == "auto" and not on_cuda):
        return host_grouped_gemm
    if not on_cuda:
        raise ValueError("gemm='kernel' needs CUDA tensors; the path of the host is gemm='torch'")
    try:
        found: GroupedGemm = importlib.import_module(KERNEL_MODULE).grouped_gemm
    except (ImportError, AttributeError) as error:
        raise NotImplementedError(
            f"no grouped GEMM kernel is here ({error}); gemm='torch' runs without"
        ) from None
    return found


def cutlass_fp4_moe_mm(
    out: Tensor,
    a: Tensor,
    b: Tensor,
    a_blockscale: Tensor,
    b_blockscale: Tensor,
    alphas: Tensor,
    problem_sizes: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    *,
    gemm: str = "auto",
) -> None:
    """Write alpha[e] * (rows of expert e times its weights) into `out`; arguments as `host_gemm.host_grouped_gemm`.

    Both offset vectors have E entries, as in vLLM: `expert_offsets[:-1]` of the routing data.

    Raises:
        TypeError, ValueError: tensors that do not belong together.
        NotImplementedError: as `grouped_gemm_of`.
    """
    grouped_gemm_of(gemm, on_cuda=out.is_cuda)(
        out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes, expert_offsets, blockscale_offsets
    )
