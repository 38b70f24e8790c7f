"""The matrix of harness against fault classes: which variants of a class escape each weakened harness.

It takes the result of a run of the catalogue, since what refuted a variant, and with which smallest input, is where the
search begins. Bounds, models, expressions and fake kernels are judged by other checks and are left out.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nvfp4_moe.verification.mutants.harness_variants import HARNESS_VARIANTS, escapes_of
from nvfp4_moe.verification.mutants.judge import Judged
from nvfp4_moe.verification.mutants.mutant import FAULT_CLASSES, Mutant, SubjectMutant
from nvfp4_moe.verification.result import Verdict


@dataclass(frozen=True, slots=True)
class Matrix:
    """What escapes which weakened harness."""

    escapes: Mapping[str, Sequence[str]]
    """Ids of weakened harnesses by id of the variant that escapes them; every variant that was tried is here."""

    def escaped(self, variant: str) -> list[str]:
        """Return the ids of the wrong variants that escape a weakened harness."""
        return [mutant for mutant, escaped in self.escapes.items() if variant in escaped]

    def to_json(self) -> list[dict[str, Any]]:
        """Return one entry for each weakened harness."""
        tried = len(self.escapes)
        return [
            {"id": v.id, "change": v.change, "tried": tried, "escaped": self.escaped(v.id)}
            for v in HARNESS_VARIANTS
        ]


def make_matrix(
    judged: Sequence[tuple[Mutant, Judged]],
    *,
    seed: int,
    finished: Callable[[str], None] = lambda mutant: None,
) -> Matrix:
    """Try every wrong subject that was refuted on the CPU under every weakened harness, on all cores.

    Args:
        judged: variants and what became of them.
        seed: of the cases, the same as in their run.
        finished: told of each variant as it ends.
    """
    asked = [
        (mutant.id, dict(found.witness or {}), seed)
        for mutant, found in judged
        if isinstance(mutant.target, SubjectMutant)
        and found.verdict is Verdict.REFUTED
        and found.device == "cpu"
    ]
    escapes: dict[str, list[str]] = {}
    for name, escaped in _in_processes(asked):
        escapes[name] = escaped
        finished(name)
    return Matrix({name: escapes[name] for name, _, _ in asked})


def _in_processes(asked: Sequence[tuple[str, dict[str, Any], int]]) -> Iterator[tuple[str, list[str]]]:
    cores = min(len(os.sched_getaffinity(0)), max(1, len(asked)))
    # Spawned: the children of a run fork from these, and must not inherit this process's threads.
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        yield from pool.imap_unordered(_row, asked)


def _row(asked: tuple[str, dict[str, Any], int]) -> tuple[str, list[str]]:
    import torch

    from nvfp4_moe.verification.mutants.catalogue import catalogue

    name, witness, seed = asked
    torch.set_num_threads(1)
    mutant = next(mutant for mutant in catalogue() if mutant.id == name)
    return name, escapes_of(mutant, witness, seed=seed)


def needed_by(matrix: Sequence[Mapping[str, Any]], class_of: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return how many variants of each class escape each weakened harness, classes without any left out.

    Args:
        matrix: as `Matrix.to_json` gives it.
        class_of: fault class of each variant.
    """
    counts: dict[str, dict[str, int]] = {}
    for entry in matrix:
        letters = [class_of[name] for name in entry["escaped"] if name in class_of]
        counts[entry["id"]] = {letter: letters.count(letter) for letter in FAULT_CLASSES if letter in letters}
    return counts


def carried_by_one(counts: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Return the weakened harness for each class of which variants escape that one alone."""
    found: dict[str, list[str]] = {}
    for variant, by_class in counts.items():
        for letter in by_class:
            found.setdefault(letter, []).append(variant)
    return {letter: variants[0] for letter, variants in sorted(found.items()) if len(variants) == 1}
