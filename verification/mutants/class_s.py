"""GRAPH-STATE: what a captured graph, or a buffer that outlives a call, keeps from an earlier call.

On the CPU a subject that keeps what its first call was given stands for a captured graph: both replay old pointers,
old values and old counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.places import padding_rows, scale_index
from nvfp4_moe.verification.mutants.stepwise import Steps, scale_of_row, steps_with_state
from nvfp4_moe.verification.mutants.wrap import (
    QUANT,
    ROUTING,
    SHUFFLE,
    Factory,
    QuantCall,
    RoutingCall,
    around,
    returning,
)

FAULTS = (
    PublicFault(
        id="S1",
        links=(
            "https://github.com/sgl-project/sglang/pull/30895",
            "https://github.com/sgl-project/sglang/pull/25852",
        ),
        what="Rows that pad a captured graph enter the routing and later collectives, since the number of real tokens is"
        " not passed; the mend masks their ids from a buffer that is refreshed before each replay.",
        star=True,
    ),
)


def _ids_of_larger_batch(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Ids are copied into a buffer that outlives the call; behind a smaller batch the larger one's are counted, too."""
    buffers: dict[int, Tensor] = {}

    def wrong(call: RoutingCall) -> None:
        right(call)
        ids = call.topk_ids.reshape(-1).clone()
        old = buffers.get(call.num_experts, ids)
        tail = old[len(ids) :]
        buffers[call.num_experts] = torch.cat([ids, tail.to(ids.dtype)])
        stale = torch.bincount(tail[tail >= 0].long(), minlength=call.num_experts)
        call.problem_sizes1[:, 0] += stale.to(torch.int32)

    return wrong


def _rows_of_larger_batch(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The number of rows is only ever raised: behind a larger batch the rows after the last are zeroed."""
    most = [0]

    def wrong(call: QuantCall) -> None:
        right(call)
        most[0] = max(most[0], call.routed_rows)
        call.output[call.routed_rows : most[0]] = 0

    return wrong


def _scales_of_first_call() -> Steps:
    """Global scales are copied at the first call with so many experts and not again."""
    copies: dict[int, Tensor] = {}

    def captured(scales: Tensor, expert: Tensor) -> Tensor:
        return scale_of_row(copies.setdefault(len(scales), scales.clone()), expert)

    return Steps(scale_of_row=captured)


def _pointer_of_first_call(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """Codes go to the output that the first call with this shape was given."""
    outputs: dict[tuple[int, ...], Tensor] = {}

    def wrong(call: QuantCall) -> None:
        first = outputs.setdefault(tuple(call.output.shape), call.output)
        right(replace(call, output=first))

    return wrong


def _graph_of_first_call(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """A graph is captured at the first call with these sizes; later calls replay it, with the pointers of the first."""
    graphs: dict[tuple[int, ...], torch.cuda.CUDAGraph] = {}

    def wrong(call: QuantCall) -> None:
        sizes = (*call.output.shape, *call.output_scale.shape, len(call.counts))
        if sizes not in graphs:
            right(call)  # whatever is set up on first use
            torch.cuda.synchronize()
            graphs[sizes] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[sizes]):
                right(call)
        graphs[sizes].replay()

    return wrong


def _cursor_not_reset(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The cursor of the last expert goes on from where the call before left it, in turn through its rows."""
    left: dict[int, int] = {}

    def wrong(call: RoutingCall) -> None:
        right(call)
        first = int(call.expert_offsets[-2])
        rows = call.routed_rows - first
        begin = left.get(call.num_experts, 0)
        left[call.num_experts] = begin + rows
        if rows:
            own = (call.topk_ids.reshape(-1) == call.num_experts - 1).nonzero().flatten()
            moved = first + (torch.arange(rows, device=own.device) + begin) % rows
            call.output_permutation[own] = moved.to(torch.int32)
            call.input_permutation[moved] = (own // call.topk_ids.shape[1]).to(torch.int32)

    return wrong


def _cleared_once(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The first padding row of the last expert is cleared at the first call with a buffer of this size alone."""
    seen: set[tuple[int, ...]] = set()

    def wrong(call: QuantCall) -> None:
        stale = call.output_scale.clone()
        right(call)
        shape = tuple(call.output_scale.shape)
        last = len(call.counts) - 1
        if shape in seen and call.counts and len(padding_rows(call, last)) not in (0, TILE):
            byte = scale_index(call, last, padding_rows(call, last)[0], 0)
            call.scales.view(-1)[byte] = stale.view(torch.uint8).view(-1)[byte]
        seen.add(shape)

    return wrong


def _grid_of_first_call(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """Rows behind those of the first call with this width are not visited."""
    captured: dict[int, int] = {}

    def wrong(call: QuantCall) -> None:
        stale = call.output.clone()
        right(call)
        rows = captured.setdefault(call.k, call.routed_rows)
        call.output[rows : call.routed_rows] = stale[rows : call.routed_rows]

    return wrong


def _sizes_of_first_call(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Whether gate and up are one GEMM is decided at the first call with so many experts."""
    captured: dict[int, bool] = {}

    def wrong(call: RoutingCall) -> None:
        right(replace(call, is_gated=captured.setdefault(call.num_experts, call.is_gated)))

    return wrong


def _metadata_of_first_call(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The row of each slot is that of the first call with so many ids and experts; everything else is fresh."""
    captured: dict[tuple[int, ...], Tensor] = {}

    def wrong(call: RoutingCall) -> None:
        right(call)
        sizes = (*call.topk_ids.shape, call.num_experts)
        call.output_permutation.copy_(captured.setdefault(sizes, call.output_permutation.clone()))

    return wrong


def _map_of_first_call(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A gather keeps the map of the first call with these sizes."""
    captured: dict[tuple[int, ...], Tensor] = {}

    def wrong(input: Tensor, row_map: Tensor) -> Tensor:
        sizes = (*input.shape, input.element_size(), len(row_map))
        return right(input, captured.setdefault(sizes, row_map.clone()))

    return wrong


def _mutant(
    name: str,
    change: str,
    target: SubjectMutant,
    *refuted_by: str,
    devices: tuple[str, ...] = ("cpu", "cuda"),
) -> Mutant:
    return Mutant(
        id=f"graph_state.{name}",
        fault_class="S",
        stands_for=("S1",),
        change=change,
        refuted_by=refuted_by,
        target=target,
        devices=devices,
    )


def _kept(factory: Factory, *, dies: bool = False) -> SubjectMutant:
    return SubjectMutant(factory=factory, in_order=True, dies=dies)


MUTANTS = (
    _mutant("ids_of_larger_batch", "After a larger batch its ids behind the present ones count in the first GEMM's sizes.",
            _kept(around(ROUTING, _ids_of_larger_batch)), "routing.golden"),
    _mutant("rows_of_larger_batch", "After a larger batch rows that no expert owns are zeroed.",
            _kept(around(QUANT, _rows_of_larger_batch)), "quant.guard"),
    _mutant("scales_of_first_call", "Global scales are those of the first call with so many experts.",
            steps_with_state(_scales_of_first_call), "quant.golden", "quant.poison"),
    _mutant("pointer_of_first_call", "Codes go to the buffer of the first call with this shape.",
            _kept(around(QUANT, _pointer_of_first_call), dies=True), "quant.guard", "quant.coverage"),
    _mutant("graph_of_first_call", "A graph of the first call with these sizes is replayed, with the first call's pointers.",
            _kept(around(QUANT, _graph_of_first_call)), "quant.coverage", "quant.golden", "quant.poison",
            devices=("cuda",)),
    _mutant("cursor_not_reset", "The last expert's rows begin where the call before left its cursor.",
            _kept(around(ROUTING, _cursor_not_reset)), "routing.golden"),
    _mutant("cleared_once", "A padding row is zeroed at the first call with a buffer of this size alone.",
            _kept(around(QUANT, _cleared_once)), "quant.coverage", "quant.poison"),
    _mutant("grid_of_first_call", "Rows behind those of the first call with this width are not visited.",
            _kept(around(QUANT, _grid_of_first_call)), "quant.coverage"),
    _mutant("permutation_of_first_call", "The rows of slots are those of the first call with as many ids and experts.",
            _kept(around(ROUTING, _metadata_of_first_call)), "routing.golden"),
    _mutant("map_of_first_call", "A gather uses the map of the first call with these sizes.",
            _kept(returning(SHUFFLE, _map_of_first_call)), "shuffle.golden"),
    _mutant("sizes_of_first_call", "Whether the first GEMM is gated is what the first call with so many experts said.",
            _kept(around(ROUTING, _sizes_of_first_call)), "routing.golden"),
)  # fmt: skip
