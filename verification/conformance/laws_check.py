"""Laws of the quantizers, which hold whatever the arithmetic: two calls of a subject compared with each other.

They need no golden model, so they also catch what an unmeasured chip's tolerance would let pass.

- rows: the rows of an expert in another order give the same bytes in that order;
- experts: renamed experts keep their bytes;
- alone: one expert at a time gives what all together give;
- again: the same call gives the same bytes after a larger one.

On a GPU besides:

- stream: the same bytes on a side stream whose producer of the input is still busy;
- graph: the same bytes when captured once and replayed with the inputs rewritten in place; a subject may refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from nvfp4_moe.verification.conformance.call import TURNS, Judgement, NoOutputs, Turn, worst_first
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.fault import Fault, first_difference
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.quant_check import run_quant
from nvfp4_moe.verification.conformance.quant_data import QuantInputs, form_of, make_inputs
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.result import Finding

Operation = Callable[..., Any]
Tensors = tuple[torch.Tensor, ...]

_OUTPUTS = 2
"""Leading arguments of the quantizers that are outputs."""
_SPIN_CYCLES = 2_000_000
"""About a millisecond of a GPU: longer than a launch."""
_LARGER = 5
"""How many times more rows the call between the two of `again` has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawCase:
    """A law and the call that it is tried on."""

    law: str
    """A key of `LAWS` or `CUDA_LAWS`."""
    base: QuantCase

    @property
    def operation(self) -> str:
        return self.base.operation

    def to_json(self) -> dict[str, Any]:
        return {"kind": "law", "law": self.law, "base": asdict(self.base)}


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a call gave each routed row: its codes and its scale bytes."""

    packed: torch.Tensor
    scales: torch.Tensor

    def at(self, order: torch.Tensor) -> _Rows:
        return _Rows(self.packed[order], self.scales[order])


class _Laws:
    """One case's calls; memory faults end it."""

    def __init__(self, subject: Subject, base: QuantCase, arena: Arena) -> None:
        self.subject, self.base, self.arena = subject, base, arena
        self.inputs = make_inputs(base)
        self.faults: list[Fault] = []

    def call(self, case: QuantCase, inputs: QuantInputs, turn: Turn) -> _Rows:
        try:
            run, faults = run_quant(self.subject, case, inputs, self.arena, turn)
        except NoOutputs as nothing:
            nothing.faults = (*self.faults, *nothing.faults)
            raise
        self.faults += faults
        form = inputs.form
        return _Rows(run.packed[form.owned], form.read_scales(run.scales))

    def changed(self, counts: list[int], rows: torch.Tensor, scale: torch.Tensor, turn: Turn) -> _Rows:
        """Call with other experts' rows."""
        case = replace(self.base, tokens_per_expert=tuple(counts))
        return self.call(case, QuantInputs(rows=rows, global_scale=scale, form=form_of(case)), turn)


def _rows_law(laws: _Laws) -> Iterator[tuple[_Rows, _Rows]]:
    order = _blockwise(laws.base.tokens_per_expert, lambda rows: rows.flip(0))
    counts = list(laws.base.tokens_per_expert)
    first = laws.call(laws.base, laws.inputs, TURNS[0])
    moved = laws.changed(counts, laws.inputs.rows[order], laws.inputs.global_scale, TURNS[1])
    yield first.at(order), moved


def _experts_law(laws: _Laws) -> Iterator[tuple[_Rows, _Rows]]:
    counts = list(laws.base.tokens_per_expert)
    order = torch.cat(list(reversed(torch.arange(sum(counts)).split(counts))))
    first = laws.call(laws.base, laws.inputs, TURNS[0])
    renamed = laws.changed(counts[::-1], laws.inputs.rows[order], laws.inputs.global_scale.flip(0), TURNS[1])
    yield first.at(order), renamed


def _alone_law(laws: _Laws) -> Iterator[tuple[_Rows, _Rows]]:
    counts = list(laws.base.tokens_per_expert)
    together = laws.call(laws.base, laws.inputs, TURNS[0])
    for expert, order in enumerate(torch.arange(sum(counts)).split(counts)):
        scale = laws.inputs.global_scale[expert : expert + 1].clone()
        yield together.at(order), laws.changed([counts[expert]], laws.inputs.rows[order], scale, TURNS[1])


def _again_law(laws: _Laws) -> Iterator[tuple[_Rows, _Rows]]:
    first = laws.call(laws.base, laws.inputs, TURNS[0])
    counts = [rows * _LARGER + 1 for rows in laws.base.tokens_per_expert]
    larger = replace(laws.base, tokens_per_expert=tuple(counts), index=laws.base.index + 1)
    laws.call(larger, make_inputs(larger), TURNS[1])
    yield first, laws.call(laws.base, laws.inputs, TURNS[0])


def _stream_law(laws: _Laws) -> Iterator[tuple[_Rows, _Rows]]:
    def late(operation: Operation, outputs: Tensors, inputs: Tensors) -> None:
        source = inputs[0].clone()
        inputs[0].zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(_SPIN_CYCLES)
            inputs[0].copy_(source)
            operation(*outputs, *inputs)
        side.synchronize()

    yield from _wrapped(laws, late)


def _graph_law(laws: _Laws) -> Iterator[tuple[_Rows, _Rows]]:
    def replayed(operation: Operation, outputs: Tensors, inputs: Tensors) -> None:
        stale = [tensor.clone() for tensor in outputs]
        source = inputs[0].clone()
        inputs[0].zero_()
        operation(*outputs, *inputs)  # whatever is set up on first use
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            operation(*outputs, *inputs)
        inputs[0].copy_(source)
        for tensor, old in zip(outputs, stale, strict=True):
            tensor.copy_(old)
        graph.replay()

    yield from _wrapped(laws, replayed)


def _wrapped(
    laws: _Laws, way: Callable[[Operation, Tensors, Tensors], None]
) -> Iterator[tuple[_Rows, _Rows]]:
    """Call the subject as it is, then in another way, which must change nothing."""
    first = laws.call(laws.base, laws.inputs, TURNS[0])
    subject, name = laws.subject, laws.base.operation
    operation = subject.operations[name]

    def other_way(*tensors: torch.Tensor) -> None:
        way(operation, tensors[:_OUTPUTS], tensors[_OUTPUTS:])

    laws.subject = Subject(subject.name, subject.device, subject.contract, **{name: other_way})
    yield first, laws.call(laws.base, laws.inputs, TURNS[1])


LAWS: dict[str, Callable[[_Laws], Iterator[tuple[_Rows, _Rows]]]] = {
    "rows": _rows_law,
    "experts": _experts_law,
    "alone": _alone_law,
    "again": _again_law,
}
"""Each law yields pairs of rows that must have the same bytes."""

CUDA_LAWS = {"stream": _stream_law, "graph": _graph_law}
"""The same, on a GPU, for operations that fill the caller's outputs."""


def laws_of(subject_device: str, *, in_place: bool) -> tuple[str, ...]:
    """Return the laws that are tried."""
    return (*LAWS, *(CUDA_LAWS if subject_device == "cuda" and in_place else ()))


def _blockwise(counts: tuple[int, ...], reorder: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return torch.cat([reorder(rows) for rows in torch.arange(sum(counts)).split(list(counts))])


def check_law(subject: Subject, case: LawCase, arena: Arena) -> Judgement:
    """Try a law and return what breaks it, worst first.

    Raises:
        Refused: the subject raised one of `REFUSALS`.
        DeviceFault: its work on the device failed.
    """
    laws = _Laws(subject, case.base, arena)
    for one, other in (LAWS | CUDA_LAWS)[case.law](laws):
        if any(fault.finding is Finding.MEMORY for fault in laws.faults):
            break
        laws.faults += _compare(case, one, other)
        if laws.faults:
            break
    return Judgement(worst_first(laws.faults))


def _compare(case: LawCase, one: _Rows, other: _Rows) -> Iterator[Fault]:
    for name, first, second in (
        ("output", one.packed, other.packed),
        ("output_scale", one.scales, other.scales),
    ):
        found = first_difference(first, second, None)
        if found:
            row, byte = divmod(found[0], first.shape[1])
            values = f"{int(first[row, byte]):#04x} and {int(second[row, byte]):#04x}"
            text = f"law {case.law}: {name} of row {row}, byte {byte} is {values} (first of {found[1]:,})"
            where = {"law": case.law, "output": name, "row": row, "byte": byte, "count": found[1]}
            yield Fault(check="laws", finding=Finding.BYTES, text=text, where=where)
