"""FlashInfer: the masked quantizers of `flashinfer.fp4_quantization`, registered when their module is built.

They return what CuTe kernels want to see: codes (rows, K/2, experts) and float8 scales (32, 4, tiles, 4, column tiles,
experts), both permuted views of the buffers that the protocol speaks of; the adapter undoes the permutations. Many
versions of FlashInfer register nothing with torch (its decorator does nothing there), and then there is no schema to
bind by.
"""

from __future__ import annotations

import importlib

import torch

from nvfp4_moe.verification.adapters.binding import Engine, Operation, Schema

_PLAIN = "(Tensor input_tensor, Tensor input_global_scale, Tensor mask) -> (Tensor, Tensor)"
_FUSED = "(Tensor input, Tensor mask, Tensor? global_scale) -> (Tensor, Tensor)"

Returned = tuple[torch.Tensor, torch.Tensor]


def _buffers(returned: Returned) -> Returned:
    """Return uint8 (experts, rows, K/2) and int32 (experts, padded rows, ceil(K/64)) of the permuted views."""
    codes, scales = returned
    tiled = scales.view(torch.uint8).permute(5, 2, 4, 0, 1, 3)  # experts, tiles, column tiles, 32, 4, 4
    experts, tiles, columns = tiled.shape[:3]
    in_bytes = tiled.reshape(experts, tiles * 128, columns * 4)
    return codes.permute(2, 0, 1).contiguous(), in_bytes.view(torch.int32)


def _plain(registered: Operation) -> Operation:
    def quantize(input: torch.Tensor, input_global_scale: torch.Tensor, masked_m: torch.Tensor) -> Returned:
        return _buffers(registered(input, input_global_scale, masked_m))

    return quantize


def _fused(registered: Operation) -> Operation:
    def quantize(input: torch.Tensor, input_global_scale: torch.Tensor, masked_m: torch.Tensor) -> Returned:
        return _buffers(registered(input, masked_m, input_global_scale))

    return quantize


def _build() -> object:
    """Build the module of the present device, which registers its operations."""
    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (10, 0)
    module = importlib.import_module("flashinfer.fp4_quantization")
    return module.get_fp4_quantization_module(f"{major}{minor}")


ENGINE = Engine(
    name="flashinfer",
    package="flashinfer",
    registers=(_build,),
    preset="flashinfer",
    known={
        "flashinfer::scaled_fp4_grouped_quant_sm100": (Schema(_PLAIN, {"scaled_fp4_masked_quant": _plain}),),
        "flashinfer::silu_and_mul_scaled_nvfp4_experts_quantize_sm100": (
            Schema(_FUSED, {"silu_and_mul_scaled_fp4_masked_quant": _fused}),
        ),
    },
    hint="this version may register nothing with torch; wrap the function that you use in a file of your own",
)
"""FlashInfer."""
