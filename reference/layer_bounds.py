"""The outputs that a right MoE layer can give, as an interval: the GEMM's error carried through all later steps.

A right GEMM may differ from the golden one by the order of its additions, and what follows rounds, jumps (a code, a scale
byte) and sums again. Every step here is monotone in its inputs for fixed scales, so ends of intervals are carried along:

1. GEMM 1: the derived interval (`gemm_bounds`); a single value where every order of additions is exact.
2. Activation: least and greatest of the SiLU table over all inputs between the ends (SiLU falls, then rises), products of
   the ends, rounded as the activation is.
3. Quantization: the block's largest magnitude lies between two values, so its scale byte between two bytes. For each byte
   between them code * SF is monotone in x: the least and the greatest over all of them.
4. GEMM 2: with a = middle +- radius, sum = middle * b +- radius * |b|, then the accumulator's loss, alpha, output.
5. Weighted sum: each float32 operation is monotone in a row, for weights that are not negative.

Where nothing in front of an output is in doubt, its interval is a single value. Recipe `vllm`; finite values only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.reference.activations import activation_named
from nvfp4_moe.reference.arithmetic import IEEE, Operations, keeps_subnormals
from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, encode_e2m1, encode_ue4m3
from nvfp4_moe.reference.formats import E2M1, NVFP4
from nvfp4_moe.reference.gemm_bounds import (
    FLOAT32_UNIT_ROUNDOFF,
    FLOAT64_SLACK,
    HALF_SMALLEST_FLOAT32,
    Accumulator,
    accumulator_loss,
    order_free,
    output_interval,
    rounded_ends,
)
from nvfp4_moe.reference.moe_layer import LayerStages
from nvfp4_moe.reference.permute import unpermute_rows
from nvfp4_moe.reference.silu import BIT_PATTERNS, silu

Ends = tuple[Tensor, Tensor]
"""Least and greatest value of every element."""
HALF = BIT_PATTERNS // 2


@keeps_subnormals
def layer_interval(
    stages: LayerStages,
    a2_gscale: Tensor,
    sum_weights: Tensor,
    *,
    activation: str,
    ops: Operations = IEEE,
    accumulator: Accumulator,
) -> Ends:
    """Return the least and the greatest output that a right layer can give, each (M, K) in the type of the tokens.

    Args:
        stages: of the golden layer on the same inputs and arithmetic.
        a2_gscale: float32 (E,).
        sum_weights: float32 (M, topk), not negative: those of the sum, so 1 where they were applied on the input.
        activation: a name of `ACTIVATIONS`.
        ops: the arithmetic of the quantizers and of SiLU.
        accumulator: of both GEMMs.

    Raises:
        ValueError: a negative weight of the sum, or values that are not finite.
    """
    if bool((sum_weights < 0).any()):
        raise ValueError("weights of the sum must not be negative")
    dtype = stages.output.dtype
    low, high = gemm1 = _gemm1_ends(stages, accumulator)
    if not bool((low.isfinite() & high.isfinite()).all()):
        raise ValueError("the first GEMM has outputs that are not finite")
    counts = stages.routing.tokens_per_expert.to(torch.int64)
    gscale = torch.repeat_interleave(a2_gscale, counts)[:, None]
    operand = dequantized_ends(activated_ends(gemm1, activation, ops), gscale, ops)
    routing = stages.routing
    low2, high2 = (
        unpermute_rows(end, routing.output_permutation, sum_weights, routed_rows=routing.routed_rows)
        for end in _gemm2_ends(stages, operand, accumulator, dtype)
    )
    return low2, high2


def _gemm1_ends(stages: LayerStages, accumulator: Accumulator) -> Ends:
    low, high = output_interval(stages.operands1, dtype=stages.gemm1.dtype, accumulator=accumulator)
    exact = order_free(stages.operands1)
    return torch.where(exact, stages.gemm1, low), torch.where(exact, stages.gemm1, high)


def activated_ends(ends: Ends, activation: str, ops: Operations) -> Ends:
    """Return the ends of the activated values, in the same type."""
    low, high = ends
    if activation == "relu2_no_mul":  # never falls
        of = activation_named(activation).apply
        return of(low, ops), of(high, ops)
    if activation == "silu_no_mul":
        least, greatest = _silu_ends(low, high, IEEE)  # as `activations` says
        return least.to(low.dtype), greatest.to(low.dtype)
    (gate_low, up_low), (gate_high, up_high) = low.chunk(2, dim=-1), high.chunk(2, dim=-1)
    silu_ends = _silu_ends(gate_low, gate_high, ops)
    products = torch.stack(
        [one * other.to(torch.float32) for one in silu_ends for other in (up_low, up_high)]
    )
    return products.amin(0).to(low.dtype), products.amax(0).to(low.dtype)


def _silu_ends(low: Tensor, high: Tensor, ops: Operations) -> Ends:
    """Return the least and the greatest float32 SiLU over all inputs of the type in [low, high]."""
    least, greatest = (table.to(low.device) for table in _range_tables(low.dtype, ops))
    first, last = _rank(low), _rank(high)
    # frexp gives length = m * 2^e with m in [1/2, 1): the level is e - 1, with nothing to round.
    level = torch.frexp((last - first + 1).to(torch.float64)).exponent.to(torch.int64) - 1
    second = last - (1 << level) + 1
    return (
        torch.minimum(least[level, first], least[level, second]),
        torch.maximum(greatest[level, first], greatest[level, second]),
    )


def _rank(values: Tensor) -> Tensor:
    """Return the place of each value among all patterns of its type in ascending order, int64."""
    patterns = values.contiguous().view(torch.int16).to(torch.int64)
    return torch.where(patterns < 0, -1 - patterns, patterns + HALF)


def _range_tables(dtype: torch.dtype, ops: Operations) -> Ends:
    """Return float32 (17, 2^16) twice: entry [j, i] is the least (greatest) SiLU of the inputs ranked i .. i + 2^j - 1."""
    key = (dtype, ops.name)
    if key not in _tables:
        _tables[key] = _make_range_tables(dtype, ops)
    return _tables[key]


_tables: dict[tuple[torch.dtype, str], Ends] = {}
"""By type and the arithmetic's name, which says whose table it is."""


def _make_range_tables(dtype: torch.dtype, ops: Operations) -> Ends:
    ranks = torch.arange(BIT_PATTERNS)
    patterns = torch.where(ranks < HALF, -1 - ranks, ranks - HALF)
    values = silu(patterns.to(torch.int16).view(dtype), arithmetic=ops)
    tables = []
    for pick in (torch.minimum, torch.maximum):
        levels = [values]
        for level in range(BIT_PATTERNS.bit_length() - 1):
            further = levels[-1].roll(-(1 << level))
            levels.append(pick(levels[-1], further))
        tables.append(torch.stack(levels))
    return tables[0], tables[1]


def dequantized_ends(ends: Ends, gscale: Tensor, ops: Operations) -> Ends:
    """Return the ends of code * SF, float64 (T, n), for values between the ends and the encode scale of each row."""
    low, high = (end.to(torch.float32).unflatten(-1, (-1, NVFP4.block_size)) for end in ends)
    straddles = (low <= 0) & (high >= 0)
    amax_low = torch.where(straddles, 0.0, torch.minimum(low.abs(), high.abs())).amax(-1)
    amax_high = torch.maximum(low.abs(), high.abs()).amax(-1)
    byte_low, byte_high = (_scale_byte(amax, gscale, ops) for amax in (amax_low, amax_high))
    least, greatest = (
        torch.full(low.shape, bound, dtype=torch.float64, device=low.device)
        for bound in (torch.inf, -torch.inf)
    )
    for further in range(int((byte_high - byte_low).max()) + 1 if byte_low.numel() else 0):
        byte = torch.minimum(byte_low + further, byte_high).to(torch.uint8)
        scale = decode_ue4m3(byte)
        multiplier = torch.where(scale == 0, 0.0, ops.reciprocal(scale * ops.reciprocal(gscale)))
        for end in (low, high):
            element = decode_e2m1(encode_e2m1(end * multiplier[..., None])) * scale[..., None]
            least = torch.minimum(least, element.to(torch.float64))
            greatest = torch.maximum(greatest, element.to(torch.float64))
    return least.flatten(-2), greatest.flatten(-2)


def _scale_byte(amax: Tensor, gscale: Tensor, ops: Operations) -> Tensor:
    sixth = ops.reciprocal(torch.full((), E2M1.max, device=amax.device))
    return encode_ue4m3(gscale * (amax * sixth)).to(torch.int64)


def _gemm2_ends(stages: LayerStages, operand: Ends, accumulator: Accumulator, dtype: torch.dtype) -> Ends:
    low, high = operand
    operands = stages.operands2
    middle, radius, largest = (low + high) / 2, (high - low) / 2, torch.maximum(low.abs(), high.abs())
    ends = [torch.zeros(stages.gemm2.shape, dtype=torch.float64, device=low.device) for _ in range(2)]
    for expert, (first, end) in enumerate(
        zip(operands.expert_offsets[:-1], operands.expert_offsets[1:], strict=True)
    ):
        rows, weight = slice(first, end), operands.b[expert]
        magnitude = largest[rows] @ weight.abs().T
        lost = accumulator_loss(magnitude, weight.shape[1], accumulator) + FLOAT64_SLACK * magnitude
        sums, doubt = middle[rows] @ weight.T, radius[rows] @ weight.abs().T + lost
        alpha = float(operands.alphas[expert])
        scaled = torch.stack([alpha * (sums - doubt), alpha * (sums + doubt)])
        rounded = scaled.abs().amax(0) * FLOAT32_UNIT_ROUNDOFF + HALF_SMALLEST_FLOAT32
        rounded = torch.where(magnitude == 0, 0.0, rounded)
        ends[0][rows], ends[1][rows] = scaled.amin(0) - rounded, scaled.amax(0) + rounded
    certain = (low == high).all(-1, keepdim=True) & order_free(operands)
    least, greatest = rounded_ends(ends[0], ends[1], dtype)
    return torch.where(certain, stages.gemm2, least), torch.where(certain, stages.gemm2, greatest)
