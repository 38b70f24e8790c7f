"""Inputs of a quantizer case and its true outputs.

The subject gets copies of the inputs in guarded memory; the golden model reads the originals afterwards, whose digest
shows that nothing wrote to them in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.verification.conformance.admissible import admissible, exact_interval, silu_interval
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.forms import Form, Masked, Ragged
from nvfp4_moe.verification.conformance.values import edge_amax, make_global_scales, make_values


@dataclass(frozen=True, eq=False)
class QuantInputs:
    """What a quantizer reads, on the CPU: the rows of all experts in order, and their global scales."""

    rows: torch.Tensor
    """(T, K), or (T, 2K) for the fused operations; bf16 or f16."""
    global_scale: torch.Tensor
    """f32 (E,), encode direction."""
    form: Form

    def whole(self) -> torch.Tensor:
        """Return the input tensor of the form; rows that no expert owns are zero."""
        owned = self.form.owned
        if len(owned) == len(self.rows) and owned.dim() == 1:
            return self.rows
        whole = self.rows.new_zeros((*owned.shape, self.rows.shape[-1]))
        whole[owned] = self.rows
        return whole

    def digest(self) -> int:
        """Return a number that a changed element changes: the wrapping sum of the rows' 64-bit words and the scales."""
        return int(self.rows.view(torch.int64).sum()) ^ int(self.global_scale.view(torch.int32).sum())


def form_of(case: QuantCase) -> Form:
    """Return the form of a case's outputs."""
    if case.masked:
        return Masked(case.tokens_per_expert, case.k, case.unrouted_rows)
    return Ragged(case.tokens_per_expert, case.k, case.unrouted_rows, case.extra_scale_rows)


def make_inputs(case: QuantCase) -> QuantInputs:
    """Return the inputs of a case."""
    routed = sum(case.tokens_per_expert)
    columns = case.k * (2 if case.fused else 1)
    values = make_values(
        case.values, seed=case.seed, index=case.index, rows=routed, columns=columns, dtype=case.dtype
    )
    if case.fused and case.values in _SPREAD:
        values[:, : case.k] = _spread_gate(values[:, : case.k])
    if case.values == "special":
        _zero_an_expert(values, case)
    if case.global_scales == "edge":
        _place_edges(values, case)
    experts = len(case.tokens_per_expert)
    return QuantInputs(
        rows=values,
        global_scale=make_global_scales(
            case.global_scales, seed=case.seed, index=case.index, experts=experts
        ),
        form=form_of(case),
    )


def _zero_an_expert(values: torch.Tensor, case: QuantCase) -> None:
    """Make all rows of one of several experts zero, as tokens of no activation are: the first -0, the others of either sign."""
    owning = [expert for expert, rows in enumerate(case.tokens_per_expert) if rows]
    if len(owning) > 1:
        expert = owning[case.index % len(owning)]
        first = sum(case.tokens_per_expert[:expert])
        patterns = values[first : first + case.tokens_per_expert[expert]].view(torch.int16)
        patterns &= _MINUS_ZERO
        patterns[0] = _MINUS_ZERO


_MINUS_ZERO = torch.iinfo(torch.int16).min
"""Its pattern: the sign alone."""
_SILU_OF_ITSELF = 32.0
"""A gate that SiLU leaves as it is: float32 holds no less of it than 1 - 2^-46."""


def _place_edges(values: torch.Tensor, case: QuantCase) -> None:
    """Give the first block of each expert one element, as large as the expert's global scale wants it."""
    experts = len(case.tokens_per_expert)
    amax = edge_amax(seed=case.seed, index=case.index, experts=experts)
    first = 0
    for expert, rows in enumerate(case.tokens_per_expert):
        if rows:
            values[first, :_BLOCK] = 0
            at = (expert + case.index) % _BLOCK
            if case.fused:
                values[first, at] = _SILU_OF_ITSELF
                values[first, case.k : case.k + _BLOCK] = 0
                values[first, case.k + at] = amax[expert] / _SILU_OF_ITSELF
            else:
                values[first, at] = amax[expert]
        first += rows


_BLOCK = NVFP4.block_size

_SPREAD = ("windowed", "ties", "scales", "scale_ties", "distinct", "one_hot")
"""Families of values near one; the others have every exponent already."""


def _spread_gate(gate: torch.Tensor) -> torch.Tensor:
    """Multiply every other normal gate value below 2^10 by 2^5, into the range where SiLU bends.

    Done on the patterns: a subject may have left the processor flushing subnormals.
    """
    info = torch.finfo(gate.dtype)
    mantissa = round(-math.log2(info.eps))
    bias = 1 - round(math.log2(info.tiny))
    patterns = gate.contiguous().view(torch.int16).clone()
    exponent = (patterns >> mantissa) & ((1 << (15 - mantissa)) - 1)
    moves = (exponent > 0) & (exponent < bias + _SPREAD_BELOW)
    moves[:, 0::2] = False
    patterns += moves.to(torch.int16) * (_SPREAD_BY << mantissa)
    return patterns.view(gate.dtype)


_SPREAD_BELOW, _SPREAD_BY = 10, 5
"""Exponents."""


def true_outputs(
    case: QuantCase, inputs: QuantInputs, contract: Contract, ops: Operations
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the golden model's codes of the rows, uint8 (T, K/2), and its scale buffer's bytes."""
    offsets = Ragged(case.tokens_per_expert, case.k).expert_offsets
    quantize = silu_and_mul_quantize_experts if case.fused else quantize_experts
    true = quantize(
        inputs.rows,
        inputs.global_scale,
        offsets,
        blockscale_offsets=offsets,
        layout="linear",
        recipe=contract.recipe,
        arithmetic=ops,
    )
    return true.packed, inputs.form.place_scales(true.block_scale)


def admissible_bytes(
    case: QuantCase, inputs: QuantInputs, recipe: str, packed: torch.Tensor, scales: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which bytes of a subject's outputs documented errors can reach; padding never is.

    Args:
        case: of the outputs.
        inputs: of the case.
        recipe: of the subject.
        packed: the codes of the rows, uint8 (T, K/2).
        scales: bytes of the scale buffer.

    Returns:
        bool tensors of the same shapes.
    """
    values = inputs.rows
    gate, up = values.chunk(2, dim=-1)
    counts = torch.tensor(case.tokens_per_expert)
    packed_ok, scales_ok = admissible(
        packed,
        inputs.form.read_scales(scales),
        magnitudes=silu_interval(values) if case.fused else exact_interval(values),
        signs=gate.signbit() ^ up.signbit() if case.fused else values.signbit(),
        global_scale=torch.repeat_interleave(inputs.global_scale, counts)[:, None],
        recipe=recipe,
    )
    return packed_ok, inputs.form.place_scales(scales_ok.to(torch.uint8)).to(torch.bool)
