"""What a prover is asked: hypotheses, a goal, and wrong goals that it must refute.

An obligation's SMT-LIB 2 text asserts the hypotheses and the negated goal; a prover that answers `unsat` has proved
the goal for all values. Each obligation carries negative controls: goals that are wrong by one row, one tile or one
expert under the same hypotheses, for which a prover must find a model. They show that the hypotheses are not
contradictory and that the goal is no weaker than it looks.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from nvfp4_moe.verification.proofs.terms import Term, neg


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """One thing to prove."""

    claim_id: str
    """The claim that it is part of, for example "padding.bound"."""
    name: str
    """Unique within the claim; lower-case words with underscores."""
    statement: str
    """What is proved, in words."""
    given: tuple[Term, ...]
    goal: Term
    wrong: tuple[Term, ...]
    """Negative controls: goals that do not follow."""
    logic: str = "QF_NIA"
    level: int = 1
    """1: quick; 2: minutes."""

    @property
    def key(self) -> str:
        """Return claim and name: the file's stem and the name in reports."""
        return f"{self.claim_id}.{self.name}"

    def smt2(self) -> str:
        """Return the SMT-LIB 2 text; `unsat` means proved."""
        return self._text(self.goal, status="unsat")

    def smt2_wrong(self, index: int) -> str:
        """Return the text of a negative control; `sat` means refuted, as it must be."""
        return self._text(self.wrong[index], status="sat")

    def _text(self, goal: Term, *, status: str) -> str:
        asserted = (*self.given, neg(goal))
        names: dict[str, str] = {}
        for term in asserted:
            for constant in term.constants():
                names.setdefault(constant.head, constant.sort)
        lines = [f"; {self.key}"]
        lines += textwrap.wrap(self.statement, width=100, initial_indent="; ", subsequent_indent=";   ")
        lines += [f"(set-info :status {status})", f"(set-logic {self.logic})"]
        lines += [f"(declare-const {name} {sort})" for name, sort in names.items()]
        lines += [f"(assert {term})" for term in asserted]
        return "\n".join([*lines, "(check-sat)", ""])
