"""What a subject writes in a case, as bytes by name: the task of the children of `verify --against`.

Each case runs in guarded, poisoned memory, in two turns whose stale contents differ, so that a byte that one subject
leaves unwritten and the other writes shows in one of them whatever its value.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

import torch

from nvfp4_moe.verification.conformance.call import (
    TURNS,
    Refused,
    SubjectRaised,
    Turn,
)
from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.gemm_cases import GemmCase
from nvfp4_moe.verification.conformance.gemm_check import run_gemm
from nvfp4_moe.verification.conformance.gemm_data import make_gemm
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.layer_check import run_layer
from nvfp4_moe.verification.conformance.layer_data import make_layer
from nvfp4_moe.verification.conformance.memory import Arena, DeviceFault
from nvfp4_moe.verification.conformance.plan import case_from_json, may_refuse
from nvfp4_moe.verification.conformance.quant_check import run_quant
from nvfp4_moe.verification.conformance.quant_data import make_inputs
from nvfp4_moe.verification.conformance.routing_check import make_topk_ids, run_routing
from nvfp4_moe.verification.conformance.rows_check import RowsCase, run_rows
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.worker import DEVICE_FAULT, arena_for
from nvfp4_moe.verification.task_child import TaskChild
from nvfp4_moe.verification.task_messages import hear, say

ComparedCase = QuantCase | RoutingCase | RowsCase | GemmCase | LayerCase
"""Cases with outputs of their own, the only ones that two subjects can be compared on."""

COMPARED_TURNS = TURNS[1:]

Outputs = dict[str, torch.Tensor]
"""Output tensors of one turn by parameter name, uint8 or int32, on the CPU."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a subject did in one case."""

    turns: list[Outputs] = field(default_factory=list)
    """Outputs, one entry for each of `COMPARED_TURNS`; none where the subject did not run to its end."""
    faults: list[str] = field(default_factory=list)
    """Writes outside its tensors, changed inputs."""
    refused: str | None = None
    refusal_legal: bool = False
    raised: str | None = None
    """The last line of an exception that is no refusal."""
    died: str | None = None
    """How its process ended."""


def serve(subject: Subject, requests: BinaryIO, out: BinaryIO) -> None:
    """Run the "cases" of the one request in order and write an answer for each."""
    arena = arena_for(subject.device)
    try:
        for entry in hear(requests)["cases"]:
            case = case_from_json(entry)
            assert isinstance(case, ComparedCase)
            _say_answer(out, answer(subject, case, arena))
    except DeviceFault as fault:
        print(fault, file=sys.stderr, flush=True)
        os._exit(DEVICE_FAULT)  # nothing on the device works any more, clean-up neither


def answer(subject: Subject, case: ComparedCase, arena: Arena) -> Answer:
    """Run one case in every compared turn.

    Raises:
        DeviceFault: the subject's work on the device failed.
    """
    turns: list[Outputs] = []
    faults: list[str] = []
    run = _runner(subject, case, arena)
    try:
        for turn in COMPARED_TURNS:
            outputs, found = run(turn)
            turns.append(outputs)
            faults += [fault.text for fault in found]
    except Refused as refusal:
        faults += [fault.text for fault in refusal.faults]
        return Answer(faults=faults, refused=str(refusal), refusal_legal=may_refuse(case, subject.contract))
    except SubjectRaised as raised:
        faults += [fault.text for fault in raised.faults]
        return Answer(faults=faults, raised=str(raised).strip().splitlines()[-1])
    return Answer(turns, list(dict.fromkeys(faults)))


def _runner(
    subject: Subject, case: ComparedCase, arena: Arena
) -> Callable[[Turn], tuple[Outputs, list[Fault]]]:
    """Return what calls the subject once and gives its outputs by name and the memory faults."""
    if isinstance(case, RoutingCase):
        ids = make_topk_ids(case)
        return lambda turn: run_routing(subject, case, ids, arena, turn)
    if isinstance(case, RowsCase):
        return lambda turn: _as_outputs(*run_rows(subject, case, arena, turn))
    if isinstance(case, GemmCase | LayerCase):
        return _bounded_runner(subject, case, arena)
    inputs = make_inputs(case)

    def run(turn: Turn) -> tuple[Outputs, list[Fault]]:
        found, faults = run_quant(subject, case, inputs, arena, turn)
        return {"output": found.packed, "output_scale": found.scales}, faults

    return run


def _bounded_runner(
    subject: Subject, case: GemmCase | LayerCase, arena: Arena
) -> Callable[[Turn], tuple[Outputs, list[Fault]]]:
    if isinstance(case, GemmCase):
        gemm, dtype = make_gemm(case), case.dtype
        return lambda turn: _as_outputs(*run_gemm(subject, gemm, dtype, arena, turn))
    layer = make_layer(case)
    return lambda turn: _as_outputs(*run_layer(subject, layer, arena, turn))


def _as_outputs(output: torch.Tensor, faults: list[Fault]) -> tuple[Outputs, list[Fault]]:
    return {"output": output.contiguous().view(torch.uint8)}, faults


# --- the way to the parent -----------------------------------------------------------------------------------


def _say_answer(out: BinaryIO, found: Answer) -> None:
    shapes = [
        {name: [list(t.shape), t.element_size()] for name, t in outputs.items()} for outputs in found.turns
    ]
    payload = b"".join(
        t.contiguous().view(torch.uint8).numpy().tobytes() if t.numel() else b""
        for outputs in found.turns
        for t in outputs.values()
    )
    message = {
        "turns": shapes,
        "faults": found.faults,
        "refused": found.refused,
        "refusal_legal": found.refusal_legal,
        "raised": found.raised,
    }
    say(out, message, payload)


def hear_answer(child: TaskChild, *, seconds: float) -> Answer:
    """Return the next answer of a child; see `TaskChild.message` for errors."""
    message = child.message(seconds=seconds)
    turns = []
    for shapes in message.pop("turns"):
        outputs: Outputs = {}
        for name, (shape, itemsize) in shapes.items():
            count = itemsize
            for size in shape:
                count *= size
            data = bytearray(child.payload(count, seconds=seconds))
            dtype = torch.uint8 if itemsize == 1 else torch.int32
            flat = torch.frombuffer(data, dtype=dtype) if count else torch.empty(0, dtype=dtype)
            outputs[name] = flat.view(shape)
        turns.append(outputs)
    return Answer(turns, **message)
