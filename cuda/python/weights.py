"""Weight preparation: checkpoint weights to what the layer reads, padded in N and K, swizzled, one scale an expert.

Two kinds of source: weights in bfloat16 or float16, which are quantized here by the expert quantizer itself (an expert's
weight rows are its routed rows), and weights that are NVFP4 already (codes, linear block scales, a decode scale), whose
scales are only placed.

Padding keeps the layer's function: columns that are added to K are zero, rows that are added to N give zero outputs, and
gate and up are padded each by itself, so that silu(0) * 0 = 0 meets a zero column of the second weight.

    intermediate n -> round_up(n, intermediate_multiple)      N of gate and up, K of the second weight
    hidden k       -> round_up(k, hidden_multiple)            K of the first weight, N of the second; the tokens of the
                                                              layer must then be padded with zero columns as well
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nvfp4_moe.cuda.activations import IS_GATED, activation_name
from nvfp4_moe.cuda.seed_ops import ops_of
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.layouts import scale_shape
from nvfp4_moe.reference.padding import check_size, round_up

LAYOUT = "swizzled_128x4"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedWeight:
    """One projection of all experts."""

    packed: Tensor
    """uint8 (E, N, K/2)."""
    block_scale: Tensor
    """float8_e4m3fn (E, round_up(N, 128), 4 * ceil(K/64)), swizzled_128x4, padding zero."""
    global_decode_scale: Tensor
    """float32 (E,): what code * SF is multiplied with; ModelOpt's weight_scale_2."""


def quantize_weight(weight: Tensor, *, arithmetic: str | None = None) -> QuantizedWeight:
    """Quantize weights, each expert with the encode scale 2688 / amax of its own.

    Args:
        weight: bfloat16 or float16 (E, N, K), finite, K a multiple of 16.
        arithmetic: of the quantizer, by default the device's.

    Raises:
        TypeError: another dtype.
        ValueError: another shape, or a weight that is not finite: the text names its expert.
    """
    if weight.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"weight must be bfloat16 or float16, got {weight.dtype}")
    if weight.dim() != 3 or weight.shape[2] == 0 or weight.shape[2] % NVFP4.block_size:
        raise ValueError(f"weight must be (E, N, K) with K a multiple of 16, got {tuple(weight.shape)}")
    experts, n, k = weight.shape
    amax = weight.to(torch.float32).abs().amax((1, 2))
    if not bool(amax.isfinite().all()):
        raise ValueError(f"the weight of expert {int((~amax.isfinite()).nonzero()[0])} is not finite")
    encode = torch.where(amax == 0, 1.0, NVFP4.encode_numerator / amax).clamp(
        max=torch.finfo(torch.float32).max
    )
    rows, columns = scale_shape(n, k, LAYOUT)
    packed = weight.new_zeros((experts * n, k // 2), dtype=torch.uint8)
    scales = weight.new_zeros((experts * rows, columns), dtype=torch.uint8)
    ops_of(weight, arithmetic).scaled_fp4_experts_quant(
        packed,
        scales,
        weight.reshape(experts * n, k),
        encode,
        _starts(experts, n, weight),
        _starts(experts, rows, weight),
    )
    return QuantizedWeight(
        packed=packed.view(experts, n, k // 2),
        block_scale=scales.view(torch.float8_e4m3fn).view(experts, rows, columns),
        global_decode_scale=1.0 / encode,
    )


def place_weight(packed: Tensor, block_scale: Tensor, global_decode_scale: Tensor) -> QuantizedWeight:
    """Return an NVFP4 weight with its scales swizzled.

    Args:
        packed: uint8 (E, N, K/2).
        block_scale: float8_e4m3fn or uint8 (E, N, K/16), linear.
        global_decode_scale: float32 (E,).

    Raises:
        TypeError, ValueError: shapes or dtypes that do not belong together.
    """
    experts, n, half_k = packed.shape
    if packed.dtype != torch.uint8 or tuple(block_scale.shape) != (experts, n, half_k // 8) or half_k % 8:
        raise ValueError(
            f"packed must be uint8 (E, N, K/2) and block_scale (E, N, K/16), got {packed.dtype} "
            f"{tuple(packed.shape)} and {tuple(block_scale.shape)}"
        )
    swizzled = ops_of(packed).swizzle(block_scale.contiguous())
    return QuantizedWeight(
        packed=packed,
        block_scale=swizzled.view(torch.float8_e4m3fn),
        global_decode_scale=global_decode_scale.to(torch.float32),
    )


def prepare_experts(
    gate: Tensor | None,
    up: Tensor,
    down: Tensor,
    *,
    input_scale1: Tensor,
    input_scale2: Tensor,
    activation: str = "silu",
    intermediate_multiple: int = 16,
    hidden_multiple: int = 16,
    arithmetic: str | None = None,
) -> ExpertWeights:
    """Pad, quantize and swizzle the weights of a rank's experts.

    Args:
        gate: bfloat16 or float16 (E, n, k); None where the activation is not gated.
        up: (E, n, k).
        down: (E, k, n).
        input_scale1, input_scale2: float32 (E,), decode scales of the activations of both GEMMs (amax / 2688), as
            checkpoints hold them; the layer's a1_gscale and a2_gscale are their reciprocals.
        activation: a name of `activations.IS_GATED`.
        intermediate_multiple: what the intermediate size is padded to; 64 suits readers with unpadded scale strides.
        hidden_multiple: the same of the hidden size.
        arithmetic: of the quantizer, by default the device's.

    Raises:
        TypeError, ValueError: shapes or dtypes that do not belong together, multiples that are none of 16, scales that
            are not finite and positive.
    """
    if IS_GATED[activation_name(activation)] != (gate is not None):
        raise ValueError(f"activation {activation} {'needs a' if gate is None else 'has no'} gate")
    experts, n, k = up.shape
    if tuple(down.shape) != (experts, k, n) or (gate is not None and gate.shape != up.shape):
        raise ValueError(
            f"up must be (E, n, k), gate the same, down (E, k, n), got {tuple(up.shape)}, {tuple(down.shape)}"
        )
    new_n, new_k = _padded_size(n, intermediate_multiple), _padded_size(k, hidden_multiple)
    first = [pad_weight(weight, new_n, new_k) for weight in (gate, up) if weight is not None]
    weight1 = quantize_weight(torch.cat(first, dim=1), arithmetic=arithmetic)
    weight2 = quantize_weight(pad_weight(down, new_k, new_n), arithmetic=arithmetic)
    return assemble(weight1, weight2, input_scale1=input_scale1, input_scale2=input_scale2)


def pad_weight(weight: Tensor, rows: int, columns: int) -> Tensor:
    """Return (E, rows, columns) with zeros past the weight's own.

    Raises:
        ValueError: fewer rows or columns than the weight has.
    """
    experts, n, k = weight.shape
    if rows < n or columns < k:
        raise ValueError(f"a weight of {n} x {k} does not fit {rows} x {columns}")
    padded = weight.new_zeros((experts, rows, columns))
    padded[:, :n, :k] = weight
    return padded


def assemble(
    weight1: QuantizedWeight, weight2: QuantizedWeight, *, input_scale1: Tensor, input_scale2: Tensor
) -> ExpertWeights:
    """Return the layer's tensors: alpha = input scale * weight scale, gscale = 1 / input scale, in float32.

    Raises:
        ValueError: an input scale that is not finite and positive (a checkpoint without calibration), or of another shape.
    """
    for name, scale in (("input_scale1", input_scale1), ("input_scale2", input_scale2)):
        if scale.shape != weight1.global_decode_scale.shape:
            raise ValueError(
                f"{name} must be {tuple(weight1.global_decode_scale.shape)}, got {tuple(scale.shape)}"
            )
        wrong = ~(scale.isfinite() & (scale > 0))
        if bool(wrong.any()):
            expert = int(wrong.nonzero()[0])
            raise ValueError(f"{name}[{expert}] must be finite and positive, got {float(scale[expert])}")
    scale1, scale2 = (scale.to(torch.float32) for scale in (input_scale1, input_scale2))
    return ExpertWeights(
        w1_fp4=weight1.packed,
        w1_blockscale=weight1.block_scale,
        w1_alphas=scale1 * weight1.global_decode_scale,
        a1_gscale=1.0 / scale1,
        w2_fp4=weight2.packed,
        w2_blockscale=weight2.block_scale,
        w2_alphas=scale2 * weight2.global_decode_scale,
        a2_gscale=1.0 / scale2,
    )


def _padded_size(size: int, multiple: int) -> int:
    if check_size("multiple", multiple, at_least=1) % NVFP4.block_size:
        raise ValueError(f"sizes are padded to multiples of {NVFP4.block_size}, got {multiple}")
    return round_up(size, multiple)


def _starts(experts: int, rows: int, like: Tensor) -> Tensor:
    return torch.arange(experts + 1, dtype=torch.int32, device=like.device) * rows
