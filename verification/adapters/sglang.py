"""SGLang: sgl-kernel's operations, under the namespace `sgl_kernel`.

`silu_and_mul_scaled_fp4_experts_quant` is the masked form there, with and without SiLU, on tensors whose first two
dimensions (experts, rows) are one. `prepare_moe_input`, the routing metadata, cannot say whether experts are gated and
is not tested.
"""

from __future__ import annotations

import torch

from nvfp4_moe.verification.adapters.binding import Engine, Operation, Schema, importing
from nvfp4_moe.verification.adapters.vllm import quantizer, shuffler

_QUANT = (
    "(Tensor output, Tensor output_scale, Tensor input, Tensor input_global_scale, Tensor input_offset_by_experts, "
    "Tensor output_scale_offset_by_experts) -> ()"
)
_MASKED = (
    "(Tensor output, Tensor output_scale, Tensor input, Tensor input_global_scale, Tensor mask, bool use_silu_and_mul)"
    " -> ()"
)
_SHUFFLE = "(Tensor input, Tensor dst2src_map, Tensor output) -> ()"


def _masked(registered: Operation, *, fused: bool) -> Operation:
    def quantize(
        output: torch.Tensor,
        output_scale: torch.Tensor,
        input: torch.Tensor,
        input_global_scale: torch.Tensor,
        masked_m: torch.Tensor,
    ) -> None:
        flat = (tensor.view(-1, tensor.shape[-1]) for tensor in (output, output_scale, input))
        registered(*flat, input_global_scale, masked_m, fused)

    return quantize


ENGINE = Engine(
    name="sglang",
    package="sgl_kernel",
    registers=(importing("sgl_kernel"),),
    preset="sglang",
    known={
        "sgl_kernel::scaled_fp4_experts_quant": (Schema(_QUANT, {"scaled_fp4_experts_quant": quantizer}),),
        "sgl_kernel::silu_and_mul_scaled_fp4_experts_quant": (
            Schema(
                _MASKED,
                {
                    "scaled_fp4_masked_quant": lambda op: _masked(op, fused=False),
                    "silu_and_mul_scaled_fp4_masked_quant": lambda op: _masked(op, fused=True),
                },
            ),
        ),
        "sgl_kernel::shuffle_rows": (Schema(_SHUFFLE, {"shuffle_rows": shuffler}),),
    },
)
"""SGLang."""
