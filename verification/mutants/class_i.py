"""ZERO-TOKEN: experts without rows, batches without tokens: outputs left unwritten, launches of nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault, SubjectMutant
from nvfp4_moe.verification.mutants.stepwise import Steps, wrong_steps
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, wrong_gemm
from nvfp4_moe.verification.mutants.wrap import (
    GEMM,
    LAYER,
    MASKED,
    QUANT,
    ROUTING,
    GemmCall,
    LayerCall,
    MaskedCall,
    QuantCall,
    RoutingCall,
    after,
    around,
)

FAULTS = (
    PublicFault(
        id="I1",
        links=("https://github.com/meta-pytorch/MSLK/pull/158",),
        what="NaN gradients for experts without tokens: the output comes from torch.empty unless all experts are empty,"
        " and the kernel skips groups without rows.",
        star=True,
    ),
    PublicFault(
        id="I2",
        links=(
            "https://github.com/pytorch/pytorch/issues/172439",
            "https://github.com/NVIDIA/TransformerEngine/issues/2499",
        ),
        what="Groups of size zero give gradients that are not zero, or leave the output as it was.",
    ),
    PublicFault(
        id="I4",
        links=(
            "https://github.com/sgl-project/sglang/issues/23609",
            "https://github.com/sgl-project/sglang/pull/23636",
        ),
        what="A batch without tokens launches a grid of size zero: an error that stays, so that later, unrelated"
        " operations fail. It happens when a rank receives no tokens.",
        star=True,
    ),
    PublicFault(
        id="I5",
        links=("https://github.com/sgl-project/sglang/issues/38773",),
        what="A batch without tokens is refused because its pointer is null.",
    ),
    PublicFault(
        id="I6",
        links=("https://github.com/NVIDIA/cutlass/pull/1593",),
        what="Illegal access where an expert has no tokens: the prologue loads although there is nothing to do.",
    ),
    PublicFault(
        id="I7",
        links=("https://github.com/vllm-project/vllm-ascend/pull/9992",),
        what="Garbage in the first step: the output comes from empty_like, rows of experts without tokens stay"
        " unwritten.",
    ),
)

LONG_RUN = 32
"""Empty experts in a row that a look-up by one warp covers."""


def _sizes_skipped(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """Of an expert without rows the second GEMM's size is not written, unless all are without."""

    def wrong(call: RoutingCall) -> None:
        stale = call.problem_sizes2.clone()
        right(call)
        empty = call.problem_sizes1[:, 0] == 0
        if not bool(empty.all()):
            call.problem_sizes2[empty] = stale[empty]

    return wrong


def _early_return(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    """The early return for a batch without tokens comes before the first scale rows are written."""

    def wrong(call: RoutingCall) -> None:
        stale = call.blockscale_offsets.clone()
        right(call)
        if call.topk_ids.numel() == 0:
            call.blockscale_offsets.copy_(stale)

    return wrong


def _tile_for_empty(call: RoutingCall) -> None:
    """The last of several experts gets a tile of scale rows although it has no rows."""
    if call.num_experts > 1 and int(call.problem_sizes1[-1, 0]) == 0:
        call.blockscale_offsets[-1] += 128


def _error_that_stays(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """A call without rows leaves an error behind, which the next call raises."""
    left: list[str] = []

    def wrong(call: QuantCall) -> None:
        if left:
            raise RuntimeError(left.pop())
        right(call)
        if call.routed_rows == 0:
            left.append("invalid configuration argument")

    return wrong


def _null_is_an_error(right: Callable[[RoutingCall], None]) -> Callable[[RoutingCall], None]:
    def wrong(call: RoutingCall) -> None:
        if call.topk_ids.data_ptr() == 0:
            raise ValueError("topk_ids must not be null")
        right(call)

    return wrong


def _prologue_loads(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The first row of an expert is loaded although it has none: behind the input, where it is the last expert."""

    def wrong(call: QuantCall) -> None:
        right(call)
        row_bytes = call.input.stride(0) * call.input.element_size()
        for first, rows in zip(call.offsets, call.counts, strict=False):
            if rows == 0:
                ctypes.string_at(call.input.data_ptr() + first * row_bytes, row_bytes)

    return wrong


def _first_of_equal_offsets(offsets: Tensor, rows: int) -> Tensor:
    """The first expert that begins at the row: an empty one, where the row's own expert stands behind such."""
    row = torch.arange(rows, device=offsets.device)
    found = torch.searchsorted(offsets.long(), row)
    return torch.where(offsets[found] == row, found, found - 1)


def _behind_a_long_run(offsets: Tensor, rows: int) -> Tensor:
    """A look-up of 32 experts at a time: behind more empty ones in a row it stops at the last one that it saw."""
    row = torch.arange(rows, device=offsets.device)
    right = torch.searchsorted(offsets.long(), row, right=True) - 1
    filled = (offsets.diff() > 0).nonzero().flatten()
    rank = torch.searchsorted(filled, right)
    run = filled - torch.cat([filled.new_full((1,), -1), filled[:-1]]) - 1
    return torch.where(run[rank] > LONG_RUN, right - run[rank] + LONG_RUN, right)


def _empty_slab_written(call: MaskedCall) -> None:
    """An expert without rows is treated as one with a row: its first scale becomes zero."""
    for expert, rows in enumerate(call.counts):
        if rows == 0 and call.scales.shape[1]:
            call.scales[expert, 0, 0] = 0


def _store_without_rows(call: GemmCall) -> None:
    """The epilogue stores a row for the last expert although it has none: the row behind all experts' rows."""
    if call.counts and call.counts[-1] == 0 and len(call.out) > call.routed_rows:
        call.out[call.routed_rows, 0] = 0


def _alpha_of_equal_offsets(alphas: Tensor, ends: Tensor) -> Tensor:
    """The factor of a row is that of the first expert that begins with it."""
    return alphas[_first_of_equal_offsets(ends, int(ends[-1]))]


def _combine_skips_tokens(right: Callable[[LayerCall], None]) -> Callable[[LayerCall], None]:
    """The output of a token that no expert has is not written; zero is due."""

    def wrong(call: LayerCall) -> None:
        stale = call.output.clone()
        right(call)
        nobody = (call.topk_ids < 0).all(1)
        call.output[nobody] = stale[nobody]

    return wrong


def _mutant(
    name: str,
    faults: tuple[str, ...],
    change: str,
    target: SubjectMutant,
    *refuted_by: str,
    devices: tuple[str, ...] = ("cpu", "cuda"),
) -> Mutant:
    return Mutant(
        id=f"zero_token.{name}",
        fault_class="I",
        stands_for=faults,
        change=change,
        refuted_by=refuted_by,
        target=target,
        devices=devices,
    )


MUTANTS = (
    _mutant("sizes_of_empty_experts", ("I1",),
            "The size of the second GEMM is not written for experts without rows, unless all are without.",
            SubjectMutant(factory=around(ROUTING, _sizes_skipped)), "routing.coverage", "routing.golden"),
    _mutant("early_return", ("I4", "I7"), "Without tokens the first scale rows of the experts are not written.",
            SubjectMutant(factory=around(ROUTING, _early_return)), "routing.coverage", "routing.golden"),
    _mutant("tile_for_empty", ("I2",), "The last of several experts takes a tile of scale rows although it is empty.",
            SubjectMutant(factory=after(ROUTING, _tile_for_empty)), "routing.golden"),
    _mutant("error_that_stays", ("I4",), "A call without rows is right, and the call after it fails.",
            SubjectMutant(factory=around(QUANT, _error_that_stays), in_order=True, dies=True), "quant.golden"),
    _mutant("null_is_an_error", ("I5",), "A batch without tokens is refused because its pointer is null.",
            SubjectMutant(factory=around(ROUTING, _null_is_an_error), dies=True), "routing.golden"),
    _mutant("prologue_loads", ("I6",), "The first row of an expert without rows is read, and not used.",
            SubjectMutant(factory=around(QUANT, _prologue_loads), dies=True), "quant.guard", devices=("cpu",)),
    _mutant("first_of_equal_offsets", ("I2",), "An expert's first row has the global scale of an empty expert before it.",
            wrong_steps(Steps(expert_of_row=_first_of_equal_offsets)), "quant.golden", "quant.poison"),
    _mutant("behind_a_long_run", ("I2",), "Behind more than 32 empty experts in a row the look-up stops too early.",
            wrong_steps(Steps(expert_of_row=_behind_a_long_run)), "quant.golden", "quant.poison"),
    _mutant("empty_slab_written", ("I7",), "In the masked form a scale is written for an expert without rows.",
            SubjectMutant(factory=after(MASKED, _empty_slab_written)), "masked_quant.guard"),
    _mutant("gemm_stores_nothing", ("I6",), "The GEMM stores an element of the row behind all when the last expert is empty.",
            SubjectMutant(factory=after(GEMM, _store_without_rows), base="reference"), "gemm.guard"),
    _mutant("gemm_alpha", ("I2",), "In the GEMM an expert's first row has the factor of an empty expert before it.",
            wrong_gemm(lambda: GemmSteps(alpha_of_row=_alpha_of_equal_offsets)), "gemm.golden", "gemm.poison"),
    _mutant("combine_skips_tokens", ("I7",), "The layer does not write the output of a token that no expert has.",
            SubjectMutant(factory=around(LAYER, _combine_skips_tokens), base="reference"), "layer.coverage"),
)  # fmt: skip
