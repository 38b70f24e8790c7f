"""Proving the obligations with both provers, and the files in which they are written out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nvfp4_moe.verification.proofs import extremes, index, padding, placement, solvers, swizzle
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.solvers import Answer, Reply
from nvfp4_moe.verification.result import Outcome, Verdict

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
class Question:
    """One obligation put to both provers."""

    obligation: Obligation
    replies: dict[str, Reply]

    @property
    def disproved(self) -> list[str]:
        """Return the provers that found a model of the negation."""
        return [name for name, reply in self.replies.items() if reply.answer is Answer.SAT]

    @property
    def open(self) -> list[str]:
        """Return the provers that could not tell."""
        return [name for name, reply in self.replies.items() if reply.answer is Answer.UNKNOWN]


def prove(
    level: int,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    progress: Callable[[int], None] = lambda done: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[tuple[str, Outcome]]:
    """Prove the obligations of a level with z3 and cvc5 and return one outcome for each claim.

    A claim is PROVED if both provers prove all of its obligations, REFUTED if either finds a model against one
    (the witness holds it, and a disagreement is said), else UNDECIDED. `cases` counts questions put to a prover.

    Args:
        level: 1 takes seconds, 2 minutes.
        timeout_s: seconds for one question to one prover.
        progress: called with the number of questions answered since the last call.
        should_stop: asked before every question; when true, claims that are not finished are left out.
    """
    wanted = obligations(level)
    claim_ids = list(dict.fromkeys(o.claim_id for o in wanted))
    absent = solvers.missing()
    if absent:
        return [(claim_id, _skipped(absent)) for claim_id in claim_ids]
    outcomes: list[tuple[str, Outcome]] = []
    for claim_id in claim_ids:
        questions = _ask(
            [o for o in wanted if o.claim_id == claim_id],
            timeout_s=timeout_s,
            progress=progress,
            should_stop=should_stop,
        )
        if questions is None:
            break
        outcomes.append((claim_id, _judge(questions)))
    return outcomes


def _skipped(absent: Sequence[str]) -> Outcome:
    present = [name for name in solvers.SOLVERS if name not in absent]
    alone = f"; {present[0]} alone is there, a proof needs both" if present else ""
    return Outcome(
        verdict=Verdict.SKIPPED,
        cases=0,
        detail=f"needs {' and '.join(absent)} (pip install 'nvfp4-moe[{solvers.EXTRA}]'){alone}",
    )


def _ask(
    wanted: Iterable[Obligation],
    *,
    timeout_s: float,
    progress: Callable[[int], None],
    should_stop: Callable[[], bool],
) -> list[Question] | None:
    questions: list[Question] = []
    for obligation in wanted:
        replies: dict[str, Reply] = {}
        for name, ask in solvers.SOLVERS.items():
            if should_stop():
                return None
            replies[name] = ask(obligation.smt2(), timeout_s=timeout_s)
            progress(1)
        questions.append(Question(obligation, replies))
    return questions


def _judge(questions: Sequence[Question]) -> Outcome:
    cases = sum(len(q.replies) for q in questions)
    for question in questions:
        if question.disproved:
            return _refuted(question, cases)
    still_open = [f"{q.obligation.name} ({', '.join(q.open)})" for q in questions if q.open]
    if still_open:
        return Outcome(
            verdict=Verdict.UNDECIDED, cases=cases, detail=f"no answer in time: {'; '.join(still_open)}"
        )
    claim_id = questions[0].obligation.claim_id
    note = f"; {NOTES[claim_id]()}" if claim_id in NOTES else ""
    return Outcome(
        verdict=Verdict.PROVED,
        cases=cases,
        detail=f"{len(questions)} obligations, {' and '.join(solvers.SOLVERS)} agree{note}",
    )


def _refuted(question: Question, cases: int) -> Outcome:
    solver = question.disproved[0]
    others = {name: str(r.answer) for name, r in question.replies.items() if name not in question.disproved}
    disagree = "".join(f"; {name} says {answer}" for name, answer in others.items())
    return Outcome(
        verdict=Verdict.REFUTED,
        cases=cases,
        detail=f"{solver} has a model against {question.obligation.name}{disagree}",
        witness={
            "kind": "proof",
            "obligation": question.obligation.key,
            "solver": solver,
            "model": dict(question.replies[solver].model),
        },
    )


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
