"""DTYPE: the width or the sign of an index, or of what stands for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.wrap import (
    QUANT,
    ROUTING,
    SHUFFLE,
    QuantCall,
    RoutingCall,
    after,
    around,
    before,
    returning,
)

FAULTS = (
    PublicFault(
        id="Q2",
        links=("https://github.com/vllm-project/vllm/pull/20166",),
        what="The id -1 meets an unsigned index type: the sentinel of another rank becomes 4,294,967,295.",
    ),
    PublicFault(
        id="Q3",
        links=("https://github.com/sgl-project/sglang/pull/29929",),
        what="int64 ids, which a remapping table made, abort at the interface while a graph is captured.",
    ),
)

BYTE = 0xFF
HALF_WORD = 0xFFFF


def _unsigned(call: RoutingCall) -> RoutingCall:
    """-1 is the largest unsigned number, which is brought into range: the last expert gets it."""
    last = torch.tensor(call.num_experts - 1, dtype=call.topk_ids.dtype, device=call.topk_ids.device)
    return replace(call, topk_ids=torch.where(call.topk_ids < 0, last, call.topk_ids))


def _unsigned_int64(call: RoutingCall) -> RoutingCall:
    return _unsigned(call) if call.topk_ids.dtype == torch.int64 else call


def _low_words(call: RoutingCall) -> RoutingCall:
    """int64 ids are read as if they were as many int32: the halves of the first half of them."""
    if call.topk_ids.dtype != torch.int64 or call.topk_ids.numel() == 0:
        return call
    words = call.topk_ids.contiguous().view(torch.int32).view(-1)
    return replace(call, topk_ids=words[: call.topk_ids.numel()].view(call.topk_ids.shape))


def _in_a_byte(call: RoutingCall) -> RoutingCall:
    """Experts are kept in a byte each: right up to 256 of them."""
    ids = call.topk_ids
    return replace(call, topk_ids=torch.where(ids < 0, ids, ids & BYTE))


def _single_token_refused(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    def wrong(call: RoutingCall) -> None:
        if call.topk_ids.dtype == torch.int64 and call.topk_ids.shape[0] == 1:
            raise TypeError("expected ids of type int32, got int64")
        right(call)

    return wrong


def _reads_any_width(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """uint32 ids are taken for int32; nobody says so."""

    def wrong(call: RoutingCall) -> None:
        unsigned = call.topk_ids.dtype == torch.uint32
        right(replace(call, topk_ids=call.topk_ids.view(torch.int32)) if unsigned else call)

    return wrong


def _token_in_half_a_word(call: RoutingCall) -> None:
    """Tokens are kept in 16 bits: right up to 65,536 of them."""
    call.input_permutation.bitwise_and_(HALF_WORD)


def _map_in_half_a_word(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Rows of a gather are signed 16-bit numbers: from 32,768 on a row is counted from the end."""

    def wrong(input: Tensor, row_map: Tensor) -> Tensor:
        narrow = row_map.to(torch.int16).to(row_map.dtype)
        return right(input, torch.where(narrow < 0, narrow + len(input), narrow))

    return wrong


def _offsets_of_any_width(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """int64 offsets are accepted and converted; the protocol has int32."""

    def wrong(call: QuantCall) -> None:
        right(replace(call, expert_offsets=call.expert_offsets.to(torch.int32)))

    return wrong


def _mutant(name: str, fault: str, change: str, target: SubjectMutant, *refuted_by: str) -> Mutant:
    return Mutant(
        id=f"dtype.{name}",
        fault_class="Q",
        stands_for=(fault,),
        change=change,
        refuted_by=refuted_by or ("routing.golden",),
        target=target,
        devices=("cpu", "cuda"),
    )


MUTANTS = (
    _mutant("unsigned_id", "Q2", "The id -1 is unsigned, cut to the range, and counts for the last expert.",
            SubjectMutant(factory=before(ROUTING, _unsigned))),
    _mutant("unsigned_int64_id", "Q2", "The same for int64 ids alone; int32 ids are right.",
            SubjectMutant(factory=before(ROUTING, _unsigned_int64))),
    _mutant("id_in_a_byte", "Q2", "An expert's number is kept in a byte: right up to 256 experts.",
            SubjectMutant(factory=before(ROUTING, _in_a_byte))),
    _mutant("low_words", "Q3", "int64 ids are read as int32.", SubjectMutant(factory=before(ROUTING, _low_words))),
    _mutant("single_token_refused", "Q3", "int64 ids of a single token are refused although the contract has them.",
            SubjectMutant(factory=around(ROUTING, _single_token_refused), dies=True)),
    _mutant("uint32_accepted", "Q2", "uint32 ids are taken for int32 and nothing is said.",
            SubjectMutant(factory=around(ROUTING, _reads_any_width)), "routing.refusal"),
    _mutant("token_in_half_a_word", "Q2", "Tokens are kept in 16 bits: right up to 65,536.",
            SubjectMutant(factory=after(ROUTING, _token_in_half_a_word))),
    _mutant("map_in_half_a_word", "Q2", "The rows of a gather are signed 16-bit numbers.",
            SubjectMutant(factory=returning(SHUFFLE, _map_in_half_a_word)), "shuffle.golden"),
    _mutant("int64_offsets_accepted", "Q3", "int64 offsets are converted and nothing is said.",
            SubjectMutant(factory=around(QUANT, _offsets_of_any_width)), "quant.refusal"),
)  # fmt: skip
