"""Runs the catalogue: every variant must be refuted, every right implementation must pass."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from nvfp4_moe import __version__
from nvfp4_moe.verification.mutants.catalogue import catalogue, right_subjects
from nvfp4_moe.verification.mutants.judge import Judged
from nvfp4_moe.verification.mutants.matrix import Matrix
from nvfp4_moe.verification.mutants.mutant import DEVICES, FAULT_CLASSES, Mutant, RightSubject
from nvfp4_moe.verification.mutants.worker import judge_all
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED, Verdict

SCHEMA_VERSION = 1
"""Version of the JSON layout; a change that could break a reader raises it."""
MOST_ON_A_GPU = 16
"""Processes that share a GPU: each holds a context of half a gigabyte and little else."""


@dataclass(frozen=True, kw_only=True)
class CatalogueResult:
    """What became of the variants and of the right implementations."""

    seed: int
    device: str
    mutants: Sequence[tuple[Mutant, Judged]]
    right: Sequence[tuple[RightSubject, Judged]]
    interrupted: bool = False
    matrix: Matrix | None = None
    """What escapes the harness weakened, where that was tried."""

    @property
    def survivors(self) -> list[Judged]:
        """Variants that nothing refuted."""
        return [judged for _, judged in self.mutants if judged.verdict is Verdict.HELD]

    @property
    def false_alarms(self) -> list[Judged]:
        """Right implementations that did not pass."""
        return [judged for _, judged in self.right if judged.verdict is Verdict.REFUTED]

    def number(self, verdict: Verdict) -> int:
        """Return how many variants have a verdict."""
        return sum(judged.verdict is verdict for _, judged in self.mutants)

    @property
    def exit_code(self) -> int:
        """Return 1 for a survivor or a false alarm, 3 if one is undecided or nothing was refuted, else 0.

        What is SKIPPED, since it needs another device or something that is not installed, fails nothing.
        """
        if self.survivors or self.false_alarms:
            return EXIT_REFUTED
        every = [judged.verdict for _, judged in (*self.mutants, *self.right)]
        return EXIT_OK if Verdict.UNDECIDED not in every and Verdict.REFUTED in every else EXIT_UNDECIDED

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `nvfp4-moe mutants`."""
        return {
            "schema": SCHEMA_VERSION,
            "version": __version__,
            "seed": self.seed,
            "device": self.device,
            "interrupted": self.interrupted,
            "mutants": [
                {"id": mutant.id, "fault_class": mutant.fault_class, **judged.to_json()}
                for mutant, judged in self.mutants
            ],
            "right_subjects": [judged.to_json() for _, judged in self.right],
            **({"harness_variants": self.matrix.to_json()} if self.matrix is not None else {}),
        }

    def dumps(self) -> str:
        """Return the JSON as text, one trailing newline."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"


def chosen(fault_classes: Sequence[str] = ()) -> tuple[list[Mutant], list[RightSubject]]:
    """Return the variants of some classes, or all of them and the right implementations.

    Raises:
        ValueError: a class that there is none of.
    """
    unknown = [letter for letter in fault_classes if letter not in FAULT_CLASSES]
    if unknown:
        raise ValueError(f"a fault class must be one of {', '.join(FAULT_CLASSES)}, got {unknown[0]!r}")
    if not fault_classes:
        return list(catalogue()), list(right_subjects())
    return [mutant for mutant in catalogue() if mutant.fault_class in fault_classes], []


def run_catalogue(
    mutants: Sequence[Mutant],
    right: Sequence[RightSubject],
    *,
    device: str = "cpu",
    seed: int = 0,
    finished: Callable[[Judged], None] = lambda judged: None,
) -> CatalogueResult:
    """Judge variants and right implementations side by side, one process for each core.

    Args:
        mutants, right: of the catalogue, as `chosen` gives them.
        device: "cpu" or "cuda"; what does not run there is SKIPPED.
        seed: of the cases.
        finished: told of each as it ends.

    Returns:
        The result; after Ctrl-C with what was finished, the rest UNDECIDED.
    """
    if device not in DEVICES:
        raise ValueError(f"the device must be one of {', '.join(DEVICES)}, got {device!r}")
    cores = len(os.sched_getaffinity(0))
    workers = min(cores, MOST_ON_A_GPU) if device == "cuda" else cores
    # Right implementations run every case, so they take longest and go first.
    entries = [*(entry.id for entry in right), *(mutant.id for mutant in mutants)]
    judged: dict[str, Judged] = {}
    interrupted = False
    try:
        with closing(judge_all(entries, device=device, seed=seed, workers=workers)) as results:
            for one in results:
                judged[one.id] = one
                finished(one)
    except KeyboardInterrupt:
        interrupted = True

    def of(entry: Mutant | RightSubject) -> Judged:
        left = Judged(id=entry.id, device=device, verdict=Verdict.UNDECIDED, detail="interrupted")
        return judged.get(entry.id, left)

    return CatalogueResult(
        seed=seed,
        device=device,
        mutants=[(mutant, of(mutant)) for mutant in mutants],
        right=[(entry, of(entry)) for entry in right],
        interrupted=interrupted,
    )
