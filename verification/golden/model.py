"""`Model`: the parts of the golden model that the second oracle is compared with, so that a wrong part can be tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nvfp4_moe.reference import casts, experts, layouts, routing, silu
from nvfp4_moe.reference.quantize import Quantized, quantize

Cast = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Model:
    """Functions under the names and with the arguments that they have in `reference`."""

    decode_e2m1: Cast = casts.decode_e2m1
    encode_e2m1: Cast = casts.encode_e2m1
    decode_ue4m3: Cast = casts.decode_ue4m3
    encode_ue4m3: Cast = casts.encode_ue4m3
    pack: Cast = casts.pack
    unpack: Cast = casts.unpack
    silu: Cast = silu.silu
    quantize: Callable[..., Quantized] = quantize
    quantize_experts: Callable[..., Quantized] = experts.quantize_experts
    quantize_masked: Callable[..., Quantized] = experts.quantize_masked
    silu_and_mul_quantize_experts: Callable[..., Quantized] = experts.silu_and_mul_quantize_experts
    to_layout: Callable[..., torch.Tensor] = layouts.to_layout
    from_layout: Callable[..., torch.Tensor] = layouts.from_layout
    scale_byte_index: Callable[..., torch.Tensor] = layouts.scale_byte_index
    route: Callable[..., Any] = routing.route


REFERENCE = Model()
"""The golden model as it is."""
