"""One GEMM case: run the subject in three turns in guarded, poisoned memory and judge every output.

Poisoned, differently in each turn: codes of rows that no expert owns, scale bytes of rows that round an expert up to the
tile and of rows past the last one, scale bytes of columns past N of the weights, alphas of experts without rows. The K
padding of both scales is zero, as quantizers and weight preparation of the contract leave it, unless the contract says
that it is unspecified. Outputs of rows that nobody owns must stay as they are.

Exact cases are compared by bytes; the others must lie in the interval that `reference.gemm_bounds` derives, for a
subject on a GPU with the accumulator of a matrix instruction, on the CPU with float32 additions.

The laws compare two calls of the subject with each other by bytes: a row's outputs depend on its expert's weights and on
nothing else of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nvfp4_moe.reference.gemm_bounds import ACCUMULATORS, Accumulator, inside, output_interval
from nvfp4_moe.reference.grouped_gemm import grouped_gemm
from nvfp4_moe.verification.conformance.call import TURNS, Call, Judgement, NoOutputs, Turn, worst_first
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.forms import Kind
from nvfp4_moe.verification.conformance.gemm_cases import OPERATION, GemmCase, GemmLawCase
from nvfp4_moe.verification.conformance.gemm_data import DTYPES, GemmInputs, make_gemm
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.result import Finding

_SCALE_POISON = (0x00, 0x7F, 0x7E)
"""Scale bytes of each turn where nothing may be read: zero, NaN, the largest."""
_CODE_POISON = (0x00, 0xFF, 0x77)
_ALPHA_POISON = (torch.nan, 0.0, torch.inf)
_MOST_SINGLES = 4
"""Rows that the law `single` runs alone."""


def accumulator_of(subject: Subject) -> Accumulator:
    """Return the accumulator that a subject's outputs are bounded by."""
    return ACCUMULATORS["ieee_float32" if subject.device == "cpu" else "truncating_mma"]


def check_gemm(subject: Subject, case: GemmCase, arena: Arena) -> Judgement:
    """Run a case and return what it breaks, worst first.

    Raises:
        Refused: the subject raised one of `REFUSALS`.
        DeviceFault: its work on the device failed.
    """
    inputs = make_gemm(case)
    digest = inputs.digest()
    faults: list[Fault] = []
    runs: list[Tensor] = []
    for turn in TURNS:
        output, found = run_gemm(subject, inputs, case.dtype, arena, turn)
        runs.append(output)
        faults += found
        if any(fault.finding is Finding.MEMORY for fault in found):
            return Judgement(faults)
    if inputs.digest() != digest:
        text = "the harness's own copy of the inputs was changed: a write through a wild pointer"
        return Judgement([Fault(check="guard", finding=Finding.MEMORY, text=text)])
    faults += _judge(case, inputs, runs, accumulator_of(subject))
    return Judgement(worst_first(faults))


def run_gemm(
    subject: Subject, inputs: GemmInputs, dtype: str, arena: Arena, turn: Turn
) -> tuple[Tensor, list[Fault]]:
    """Call the subject once and return its output (rows, N) on the CPU, and the memory faults."""
    form, given = inputs.form, poisoned(inputs, turn, subject.contract)
    with Call(subject, arena, turn) as call:
        out = call.take("out", (form.packed_shape[0], inputs.n), DTYPES[dtype])
        call.run(
            OPERATION,
            out,
            call.give("a", given.a),
            call.give("b", given.b),
            call.give("a_blockscale", given.a_blockscale.view(torch.float8_e4m3fn)),
            call.give("b_blockscale", given.b_blockscale.view(torch.float8_e4m3fn)),
            call.give("alphas", given.alphas),
            call.give("problem_sizes", inputs.problem_sizes),
            call.give("expert_offsets", form.expert_offsets[:-1].clone(), decoy=form.routed_rows),
            call.give("blockscale_offsets", form.blockscale_offsets[:-1].clone(), decoy=form.padded_rows),
        )
        return out.cpu().clone(), call.faults


@dataclass(frozen=True, eq=False)
class _Given:
    a: Tensor
    b: Tensor
    a_blockscale: Tensor
    b_blockscale: Tensor
    alphas: Tensor


def poisoned(inputs: GemmInputs, turn: Turn, contract: Contract) -> _Given:
    """Return what the subject is given in a turn: everything that must not matter holds the turn's poison."""
    form, scale = inputs.form, _SCALE_POISON[turn.number]
    rows, half_k = form.packed_shape
    a = torch.full((rows, half_k), _CODE_POISON[turn.number], dtype=torch.uint8)
    a[: form.routed_rows] = inputs.a
    free = [Kind.ROW_PADDING, Kind.BEYOND]
    if contract.k_padding == "unspecified":
        free.append(Kind.K_PADDING)
        b_free = inputs.b_is_padding
    else:
        b_free = inputs.b_is_row_padding
    a_free = torch.isin(form.kinds, torch.tensor([int(kind) for kind in free], dtype=torch.uint8))
    empty = torch.tensor(form.tokens_per_expert) == 0
    return _Given(
        a=a,
        b=inputs.b,
        a_blockscale=torch.where(a_free, scale, inputs.a_blockscale),
        b_blockscale=torch.where(b_free, scale, inputs.b_blockscale),
        alphas=torch.where(empty, _ALPHA_POISON[turn.number], inputs.alphas),
    )


def _judge(
    case: GemmCase, inputs: GemmInputs, runs: Sequence[Tensor], accumulator: Accumulator
) -> Iterator[Fault]:
    routed = inputs.form.routed_rows
    for run, turn in zip(runs, TURNS, strict=True):
        touched = (run[routed:].contiguous().view(torch.uint8) != turn.fill).nonzero()
        if touched.numel():
            row = routed + int(touched[0, 0])
            text = f"row {row} of out, which no expert owns, was written"
            yield Fault(check="untouched", finding=Finding.MEMORY, text=text, where={"row": row})
            return
    owned = [run[:routed] for run in runs]
    unwritten = unwritten_outputs(owned)
    yield from _fault_at("coverage", unwritten, case, owned[0], "was never written")
    dtype = DTYPES[case.dtype]
    if case.is_exact:
        true = grouped_gemm(inputs.operands, dtype=dtype)
        low = high = true
    else:
        low, high = output_interval(inputs.operands, dtype=dtype, accumulator=accumulator)
    for run in owned:
        right = bit_patterns(run) == bit_patterns(low) if case.is_exact else inside(run, low, high)
        found = list(_fault_at("golden", ~right & ~unwritten, case, run, "is wrong", low, high))
        if found:
            yield from found
            break
    for run in owned[1:]:
        differs = (bit_patterns(run) != bit_patterns(owned[0])) & ~unwritten
        found = list(
            _fault_at("poison", differs, case, run, "depends on bytes that must not matter", owned[0])
        )
        if found:
            yield from found
            return


def unwritten_outputs(runs: Sequence[Tensor]) -> Tensor:
    """Return which outputs hold their turn's fill in every run; no value is right in all of them."""
    kept = []
    for run, turn in zip(runs, TURNS, strict=True):
        in_bytes = run.contiguous().view(torch.uint8).view(*run.shape, run.element_size())
        kept.append((in_bytes == turn.fill).all(-1))
    return torch.stack(kept).all(0)


def bit_patterns(values: Tensor) -> Tensor:
    """Return 16-bit patterns, every NaN the same: which NaN it is depends on the device's conversion."""
    return values.contiguous().masked_fill(values.isnan(), torch.nan).view(torch.int16)


def _fault_at(
    check: str,
    wrong: Tensor,
    case: GemmCase,
    run: Tensor,
    what: str,
    low: Tensor | None = None,
    high: Tensor | None = None,
) -> Iterator[Fault]:
    at = wrong.nonzero()
    if not len(at):
        return
    row, column = at[0].tolist()
    expert = int(torch.searchsorted(torch.tensor(case.tokens_per_expert).cumsum(0), row, right=True))
    due = ""
    if low is not None:
        lowest, highest = float(low[row, column]), float((low if high is None else high)[row, column])
        due = f", {lowest!r} is due" if lowest == highest else f", [{lowest!r}, {highest!r}] is due"
    text = f"out[{row}, {column}] (expert {expert}) {what}: {float(run[row, column])!r}{due} (first of {len(at):,})"
    where = {"row": row, "column": column, "expert": expert, "count": len(at)}
    yield Fault(check=check, finding=Finding.BYTES, text=text, where=where)


# --- laws ----------------------------------------------------------------------------------------------------


class _Laws:
    """One case's calls; memory faults end it."""

    def __init__(self, subject: Subject, base: GemmCase, arena: Arena) -> None:
        self.subject, self.base, self.arena = subject, base, arena
        self.inputs = make_gemm(base)
        self.faults: list[Fault] = []

    def call(self, inputs: GemmInputs, turn: Turn) -> Tensor:
        try:
            output, faults = run_gemm(self.subject, inputs, self.base.dtype, self.arena, turn)
        except NoOutputs as nothing:
            nothing.faults = (*self.faults, *nothing.faults)
            raise
        self.faults += faults
        return output[: inputs.form.routed_rows]

    def rows(self) -> list[list[int]]:
        """Return the row numbers of each expert."""
        numbers = iter(range(self.base.routed_rows))
        return [[next(numbers) for _ in range(count)] for count in self.base.tokens_per_expert]


def _rows_law(laws: _Laws) -> Iterator[tuple[Tensor, Tensor]]:
    turned = [of_expert[::-1] for of_expert in laws.rows()]
    order = torch.tensor([row for of_expert in turned for row in of_expert])
    yield laws.call(laws.inputs, TURNS[0])[order], laws.call(laws.inputs.rows_of(turned), TURNS[1])


def _alone_law(laws: _Laws) -> Iterator[tuple[Tensor, Tensor]]:
    together = laws.call(laws.inputs, TURNS[0])
    for expert, rows in enumerate(laws.rows()):
        yield together[rows], laws.call(laws.inputs.expert_alone(expert), TURNS[1])


def _single_law(laws: _Laws) -> Iterator[tuple[Tensor, Tensor]]:
    """The largest batch and the smallest: a kernel chosen by the number of rows shows here."""
    together = laws.call(laws.inputs, TURNS[0])
    rows = laws.rows()
    picked = [row for of_expert in rows for row in of_expert[-2:]][-_MOST_SINGLES:]
    for row in picked:
        single = [[row] if row in of_expert else [] for of_expert in rows]
        yield together[row, None], laws.call(laws.inputs.rows_of(single), TURNS[1])


def _again_law(laws: _Laws) -> Iterator[tuple[Tensor, Tensor]]:
    first = laws.call(laws.inputs, TURNS[0])
    counts = tuple(5 * count + 1 for count in laws.base.tokens_per_expert)
    laws.call(make_gemm(replace(laws.base, tokens_per_expert=counts)), TURNS[1])
    yield first, laws.call(laws.inputs, TURNS[0])


GEMM_LAWS: dict[str, Callable[[_Laws], Iterator[tuple[Tensor, Tensor]]]] = {
    "rows": _rows_law,
    "alone": _alone_law,
    "single": _single_law,
    "again": _again_law,
}


def check_gemm_law(subject: Subject, case: GemmLawCase, arena: Arena) -> Judgement:
    """Try a law and return what breaks it.

    Raises:
        Refused, SubjectRaised: as `check_gemm`.
        DeviceFault: its work on the device failed.
    """
    laws = _Laws(subject, case.base, arena)
    for first, second in GEMM_LAWS[case.law](laws):
        if laws.faults:
            return Judgement(worst_first(laws.faults))
        differs = (bit_patterns(first) != bit_patterns(second)).nonzero()
        if len(differs):
            row, column = differs[0].tolist()
            text = (
                f"law {case.law}: out[{row}, {column}] is {float(first[row, column])!r} in one call and "
                f"{float(second[row, column])!r} in the other (first of {len(differs):,})"
            )
            where = {"law": case.law, "row": row, "column": column}
            return Judgement([Fault(check="laws", finding=Finding.BYTES, text=text, where=where)])
    return Judgement(worst_first(laws.faults))
