"""STRIDE: a view is read or written as if it were dense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault
from nvfp4_moe.verification.mutants.stepwise import Steps, Wrong, expert_of_row, target_of
from nvfp4_moe.verification.mutants.wrap import (
    MASKED,
    QUANT,
    ROUTING,
    SHUFFLE,
    SILU_QUANT,
    SWIZZLE,
    AnyCall,
    Factory,
    before,
    returning,
)

FAULTS = (
    PublicFault(
        id="R1",
        links=("https://github.com/vllm-project/vllm/pull/49092",),
        what="Quantization of a slice of columns: row 0 is right, all others are garbage, no error. A reshape keeps"
        " the view, the operation reads on without a look at the stride.",
        star=True,
    ),
    PublicFault(
        id="R2",
        links=("https://github.com/pytorch/FBGEMM/pull/2919",),
        what="The output is silently transposed: it is written with the strides of the input.",
    ),
)

VECTOR = 16
"""Elements of one 32-byte load."""


def _dense(view: Tensor) -> Tensor:
    """Return the view that begins at the same element and is dense; one that is expanded is left as it is."""
    strides = torch.empty(view.shape, device="meta").stride()
    needed = sum((size - 1) * stride for size, stride in zip(view.shape, view.stride(), strict=True))
    return view if view.numel() - 1 > needed else view.as_strided(view.shape, strides)


def _read_dense(view: Tensor) -> Tensor:
    return _dense(view).contiguous()


def _unit_columns(view: Tensor) -> Tensor:
    """Return the elements with the stride of rows honoured and columns taken for neighbours."""
    return view.as_strided(view.shape, (view.stride(0), 1)).contiguous()


def _whole_vectors(view: Tensor) -> Tensor:
    """Return the elements with the stride of rows rounded down to whole vectors."""
    stride = max(view.stride(0) // VECTOR * VECTOR, view.shape[-1])
    return view if view.stride(1) != 1 else view.as_strided(view.shape, (stride, 1)).contiguous()


def _expert_by_dense_offsets(offsets: Tensor, rows: int) -> Tensor:
    """Return the expert of each row, looked up in offsets that are read as if they were dense."""
    return expert_of_row(_dense(offsets), rows).clamp(max=len(offsets) - 2)


def _argument(name: str, misread: Callable[[Tensor], Tensor], call: AnyCall) -> AnyCall:
    tensor = getattr(call, name)
    return replace(call, **{name: misread(tensor)}) if tensor.numel() else call


def _given(operation: str, name: str, misread: Callable[[Tensor], Tensor] = _read_dense) -> Factory:
    """Return a factory that misreads one tensor of a call."""
    return before(operation, partial(_argument, name, misread))


def _rows(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda input, row_map: right(_read_dense(input), row_map)


def _map(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda input, row_map: right(input, _read_dense(row_map))


def _linear(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda linear: right(_read_dense(linear))


def _mutant(name: str, fault: str, change: str, wrong: Wrong, *refuted_by: str) -> Mutant:
    return Mutant(
        id=f"stride.{name}",
        fault_class="R",
        stands_for=(fault,),
        change=change,
        refuted_by=refuted_by or ("quant.golden", "quant.poison"),
        target=target_of(wrong),
        devices=("cpu", "cuda"),
    )


MUTANTS = (
    _mutant("slice_of_columns", "R1", "Rows of a slice of columns are read on as if they were dense: row 0 is right.",
            _given(QUANT, "input")),
    _mutant("slice_of_gate_and_up", "R1", "The same in the fused operation.", _given(SILU_QUANT, "input"),
            "silu_quant.golden", "silu_quant.poison"),
    _mutant("unit_columns", "R1", "The stride of rows is honoured, columns are taken for neighbours.",
            _given(QUANT, "input", _unit_columns)),
    _mutant("whole_vectors", "R1", "The stride of rows is rounded down to whole vectors of 16 elements.",
            _given(QUANT, "input", _whole_vectors)),
    _mutant("output_dense", "R2", "Codes are written as if the rows of the output were dense.",
            _given(QUANT, "output", _dense), "quant.guard", "quant.golden", "quant.coverage"),
    _mutant("scales_dense", "R1", "Every other element of a vector of global scales is read as if it were dense.",
            _given(QUANT, "input_global_scale")),
    _mutant("offsets_dense", "R1", "Every other element of the offsets is read as if they were dense.",
            Steps(expert_of_row=_expert_by_dense_offsets), "quant.golden", "quant.coverage", "quant.poison"),
    _mutant("ids_dense", "R1", "Ids of a slice of a wider tensor are read on as if they were dense.",
            _given(ROUTING, "topk_ids"), "routing.golden"),
    _mutant("counts_dense", "R1", "In the masked form every other element of the counts is read as if dense.",
            _given(MASKED, "masked_m"), "masked_quant.golden", "masked_quant.coverage", "masked_quant.guard"),
    _mutant("gathered_slice", "R1", "A gather reads a slice of columns on as if its rows were dense.",
            returning(SHUFFLE, _rows), "shuffle.golden"),
    _mutant("map_dense", "R1", "A gather reads a column of a matrix as its map as if it were dense.",
            returning(SHUFFLE, _map), "shuffle.golden"),
    _mutant("scales_slice", "R1", "The layout of scales is made from a slice read on as if its rows were dense.",
            returning(SWIZZLE, _linear), "swizzle.golden"),
)  # fmt: skip
