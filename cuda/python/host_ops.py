"""The host twin as a subject: the callables of the protocol, arithmetic `ieee`, row padding zero.

Importing this module needs what a build needs. Variants (arithmetic `hardware`, row padding unwritten) are
`OPS.options(...)`.

Raises (on import):
    MissingToolError: no C++ compiler, ninja or apache-tvm-ffi.
"""

from __future__ import annotations

from nvfp4_moe.cuda.build import MissingToolError, missing
from nvfp4_moe.cuda.moe import run_cutlass_moe_fp4 as run_cutlass_moe_fp4
from nvfp4_moe.cuda.moe_gemm import cutlass_fp4_moe_mm as cutlass_fp4_moe_mm
from nvfp4_moe.cuda.ops import HostOps

if _lacking := missing("host"):
    raise MissingToolError(_lacking)

OPS = HostOps()

get_cutlass_moe_mm_data = OPS.get_cutlass_moe_mm_data
scaled_fp4_experts_quant = OPS.scaled_fp4_experts_quant
scaled_fp4_masked_quant = OPS.scaled_fp4_masked_quant
shuffle_rows = OPS.shuffle_rows
silu_and_mul_scaled_fp4_experts_quant = OPS.silu_and_mul_scaled_fp4_experts_quant
silu_and_mul_scaled_fp4_masked_quant = OPS.silu_and_mul_scaled_fp4_masked_quant
swizzle = OPS.swizzle
unpermute_rows = OPS.unpermute_rows
unswizzle = OPS.unswizzle
