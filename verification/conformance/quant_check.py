"""One quantizer case: run the subject in three turns in guarded, poisoned memory and judge every byte.

- guard: a canary changed, or the child died (the supervisor sees that);
- inputs: an input changed that the contract does not list under `mutates`;
- coverage: a promised byte that equals its own fill in every run was never written;
- golden: a promised byte differs from the golden model;
- untouched: a byte changed that belongs to nobody (rows at or after T, scale rows past an expert's last tile);
- poison: a promised byte differs between the runs;
- refusal: a case outside the domain was not refused.

The true outputs are computed after the subject's runs, in memory that it never held. Where the contract says that an
operation returns its outputs, they are the subject's own memory: what it writes outside them cannot be seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch

from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations, Operations
from nvfp4_moe.reference.tables import MissingTableError, find_table
from nvfp4_moe.verification.conformance.admissible import RECIPES as APPROXIMATE_RECIPES
from nvfp4_moe.verification.conformance.call import (
    TURNS,
    Call,
    Judgement,
    Turn,
    dirty_pool,
    returned_bytes,
    worst_first,
)
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.forms import Masked, Ragged
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.quant_data import (
    QuantInputs,
    admissible_bytes,
    make_inputs,
    true_outputs,
)
from nvfp4_moe.verification.conformance.quant_judge import Outputs, QuantRun, judge
from nvfp4_moe.verification.conformance.subject import Subject, is_functional
from nvfp4_moe.verification.conformance.views import (
    give_input,
    give_offsets,
    give_scales,
    take_output,
    written_output,
)
from nvfp4_moe.verification.result import Finding


def check_quant(subject: Subject, case: QuantCase, arena: Arena) -> Judgement:
    """Run a case and return what it breaks, worst first.

    Raises:
        Refused: the subject raised one of `REFUSALS`.
        DeviceFault: its work on the device failed.
    """
    if is_functional(subject, case.operation):
        case = replace(case, extra_scale_rows=0)  # nothing can ask for them
    inputs = make_inputs(case)
    digest = inputs.digest()
    faults: list[Fault] = []
    runs: list[QuantRun] = []
    for turn in TURNS:
        run, found = run_quant(subject, case, inputs, arena, turn)
        runs.append(run)
        faults += found
        if any(fault.finding is Finding.MEMORY for fault in faults):
            return Judgement(faults)  # what is in memory now proves nothing more
    if inputs.digest() != digest:
        text = "the harness's own copy of the inputs was changed: a write through a wild pointer"
        return Judgement([Fault(check="guard", finding=Finding.MEMORY, text=text)])
    ops = exact_operations(subject)
    true = true_outputs(case, inputs, subject.contract, ops or IEEE)
    outputs = Outputs.of(inputs.form, subject.contract, true)
    excused = None
    if ops is None and subject.contract.recipe in APPROXIMATE_RECIPES:
        excused = _excused(case, inputs, runs, outputs)
    faults += judge(outputs, runs, excused.masks if excused else None)
    return Judgement(worst_first(faults), excused.count if excused else 0)


def run_quant(
    subject: Subject, case: QuantCase, inputs: QuantInputs, arena: Arena, turn: Turn
) -> tuple[QuantRun, list[Fault]]:
    """Call the subject once and return what it left behind, and the memory faults."""
    form = inputs.form
    with Call(subject, arena, turn, offset=case.offset, offset_all=case.offset_all) as call:
        given = _give(call, case, inputs, turn)
        if is_functional(subject, case.operation):
            shapes = [(form.packed_shape, torch.uint8), (form.scale_shape, torch.int32)]
            dirty_pool(shapes, turn.fill, subject.device)
            returned = call.run(case.operation, *given)
            # No argument tells S, so engines return as many rows as there may be.
            longer = (1,) if isinstance(form, Ragged) else ()
            packed, scales = returned_bytes(returned, shapes, may_be_longer=longer)
        else:
            output = take_output(call, case, form.packed_shape)
            output_scale = call.take("output_scale", form.scale_shape, torch.int32)
            call.run(case.operation, output, output_scale, *given)
            packed, scales = written_output(call, form.packed_shape), call.written("output_scale")
        owns = not is_functional(subject, case.operation)
        return QuantRun(turn.fill, packed, scales, in_place=owns), call.faults


_UNUSED_SCALES = (torch.nan, 0.0, torch.inf)
"""Global scales of experts without rows, one for each turn: they are used nowhere."""


def _give(call: Call, case: QuantCase, inputs: QuantInputs, turn: Turn) -> list[torch.Tensor]:
    """Return the guarded inputs in the order of the call, rows that no expert owns poisoned."""
    form, whole = inputs.form, inputs.whole()
    given = give_input(call, case, whole)
    given.view(torch.int16)[~form.owned] = turn.poison
    tensors = [given, give_scales(call, case, inputs.global_scale, _UNUSED_SCALES[turn.number])]
    if isinstance(form, Masked):
        return [*tensors, give_offsets(call, case, "masked_m", form.masked_m, decoy=form.slab_rows)]
    assert isinstance(form, Ragged)
    offsets, scale_offsets = form.expert_offsets, form.blockscale_offsets
    return [
        *tensors,
        give_offsets(call, case, "input_offset_by_experts", offsets, decoy=form.routed_rows),
        give_offsets(call, case, "output_scale_offset_by_experts", scale_offsets, decoy=form.padded_rows),
    ]


_TABLES = ("reciprocal", "silu_bf16", "silu_f16")
"""Tables of a chip that together decide every byte."""


def exact_operations(subject: Subject) -> Operations | None:
    """Return the operations that decide every byte of a subject, or None where the chip has no table."""
    if subject.contract.arithmetic == "ieee":
        return IEEE
    if subject.device == "cpu":
        return None  # no approximate instruction was measured on a CPU
    return _operations_of(torch.cuda.get_device_name())


@cache
def _operations_of(chip: str) -> Operations | None:
    try:
        for kind in _TABLES:
            find_table(kind, chip=chip)
    except MissingTableError:
        return None
    return HardwareOperations(chip)


@dataclass(frozen=True, eq=False)
class _Excused:
    """Bytes of each run that differ from the correctly rounded ones and that documented errors can reach."""

    masks: list[tuple[torch.Tensor, torch.Tensor]]

    @property
    def count(self) -> int:
        return sum(int(mask.sum()) for mask in self.masks[0])


def _excused(case: QuantCase, inputs: QuantInputs, runs: list[QuantRun], outputs: Outputs) -> _Excused | None:
    if all(outputs.matches(run) for run in runs):
        return None
    masks = []
    for run in runs:
        packed_ok, scales_ok = admissible_bytes(
            case, inputs, outputs.contract.recipe, run.packed[inputs.form.owned], run.scales
        )
        whole = torch.zeros(run.packed.shape, dtype=torch.bool)
        whole[inputs.form.owned] = packed_ok
        masks.append((whole & (run.packed != outputs.packed), scales_ok & (run.scales != outputs.scales)))
    return _Excused(masks)
