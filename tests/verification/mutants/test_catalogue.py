"""The catalogue as a whole: every class has its variants, every mechanism seen in public has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nvfp4_moe.verification.mutants import catalogue as module
from nvfp4_moe.verification.mutants.catalogue import catalogue, entry_of, problems, public_faults
from nvfp4_moe.verification.mutants.mutant import FAULT_CLASSES, Mutant, PublicFault

STARS = (
    *("A1", "A2", "A3", "A4", "A5", "B1", "C1", "C2", "C5", "C9", "D1", "D2", "D3", "E1", "E2", "E3"),
    *("F1", "F2", "F4", "G1", "G2", "H1", "H2", "I1", "I4", "J1", "J3", "K1", "K2", "K3", "K4"),
    *("L1", "L2", "L3", "L4", "M1", "M2", "N1", "N2", "N3", "O1", "O2", "O4", "O6", "P2", "P4"),
    *("R1", "S1", "T1", "T3", "T4", "U1"),
)
"""Mechanisms that public projects have shipped; none may lose its variants."""


def test_nothing_is_wrong_with_it() -> None:
    assert problems() == []


def test_every_mechanism_is_listed_and_has_a_variant_on_the_cpu() -> None:
    assert {name for name, fault in public_faults().items() if fault.star} == set(STARS)
    covered = {name for m in catalogue() if "cpu" in m.devices for name in m.stands_for}
    assert set(STARS) <= covered


def test_there_are_enough() -> None:
    assert len(catalogue()) >= 80


def test_an_entry_is_found_by_its_id() -> None:
    for mutant in catalogue():
        assert entry_of(mutant.id) is mutant
    with pytest.raises(KeyError):
        entry_of("no.such")


# --- the check of the catalogue can fail --------------------------------------------------------------------------


@pytest.fixture
def with_mutants(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make other variants or public faults the catalogue."""

    def change(
        mutants: tuple[Mutant, ...] | None = None, faults: dict[str, PublicFault] | None = None
    ) -> None:
        given = catalogue() if mutants is None else mutants
        known = public_faults() if faults is None else faults
        monkeypatch.setattr(module, "catalogue", lambda: given)
        monkeypatch.setattr(module, "public_faults", lambda: known)

    return change


def test_two_of_one_name_are_told(with_mutants: Callable[..., None]) -> None:
    first = catalogue()[0]
    with_mutants((*catalogue(), first))
    assert module.problems() == [f"two variants are called {first.id}"]


def test_a_class_without_variants_is_told(with_mutants: Callable[..., None]) -> None:
    with_mutants(tuple(mutant for mutant in catalogue() if mutant.fault_class != "C"))
    said = module.problems()
    assert said[0] == "class C has 0 variants on the CPU, at least 3 are due"
    assert "no variant stands for C1" in said
    assert len(said) == 1 + sum(star.startswith("C") for star in STARS)


def test_a_fault_that_nobody_described_is_told(with_mutants: Callable[..., None]) -> None:
    first = catalogue()[0]
    with_mutants((replace(first, stands_for=("A99",)), *catalogue()[1:]))
    assert f"{first.id}: no public fault A99" in module.problems()


def test_classes_are_letters_in_order() -> None:
    assert "".join(FAULT_CLASSES) == "ABCDEFGHIJKLMNOPQRSTU"
