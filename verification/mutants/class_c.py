"""BOUND-SHORT: a buffer or a capacity is smaller than the worst case, or a kernel writes more than was allocated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from nvfp4_moe.reference.padding import FORMULAS, Sizing, round_up
from nvfp4_moe.verification.expressions import Bound, parse_bound
from nvfp4_moe.verification.mutants.mutant import BoundMutant, Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.places import write_outside
from nvfp4_moe.verification.mutants.wrap import (
    QUANT,
    ROUTING,
    SILU_QUANT,
    QuantCall,
    RoutingCall,
    after,
    around,
)

FAULTS = (
    PublicFault(
        id="C1",
        links=(
            "https://github.com/vllm-project/vllm/pull/55643",
            "https://github.com/vllm-project/vllm/pull/55456",
        ),
        what="Fused SiLU and FP4: the scale buffer has M*N/16 bytes, the kernel writes roundup(M, 128) * "
        "roundup(N/16, 4) of them, which mostly corrupts neighbours in silence.",
        star=True,
    ),
    PublicFault(
        id="C2",
        links=("https://github.com/sgl-project/sglang/pull/39039",),
        what="Pad tokens with ids spread over all experts overrun a buffer sized for few occupied groups: each occupied "
        "expert rounds up to 128 rows.",
        star=True,
    ),
    PublicFault(
        id="C4",
        links=("https://github.com/vllm-project/vllm/pull/25997",),
        what="The check looks at the total modulo the block, the kernel rounds every batch up.",
    ),
    PublicFault(
        id="C5",
        links=("https://github.com/ByteDance-Seed/VeOmni/pull/1025",),
        what="A launch bound of T in place of T*k leaves output rows unwritten where experts repeat inside a token, as "
        "hash routing makes them.",
        star=True,
    ),
    PublicFault(
        id="C7",
        links=("https://github.com/ROCm/aiter/pull/2547",),
        what="A padding sentinel decodes to a row behind the buffer, and padding is scattered there.",
    ),
    PublicFault(
        id="C8",
        links=("https://github.com/NVIDIA/TensorRT-LLM/pull/5519",),
        what="A memset of the routing clears more than was allocated.",
    ),
    PublicFault(
        id="C9",
        links=(
            "https://github.com/vllm-project/vllm/pull/30899",
            "https://github.com/vllm-project/vllm/pull/19298",
        ),
        what="A workspace is locked at what a profile run needed: its expert counts were those of dummy tokens, not the "
        "worst case.",
        star=True,
    ),
)

_MANY_EXPERTS = 256


def _distinct_for_any(sizing: Sizing) -> int:
    return FORMULAS["exact_distinct"].rows(sizing)


def _tile_short(sizing: Sizing) -> int:
    return max(FORMULAS["exact_any"].rows(sizing) - (sizing.num_experts > _MANY_EXPERTS) * sizing.tile, 0)


def _profiled(sizing: Sizing) -> int:
    """Rows of a profile run whose dummy tokens spread evenly over the experts, one tile for each at least."""
    each = -(-sizing.routed_rows // sizing.num_experts)
    return sizing.num_experts * round_up(each, sizing.tile)


def _row_behind(call: QuantCall) -> None:
    """Write the scale of the first column of the row behind the allocation."""
    if call.routed_rows:
        write_outside(call.output_scale, call.scales.numel(), 0x38)


def _clear_one_more(call: RoutingCall) -> None:
    """Clear one int behind the offsets, as a loop over whole vectors does, where E + 1 is no multiple of four."""
    entries = call.blockscale_offsets.numel()
    if entries % 4:
        write_outside(call.blockscale_offsets, 4 * entries, 0)


def _sentinel(call: RoutingCall) -> None:
    """Scatter the slot of an id -1 to row T, which lies behind the map where every other id has a row."""
    if bool((call.topk_ids < 0).any()) and call.topk_ids.numel():
        write_outside(call.input_permutation, 4 * call.topk_ids.numel(), 0)


def _clears_the_buffer(call: QuantCall) -> None:
    """Clear one byte behind S, as a memset of the whole allocation does."""
    end = call.scale_starts[-1]
    if end < call.scales.shape[0]:
        call.scales[end, 0] = 0


def _byte_before(call: QuantCall) -> None:
    """Write the byte before the codes, which a negative index of row 0 reaches."""
    if call.routed_rows:
        write_outside(call.output, -1, 0)


def _locked_after_profile(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The workspace is as large as the first call with any id needed; the last slot of larger ones has no place."""
    locked = [0]

    def wrong(call: RoutingCall) -> None:
        stale = call.output_permutation[-1:].clone()
        right(call)
        slots = call.topk_ids.numel()
        locked[0] = locked[0] or slots
        if slots > locked[0]:
            call.output_permutation[-1:] = stale

    return wrong


def _launched_for_tokens(call: RoutingCall) -> None:
    """Give rows behind the first `tokens` of an expert no source: one expert has more where ids repeat in a token."""
    tokens = call.topk_ids.shape[0]
    offsets = call.expert_offsets.tolist()
    for first, end in pairwise(offsets):
        call.input_permutation[first + tokens : end] = 0


MUTANTS = (
    Mutant(
        id="bound_short.one_row",
        fault_class="C",
        stands_for=("C1",),
        change="the proposed bound less one row",
        refuted_by=("padding.bound",),
        target=BoundMutant(bound=parse_bound("max_num_batched_tokens * topk + (tile - 1) * num_experts - 1")),
    ),
    Mutant(
        id="bound_short.row_behind",
        fault_class="C",
        stands_for=("C1",),
        change="the fused quantizer writes one byte behind the scale buffer",
        refuted_by=("silu_quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(SILU_QUANT, _row_behind)),
    ),
    Mutant(
        id="bound_short.one_expert_unpadded",
        fault_class="C",
        stands_for=("C2",),
        change="padding is counted for all experts but one",
        refuted_by=("padding.bound",),
        target=BoundMutant(
            bound=parse_bound("max_num_batched_tokens * topk + (tile - 1) * max(num_experts - 1, 1)")
        ),
    ),
    Mutant(
        id="bound_short.few_occupied",
        fault_class="C",
        stands_for=("C2",),
        change="padding is counted for twice topk experts at most",
        refuted_by=("padding.bound",),
        target=BoundMutant(
            bound=parse_bound("max_num_batched_tokens * topk + (tile - 1) * min(num_experts, 2 * topk)")
        ),
    ),
    Mutant(
        id="bound_short.distinct_for_any",
        fault_class="C",
        stands_for=("C5",),
        change="the exact worst case of distinct ids stands for ids that may repeat inside a token",
        refuted_by=("padding.bound",),
        target=BoundMutant(
            bound=Bound(name="exact_distinct, ids that repeat", rule="exact_distinct", rows=_distinct_for_any)
        ),
    ),
    Mutant(
        id="bound_short.launched_for_tokens",
        fault_class="C",
        stands_for=("C5",),
        change="rows of an expert behind the first M have no source row, where a token names an expert twice",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(ROUTING, _launched_for_tokens)),
    ),
    Mutant(
        id="bound_short.profiled_one_expert",
        fault_class="C",
        stands_for=("C9",),
        change="the rows that a profile run with all tokens on one expert needed",
        refuted_by=("padding.bound",),
        target=BoundMutant(bound=parse_bound("round_up(max_num_batched_tokens * topk, tile)")),
    ),
    Mutant(
        id="bound_short.profiled_evenly",
        fault_class="C",
        stands_for=("C9",),
        change="the rows that a profile run with the tokens spread evenly needed",
        refuted_by=("padding.bound",),
        target=BoundMutant(bound=Bound(name="profiled", rule="E * R(ceil(T/E))", rows=_profiled)),
    ),
    Mutant(
        id="bound_short.locked_after_profile",
        fault_class="C",
        stands_for=("C9",),
        change="the last slot of a call that has more slots than the first one is not written",
        refuted_by=("routing.coverage", "routing.golden"),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=around(ROUTING, _locked_after_profile), in_order=True),
    ),
    Mutant(
        id="bound_short.byte_before",
        fault_class="C",
        stands_for=("C1",),
        change="the byte before the codes is written",
        refuted_by=("quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(QUANT, _byte_before)),
    ),
    Mutant(
        id="bound_short.tile_above_256_experts",
        fault_class="C",
        stands_for=("C4",),
        change="the exact worst case less one tile, only above 256 experts",
        refuted_by=("padding.bound",),
        target=BoundMutant(
            bound=Bound(name="exact_any less a tile", rule="exact_any - A if E > 256", rows=_tile_short)
        ),
    ),
    Mutant(
        id="bound_short.only_300_experts",
        fault_class="C",
        stands_for=("C1",),
        change="the proposed bound less one tile, only for 300 experts, which stand on no grid",
        refuted_by=("padding.bound.written",),
        target=BoundMutant(
            bound=parse_bound(
                "max_num_batched_tokens * topk + (tile - 1) * num_experts"
                " - tile * max(0, 1 - max(num_experts - 300, 300 - num_experts))"
            )
        ),
    ),
    Mutant(
        id="bound_short.sentinel",
        fault_class="C",
        stands_for=("C7",),
        change="the slots of ids -1 are scattered to the entry behind the row map",
        refuted_by=("routing.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(ROUTING, _sentinel)),
    ),
    Mutant(
        id="bound_short.clears_the_buffer",
        fault_class="C",
        stands_for=("C8",),
        change="a byte behind the last expert's scale rows is cleared, where the buffer is larger",
        refuted_by=("quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(QUANT, _clears_the_buffer)),
    ),
    Mutant(
        id="bound_short.clear_one_more",
        fault_class="C",
        stands_for=("C8",),
        change="one int behind the offsets is cleared, where E + 1 is no multiple of four",
        refuted_by=("routing.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(ROUTING, _clear_one_more)),
    ),
)
