"""The judgement of a quantizer's outputs after its three runs: which bytes are promised, and which are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, unpack
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.fault import Fault, first_difference, hex_byte
from nvfp4_moe.verification.conformance.forms import Form, Kind
from nvfp4_moe.verification.result import Finding

Mask = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, eq=False)
class QuantRun:
    """What one run left behind, copied out of the subject's reach."""

    fill: int
    packed: torch.Tensor
    scales: torch.Tensor
    """Bytes of the codes and of the scale buffer."""
    in_place: bool = True
    """The caller allocated the outputs: what nobody owns must still hold the fill."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """The true outputs of a case and what each of their bytes is."""

    form: Form
    contract: Contract
    packed: torch.Tensor
    """uint8, zero where nobody owns a row."""
    scales: torch.Tensor

    @classmethod
    def of(cls, form: Form, contract: Contract, true: tuple[torch.Tensor, torch.Tensor]) -> Outputs:
        """Return the outputs for the true codes of the rows (T, K/2) and the true scale buffer."""
        packed = torch.zeros(form.packed_shape, dtype=torch.uint8)
        packed[form.owned] = true[0]
        return cls(form, contract, packed, true[1])

    @cached_property
    def owned(self) -> torch.Tensor:
        """bool like `packed`."""
        return self.form.owned[..., None].expand(self.packed.shape)

    @cached_property
    def kinds(self) -> torch.Tensor:
        """uint8 like `scales`: the `Kind` of each byte."""
        return self.form.kinds

    @cached_property
    def promised_scales(self) -> torch.Tensor:
        """bool like `scales`."""
        promised = self.kinds == int(Kind.VALID)
        if self.contract.k_padding == "zero":
            promised |= self.kinds == int(Kind.K_PADDING)
        if self.contract.row_padding == "zero":
            promised |= self.kinds == int(Kind.ROW_PADDING)
        return promised

    @cached_property
    def nobodys_scales(self) -> torch.Tensor:
        """bool like `scales`: bytes that must still hold the fill."""
        return self.kinds == int(Kind.BEYOND)

    def matches(self, run: QuantRun) -> bool:
        """Return whether every promised byte of a run is true and every other one of nobody's untouched."""
        packed = torch.where(self.owned, self.packed, run.fill if run.in_place else run.packed)
        if not torch.equal(run.packed, packed):
            return False
        kept = run.fill if run.in_place else run.scales
        scales = torch.where(self.nobodys_scales, kept, self.scales)
        if torch.equal(run.scales, scales):
            return True
        wrong = run.scales != scales
        return not bool((wrong & (self.promised_scales | self.nobodys_scales)).any())


def judge(outputs: Outputs, runs: list[QuantRun], excused: list[Mask] | None) -> Iterator[Fault]:
    """Yield what the runs break.

    Args:
        outputs: true.
        runs: with different fills.
        excused: for each run, the bytes (codes, scales) that may differ from the true ones.
    """
    if all(outputs.matches(run) for run in runs):
        return  # right under every fill, so written in each
    fills = [run.fill for run in runs]
    none = torch.zeros((), dtype=torch.bool)
    in_place = runs[0].in_place
    buffers = (
        _Buffer(
            "output",
            [run.packed for run in runs],
            fills,
            outputs.packed,
            outputs.owned,
            ~outputs.owned if in_place else none,
            outputs.owned,
        ),
        _Buffer(
            "output_scale",
            [run.scales for run in runs],
            fills,
            outputs.scales,
            outputs.promised_scales,
            outputs.nobodys_scales if in_place else none,
            outputs.kinds == int(Kind.VALID),
        ),
    )
    for which, buffer in enumerate(buffers):
        excuse = [mask[which] for mask in excused] if excused else []
        yield from _judge_buffer(outputs, buffer, excuse)


@dataclass(frozen=True, eq=False)
class _Buffer:
    """One output of the three runs, what is true, and which of its bytes are judged or belong to nobody."""

    name: str
    written: list[torch.Tensor]
    fills: list[int]
    true: torch.Tensor
    judged: torch.Tensor
    nobodys: torch.Tensor
    worse: torch.Tensor
    """Judged bytes that carry values: a wrong one is told rather than a wrong padding byte."""

    def first(
        self, subject: torch.Tensor, true: torch.Tensor, judged: torch.Tensor
    ) -> tuple[int, int] | None:
        """Return the first difference of the worst class and how many of that class there are."""
        found = first_difference(subject, true, judged & self.worse)
        return found or first_difference(subject, true, judged)


def _judge_buffer(outputs: Outputs, buffer: _Buffer, excused: list[torch.Tensor]) -> Iterator[Fault]:
    def fault(check: str, run: int, found: tuple[int, int], what: str) -> Fault:
        return _fault(outputs, buffer, check, run, found, what)

    true = buffer.true
    runs = list(zip(buffer.written, buffer.fills, strict=True))
    unwritten = torch.stack([run == fill for run, fill in runs]).all(0)
    found = buffer.first(unwritten, torch.zeros_like(unwritten), buffer.judged)
    if found:
        yield fault("coverage", 0, found, "never written")
    counted = buffer.judged & ~unwritten
    for run, now in enumerate(buffer.written):
        moved = buffer.first(now, buffer.written[0], counted)
        if moved:
            yield fault("poison", run, moved, "depends on bytes that must not matter")
            break
    for run, now in enumerate(buffer.written):
        found = buffer.first(now, true, counted & ~excused[run] if excused else counted)
        if found:
            yield fault("golden", run, found, "wrong")
            break
    for run, (now, fill) in enumerate(runs):
        found = first_difference(now, torch.full_like(now, fill), buffer.nobodys)
        if found:
            yield fault("untouched", run, found, "written outside every expert's rows")
            break


def _fault(
    outputs: Outputs, buffer: _Buffer, check: str, run: int, found: tuple[int, int], what: str
) -> Fault:
    byte, count = found
    where = _where(outputs, buffer.name, byte)
    true, *each = (int(t.reshape(-1)[byte]) for t in (buffer.true, *buffer.written))
    if each[run] == true:  # stale contents that happen to be right, or the other one of two that differ
        run = next((other for other, now in enumerate(each) if now != true), run)
    subject = each[run]
    place = " ".join(f"{key} {value}" for key, value in where.items() if key != "byte")
    values = _in_words(buffer.name, subject, true)
    return Fault(
        check=check,
        finding=Finding.MEMORY if check == "untouched" else _class(where),
        text=f"{buffer.name} {what} at {place}: {values} (first of {count:,})",
        where={"output": buffer.name, **where, "subject": subject, "true": true, "count": count, "turn": run},
    )


def _class(where: dict[str, int | str]) -> Finding:
    padding = where.get("kind", "valid") != "valid"
    return Finding.CONTRACT if padding else Finding.BYTES


def _in_words(name: str, subject: int, true: int) -> str:
    """Return both bytes in hex and as the numbers that they stand for."""
    if name == "output_scale":
        numbers = decode_ue4m3(torch.tensor([subject, true], dtype=torch.uint8)).tolist()
        told = [f"{number:g}" for number in numbers]
    else:
        pairs = decode_e2m1(unpack(torch.tensor([[subject], [true]], dtype=torch.uint8))).tolist()
        told = [f"{even:g}, {odd:g}" for even, odd in pairs]
    return f"subject {hex_byte(subject)} ({told[0]}), true {hex_byte(true)} ({told[1]})"


def _where(outputs: Outputs, name: str, byte: int) -> dict[str, int | str]:
    if name == "output_scale":
        expert, row, column = outputs.form.scale_position(byte)
        kind = Kind(int(outputs.kinds.reshape(-1)[byte])).name.lower()
        return {"byte": byte, "expert": expert, "row": row, "scale_column": column, "kind": kind}
    row, half = divmod(byte, outputs.packed.shape[-1])
    expert, inside = outputs.form.packed_position(row)
    return {"byte": byte, "expert": expert, "row": inside, "column": 2 * half}
