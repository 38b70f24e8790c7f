"""Proving the obligations with both provers, and the files in which they are written out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nvfp4_moe.verification.proofs import (
    extremes,
    index,
    kernel_index,
    padding,
    placement,
    solvers,
    swizzle,
)
from nvfp4_moe.verification.proofs.judging import Question, judge, put, skipped
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.result import Outcome

FAMILIES: tuple[Callable[[], list[Obligation]], ...] = (
    padding.bound,
    padding.bound_distinct,
    extremes.attained,
    extremes.monotone,
    placement.disjoint,
    placement.coverage,
    placement.ends,
    swizzle.injective,
    swizzle.in_bounds,
    index.no_wrap,
    kernel_index.no_wrap_in_kernels,
)

FOLDER = Path(__file__).parent / "smt2"
"""Where the SMT-LIB files lie that ship with the package."""

BLOCK_SIZE = 16
"""Columns of one scale block."""

DEFAULT_TIMEOUT_S = 60.0
"""Seconds for one question to one prover."""


def obligations(level: int) -> list[Obligation]:
    """Return the obligations of `level` and below, in the order of proving."""
    return [o for family in FAMILIES for o in family() if o.level <= level]


def smt2_files() -> dict[str, str]:
    """Return the text of every obligation of every level, by file name."""
    everything = [o for family in FAMILIES for o in family()]
    return {f"{o.key}.smt2": o.smt2() for o in everything}


def write_smt2(folder: Path = FOLDER) -> list[Path]:
    """Write every obligation to `folder` as SMT-LIB 2, remove files that are no longer generated, return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = smt2_files()
    for old in set(folder.glob("*.smt2")) - {folder / name for name in files}:
        old.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


@dataclass(frozen=True, slots=True)
class ProvedClaim:
    """What the provers said of one claim."""

    claim_id: str
    outcome: Outcome
    seconds: float


def prove(
    level: int,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    progress: Callable[[int], None] = lambda done: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[tuple[str, Outcome]]:
    """Prove the obligations of a level with z3 and cvc5 and return one outcome for each claim; see `judge`.

    Args:
        level: 1 takes seconds, 2 minutes.
        timeout_s: seconds for one question to one prover.
        progress: called with the number of questions answered since the last call.
        should_stop: asked before every question; when true, claims that are not finished are left out.
    """
    claims = prove_claims(level, timeout_s=timeout_s, progress=progress, should_stop=should_stop)
    return [(claim.claim_id, claim.outcome) for claim in claims]


def prove_claims(
    level: int,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    progress: Callable[[int], None] = lambda done: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[ProvedClaim]:
    """Yield what `prove` returns claim by claim, each with its seconds."""
    absent = solvers.missing()
    by_claim: dict[str, list[Obligation]] = {}
    for obligation in obligations(level):
        by_claim.setdefault(obligation.claim_id, []).append(obligation)
    for claim_id, wanted in by_claim.items():
        if absent:
            yield ProvedClaim(claim_id, skipped(absent), 0.0)
            continue
        start = time.perf_counter()
        questions: list[Question] = []
        for obligation in wanted:
            question = put(obligation, timeout_s=timeout_s, progress=progress, should_stop=should_stop)
            if question is None:
                return
            questions.append(question)
        note = NOTES[claim_id]() if claim_id in NOTES else ""
        yield ProvedClaim(claim_id, judge(questions, note=note), time.perf_counter() - start)


def _first_wraps() -> str:
    swizzled = swizzle.SWIZZLES[0]
    sizes = [
        f"{index.first_wrapping_row(swizzled, blocks):,} at K={blocks * BLOCK_SIZE:,}"
        for blocks in index.USUAL_BLOCKS
    ]
    return (
        f"free of wrap up to {index.most_tiles(swizzled):,} tiles of {swizzled.name}; "
        f"byte indices first wrap in row {', '.join(sizes)}"
    )


NOTES: dict[str, Callable[[], str]] = {"index.no_wrap": _first_wraps}
"""What a proved claim has to report besides its verdict."""
