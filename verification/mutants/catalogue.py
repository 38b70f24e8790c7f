"""The catalogue: every variant of every class module, checked as a whole."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from functools import cache

from nvfp4_moe.verification.mutants.mutant import FAULT_CLASSES, Mutant, PublicFault

LEAST_OF_A_CLASS = 3
"""Variants that each class has at least, on the CPU."""


@cache
def catalogue() -> tuple[Mutant, ...]:
    """Return every variant, by class and then as its module lists them."""
    return tuple(mutant for letter in FAULT_CLASSES for mutant in _exported(letter, "MUTANTS"))


@cache
def public_faults() -> dict[str, PublicFault]:
    """Return every public fault by its id."""
    return {fault.id: fault for letter in FAULT_CLASSES for fault in _exported(letter, "FAULTS")}


def mutant_of(mutant_id: str) -> Mutant:
    """Return the variant with an id.

    Raises:
        KeyError: there is none.
    """
    return next(iter([mutant for mutant in catalogue() if mutant.id == mutant_id]), None) or _none(mutant_id)


def problems() -> list[str]:
    """Return what is wrong with the catalogue as a whole, a line each; empty where nothing is."""
    faults, mutants = public_faults(), catalogue()
    said = [f"two variants are called {name}" for name, n in Counter(m.id for m in mutants).items() if n > 1]
    for letter in FAULT_CLASSES:
        on_cpu = sum(mutant.fault_class == letter and "cpu" in mutant.devices for mutant in mutants)
        if on_cpu < LEAST_OF_A_CLASS:
            said.append(
                f"class {letter} has {on_cpu} variants on the CPU, at least {LEAST_OF_A_CLASS} are due"
            )
    for mutant in mutants:
        said += [f"{mutant.id}: no public fault {name}" for name in mutant.stands_for if name not in faults]
    covered = {name for mutant in mutants for name in mutant.stands_for}
    said += [f"no variant stands for {name}" for name, f in faults.items() if f.star and name not in covered]
    return said


def _exported(letter: str, name: str) -> tuple:  # type: ignore[type-arg]  # of Mutant or PublicFault
    module = f"{__package__}.class_{letter.lower()}"
    if importlib.util.find_spec(module) is None:
        return ()
    exported: tuple = getattr(importlib.import_module(module), name)  # type: ignore[type-arg]
    wrong = [entry.id for entry in exported if _letter(entry) != letter]
    if wrong:
        raise ValueError(f"{module} lists {wrong[0]}, which is of another class")
    return exported


def _letter(entry: Mutant | PublicFault) -> str:
    return entry.fault_class if isinstance(entry, Mutant) else entry.id[0]


def _none(mutant_id: str) -> Mutant:
    raise KeyError(f"no variant is called {mutant_id!r}")
