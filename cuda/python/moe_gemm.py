"""`cutlass_fp4_moe_mm` by path: the kernel of the device, or plain torch.

| path | what runs | CUDA graphs |
|---|---|---|
| `kernel` | `nvfp4_moe.cuda.gemm_ops`: the CUDA kernel, on the CPU its host twin | yes |
| `torch` | `nvfp4_moe.cuda.host_gemm`, any device, nothing to build | no: it reads row counts on the host |

Nothing falls back by itself: a device without a kernel is refused with the word that asks for the other path.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from nvfp4_moe.cuda.gemm_ops import grouped_gemm
from nvfp4_moe.cuda.host_gemm import host_grouped_gemm

PATHS: dict[str, Callable[..., None]] = {"kernel": grouped_gemm, "torch": host_grouped_gemm}
DEFAULT_PATH = "kernel"


def check_path(path: str) -> None:
    """Refuse an unknown path.

    Raises:
        ValueError: it is none of `PATHS`.
    """
    if path not in PATHS:
        raise ValueError(f"gemm must be one of {', '.join(PATHS)}, got {path!r}")


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
    gemm: str = DEFAULT_PATH,
) -> None:
    """Write alpha[e] * (rows of expert e times its weights) into `out`; arguments as `host_gemm.host_grouped_gemm`.

    Both offset vectors have E entries, as in vLLM: `expert_offsets[:-1]` of the routing data.

    Raises:
        TypeError, ValueError: tensors that do not belong together.
        NotImplementedError: no kernel for this device; gemm="torch" runs without.
    """
    check_path(gemm)
    PATHS[gemm](
        out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes, expert_offsets, blockscale_offsets
    )
