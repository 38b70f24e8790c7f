"""One quantizer case: run the subject three times in guarded, poisoned memory and judge every byte.

The three runs differ in everything that must not matter: the bytes that the outputs held before, the rows that no
expert owns, the bytes around each tensor and where its pages end. From them:

- guard: a canary changed, or the child died (the supervisor sees that);
- inputs: an input changed that the contract does not list under `mutates`;
- coverage: a promised byte that equals its own fill in every run was never written;
- golden: a promised byte differs from the golden model;
- untouched: a byte changed that belongs to nobody (rows at or after T, scale rows at or after S);
- poison: a promised byte differs between the runs.

The true outputs are computed after the subject's runs, in memory that it never held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations, Operations
from nvfp4_moe.reference.casts import decode_e2m1, decode_ue4m3, unpack
from nvfp4_moe.reference.tables import MissingTableError, find_table
from nvfp4_moe.verification.conformance.admissible import RECIPES as APPROXIMATE_RECIPES
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.fault import Fault, first_difference, hex_byte
from nvfp4_moe.verification.conformance.memory import Arena, Guarded
from nvfp4_moe.verification.conformance.quant_data import (
    Kind,
    QuantInputs,
    admissible_bytes,
    make_inputs,
    scale_kinds,
    scale_position,
    true_outputs,
)
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.result import Finding

FILLS = (0x00, 0xFF, 0xA5)
"""What the outputs hold before each run. 0x00 alone would hide an unwritten zero, 0xFF an unwritten NaN."""

_POISON = (0x0000, 0x7FC1, 0x4F7F)
"""16-bit patterns of the rows that no expert owns: zero, NaN (in bf16 and f16), large and finite."""

CANARIES = (0xC5, 0x3A, 0x7F)

REFUSALS = (ValueError, TypeError, NotImplementedError, RuntimeError)
"""What a subject raises to refuse an input."""


@dataclass(frozen=True, eq=False)
class QuantRun:
    """What one run left behind, copied out of the subject's reach."""

    fill: int
    packed: torch.Tensor
    scales: torch.Tensor


@dataclass(frozen=True)
class Judgement:
    """What a case came to."""

    faults: list[Fault]
    admissible: int = 0
    """Bytes that differ from the correctly rounded ones within documented errors, on a chip without a table."""


Place = Callable[[str, tuple[int, ...], torch.dtype], Guarded]


class Refused(Exception):
    """The subject refused the case."""


def check_quant(subject: Subject, case: QuantCase, arena: Arena) -> Judgement:
    """Run a case and return what it breaks, worst first.

    Raises:
        Refused: the subject raised one of `REFUSALS`.
    """
    inputs = make_inputs(case)
    faults: list[Fault] = []
    runs: list[QuantRun] = []
    for turn, fill in enumerate(FILLS):
        try:
            runs.append(_run(subject, case, inputs, arena, turn=turn, fill=fill, faults=faults))
        finally:
            arena.reset()
        if any(fault.finding is Finding.MEMORY for fault in faults):
            return Judgement(faults)  # what is in memory now proves nothing more
    ops = exact_operations(subject)
    true = true_outputs(case, subject.contract, ops or IEEE)
    reachable = None if ops is not None else _reachable(case, subject.contract, runs, true)
    faults += _judge(case, inputs, runs, subject.contract, true, reachable)
    faults.sort(key=lambda fault: list(Finding).index(fault.finding))
    return Judgement(faults, 0 if reachable is None else reachable.count)


@dataclass(frozen=True, eq=False)
class _Reachable:
    """Bytes of each run that differ from the correctly rounded ones and that documented errors can reach."""

    packed: list[torch.Tensor]
    scales: list[torch.Tensor]

    @property
    def count(self) -> int:
        return int(self.packed[0].sum()) + int(self.scales[0].sum())


def _reachable(
    case: QuantCase, contract: Contract, runs: list[QuantRun], true: tuple[torch.Tensor, torch.Tensor]
) -> _Reachable | None:
    equal = all(torch.equal(run.packed, true[0]) and torch.equal(run.scales, true[1]) for run in runs)
    if equal or contract.recipe not in APPROXIMATE_RECIPES:
        return None
    masks = [admissible_bytes(case, run.packed, run.scales) for run in runs]
    return _Reachable(
        [mask[0] & (run.packed != true[0]) for mask, run in zip(masks, runs, strict=True)],
        [mask[1] & (run.scales != true[1]) for mask, run in zip(masks, runs, strict=True)],
    )


def exact_operations(subject: Subject) -> Operations | None:
    """Return the operations that decide every byte of a subject, or None where the chip has no table."""
    if subject.contract.arithmetic == "ieee":
        return IEEE
    if subject.device == "cpu":
        return None  # no approximate instruction was measured on a CPU
    chip = torch.cuda.get_device_name()
    try:
        find_table("reciprocal", chip=chip)
    except MissingTableError:
        return None
    return HardwareOperations(chip)


def _run(
    subject: Subject,
    case: QuantCase,
    inputs: QuantInputs,
    arena: Arena,
    *,
    turn: int,
    fill: int,
    faults: list[Fault],
) -> QuantRun:
    def place(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Guarded:
        return arena.tensor(
            name,
            shape,
            dtype,
            alignment=subject.contract.alignment_of(name),
            slack=subject.contract.readable_slack.get(name, 0),
            lower=turn % 2,
            offset=case.offset,
            canary=CANARIES[turn],
        )

    given = _place_inputs(inputs, place, turn)
    packed = place("output", (case.rows, case.k // 2), torch.uint8)
    scale_rows = inputs.padded_rows + case.extra_scale_rows
    scales = place("output_scale", (scale_rows, -(-case.k // 64)), torch.int32)
    packed.bytes().fill_(fill)
    scales.bytes().fill_(fill)
    before = [guarded.bytes().clone() for guarded in given]
    try:
        subject.operations[case.operation](packed.tensor, scales.tensor, *(g.tensor for g in given))
        arena.synchronize()
    except REFUSALS as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    faults += memory_faults(arena)
    faults += changed_inputs(given, before, subject.contract)
    return QuantRun(fill, _copied(packed), _copied(scales))


def _copied(guarded: Guarded) -> torch.Tensor:
    """Return the tensor's bytes on the CPU, (rows, bytes of a row)."""
    rows, columns = guarded.tensor.shape
    return guarded.bytes().cpu().clone().view(rows, columns * guarded.tensor.itemsize)


def _place_inputs(inputs: QuantInputs, place: Place, turn: int) -> list[Guarded]:
    """Return the guarded inputs in the order of the call, rows that no expert owns poisoned."""
    sources = {
        "input": inputs.input,
        "input_global_scale": inputs.global_scale,
        "input_offset_by_experts": inputs.expert_offsets,
        "output_scale_offset_by_experts": inputs.blockscale_offsets,
    }
    given = []
    for name, source in sources.items():
        guarded = place(name, tuple(source.shape), source.dtype)
        guarded.tensor.copy_(source)
        given.append(guarded)
    orphans = given[0].tensor[inputs.routed_rows :]
    orphans.view(torch.int16).fill_(_POISON[turn])
    return given


def memory_faults(arena: Arena) -> list[Fault]:
    """Return the finding of a changed canary, if there is one."""
    broken = arena.broken()
    if broken is None:
        return []
    guarded, offset = broken
    side = f"{-offset} bytes before it" if offset < 0 else f"{offset - guarded.size} bytes past its end"
    text = f"a write outside {guarded.name} ({guarded.size} bytes): {side}"
    return [
        Fault(
            check="guard",
            finding=Finding.MEMORY,
            text=text,
            where={"tensor": guarded.name, "offset": offset, "size": guarded.size},
        )
    ]


def changed_inputs(given: list[Guarded], before: list[torch.Tensor], contract: Contract) -> Iterator[Fault]:
    """Yield a finding for each input that changed and may not."""
    for guarded, old in zip(given, before, strict=True):
        if guarded.name in contract.mutates:
            continue
        now = guarded.bytes()
        found = first_difference(now, old, torch.ones_like(now, dtype=torch.bool))
        if found:
            yield Fault(
                check="inputs",
                finding=Finding.MEMORY,
                text=f"the input {guarded.name} was changed at byte {found[0]} (first of {found[1]})",
                where={"tensor": guarded.name, "byte": found[0], "count": found[1]},
            )


def _judge(
    case: QuantCase,
    inputs: QuantInputs,
    runs: list[QuantRun],
    contract: Contract,
    true: tuple[torch.Tensor, torch.Tensor],
    reachable: _Reachable | None,
) -> Iterator[Fault]:
    packed, scales = true
    kinds = scale_kinds(case, inputs)
    owned = torch.zeros(packed.shape, dtype=torch.bool)
    owned[: inputs.routed_rows] = True
    promised = {Kind.VALID}
    promised |= {Kind.K_PADDING} if contract.k_padding == "zero" else set()
    promised |= {Kind.ROW_PADDING} if contract.row_padding == "zero" else set()
    judged = torch.isin(kinds, torch.tensor(sorted(promised), dtype=torch.uint8))
    fills = [run.fill for run in runs]
    buffers = (
        _Buffer("output", [run.packed for run in runs], fills, packed, owned, ~owned),
        _Buffer(
            "output_scale", [run.scales for run in runs], fills, scales, judged, kinds == int(Kind.BEYOND)
        ),
    )
    excused = ([], []) if reachable is None else (reachable.packed, reachable.scales)
    for buffer, excuse in zip(buffers, excused, strict=True):
        yield from _judge_buffer(case, inputs, buffer, excuse, kinds)


@dataclass(frozen=True, eq=False)
class _Buffer:
    """One output of the three runs, what is true, and which of its bytes are judged or belong to nobody."""

    name: str
    written: list[torch.Tensor]
    fills: list[int]
    true: torch.Tensor
    judged: torch.Tensor
    nobodys: torch.Tensor


def _judge_buffer(
    case: QuantCase, inputs: QuantInputs, buffer: _Buffer, excused: list[torch.Tensor], kinds: torch.Tensor
) -> Iterator[Fault]:
    name, true = buffer.name, buffer.true
    runs = list(zip(buffer.written, buffer.fills, strict=True))
    unwritten = torch.stack([run == fill for run, fill in runs]).all(0)

    def fault(check: str, finding: Finding, run: int, found: tuple[int, int], what: str) -> Fault:
        byte, count = found
        where = _where(case, inputs, name, byte, kinds)
        subject_byte, true_byte = (int(t.reshape(-1)[byte]) for t in (buffer.written[run], true))
        place = " ".join(f"{key} {value}" for key, value in where.items() if key != "byte")
        values = _in_words(name, subject_byte, true_byte)
        text = f"{name} {what} at {place}: {values} (first of {count:,})"
        where |= {"subject": subject_byte, "true": true_byte, "count": count}
        return Fault(check=check, finding=finding, text=text, where=where)

    found = first_difference(unwritten.to(torch.uint8), torch.zeros_like(true), buffer.judged)
    if found:
        yield fault("coverage", _class(name, kinds, found[0]), 0, found, "never written")
    counted = buffer.judged & ~unwritten
    for run, now in enumerate(buffer.written):
        moved = first_difference(now, buffer.written[0], counted)
        if moved:
            what = "depends on bytes that must not matter"
            yield fault("poison", _class(name, kinds, moved[0]), run, moved, what)
            break
    for run, now in enumerate(buffer.written):
        found = first_difference(now, true, counted & ~excused[run] if excused else counted)
        if found:
            yield fault("golden", _class(name, kinds, found[0]), run, found, "wrong")
            break
    for run, (now, fill) in enumerate(runs):
        found = first_difference(now, torch.full_like(now, fill), buffer.nobodys)
        if found:
            yield fault("untouched", Finding.MEMORY, run, found, "written outside every expert's rows")
            break


def _in_words(name: str, subject: int, true: int) -> str:
    """Return both bytes in hex and as the numbers that they stand for."""
    if name == "output_scale":
        numbers = decode_ue4m3(torch.tensor([subject, true], dtype=torch.uint8)).tolist()
        told = [f"{number:g}" for number in numbers]
    else:
        pairs = decode_e2m1(unpack(torch.tensor([[subject], [true]], dtype=torch.uint8))).tolist()
        told = [f"{even:g}, {odd:g}" for even, odd in pairs]
    return f"subject {hex_byte(subject)} ({told[0]}), true {hex_byte(true)} ({told[1]})"


def _class(name: str, kinds: torch.Tensor, byte: int) -> Finding:
    padding = name == "output_scale" and int(kinds.reshape(-1)[byte]) != int(Kind.VALID)
    return Finding.CONTRACT if padding else Finding.BYTES


def _where(
    case: QuantCase, inputs: QuantInputs, name: str, byte: int, kinds: torch.Tensor
) -> dict[str, int | str]:
    if name == "output_scale":
        expert, row, column = scale_position(case, inputs, byte)
        kind = Kind(int(kinds.reshape(-1)[byte])).name.lower()
        return {"byte": byte, "expert": expert, "row": row, "scale_column": column, "kind": kind}
    row, half = divmod(byte, case.k // 2)
    expert = int(torch.searchsorted(inputs.expert_offsets, row, right=True)) - 1
    first = int(inputs.expert_offsets[min(expert, len(case.tokens_per_expert))])
    return {"byte": byte, "expert": expert, "row": row - first, "column": 2 * half}
