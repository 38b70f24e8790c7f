"""Cases of the operations that move bytes: `shuffle_rows` and `swizzle`. Every byte of the result is judged.

`shuffle_rows(input, map) -> output` may also take the output as a third argument. `swizzle(linear) -> buffer` places
the linear block scales of a weight, uint8 (rows, K/16), in swizzled_128x4 order, padding zero. Where the result is
returned, it is the subject's own memory: what is written outside it cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import torch

from nvfp4_moe.reference.layouts import scale_shape, to_layout
from nvfp4_moe.verification.conformance.call import (
    TURNS,
    Call,
    Judgement,
    Turn,
    dirty_pool,
    returned_bytes,
    worst_first,
)
from nvfp4_moe.verification.conformance.fault import Fault, first_difference, hex_byte
from nvfp4_moe.verification.conformance.forms import SWIZZLED
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.subject import Subject, is_functional
from nvfp4_moe.verification.conformance.views import give_map, give_rows
from nvfp4_moe.verification.counter import below, bits, words
from nvfp4_moe.verification.result import Finding

SHUFFLE, SWIZZLE = "shuffle_rows", "swizzle"
DTYPES = {"uint8": torch.uint8, "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
MAPS = ("random", "identity", "reversed", "one_row", "last_row")
_SHUFFLE_ROWS = (0, 1, 2, 3, 5, 16, 31, 33, 64, 129, 257)
_SHUFFLE_WIDTHS = (16, 48, 64, 272, 2048, 2880, 5, 45, 180)
_SHUFFLE_LARGE = ((1025, 16), (4099, 5), (513, 272), (33, 4096), (5, 7168), (3, 16_384), (65_537, 8))
"""Rows of the result and columns."""
_SWIZZLE_ROWS = (33, 1, 2, 3, 31, 32, 64, 127, 128, 129, 255, 257, 508, 512, 1028)
_SWIZZLE_BLOCKS = (1, 2, 3, 4, 5, 8, 17, 180)
_SWIZZLE_LARGE = ((2048, 5), (4099, 3), (1029, 64), (1, 721), (130, 450), (2880, 16))
"""Rows and scale columns."""
_SHUFFLE_APART = ((5, 16, 16, 0), (33, 45, 1, 0), (129, 64, 0, 1), (64, 272, 240, 3))
_SWIZZLE_APART = ((33, 5, 3), (129, 8, 8), (257, 17, 1))
"""Rows, columns, elements between the rows, entries between those of the map."""
_SHUFFLE_AGAIN = 48
"""Rows and columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCase:
    """One call of `shuffle_rows` or `swizzle`."""

    operation: str
    index: int
    seed: int
    rows: int
    """Of the input."""
    columns: int
    """Elements of a row; bytes for `swizzle`."""
    dtype: str = "uint8"
    mapped_rows: int = 0
    """Of the result of `shuffle_rows`."""
    map: str = "random"
    row_gap: int = 0
    """Elements between the rows of the input, a slice of a wider tensor; the subject may refuse."""
    map_gap: int = 0
    """Entries between those of the map; the subject may refuse."""

    @property
    def elements(self) -> int:
        return max(self.rows, self.mapped_rows) * self.columns

    def to_json(self) -> dict[str, Any]:
        return {"kind": "rows", **asdict(self)}


def rows_cases(operation: str, *, seed: int) -> Iterator[RowsCase]:
    """Yield the cases of `shuffle_rows` (every row count with every width) or `swizzle` (the same)."""
    if operation == SWIZZLE:
        shapes = [*product(_SWIZZLE_ROWS, _SWIZZLE_BLOCKS), *_SWIZZLE_LARGE]
        dense = [(rows, columns, 0) for rows, columns in shapes]
        for index, (rows, columns, gap) in enumerate([*dense, *_SWIZZLE_APART]):
            yield RowsCase(
                operation=operation, index=index, seed=seed, rows=rows, columns=columns, row_gap=gap
            )
        return
    shapes = [*product(_SHUFFLE_ROWS, _SHUFFLE_WIDTHS), *_SHUFFLE_LARGE]
    every = [*((mapped, columns, 0, 0) for mapped, columns in shapes), *_SHUFFLE_APART]
    for index, (mapped, columns, row_gap, map_gap) in enumerate(every):
        yield RowsCase(
            operation=operation,
            index=index,
            seed=seed,
            rows=max(1, mapped // (1, 2, 3)[index % 3]),
            columns=columns,
            dtype=list(DTYPES)[index % len(DTYPES)],
            mapped_rows=mapped,
            map=MAPS[index % len(MAPS)],
            row_gap=row_gap,
            map_gap=map_gap,
        )
    for number, name in enumerate(MAPS):  # one shape with one map after the other: a captured map shows
        yield RowsCase(
            operation=operation,
            index=len(every) + number,
            seed=seed,
            rows=_SHUFFLE_AGAIN,
            columns=_SHUFFLE_AGAIN,
            dtype="bf16",
            mapped_rows=_SHUFFLE_AGAIN,
            map=name,
        )


def make_rows(case: RowsCase) -> torch.Tensor:
    """Return the input: random bytes, so every scale code and every pattern of a float."""
    itemsize = DTYPES[case.dtype].itemsize
    count = case.rows * case.columns * itemsize
    raw = words(case.seed, f"rows.{case.operation}", case.index << 32, -(-count // 4))
    patterns = bits(raw, 32, at=16)
    signed = torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns).to(torch.int32)
    in_bytes = signed.view(torch.uint8)[:count].view(case.rows, case.columns * itemsize)
    return in_bytes.view(DTYPES[case.dtype])


def make_map(case: RowsCase) -> torch.Tensor:
    """Return the row of the input for each row of the result: int32 (mapped rows,)."""
    raw = words(case.seed, f"rows.map.{case.map}", case.index << 32, case.mapped_rows)
    position = torch.arange(case.mapped_rows)
    rows = {
        "random": lambda: below(raw, case.rows),
        "identity": lambda: position % case.rows,
        "reversed": lambda: (case.rows - 1 - position) % case.rows,
        "one_row": lambda: torch.full_like(position, case.index % case.rows),
        "last_row": lambda: torch.full_like(position, case.rows - 1),
    }[case.map]()
    return rows.to(torch.int32)


def give_arguments(call: Call, case: RowsCase) -> list[torch.Tensor]:
    """Return the guarded inputs of a case in the order of the call."""
    if case.operation == SWIZZLE:
        return [give_rows(call, "linear", make_rows(case), case.row_gap)]
    return [
        give_rows(call, "input", make_rows(case), case.row_gap),
        give_map(call, make_map(case), case.map_gap),
    ]


def check_rows(subject: Subject, case: RowsCase, arena: Arena) -> Judgement:
    """Run a case and return what it breaks, worst first.

    Raises:
        Refused: the subject raised one of `REFUSALS`.
        SubjectRaised: it raised something else, or returned no such tensor.
        DeviceFault: its work on the device failed.
    """
    faults: list[Fault] = []
    runs: list[torch.Tensor] = []
    for turn in TURNS:
        written, found = run_rows(subject, case, arena, turn)
        runs.append(written)
        faults += found
        if faults:
            return Judgement(faults)
    faults += _judge(case, runs, _true(case))
    return Judgement(worst_first(faults))


def _true(case: RowsCase) -> torch.Tensor:
    rows = make_rows(case)
    if case.operation == SWIZZLE:
        return to_layout(rows, SWIZZLED)
    in_bytes = rows.view(torch.uint8)
    return in_bytes[make_map(case).to(torch.int64)]


def output_shape(case: RowsCase) -> tuple[tuple[int, ...], torch.dtype]:
    """Return shape and type of the result."""
    if case.operation == SWIZZLE:
        return scale_shape(case.rows, 16 * case.columns, SWIZZLED), torch.uint8
    return (case.mapped_rows, case.columns), DTYPES[case.dtype]


def run_rows(subject: Subject, case: RowsCase, arena: Arena, turn: Turn) -> tuple[torch.Tensor, list[Fault]]:
    """Call the subject once and return the bytes of its result, and the memory faults."""
    shape, dtype = output_shape(case)
    with Call(subject, arena, turn) as call:
        given = give_arguments(call, case)
        if case.operation == SHUFFLE and not is_functional(subject, SHUFFLE):
            call.run(SHUFFLE, *given, call.take("output", shape, dtype))
            return call.written("output"), call.faults
        dirty_pool([(shape, dtype)], turn.fill, subject.device)
        return returned_bytes(call.run(case.operation, *given), [(shape, dtype)])[0], call.faults


def _judge(case: RowsCase, runs: list[torch.Tensor], true: torch.Tensor) -> Iterator[Fault]:
    if all(torch.equal(run, true) for run in runs):
        return
    unwritten = torch.stack([run == turn.fill for run, turn in zip(runs, TURNS, strict=True)]).all(0)
    found = first_difference(unwritten, torch.zeros_like(unwritten), None)
    if found:
        yield _fault(case, "coverage", runs[0], true, found, "never written")
    for run in runs:
        found = first_difference(run, true, ~unwritten)
        if found:
            yield _fault(case, "golden", run, true, found, "wrong")
            return


def _fault(
    case: RowsCase, check: str, now: torch.Tensor, true: torch.Tensor, found: tuple[int, int], what: str
) -> Fault:
    row, byte = divmod(found[0], true.shape[1])
    subject_byte, true_byte = int(now[row, byte]), int(true[row, byte])
    text = (
        f"{case.operation}: row {row}, byte {byte} {what}: subject {hex_byte(subject_byte)}, "
        f"true {hex_byte(true_byte)} (first of {found[1]:,})"
    )
    where = {"row": row, "byte": byte, "subject": subject_byte, "true": true_byte, "count": found[1]}
    return Fault(check=check, finding=Finding.BYTES, text=text, where=where)
