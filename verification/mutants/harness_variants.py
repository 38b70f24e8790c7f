"""The harness weakened, one habit at a time: which wrong variants escape then, so which habit carries which class.

Each weakened harness leaves something out that the ordinary one does: kinds of cases, kinds of findings, or what
differs between the turns of a case. A wrong subject escapes it if none of the cases that are left refutes it: its own
smallest input is tried first, then the smallest of the others, up to `MOST_CASES` of
`MOST_ELEMENTS` elements, and where its own is larger the next in size.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from nvfp4_moe.verification.conformance import quant_check, quant_judge, routing_check, rows_check
from nvfp4_moe.verification.conformance.call import TURNS, Turn
from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.laws_check import LawCase
from nvfp4_moe.verification.conformance.plan import Case, Plan, aspect_of, elements_of
from nvfp4_moe.verification.conformance.rows_check import RowsCase
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.supervisor import CaseReport, run_cases
from nvfp4_moe.verification.mutants import judge
from nvfp4_moe.verification.mutants.mutant import Mutant, SubjectMutant

MOST_CASES, MOST_ALONE, MOST_ELEMENTS = 100, 12, 40_000
"""Cases that are tried besides a variant's own smallest input, those in processes of their own, elements of each."""
MOST_NEAR, MOST_NEAR_ELEMENTS = 24, 6_000_000
"""Larger cases, for a variant whose own smallest input is a large one: the next in size."""
_FEW_EXPERTS, _TILE, _ALIGNED = 16, 128, 128

Fault = Mapping[str, Any]


def _every(thing: object) -> bool:
    del thing
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessVariant:
    """A harness that leaves something out."""

    id: str
    change: str
    """What it leaves out, in a few words."""
    keeps_case: Callable[[Case], bool] = _every
    keeps_fault: Callable[[Fault], bool] = _every
    turns: Callable[[Turn], Turn] | None = None
    """What the turns of a case are instead."""
    values_alone: bool = False
    """Codes are compared as numbers: -0 equals 0."""
    alone: bool = False
    """Every case runs in a process of its own."""

    @property
    def runs_otherwise(self) -> bool:
        """Whether the same case can come to another end."""
        return self.turns is not None or self.values_alone or self.alone


def _quant(case: Case) -> QuantCase | None:
    base = case.base if isinstance(case, LawCase) else case
    return base if isinstance(base, QuantCase) else None


def _of_quant(keeps: Callable[[QuantCase], bool]) -> Callable[[Case], bool]:
    def keeps_case(case: Case) -> bool:
        quant = _quant(case)
        return quant is None or keeps(quant)

    return keeps_case


def _few_experts(case: Case) -> bool:
    quant = _quant(case)
    if quant is not None:
        return len(quant.tokens_per_expert) <= _FEW_EXPERTS
    return not isinstance(case, RoutingCase) or case.num_experts <= _FEW_EXPERTS


def _no_skipped_slots(case: Case) -> bool:
    if isinstance(case, RoutingCase):
        return "negative" not in case.ids
    quant = _quant(case)
    return quant is None or quant.unrouted_rows == 0


def _dense(case: Case) -> bool:
    quant = _quant(case)
    if quant is not None:
        return not (quant.view or quant.row_gap or quant.offset)
    if isinstance(case, RoutingCase):
        return case.id_gap == 0
    return not isinstance(case, RowsCase) or case.row_gap == case.map_gap == 0


def _is_padding(fault: Fault) -> bool:
    return str(fault.get("where", {}).get("kind", "")).endswith("padding")


HARNESS_VARIANTS = (
    HarnessVariant(
        id="padding_not_compared",
        change="bytes of padding are not compared",
        keeps_fault=lambda fault: not _is_padding(fault),
    ),
    HarnessVariant(
        id="values_not_bytes",
        change="codes are compared as numbers, so that -0 equals 0",
        values_alone=True,
    ),
    HarnessVariant(
        id="one_fill",
        change="outputs always hold zeros before",
        turns=lambda turn: replace(turn, fill=0, index_fill=0),
    ),
    HarnessVariant(
        id="nan_poison_alone",
        change="rows that nobody owns always hold NaN",
        turns=lambda turn: replace(turn, poison=TURNS[1].poison),
    ),
    HarnessVariant(
        id="no_guards",
        change="nothing outside the promised bytes is looked at",
        keeps_fault=lambda fault: fault["check"] not in ("guard", "inputs", "untouched"),
    ),
    HarnessVariant(
        id="aligned_widths",
        change=f"widths are multiples of {_ALIGNED}",
        keeps_case=_of_quant(lambda case: case.k % _ALIGNED == 0),
    ),
    HarnessVariant(
        id="equal_scales",
        change="all experts have the same global scale",
        keeps_case=_of_quant(lambda case: case.global_scales in ("same", "one")),
    ),
    HarnessVariant(
        id="random_values",
        change="values are random, without ties, edges and special values",
        keeps_case=_of_quant(lambda case: case.values in ("windowed", "distinct")),
    ),
    HarnessVariant(
        id="one_tile",
        change=f"no expert has more than {_TILE} rows",
        keeps_case=_of_quant(lambda case: max(case.tokens_per_expert) <= _TILE),
    ),
    HarnessVariant(
        id="no_empty_experts",
        change="every expert has rows",
        keeps_case=_of_quant(lambda case: min(case.tokens_per_expert) > 0),
    ),
    HarnessVariant(id="few_experts", change=f"at most {_FEW_EXPERTS} experts", keeps_case=_few_experts),
    HarnessVariant(id="no_skipped_slots", change="no id -1, no unrouted rows", keeps_case=_no_skipped_slots),
    HarnessVariant(id="dense_tensors", change="no views and no odd pointers", keeps_case=_dense),
    HarnessVariant(
        id="no_refusals",
        change="no call outside the domain",
        keeps_case=lambda case: aspect_of(case) != "refusal",
    ),
    HarnessVariant(
        id="no_laws",
        change="no second call to compare with",
        keeps_case=lambda case: aspect_of(case) != "laws",
    ),
    HarnessVariant(id="no_sequences", change="every case in a process of its own", alone=True),
)


def escapes_of(
    mutant: Mutant,
    witness: Mapping[str, Any],
    *,
    seed: int,
    variants: Sequence[HarnessVariant] = HARNESS_VARIANTS,
) -> list[str]:
    """Return the weakened harnesses that a wrong subject, which the ordinary one refutes, escapes.

    Args:
        mutant: a wrong subject on the CPU.
        witness: what refuted it, a witness of kind "subject".
        seed: of the cases.
        variants: weakened harnesses.
    """
    subject = judge.subject_of(mutant, "cpu")
    cases = Plan.of(subject, level=judge.LEVEL, seed=seed).cases
    return [v.id for v in variants if _escapes(v, mutant, subject, cases, witness, seed=seed)]


def _escapes(
    variant: HarnessVariant,
    mutant: Mutant,
    subject: Subject,
    cases: Sequence[Case],
    witness: Mapping[str, Any],
    *,
    seed: int,
) -> bool:
    own: int = witness["number"]
    if variant.keeps_case(cases[own]) and variant.keeps_fault(witness) and not variant.runs_otherwise:
        return False
    kept = [number for number, case in enumerate(cases) if variant.keeps_case(case)]
    small = [n for n in kept if elements_of(cases[n]) <= MOST_ELEMENTS and n != own]
    runs = [_smallest(cases, small)[: MOST_ALONE if variant.alone else MOST_CASES]]
    if elements_of(cases[own]) > MOST_ELEMENTS and not variant.alone:
        near = [n for n in kept if elements_of(cases[own]) <= elements_of(cases[n]) <= MOST_NEAR_ELEMENTS]
        runs.append([n for n in _smallest(cases, near) if n != own][:MOST_NEAR])
    if own in kept:
        before = [] if variant.alone else [json.dumps(entry) for entry in witness.get("before", ())]
        places = {json.dumps(case.to_json()): number for number, case in enumerate(cases)} if before else {}
        runs.insert(0, [*(places[entry] for entry in before if entry in places), own])
    with _weakened(variant):
        return not any(_refutes(variant, mutant, subject, cases, run, seed=seed) for run in runs)


def _smallest(cases: Sequence[Case], numbers: Sequence[int]) -> list[int]:
    return sorted(numbers, key=lambda number: (elements_of(cases[number]), number))


def _refutes(
    variant: HarnessVariant,
    mutant: Mutant,
    subject: Subject,
    cases: Sequence[Case],
    numbers: Sequence[int],
    *,
    seed: int,
) -> bool:
    assert isinstance(mutant.target, SubjectMutant)
    for run in [[number] for number in numbers] if variant.alone else [list(numbers)]:
        with closing(_reports(subject, cases, run, seed=seed)) as reports:
            for report in reports:
                for claim, fault in judge.faults_of(cases, report):
                    counts = mutant.target.dies or not judge.is_death(fault)
                    if claim in mutant.refuted_by and counts and variant.keeps_fault(fault):
                        return True
    return False


def _reports(
    subject: Subject, cases: Sequence[Case], numbers: Sequence[int], *, seed: int
) -> Generator[CaseReport, None, None]:
    yield from run_cases(subject, numbers, level=judge.LEVEL, seed=seed, lanes=1, cases=cases)


@contextmanager
def _weakened(variant: HarnessVariant) -> Iterator[None]:
    """Change the harness in this process, from which children are forked."""
    with contextlib.ExitStack() as stack:
        if variant.turns is not None:
            turns = tuple(map(variant.turns, TURNS))
            for module in (quant_check, routing_check, rows_check):
                stack.enter_context(_changed(module, "TURNS", turns))
        if variant.values_alone:
            stack.enter_context(_changed(quant_judge._Buffer, "first", _first_value))
        yield


@contextmanager
def _changed(owner: Any, name: str, value: object) -> Iterator[None]:
    ordinary = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, ordinary)


_ordinary_first = quant_judge._Buffer.first


def _first_value(
    buffer: Any, subject: torch.Tensor, true: torch.Tensor, judged: torch.Tensor
) -> tuple[int, int] | None:
    """As `_Buffer.first`, codes that stand for the same number being equal."""
    if buffer.name == "output" and subject.dtype is torch.uint8:
        subject, true = _without_minus_zero(subject), _without_minus_zero(true)
    return _ordinary_first(buffer, subject, true, judged)


def _without_minus_zero(packed: torch.Tensor) -> torch.Tensor:
    low, high = packed & 0xF, packed >> 4
    return low.masked_fill(low == 8, 0) | high.masked_fill(high == 8, 0) << 4
