"""Tensors of a layer case: tokens, router weights, ids and quantized experts, from the counter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nvfp4_moe.reference.activations import ACTIVATIONS
from nvfp4_moe.reference.arithmetic import IEEE, Operations
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.reference.moe_layer import LayerStages, moe_layer
from nvfp4_moe.verification.conformance.cases import RoutingCase
from nvfp4_moe.verification.conformance.forms import SWIZZLED
from nvfp4_moe.verification.conformance.gemm_data import DTYPES
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.routing_check import make_topk_ids
from nvfp4_moe.verification.conformance.values import make_values
from nvfp4_moe.verification.counter import below, bits, words

_ONE, _DOUBLE = 0x38, 0x08
"""Scale bytes: that of 1, and what doubles a power of two."""
_WINDOW = (0x18, 0x38)
"""Scale bytes of `any`: from 2^-4 up, so many of them: seven binades."""
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""What tokens of the exact family are made of: the elements' own values."""


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """What a call reads, on the CPU."""

    tokens: Tensor
    weights: ExpertWeights
    topk_weights: Tensor
    topk_ids: Tensor
    activation: str
    weights_on_input: bool
    n: int
    k: int

    def of_tokens(self, order: Tensor) -> LayerInputs:
        """Return the inputs of other tokens, by their numbers."""
        return replace(
            self,
            tokens=self.tokens[order],
            topk_weights=self.topk_weights[order],
            topk_ids=self.topk_ids[order],
        )

    def of_experts(self, first: int, end: int) -> LayerInputs:
        """Return what one rank sees that holds the experts from `first` up to `end`."""
        inside = (self.topk_ids >= first) & (self.topk_ids < end)
        ids = torch.where(inside, self.topk_ids - first, -1)
        weights = {
            name: tensor.clone() for name, tensor in self.weights.of_experts(first, end).as_dict().items()
        }
        return replace(self, weights=ExpertWeights(**weights), topk_ids=ids)

    @property
    def sum_weights(self) -> Tensor:
        """Weights of the sum over the slots."""
        return torch.ones_like(self.topk_weights) if self.weights_on_input else self.topk_weights

    def stages(self, ops: Operations) -> LayerStages:
        """Return what the golden layer makes of them."""
        return moe_layer(
            self.tokens,
            self.weights,
            self.topk_weights,
            self.topk_ids,
            activation=self.activation,
            apply_router_weight_on_input=self.weights_on_input,
            arithmetic=ops,
        )

    @property
    def stages_ieee(self) -> LayerStages:
        """The stages with every operation correctly rounded."""
        return self.stages(IEEE)

    def digest(self) -> int:
        """Return a number that a changed byte changes."""
        tensors = (self.tokens, self.topk_weights, self.topk_ids, *self.weights.as_dict().values())
        return sum(
            int(t.contiguous().view(torch.uint8).to(torch.int64).sum()) * (i + 1)
            for i, t in enumerate(tensors)
        )


def make_layer(case: LayerCase) -> LayerInputs:
    """Return the inputs of a case."""
    columns = 2 * case.n if ACTIVATIONS[case.activation].is_gated else case.n
    w1_fp4, w1_blockscale = _weight(case, "w1", columns, case.k)
    w2_fp4, w2_blockscale = _weight(case, "w2", case.k, case.n)
    exact = case.values == "exact"
    gscale = torch.full((case.num_experts,), 64.0) if exact else _odd(case, "gscale", case.num_experts) * 64.0
    # Outputs of both GEMMs near one: alpha undoes the scales, and about the root of the columns.
    shrunk = (1 / (gscale * 16 * case.k**0.5), 1 / (gscale * 16 * case.n**0.5))
    alphas = [
        torch.exp2(a.log2().round()) if exact else a * _odd(case, "alpha", case.num_experts) for a in shrunk
    ]
    return LayerInputs(
        tokens=_tokens(case),
        weights=ExpertWeights(
            w1_fp4=w1_fp4, w1_blockscale=w1_blockscale, w1_alphas=alphas[0], a1_gscale=gscale,
            w2_fp4=w2_fp4, w2_blockscale=w2_blockscale, w2_alphas=alphas[1], a2_gscale=gscale.flip(0).clone(),
        ),
        topk_weights=_router_weights(case),
        topk_ids=_ids(case),
        activation=case.activation,
        weights_on_input=case.weights_on_input,
        n=case.n,
        k=case.k,
    )  # fmt: skip


def _tokens(case: LayerCase) -> Tensor:
    if case.values == "any":
        return make_values(
            "windowed", seed=case.seed, index=case.index, rows=case.tokens, columns=case.k, dtype=case.dtype
        )
    raw = words(case.seed, "layer.tokens", case.index << 32, case.tokens * case.k).view(case.tokens, case.k)
    values = torch.tensor(_MAGNITUDES)[below(raw, len(_MAGNITUDES))] * (
        1 - 2 * bits(raw, 1).to(torch.float32)
    )
    values[:, ::16] = _MAGNITUDES[-1]  # so that a block's scale is a power of two
    row, block = torch.arange(case.tokens)[:, None], torch.arange(case.k)[None, :] // 16
    return (values * torch.exp2(((row + block) % 2).to(torch.float32))).to(DTYPES[case.dtype])


def _weight(case: LayerCase, name: str, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    shape = (case.num_experts, rows)
    codes = bits(
        words(case.seed, f"layer.{name}", case.index << 32, case.num_experts * rows * columns // 2), 8
    )
    raw = words(case.seed, f"layer.scales.{name}", case.index << 32, case.num_experts * rows * columns // 16)
    if case.values == "any":
        scales = _WINDOW[0] + below(raw, _WINDOW[1])
    else:
        scales = _ONE + _DOUBLE * below(raw, 2 if name == "w1" else 1)
    return codes.to(torch.uint8).view(*shape, -1), to_layout(
        scales.to(torch.uint8).view(*shape, -1), SWIZZLED
    )


def _odd(case: LayerCase, name: str, count: int) -> Tensor:
    """Return float32 numbers in [1, 2) with all their bits."""
    return (
        1 + bits(words(case.seed, f"layer.{name}", case.index << 32, count), 23).to(torch.float64) * 2.0**-23
    ).to(torch.float32)


_COMMUTING = 2
"""Terms whose order of addition does not matter."""
_HALF_OF_A_BIT = 2.0**-24
"""Of float32 at one."""


def _router_weights(case: LayerCase) -> Tensor:
    """Return weights below one: of the exact family multiples of 1/4, so that tokens keep their values."""
    slots = case.tokens * case.topk
    if case.values == "exact":
        raw = words(case.seed, "layer.router", case.index << 32, slots)
        weights = torch.exp2(-below(raw, 3).to(torch.float32))
    else:
        weights = _odd(case, "router", slots) / (2 * case.topk)
    weights = weights.view(case.tokens, case.topk)
    if case.values == "exact" and case.topk > _COMMUTING:
        # One row several times: a power of two comes to a tie of the output type; what is added to it piece by piece is
        # lost, what is added up before is not. So another order of additions gives other bits.
        ids = _ids(case)
        same = (ids == ids[:, :1]).all(1)
        weights[same, :1] = 1 + torch.finfo(DTYPES[case.dtype]).eps / 2
        weights[same, 1:] = _HALF_OF_A_BIT
    return weights


def _ids(case: LayerCase) -> Tensor:
    routing = RoutingCase(
        index=case.index, seed=case.seed, tokens=case.tokens, topk=case.topk, num_experts=case.num_experts, ids=case.ids,
        id_dtype="int32", is_gated=ACTIVATIONS[case.activation].is_gated, n=case.n, k=case.k,
    )  # fmt: skip
    return make_topk_ids(routing)
