"""The example subjects: the right one passes, the wrong one is caught on the shapes that its docstring names."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.memory import HostArena
from nvfp4_moe.verification.conformance.plan import Plan, run_case
from nvfp4_moe.verification.conformance.refusal_check import RefusalCase
from nvfp4_moe.verification.conformance.subject import load_subject

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "subjects" / "torch_quant.py"
K_TILE = 64
TILE = 128
MOST_ELEMENTS = 60_000
SOME = 8


def shows_the_fault(case: QuantCase) -> bool:
    """Return whether the docstring says that the wrong example differs on this shape."""
    return case.k % K_TILE != 0 and max(case.tokens_per_expert, default=0) > TILE


def faulty(attribute: str, *, fault_shows: bool) -> list[bool]:
    """Return for some cases of the level-1 plan whether the subject was found at fault."""
    subject = load_subject(f"{EXAMPLE}:{attribute}")
    cases = [case for case in Plan.of(subject, level=1, seed=0).cases if isinstance(case, QuantCase)]
    small = [c for c in cases if c.elements <= MOST_ELEMENTS and shows_the_fault(c) is fault_shows]
    assert len(small) >= SOME
    arena = HostArena()
    return [bool(run_case(subject, case, arena).faults) for case in small[:: len(small) // SOME]]


@pytest.mark.parametrize("fault_shows", [True, False])
def test_the_right_example_passes(fault_shows: bool) -> None:
    assert not any(faulty("SUBJECT", fault_shows=fault_shows))


def test_the_fault_is_not_seen_on_aligned_and_short_shapes() -> None:
    assert not any(faulty("WRONG", fault_shows=False))


def test_the_fault_is_caught_on_the_other_shapes() -> None:
    assert all(faulty("WRONG", fault_shows=True))


@pytest.mark.parametrize("attribute", ["SUBJECT", "WRONG"])
def test_calls_outside_the_domain_are_refused(attribute: str) -> None:
    subject = load_subject(f"{EXAMPLE}:{attribute}")
    cases = [case for case in Plan.of(subject, level=1, seed=0).cases if isinstance(case, RefusalCase)]
    arena = HostArena()
    assert cases
    assert [case.wrong for case in cases if run_case(subject, case, arena).faults] == []
