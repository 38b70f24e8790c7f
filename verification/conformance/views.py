"""Tensors of a call as views: rows that lie apart, a transposed input, strided global scales, outputs with gaps.

The elements of a view are those of the dense tensor; what lies between them is the turn's poison in the rows of an
input, another legal element in a vector, and stale in an output.
A subject honours the strides or refuses the call.
"""

from __future__ import annotations

import torch

from nvfp4_moe.verification.conformance.call import Call
from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.result import Finding

_OUTPUT_GAP = 16
"""Bytes between the rows of an output."""
_ANOTHER_SCALE = 3.0
"""Legal, so that who reads it gives wrong bytes and does not refuse it by its value."""
_BF16_ONES, _ONE = 0x3F803F80, 0x3F800000


def give_input(call: Call, case: QuantCase, whole: torch.Tensor) -> torch.Tensor:
    """Return the guarded input (..., columns) with the strides of the case."""
    if case.view == "input_transposed":
        return call.give("input", whole.t().contiguous(), decoy=_BF16_ONES).t()
    columns = whole.shape[-1]
    if case.row_gap:
        # NaN alone would hide a maximum that leaves NaN out: the turn's poison is also zero, and large and finite.
        shape = (*whole.shape[:-1], columns + case.row_gap)
        wide = torch.full(shape, call.turn.poison, dtype=torch.int16).view(whole.dtype)
        wide[..., :columns] = whole
        whole = wide
    return call.give("input", whole, decoy=_BF16_ONES)[..., :columns]


def give_scales(call: Call, case: QuantCase, scales: torch.Tensor, unused: float) -> torch.Tensor:
    """Return the guarded global scales (E,); those of experts without rows are `unused`."""
    name, experts = "input_global_scale", len(scales)
    if case.view == "global_scale_expanded":
        return call.give(name, scales[:1].clone(), decoy=_ONE).expand(experts)
    scales = torch.where(torch.tensor(case.tokens_per_expert) == 0, unused, scales)
    if case.view == "global_scale_apart":
        apart = torch.full((2 * experts,), _ANOTHER_SCALE)
        apart[::2] = scales
        return call.give(name, apart, decoy=_ONE)[::2]
    return call.give(name, scales, decoy=_ONE)


def give_offsets(
    call: Call, case: QuantCase, name: str, offsets: torch.Tensor, *, decoy: int
) -> torch.Tensor:
    """Return a guarded vector of offsets or counts; where they lie apart, legal ones are between them."""
    if case.view != "offsets_apart":
        return call.give(name, offsets, decoy=decoy)
    return call.give(name, offsets.repeat_interleave(2), decoy=decoy)[::2]


def give_rows(call: Call, name: str, rows: torch.Tensor, gap: int) -> torch.Tensor:
    """Return guarded rows (rows, columns) with `gap` elements of 0xFF bytes between them."""
    if not gap:
        return call.give(name, rows)
    wide = torch.full((*rows.shape[:-1], (rows.shape[-1] + gap) * rows.itemsize), 0xFF, dtype=torch.uint8)
    wide = wide.view(rows.dtype)
    wide[..., : rows.shape[-1]] = rows
    return call.give(name, wide)[..., : rows.shape[-1]]


def give_map(call: Call, row_map: torch.Tensor, gap: int) -> torch.Tensor:
    """Return the guarded map (rows,), `gap` entries between those of the map, all of them row 0."""
    wide = row_map.new_zeros((len(row_map), 1 + gap))
    wide[:, 0] = row_map
    return call.give("map", wide, decoy=0)[:, 0]


def give_ids(call: Call, case: RoutingCase, ids: torch.Tensor) -> torch.Tensor:
    """Return the guarded ids (tokens, topk); between the tokens' lie legal ids."""
    wide = ids.new_full((case.tokens, case.topk + case.id_gap), case.num_experts - 1)
    wide[:, : case.topk] = ids
    return call.give("topk_ids", wide, decoy=0)[:, : case.topk]


def take_output(call: Call, case: QuantCase, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the guarded, stale codes with the strides of the case."""
    gap = _OUTPUT_GAP if case.view == "output_apart" else 0
    return call.take("output", (*shape[:-1], shape[-1] + gap), torch.uint8)[..., : shape[-1]]


def written_output(call: Call, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a copy of the codes, after a look at the bytes between the rows; a changed one is a fault of the call."""
    whole = call.written("output")
    between = whole[..., shape[-1] :] != call.turn.fill
    if bool(between.any()):
        *row, byte = between.nonzero()[0].tolist()
        text = f"a write between the rows of output: row {row[-1]}, {byte} bytes past its end"
        where = {"tensor": "output", "row": row[-1], "offset": shape[-1] + byte}
        call.faults.append(Fault(check="guard", finding=Finding.MEMORY, text=text, where=where))
    return whole[..., : shape[-1]].contiguous()
