"""The catalogue: every variant of every class module, checked as a whole."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from dataclasses import dataclass
from functools import cache

from nvfp4_moe.verification.mutants.mutant import FAULT_CLASSES, Mutant, PublicFault, RightSubject

LEAST_OF_A_CLASS = 3
"""Variants that each class has at least, on the CPU."""


@cache
def catalogue() -> tuple[Mutant, ...]:
    """Return every variant, by class and then as its module lists them."""
    return tuple(mutant for letter in FAULT_CLASSES for mutant in _class_module(letter).MUTANTS)


@cache
def public_faults() -> dict[str, PublicFault]:
    """Return every public fault by its id."""
    return {fault.id: fault for letter in FAULT_CLASSES for fault in _class_module(letter).FAULTS}


@cache
def right_subjects() -> tuple[RightSubject, ...]:
    """Return the right implementations that must pass."""
    name = f"{__package__}.right_subjects"
    if importlib.util.find_spec(name) is None:
        return ()
    found: tuple[RightSubject, ...] = importlib.import_module(name).RIGHT_SUBJECTS
    return found


def entry_of(entry_id: str) -> Mutant | RightSubject:
    """Return the variant or the right implementation with an id.

    Raises:
        KeyError: there is none.
    """
    entries: tuple[Mutant | RightSubject, ...] = (*catalogue(), *right_subjects())
    return {entry.id: entry for entry in entries}[entry_id]


def problems() -> list[str]:
    """Return what is wrong with the catalogue as a whole, a line each; empty where nothing is."""
    faults, mutants = public_faults(), catalogue()
    names = Counter([*(mutant.id for mutant in mutants), *(right.id for right in right_subjects())])
    said = [f"two variants are called {name}" for name, times in names.items() if times > 1]
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


@dataclass(frozen=True)
class _ClassModule:
    """What a class module exports."""

    FAULTS: tuple[PublicFault, ...] = ()
    MUTANTS: tuple[Mutant, ...] = ()


def _class_module(letter: str) -> _ClassModule:
    """Return what a class exports; nothing where its module does not exist, which `problems` tells.

    Raises:
        ValueError: it exports an entry of another class.
    """
    name = f"{__package__}.class_{letter.lower()}"
    if importlib.util.find_spec(name) is None:
        return _ClassModule()
    module = importlib.import_module(name)
    found = _ClassModule(tuple(module.FAULTS), tuple(module.MUTANTS))
    strangers = [fault.id for fault in found.FAULTS if fault.id[0] != letter]
    strangers += [mutant.id for mutant in found.MUTANTS if mutant.fault_class != letter]
    if strangers:
        raise ValueError(f"{name} lists {strangers[0]}, which is of another class")
    return found
