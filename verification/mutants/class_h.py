"""EP-IDS: expert ids that are -1, negative or of another rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from nvfp4_moe.verification.golden.model import Model
from nvfp4_moe.verification.mutants.mutant import ModelMutant, Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.wrap import QUANT, ROUTING, QuantCall, RoutingCall, after, before

FAULTS = (
    PublicFault(
        id="H1",
        links=("https://github.com/sgl-project/sglang/pull/28170",),
        what="The expert map is not passed, so entries -1 are not skipped: a crash while a graph is captured.",
        star=True,
    ),
    PublicFault(
        id="H2",
        links=("https://github.com/ROCm/aiter/issues/4636",),
        what="A negative id is used as an index; a Python helper takes it and counts from the end.",
        star=True,
    ),
    PublicFault(
        id="H4",
        links=("https://github.com/deepseek-ai/DeepGEMM/issues/34",),
        what="Row indices -1 are documented as skipped and read out of bounds.",
    ),
    PublicFault(
        id="H5",
        links=(
            "https://github.com/vllm-project/vllm/issues/21399",
            "https://github.com/vllm-project/vllm/pull/21465",
        ),
        what="Illegal access in a grouped GEMM with expert parallelism.",
    ),
)


_SIXTEEN_BITS = 65_536


def _changed_ids(
    change: Callable[[torch.Tensor, int], torch.Tensor],
) -> Callable[[RoutingCall], RoutingCall]:
    """Give the right operation other ids."""

    def changed(call: RoutingCall) -> RoutingCall:
        ids = change(call.topk_ids.clone(), call.num_experts)
        return replace(call, topk_ids=ids.to(call.topk_ids.dtype))

    return changed


def _last_slot_not_skipped(ids: torch.Tensor, experts: int) -> torch.Tensor:
    """Count the -1 of the very last slot as expert 0."""
    del experts
    flat = ids.view(-1)
    flat[-1:] = torch.where(flat[-1:] == -1, 0, flat[-1:])
    return flat.view(ids.shape)


def _far_slots_not_skipped(ids: torch.Tensor, experts: int) -> torch.Tensor:
    """Count a -1 in a slot from 65,536 on as expert 0."""
    del experts
    flat = ids.reshape(-1)
    far = flat[_SIXTEEN_BITS:]
    flat[_SIXTEEN_BITS:] = torch.where(far == -1, 0, far)
    return flat.view(ids.shape)


def _from_the_end(ids: torch.Tensor, experts: int) -> torch.Tensor:
    """Count -1 as the last expert, only where the number of experts is no multiple of 16."""
    return torch.where(ids == -1, experts - 1, ids) if experts % 16 else ids


def _below_minus_one(ids: torch.Tensor, experts: int) -> torch.Tensor:
    """Take every negative id for -1."""
    del experts
    return ids.clamp(min=-1)


def _another_ranks(ids: torch.Tensor, experts: int) -> torch.Tensor:
    """Take the id behind the last local expert for one of another rank, and skip it."""
    return torch.where(ids == experts, -1, ids)


def _place_of_skipped(call: RoutingCall) -> None:
    """Send the skipped slot to row 0, where there is one alone."""
    skipped = (call.topk_ids == -1).reshape(-1)
    if int(skipped.sum()) == 1:
        call.output_permutation[skipped] = 0


def _tail_of_minus_one(call: RoutingCall) -> None:
    """Say -1 where the map's last slot has no row, which a gather then reads."""
    if call.routed_rows < call.input_permutation.numel():
        call.input_permutation[-1] = -1


def _orphans_written(call: QuantCall) -> None:
    """Clear the row of the first slot that an id -1 leaves without an expert."""
    if call.routed_rows < call.output.shape[0]:
        call.output[call.routed_rows, 0] = 0


def _model_counts_from_the_end(right: Model) -> Model:
    def route(topk_ids: torch.Tensor, num_experts: int, **options: Any) -> Any:
        negative = (topk_ids == -1).sum(-1, keepdim=True) == topk_ids.shape[-1]
        ids = torch.where(negative & (topk_ids == -1), num_experts - 1, topk_ids).to(topk_ids.dtype)
        return right.route(ids, num_experts, **options)

    return replace(right, route=route)


MUTANTS = (
    Mutant(
        id="ep_ids.last_slot_not_skipped",
        fault_class="H",
        stands_for=("H1", "H5"),
        change="an id -1 in the last slot counts as expert 0",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=before(ROUTING, _changed_ids(_last_slot_not_skipped))),
    ),
    Mutant(
        id="ep_ids.far_slots_not_skipped",
        fault_class="H",
        stands_for=("H1",),
        change="an id -1 counts as expert 0, only in slots from 65,536 on",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=before(ROUTING, _changed_ids(_far_slots_not_skipped))),
    ),
    Mutant(
        id="ep_ids.from_the_end",
        fault_class="H",
        stands_for=("H2",),
        change="-1 is the last expert, only where E is no multiple of 16",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=before(ROUTING, _changed_ids(_from_the_end))),
    ),
    Mutant(
        id="ep_ids.below_minus_one",
        fault_class="H",
        stands_for=("H2",),
        change="ids below -1 are skipped like -1 in place of being refused",
        refuted_by=("routing.refusal",),
        target=SubjectMutant(factory=before(ROUTING, _changed_ids(_below_minus_one))),
    ),
    Mutant(
        id="ep_ids.another_ranks",
        fault_class="H",
        stands_for=("H5",),
        change="the id E is skipped in place of being refused",
        refuted_by=("routing.refusal",),
        target=SubjectMutant(factory=before(ROUTING, _changed_ids(_another_ranks))),
    ),
    Mutant(
        id="ep_ids.place_of_skipped",
        fault_class="H",
        stands_for=("H1",),
        change="the slot of an id -1 goes to row 0 in place of T, only where it is the one such slot",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(ROUTING, _place_of_skipped)),
    ),
    Mutant(
        id="ep_ids.tail_of_minus_one",
        fault_class="H",
        stands_for=("H4",),
        change="the last slot of the row map is -1 in place of 0 where ids -1 leave it without a row",
        refuted_by=("routing.golden",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(ROUTING, _tail_of_minus_one)),
    ),
    Mutant(
        id="ep_ids.orphans_written",
        fault_class="H",
        stands_for=("H1", "H5"),
        change="a byte of the first row that no expert owns is written",
        refuted_by=("quant.guard",),
        devices=("cpu", "cuda"),
        target=SubjectMutant(factory=after(QUANT, _orphans_written)),
    ),
    Mutant(
        id="ep_ids.model_token_without_experts",
        fault_class="H",
        stands_for=("H1", "H2"),
        change="the golden model counts -1 as the last expert, only in a token whose ids are all -1",
        refuted_by=("routing.counts", "routing.permutation"),
        target=ModelMutant(factory=_model_counts_from_the_end),
    ),
)
