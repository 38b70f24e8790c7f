"""One call of a subject: its tensors in guarded, poisoned memory, and what memory tells afterwards.

Every case runs a subject in three turns, which differ in everything that must not matter: what the outputs held
before, the words around each tensor, and where its pages end. A byte that is the same in every turn and right in each
was computed from what the case gave and nothing else.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from types import TracebackType
from typing import Any, ClassVar, Self

import torch

from nvfp4_moe.verification.conformance.fault import Fault, first_difference
from nvfp4_moe.verification.conformance.memory import Arena, Edge, Guarded
from nvfp4_moe.verification.conformance.subject import Subject, told
from nvfp4_moe.verification.result import Finding

REFUSALS = (ValueError, TypeError, NotImplementedError, RuntimeError)
"""What a subject raises to refuse an input."""


@dataclass(frozen=True)
class Turn:
    """What differs between the runs of a case."""

    number: int
    fill: int
    """Byte that the outputs hold before. 0x00 alone would hide an unwritten zero, 0xFF an unwritten NaN."""
    index_fill: int
    """The same for index outputs: zero, wild, and an in-range decoy."""
    canary: int
    """Word around each tensor; one turn has decoys in its place where a tensor has one."""
    poison: int
    """16-bit pattern of the rows that no expert owns: zero, NaN (in bf16 and f16), large and finite."""
    edge: Edge
    lower: int
    """Whole alignments that the start is moved down."""


TURNS = (
    Turn(0, 0x00, 0, 0xC5C5C5C5, 0x0000, Edge.BACK, 0),
    Turn(1, 0xFF, -1, 0x3A3A3A3A, 0x7FC1, Edge.BACK, 1),
    Turn(2, 0xA5, 3, 0x7F7F7F7F, 0x4F7F, Edge.FRONT, 0),
)
_DECOYS = 1
"""Number of the turn with decoys."""
_FRAMES = 4
"""Innermost frames of a subject's traceback that are kept."""


@dataclass
class TorchDefaults:
    """Settings of torch that a subject's import may change; they hold in its calls and nowhere else."""

    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    @classmethod
    def now(cls) -> TorchDefaults:
        return cls(torch.get_default_dtype(), str(torch.get_default_device()))

    def set(self) -> None:
        if self != TorchDefaults.now():
            torch.set_default_dtype(self.dtype)
            torch.set_default_device(self.device)


HARNESS_DEFAULTS = TorchDefaults()


class NoOutputs(Exception):
    """A call that left nothing to judge but the memory around its tensors."""

    faults: tuple[Fault, ...] = ()
    """What memory told."""


class Refused(NoOutputs):
    """The subject refused the case."""


class SubjectRaised(NoOutputs):
    """The subject raised something else, or returned what the protocol does not allow; the text is its traceback."""


@dataclass(frozen=True)
class Judgement:
    """What a case came to."""

    faults: list[Fault]
    admissible: int = 0
    """Bytes that differ from the correctly rounded ones within documented errors, on a chip without a table."""


@dataclass
class Call:
    """One call of an operation of a subject. A context: its memory is taken back at the end."""

    subject: Subject
    arena: Arena
    turn: Turn
    offset: int = 0
    """Bytes by which pointers are moved off twice that alignment."""
    offset_all: bool = True
    """Also those whose declared alignment forbids it."""
    defaults: ClassVar[TorchDefaults] = HARNESS_DEFAULTS
    """What the subject's import left; set once by the child."""
    faults: list[Fault] = field(default_factory=list)
    _given: list[Guarded] = field(default_factory=list)
    _taken: dict[str, Guarded] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(value, NoOutputs):
            value.faults = tuple(self.faults)
        self.arena.reset()

    def give(self, name: str, source: torch.Tensor, *, decoy: int | None = None) -> torch.Tensor:
        """Return an input with the contents of `source`.

        Args:
            name: parameter name.
            source: contiguous, on the CPU.
            decoy: word that lies around it in one turn: a legal element, so that a read outside stays in range.
        """
        guarded = self._place(name, source.shape, source.dtype, decoy)
        guarded.tensor.copy_(source)
        self._given.append(guarded)
        return guarded.tensor

    def take(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return an output, stale: every byte holds the turn's fill."""
        guarded = self._place(name, shape, dtype, None)
        guarded.bytes().fill_(self.turn.fill)
        self._taken[name] = guarded
        return guarded.tensor

    def take_index(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        """Return an int32 output, stale: every entry holds the turn's index fill."""
        tensor = self.take(name, shape, torch.int32)
        return tensor.fill_(self.turn.index_fill)

    def run(self, operation: str, *arguments: Any, **keywords: Any) -> Any:
        """Call the operation, then check the memory around all tensors and that the inputs are unchanged.

        That is done whatever the call came to: a subject that refuses must not have written outside before.

        Raises:
            Refused: the subject raised one of `REFUSALS`.
            SubjectRaised: it raised something else, SystemExit and KeyboardInterrupt among it.
            DeviceFault: its work on the device failed, whatever it raised then.
        """
        before = [guarded.bytes().clone() for guarded in self._given]
        constant = [g for g in self._given if g.name not in self.subject.contract.mutates]
        returned, raised = None, None
        try:
            self.arena.seal(constant)
            self.defaults.set()
            returned = self.subject.operations[operation](*arguments, **keywords)
        except BaseException as error:  # Ctrl-C of the terminal ends the parent, and with it this process
            raised = error
        finally:
            HARNESS_DEFAULTS.set()
            self.arena.unseal(constant)
        self.arena.synchronize()
        self.faults += _memory_faults(self.arena)
        self.faults += self._changed_inputs(before)
        if isinstance(raised, REFUSALS):
            raise Refused(told(raised)) from raised
        if raised is not None:
            raise SubjectRaised("".join(traceback.format_exception(raised, limit=-_FRAMES))) from raised
        return returned

    def written(self, name: str) -> torch.Tensor:
        """Return a copy of an output's bytes on the CPU: uint8, the last dimension in bytes."""
        guarded = self._taken[name]
        *rows, columns = guarded.tensor.shape
        return guarded.bytes().cpu().clone().view(*rows, columns * guarded.tensor.itemsize)

    def _place(self, name: str, shape: Sequence[int], dtype: torch.dtype, decoy: int | None) -> Guarded:
        contract, turn = self.subject.contract, self.turn
        alignment = contract.alignment_of(name)
        moved = self.offset_all or self.offset % alignment == 0
        return self.arena.tensor(
            name,
            shape,
            dtype,
            alignment=alignment,
            slack=contract.readable_slack.get(name, 0),
            lower=turn.lower,
            offset=self.offset if moved else 0,
            edge=turn.edge,
            canary=turn.canary if decoy is None or turn.number != _DECOYS else decoy & 0xFFFFFFFF,
        )

    def _changed_inputs(self, before: list[torch.Tensor]) -> Iterator[Fault]:
        for guarded, old in zip(self._given, before, strict=True):
            if guarded.name in self.subject.contract.mutates:
                continue
            now = guarded.bytes()
            found = None if torch.equal(now, old) else first_difference(now, old, None)
            if found:
                yield Fault(
                    check="inputs",
                    finding=Finding.MEMORY,
                    text=f"the input {guarded.name} was changed at byte {found[0]} (first of {found[1]:,})",
                    where={"tensor": guarded.name, "byte": found[0], "count": found[1]},
                )


def _memory_faults(arena: Arena) -> list[Fault]:
    """Return the finding of a changed canary, if there is one."""
    broken = arena.broken()
    if broken is None:
        return []
    guarded, offset = broken
    side = f"{-offset} bytes before it" if offset < 0 else f"{offset - guarded.size} bytes past its end"
    return [
        Fault(
            check="guard",
            finding=Finding.MEMORY,
            text=f"a write outside {guarded.name} ({guarded.size} bytes): {side}",
            where={"tensor": guarded.name, "offset": offset, "size": guarded.size},
        )
    ]


def worst_first(faults: list[Fault]) -> list[Fault]:
    """Return the faults in the order of their classes."""
    return sorted(faults, key=lambda fault: list(Finding).index(fault.finding))


def dirty_pool(shapes: Sequence[tuple[Sequence[int], torch.dtype]], fill: int, device: str) -> None:
    """Leave freed memory with the given contents behind, for an operation that allocates its outputs itself."""
    stale = [
        torch.full((prod(shape) * dtype.itemsize,), fill, dtype=torch.uint8, device=device)
        for shape, dtype in shapes
    ]
    del stale


def returned_bytes(
    returned: Any, shapes: Sequence[tuple[Sequence[int], torch.dtype]], *, may_be_longer: Sequence[int] = ()
) -> list[torch.Tensor]:
    """Return the bytes of the outputs that a functional form returned, on the CPU.

    Args:
        returned: a tensor or several.
        shapes: shape and type of each that is due.
        may_be_longer: places of outputs that may have more rows (an upper bound's), which are cut off.

    Raises:
        SubjectRaised: not tensors of the shapes (of whatever type, counted in bytes) that the protocol says.
    """
    tensors = list(returned) if isinstance(returned, tuple | list) else [returned]
    if len(tensors) != len(shapes) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        what = ", ".join(type(thing).__name__ for thing in tensors)
        raise SubjectRaised(f"returned {what}; {len(shapes)} tensors are due")
    found = []
    for place, (tensor, (shape, dtype)) in enumerate(zip(tensors, shapes, strict=True)):
        longer = place in may_be_longer
        due = tensor[: shape[0]] if longer and tensor.dim() else tensor
        in_bytes = due.detach().cpu().contiguous().view(torch.uint8) if due.dim() else due
        if tuple(in_bytes.shape) != (*shape[:-1], shape[-1] * dtype.itemsize):
            least = " or more rows" if longer else ""
            raise SubjectRaised(
                f"returned {tuple(tensor.shape)} of {tensor.dtype}; {tuple(shape)} of {dtype}{least} is due"
            )
        found.append(in_bytes.clone())
    return found
