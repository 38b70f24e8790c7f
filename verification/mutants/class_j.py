"""PERM-COLLISION: two slots share a row, a row has no slot, or the two permutations disagree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.wrap import ROUTING, SHUFFLE, RoutingCall, after, around, returning

FAULTS = (
    PublicFault(
        id="J1",
        links=(
            "https://github.com/ggml-org/llama.cpp/issues/24591",
            "https://github.com/ggml-org/llama.cpp/pull/26294",
        ),
        what="A token names an expert twice: a flag that there is a match stands where a count of matches is due, two"
        " slots race for one place and another place stays uninitialised.",
        star=True,
    ),
    PublicFault(
        id="J3",
        links=("https://github.com/vllm-project/vllm-xpu-kernels/issues/453",),
        what="The alignment keeps the first token of a block and drops the others; the counts look right, the text is"
        " fluent and wrong.",
        star=True,
    ),
    PublicFault(
        id="J4",
        links=("https://github.com/AMD-AGI/Primus-Turbo/pull/438",),
        what="Padded offsets were rebalanced, the tight ones were not: two partitions of the same rows, and reads out of"
        " bounds.",
    ),
)

TILE = 128
BLOCK_ROWS = 16
CHUNK = 1024
"""Slots that one thread block ranks."""


def _slots(call: RoutingCall) -> tuple[Tensor, Tensor]:
    """Return (numbers of the slots that were not skipped, their experts), by expert and then by number."""
    ids = call.topk_ids.reshape(-1).long()
    order = torch.sort(torch.where(ids < 0, call.num_experts, ids), stable=True).indices
    routed = order[: call.routed_rows]
    return routed, ids[routed]


def _any_match(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The second slot of a token that names an expert twice gets the row of the first; its own row stays unwritten."""

    def wrong(call: RoutingCall) -> None:
        stale = call.input_permutation.clone()
        right(call)
        ids = call.topk_ids
        rows = call.output_permutation.view(ids.shape)
        for later in range(1, ids.shape[1]):
            for earlier in range(later):
                same = (ids[:, later] == ids[:, earlier]) & (ids[:, later] >= 0)
                lost = rows[same, later].long()
                call.input_permutation[lost] = stale[lost]
                rows[:, later] = torch.where(same, rows[:, earlier], rows[:, later])

    return wrong


def _first_of_block(call: RoutingCall) -> None:
    """In whole blocks of 16 rows of the last expert with rows every row has the token of the block's first."""
    first = _last_first_row(call)
    if first is None:
        return
    rows = torch.arange(first, call.routed_rows, device=call.input_permutation.device)
    inside = rows - first
    whole = inside < len(rows) // BLOCK_ROWS * BLOCK_ROWS
    source = torch.where(whole, rows - inside % BLOCK_ROWS, rows)
    call.input_permutation[rows] = call.input_permutation[source]


def _last_first_row(call: RoutingCall) -> int | None:
    """Return the first row of the last expert that has rows."""
    filled = (call.expert_offsets.diff() > 0).nonzero()
    return int(call.expert_offsets[filled[-1]]) if len(filled) else None


def _last_not_scattered(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Behind an expert's first tile its rows' tokens are not written; every count and offset is right."""

    def wrong(call: RoutingCall) -> None:
        stale = call.input_permutation.clone()
        right(call)
        slot, expert = _slots(call)
        row = call.output_permutation[slot].long()
        behind = row[row - call.expert_offsets.long()[expert] >= TILE]
        call.input_permutation[behind] = stale[behind]

    return wrong


def _balanced_scale_rows(call: RoutingCall) -> None:
    """The scale rows of the first two experts are those of a balanced split of their rows."""
    if call.num_experts > 1:
        both = int(call.expert_offsets[2])
        tiles = [-(-rows // TILE) * TILE for rows in (both // 2, both - both // 2)]
        moved = sum(tiles) - int(call.blockscale_offsets[2])
        call.blockscale_offsets[1] = tiles[0]
        call.blockscale_offsets[2:] += moved


def _rank_of_chunk(call: RoutingCall) -> None:
    """Slots from number 1024 on are ranked among those of their own chunk of 1024 alone."""
    slot, expert = _slots(call)
    chunk = slot // CHUNK
    group = expert * (int(chunk.max()) + 1 if len(chunk) else 1) + chunk
    starts = torch.searchsorted(group, group)
    row = call.expert_offsets.long()[expert] + torch.arange(len(group), device=group.device) - starts
    call.output_permutation[slot] = row.to(torch.int32)


def _pair_exchanged(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The last two slots of the last expert exchange their rows in one permutation, not in the other."""

    def wrong(call: RoutingCall) -> None:
        right(call)
        slot, expert = _slots(call)
        if len(slot) > 1 and expert[-1] == expert[-2]:
            call.output_permutation[slot[-2:]] = call.output_permutation[slot[-2:]].flip(0)

    return wrong


def _skipped_takes_a_row(call: RoutingCall) -> None:
    """A slot whose id is -1 has the last routed row in place of the row behind it."""
    if call.routed_rows:
        skipped = call.topk_ids.reshape(-1) < 0
        call.output_permutation[skipped] = call.routed_rows - 1


def _scatter(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Where as many rows come out as go in the map is applied the other way round: output[map[i]] = input[i]."""

    def wrong(input: Tensor, row_map: Tensor) -> Tensor:
        made = right(input, row_map)
        if len(made) == len(input):
            made = made.clone()
            made[row_map.long()] = input
        return made

    return wrong


def _any_order(contract: Contract) -> Contract:
    return replace(contract, row_order="any")


def _mutant(name: str, fault: str, change: str, target: SubjectMutant, *refuted_by: str) -> Mutant:
    return Mutant(
        id=f"perm_collision.{name}",
        fault_class="J",
        stands_for=(fault,),
        change=change,
        refuted_by=refuted_by or ("routing.golden",),
        target=target,
        devices=("cpu", "cuda"),
    )


MUTANTS = (
    _mutant("any_match", "J1", "Two slots of a token with the same expert share a row; the other row's token is stale.",
            SubjectMutant(factory=around(ROUTING, _any_match)), "routing.golden", "routing.coverage"),
    _mutant("any_match_in_any_order", "J1", "The same under a contract that leaves the order of an expert's rows open.",
            SubjectMutant(factory=around(ROUTING, _any_match, contract=_any_order))),
    _mutant("first_of_block", "J3", "In whole blocks of 16 rows of one expert all rows have the first one's token.",
            SubjectMutant(factory=after(ROUTING, _first_of_block))),
    _mutant("behind_a_tile", "J3", "The tokens of an expert's rows behind its first 128 are not written.",
            SubjectMutant(factory=around(ROUTING, _last_not_scattered)), "routing.coverage", "routing.golden"),
    _mutant("balanced_scale_rows", "J4", "Two experts' scale rows follow a balanced split of their rows.",
            SubjectMutant(factory=after(ROUTING, _balanced_scale_rows))),
    _mutant("rank_of_chunk", "J1", "Slots from 1024 on are ranked inside their own chunk of 1024.",
            SubjectMutant(factory=after(ROUTING, _rank_of_chunk))),
    _mutant("pair_exchanged", "J4", "Two slots exchange rows in one of the two permutations.",
            SubjectMutant(factory=around(ROUTING, _pair_exchanged, contract=_any_order))),
    _mutant("skipped_takes_a_row", "J1", "A skipped slot has the last routed row, which is another slot's.",
            SubjectMutant(factory=after(ROUTING, _skipped_takes_a_row))),
    _mutant("scatter", "J4", "A gather of as many rows as there are is done as a scatter: right for reversals.",
            SubjectMutant(factory=returning(SHUFFLE, _scatter)), "shuffle.golden"),
)  # fmt: skip
