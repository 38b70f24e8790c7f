"""From the provers' answers to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nvfp4_moe.verification.proofs import solvers
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.solvers import Answer, Reply
from nvfp4_moe.verification.result import Outcome, Verdict


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


def put(
    obligation: Obligation,
    *,
    timeout_s: float,
    progress: Callable[[int], None] = lambda done: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Question | None:
    """Put an obligation to every prover; None if `should_stop` said so first."""
    text = obligation.smt2()
    replies: dict[str, Reply] = {}
    for name, ask in solvers.SOLVERS.items():
        if should_stop():
            return None
        replies[name] = ask(text, timeout_s=timeout_s)
        progress(1)
    return Question(obligation, replies)


def judge(questions: Sequence[Question], *, note: str = "") -> Outcome:
    """Return the outcome of a claim from all of its questions.

    PROVED if every prover proves every obligation, REFUTED if one finds a model against one (the witness holds it, and a
    disagreement is said), else UNDECIDED with the names of who could not tell. `cases` counts questions to a prover.

    Args:
        questions: at least one, answered.
        note: what a proved claim has to report besides its verdict.
    """
    cases = sum(len(question.replies) for question in questions)
    for question in questions:
        if question.disproved:
            return _refuted(question, cases)
    still_open = [f"{q.obligation.name} ({', '.join(q.open)})" for q in questions if q.open]
    if still_open:
        text = f"no answer in time: {'; '.join(still_open)}"
        return Outcome(verdict=Verdict.UNDECIDED, cases=cases, detail=text)
    count = f"{len(questions)} obligation{'s' if len(questions) > 1 else ''}"
    text = f"{count}, {' and '.join(solvers.SOLVERS)} agree{f'; {note}' if note else ''}"
    return Outcome(verdict=Verdict.PROVED, cases=cases, detail=text)


def skipped(absent: Sequence[str]) -> Outcome:
    """Return the outcome where provers are missing."""
    present = [name for name in solvers.SOLVERS if name not in absent]
    alone = f"; {present[0]} alone is there, a proof needs both" if present else ""
    return Outcome(
        verdict=Verdict.SKIPPED,
        cases=0,
        detail=f"needs {' and '.join(absent)} (pip install 'nvfp4-moe[{solvers.EXTRA}]'){alone}",
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
