"""Wrong subjects made of the right one: its operation runs, and a few lines before or after it are the fault.

A change written with torch works on the host twin and on the CUDA kernels alike. State that a fault keeps between
calls lives in what a factory makes, so each process of a judgement begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject

QUANT, SILU_QUANT = "scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"
MASKED, SILU_MASKED = "scaled_fp4_masked_quant", "silu_and_mul_scaled_fp4_masked_quant"
ROUTING, SHUFFLE, SWIZZLE = "get_cutlass_moe_mm_data", "shuffle_rows", "swizzle"
GEMM, LAYER = "cutlass_fp4_moe_mm", "run_cutlass_moe_fp4"

Factory = Callable[[Subject], Subject]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Arguments:
    """The arguments of one call, in the order of the protocol."""

    def values(self) -> list[Any]:
        """Return the arguments in order."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantCall(_Arguments):
    """A call of one of the two experts quantizers."""

    output: torch.Tensor
    output_scale: torch.Tensor
    input: torch.Tensor
    input_global_scale: torch.Tensor
    expert_offsets: torch.Tensor
    blockscale_offsets: torch.Tensor

    @property
    def scales(self) -> torch.Tensor:
        """The scale buffer as bytes, uint8 (scale rows, 4*ceil(K/64)), a view."""
        return self.output_scale.view(torch.uint8)

    @property
    def k(self) -> int:
        """Columns that are quantized."""
        return 2 * self.output.shape[-1]

    @cached_property
    def offsets(self) -> list[int]:
        """First row of each expert and, behind the last, T."""
        return [int(offset) for offset in self.expert_offsets.tolist()]

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each expert."""
        return [after - first for first, after in zip(self.offsets, self.offsets[1:], strict=False)]

    @cached_property
    def scale_starts(self) -> list[int]:
        """First scale row of each expert and, behind the last, S."""
        return [int(start) for start in self.blockscale_offsets.tolist()]

    @property
    def routed_rows(self) -> int:
        """T."""
        return self.offsets[-1]


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedCall(_Arguments):
    """A call of one of the two masked quantizers."""

    output: torch.Tensor
    output_scale: torch.Tensor
    input: torch.Tensor
    input_global_scale: torch.Tensor
    masked_m: torch.Tensor

    @property
    def scales(self) -> torch.Tensor:
        """The scale buffers as bytes, uint8 (E, scale rows, 4*ceil(K/64)), a view."""
        return self.output_scale.view(torch.uint8)

    @property
    def k(self) -> int:
        """Columns that are quantized."""
        return 2 * self.output.shape[-1]

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each expert."""
        return [int(count) for count in self.masked_m.tolist()]


@dataclass(frozen=True, kw_only=True, eq=False)
class RoutingCall(_Arguments):
    """A call of the routing metadata."""

    topk_ids: torch.Tensor
    expert_offsets: torch.Tensor
    problem_sizes1: torch.Tensor
    problem_sizes2: torch.Tensor
    input_permutation: torch.Tensor
    output_permutation: torch.Tensor
    num_experts: int
    n: int
    k: int
    blockscale_offsets: torch.Tensor
    is_gated: bool

    @property
    def routed_rows(self) -> int:
        """T, once the call has filled expert_offsets."""
        return int(self.expert_offsets[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class GemmCall(_Arguments):
    """A call of the grouped GEMM."""

    out: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    a_blockscale: torch.Tensor
    b_blockscale: torch.Tensor
    alphas: torch.Tensor
    problem_sizes: torch.Tensor
    expert_offsets: torch.Tensor
    blockscale_offsets: torch.Tensor

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each expert."""
        return [int(rows) for rows in self.problem_sizes[:, 0].tolist()]

    @property
    def routed_rows(self) -> int:
        """T."""
        return sum(self.counts)


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerCall(_Arguments):
    """A call of the whole layer."""

    output: torch.Tensor
    a: torch.Tensor
    a1_gscale: torch.Tensor
    w1_fp4: torch.Tensor
    w1_blockscale: torch.Tensor
    w1_alphas: torch.Tensor
    a2_gscale: torch.Tensor
    w2_fp4: torch.Tensor
    w2_blockscale: torch.Tensor
    w2_alphas: torch.Tensor
    topk_weights: torch.Tensor
    topk_ids: torch.Tensor
    activation: str
    workspace13: torch.Tensor
    workspace2: torch.Tensor
    m: int
    n: int
    k: int
    e: int
    device: Any
    max_num_batched_tokens: int
    apply_router_weight_on_input: bool


AnyCall = Any
"""One of the five, by the operation: `QuantCall`, `MaskedCall`, `RoutingCall`, `GemmCall`, `LayerCall`."""

_CALLS: dict[str, type[_Arguments]] = {
    QUANT: QuantCall,
    SILU_QUANT: QuantCall,
    MASKED: MaskedCall,
    SILU_MASKED: MaskedCall,
    ROUTING: RoutingCall,
    GEMM: GemmCall,
    LAYER: LayerCall,
}


def around(
    operation: str,
    make: Callable[[Callable[[AnyCall], None]], Callable[[AnyCall], None]],
    *,
    contract: Callable[[Contract], Contract] = lambda contract: contract,
) -> Factory:
    """Return a factory whose subject has one operation, made from the right one.

    Args:
        operation: an in-place one: a quantizer, the routing metadata, the GEMM or the layer.
        make: takes the right operation and returns the wrong one, both functions of a call. It is called once for
            each process, so the wrong one may keep state; it may call the right one with `dataclasses.replace`d
            tensors, several times or not at all.
        contract: what the wrong one promises, from what the right one does.
    """
    names = [field.name for field in fields(_CALLS[operation])]

    def factory(right: Subject) -> Subject:
        function = right.operations[operation]
        wrong = make(lambda call: function(*call.values()))

        def changed(*arguments: Any) -> None:
            wrong(_CALLS[operation](**dict(zip(names, arguments, strict=True))))

        return Subject("wrong", right.device, contract(right.contract), **{operation: changed})

    return factory


def after(operation: str, change: Callable[[AnyCall], None]) -> Factory:
    """Return a factory whose subject runs the right operation and then changes what it left."""

    def make(right: Callable[[AnyCall], None]) -> Callable[[AnyCall], None]:
        def wrong(call: AnyCall) -> None:
            right(call)
            change(call)

        return wrong

    return around(operation, make)


def before(operation: str, change: Callable[[AnyCall], AnyCall]) -> Factory:
    """Return a factory whose subject gives the right operation other arguments than it was given."""
    return around(operation, lambda right: lambda call: right(change(call)))


def returning(
    operation: str, make: Callable[[Callable[..., torch.Tensor]], Callable[..., torch.Tensor]]
) -> Factory:
    """Return a factory for an operation that returns its output (`shuffle_rows`, `swizzle`)."""

    def factory(right: Subject) -> Subject:
        return Subject(
            "wrong", right.device, right.contract, **{operation: make(right.operations[operation])}
        )

    return factory


def flip(tensor: torch.Tensor, *index: int) -> None:
    """Flip the lowest bit of one element of a tensor of integers: the smallest wrong value."""
    tensor[index] ^= 1
