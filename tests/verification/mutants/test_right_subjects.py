"""The right implementations: each passes small cases of every kind here, all of them in `nvfp4-moe mutants`.

Each of their liberties is real: without what its contract says, the harness has a finding.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nvfp4_moe.verification.conformance.call import Refused
from nvfp4_moe.verification.conformance.memory import HostArena
from nvfp4_moe.verification.conformance.plan import (
    Case,
    Plan,
    aspect_of,
    elements_of,
    may_refuse,
    prefix_of,
    run_case,
)
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.mutants.catalogue import problems
from nvfp4_moe.verification.mutants.judge import subject_of
from nvfp4_moe.verification.mutants.right_subjects import RIGHT_SUBJECTS

ON_CPU = [entry for entry in RIGHT_SUBJECTS if "cpu" in entry.devices]
CASES, MOST_ELEMENTS = 10, 8_000
LEAST = 10
"""Right implementations that there are at least."""


def findings(subject: Subject, *, cases: int = CASES) -> Iterator[str]:
    """Yield the texts of what small cases find, `cases` of each operation and aspect drawn from all of them."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in Plan.of(subject, level=1, seed=0).cases:
        if elements_of(case) <= MOST_ELEMENTS:
            groups.setdefault((prefix_of(case), aspect_of(case)), []).append(case)
    for key, small in groups.items():
        for case in random.Random(str(key)).sample(small, min(cases, len(small))):
            try:
                yield from (fault.text for fault in run_case(subject, case, HostArena()).faults)
            except Refused as refused:
                if not may_refuse(case, subject.contract):
                    yield f"refused: {refused}"


@pytest.mark.parametrize("entry", ON_CPU, ids=lambda entry: entry.id)
def test_passes(entry) -> None:
    assert list(findings(subject_of(entry, "cpu"))) == []


def test_there_are_enough_and_the_catalogue_knows_them() -> None:
    assert len(ON_CPU) >= LEAST
    assert sum("cuda" in entry.devices for entry in RIGHT_SUBJECTS) >= 3
    assert not [line for line in problems() if "right." in line]


def test_every_operation_that_is_judged_to_the_byte_has_one() -> None:
    operations = {name for entry in ON_CPU for name in subject_of(entry, "cpu").operations}
    assert operations >= {
        "scaled_fp4_experts_quant",
        "scaled_fp4_masked_quant",
        "silu_and_mul_scaled_fp4_masked_quant",
        "get_cutlass_moe_mm_data",
        "shuffle_rows",
        "swizzle",
    }


@pytest.mark.parametrize(
    ("name", "promises", "said"),
    [
        ("padding_left_alone", {"k_padding": "zero"}, "padding"),
        ("padding_left_alone", {"row_padding": "zero"}, "padding"),
        ("last_slot_first", {"row_order": "stable"}, "permutation"),
        ("order_of_atomics", {"deterministic": True}, "differs between two runs"),
        ("inputs_spent", {"mutates": ()}, "input"),
        ("few_experts", {"max_experts": None}, "at most 60 experts"),
        ("ids_of_64_bits", {"id_dtypes": ("int32",)}, "ran and raised nothing"),
    ],
)
def test_a_liberty_without_its_contract_is_found(name: str, promises: dict[str, Any], said: str) -> None:
    entry = next(entry for entry in RIGHT_SUBJECTS if entry.id == f"right.{name}")
    subject = subject_of(entry, "cpu")
    strict = Subject(name, "cpu", replace(subject.contract, **promises), **subject.operations)
    assert any(said in text for text in findings(strict, cases=80))
