"""RACE-ORDER: a barrier that is missing, work that begins too early or ends too late, the order of atomics.

A race on the CPU is a fault that strikes on some calls and not on others: a variant counts its calls and lets the
threads run in the unlucky order on every other one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import torch
from torch import Tensor

from nvfp4_moe.reference.grouped_gemm import Operands
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.stepwise import Steps, block_amax, steps_with_state
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, sums, wrong_gemm
from nvfp4_moe.verification.mutants.wrap import (
    LAYER,
    QUANT,
    ROUTING,
    Factory,
    LayerCall,
    QuantCall,
    RoutingCall,
    around,
)

FAULTS = (
    PublicFault(
        id="T1",
        links=(
            "https://github.com/sgl-project/sglang/pull/37663",
            "https://github.com/ikawrakow/ik_llama.cpp/pull/2502",
        ),
        what="A barrier is missing between the write of prefix sums and the search that reads them; results looked"
        " right in 3,400 runs.",
        star=True,
    ),
    PublicFault(
        id="T3",
        links=("https://github.com/NVIDIA/cutlass/issues/2962",),
        what="A grouped GEMM may read its arrays before the kernel before it has written them: what it sets up comes"
        " before the wait.",
        star=True,
    ),
    PublicFault(
        id="T4",
        links=(
            "https://github.com/vllm-project/vllm/issues/54945",
            "https://github.com/vllm-project/vllm/issues/56887",
        ),
        what="Identical requests get different logits: three and more partial sums are added by atomics, in whatever"
        " order.",
        star=True,
    ),
)

WARP = 32
"""Threads that run together; an expert each."""
HALF = 8
"""Elements of a thread, where two threads share a scale."""


def _unlucky() -> Callable[[], bool]:
    """Return a function that is true at every other call."""
    calls = count()
    return lambda: next(calls) % 2 == 1


def _prefix_before_barrier(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Experts of the second warp on add the first warp's total before the first warp has written it."""
    unlucky = _unlucky()

    def wrong(call: RoutingCall) -> None:
        right(call)
        if unlucky() and call.num_experts > WARP:
            call.blockscale_offsets[WARP + 1 :] -= call.blockscale_offsets[WARP].clone()

    return wrong


def _lost_update(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Two neighbouring slots of the last expert count as one: both threads read the counter before either wrote."""
    unlucky = _unlucky()

    def wrong(call: RoutingCall) -> None:
        right(call)
        last = call.topk_ids.reshape(-1) == call.num_experts - 1
        if unlucky() and bool((last[:-1] & last[1:]).any()):
            call.problem_sizes1[-1, 0] -= 1

    return wrong


def _two_writers_of_a_scale() -> Steps:
    """Two threads share a block and its scale; without their exchange the scale is that of the half that wrote last."""
    unlucky = _unlucky()

    def amax(blocks: Tensor) -> Tensor:
        whole = block_amax(blocks)
        if len(blocks) and unlucky():
            whole[-1, -1] = block_amax(blocks[-1, -1, :HALF])
        return whole

    return Steps(amax=amax)


def _two_writers_of_a_byte() -> Steps:
    """Two threads own the two codes of a call's last byte: each reads it, sets its half, and writes it back."""
    unlucky = _unlucky()

    def pack(codes: Tensor) -> Tensor:
        packed = codes[:, 0::2] | codes[:, 1::2] << 4
        if unlucky():
            packed[-1:, -1] &= 0xF0  # the even column's write is lost
        return packed

    return Steps(pack=pack)


def _order_of_atomics(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The last two rows of the last expert go to its last two slots in the order in which they came: both are legal."""
    unlucky = _unlucky()

    def wrong(call: RoutingCall) -> None:
        right(call)
        own = (call.topk_ids.reshape(-1) == call.num_experts - 1).nonzero().flatten()
        if unlucky() and len(own) > 1:
            slots = own[-2:]
            rows = call.output_permutation[slots].flip(0)
            call.output_permutation[slots] = rows
            call.input_permutation[rows.long()] = (slots // call.topk_ids.shape[1]).to(torch.int32)

    return wrong


def _order_open(contract: Contract) -> Contract:
    """The order of an expert's rows is open, but the same in every run."""
    return replace(contract, row_order="any", deterministic=True)


def _row_before_producer(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The first row is read before it is written: it is that of the call before, where widths agree."""
    before: list[Tensor] = []

    def wrong(call: QuantCall) -> None:
        early = call.input.clone()
        if before and len(early) and before[0].shape == early[0].shape and before[0].dtype == early.dtype:
            early[0] = before[0]
        right(replace(call, input=early))
        if len(early):
            before[:] = [call.input[0].clone()]

    return wrong


def _ends_after_return(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The last row's codes are still on their way when the call returns: the next call finds them done."""
    queue: list[tuple[Tensor, Tensor]] = []

    def wrong(call: QuantCall) -> None:
        for late, codes in queue:
            late.copy_(codes)
        queue.clear()
        stale = call.output.clone()
        right(call)
        if call.routed_rows:
            row = call.output[call.routed_rows - 1]
            queue.append((row, row.clone()))
            row.copy_(stale[call.routed_rows - 1])

    return wrong


def _order_of_partial_sums() -> GemmSteps:
    """Three parts of the columns are summed apart and added in the order in which they end: another on every call."""
    calls = count()

    def added(operands: Operands) -> Tensor:
        parts = [
            sums(replace(operands, a=a, b=b))
            for a, b in zip(_thirds(operands.a), _thirds(operands.b), strict=True)
        ]
        first = next(calls) % len(parts)
        total = torch.zeros_like(parts[0])
        for part in parts[first:] + parts[:first]:
            total = total + part
        return total

    return GemmSteps(sums=added)


def _thirds(operand: Tensor) -> list[Tensor]:
    """Return three tensors of the same shape whose sum is the operand: a third of the columns in each."""
    third = torch.arange(operand.shape[-1], device=operand.device) * 3 // operand.shape[-1]
    return [torch.where(third == part, operand, 0.0) for part in range(3)]


def _order_of_experts(right: Callable[[LayerCall], None]) -> Callable[[LayerCall], None]:
    """A token's rows are added as they come: on every other call in the order of its last expert first."""
    unlucky = _unlucky()

    def wrong(call: LayerCall) -> None:
        if unlucky():
            ids, weights = call.topk_ids.flip(1).contiguous(), call.topk_weights.flip(1).contiguous()
            call = replace(call, topk_ids=ids, topk_weights=weights)
        right(call)

    return wrong


def _does_not_wait(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The kernel runs on a stream of its own that does not wait for what the caller's has yet to do."""

    def wrong(call: QuantCall) -> None:
        own = torch.cuda.Stream()
        with torch.cuda.stream(own):
            right(call)
        torch.cuda.current_stream().wait_stream(own)

    return wrong


def _is_not_waited_for(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """Work goes to the default stream, whichever the caller's is."""

    def wrong(call: QuantCall) -> None:
        with torch.cuda.stream(torch.cuda.default_stream()):
            right(call)

    return wrong


def _mutant(
    name: str,
    fault: str,
    change: str,
    target: SubjectMutant,
    *refuted_by: str,
    devices: tuple[str, ...] = ("cpu", "cuda"),
) -> Mutant:
    return Mutant(
        id=f"race_order.{name}",
        fault_class="T",
        stands_for=(fault,),
        change=change,
        refuted_by=refuted_by,
        target=target,
        devices=devices,
    )


def _racing(factory: Factory, *, dies: bool = False) -> SubjectMutant:
    return SubjectMutant(factory=factory, in_order=True, dies=dies)


MUTANTS = (
    _mutant("prefix_before_barrier", "T1", "Behind 32 experts the sum of the first 32 is missing, on every other call.",
            _racing(around(ROUTING, _prefix_before_barrier)), "routing.golden"),
    _mutant("lost_update", "T1", "Two neighbouring slots of the last expert count as one, on every other call.",
            _racing(around(ROUTING, _lost_update)), "routing.golden"),
    _mutant("two_writers_of_a_scale", "T1", "One scale is that of half its block, on every other call.",
            steps_with_state(_two_writers_of_a_scale), "quant.poison", "quant.golden"),
    _mutant("two_writers_of_a_byte", "T1", "One of two codes of the last byte is lost, on every other call.",
            steps_with_state(_two_writers_of_a_byte), "quant.poison", "quant.golden"),
    _mutant("order_of_atomics", "T4", "Two rows of an expert change places from call to call; either order is legal.",
            _racing(around(ROUTING, _order_of_atomics, contract=_order_open)), "routing.golden"),
    _mutant("order_of_partial_sums", "T4", "Three partial sums of the GEMM are added in another order on every call.",
            wrong_gemm(_order_of_partial_sums, in_order=True), "gemm.poison", "gemm.laws"),
    _mutant("order_of_experts", "T4", "A token's experts are summed from the last to the first, on every other call.",
            SubjectMutant(factory=around(LAYER, _order_of_experts), base="reference", in_order=True),
            "layer.poison", "layer.laws"),
    _mutant("row_before_producer", "T3", "The first row is read before it is written.",
            _racing(around(QUANT, _row_before_producer)), "quant.laws", "quant.golden"),
    _mutant("ends_after_return", "T3", "The last row is written after the call has returned.",
            _racing(around(QUANT, _ends_after_return), dies=True), "quant.guard", "quant.coverage"),
    _mutant("does_not_wait", "T3", "The kernel's stream does not wait for the caller's.",
            _racing(around(QUANT, _does_not_wait)), "quant.laws", "quant.golden", devices=("cuda",)),
    _mutant("default_stream", "T3", "The kernel runs on the default stream, whichever the caller's is.",
            _racing(around(QUANT, _is_not_waited_for)), "quant.laws", devices=("cuda",)),
)  # fmt: skip
