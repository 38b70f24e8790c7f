"""The provers: z3 and cvc5, each reading the same SMT-LIB 2 text with its own parser.

Both are optional packages (extra `proofs`); `missing()` says which are absent. z3 must say `unsat` and cvc5 must
agree, because a bug in one prover is then not enough for a wrong PROVED.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from enum import StrEnum

EXTRA = "proofs"
"""The package's extra that brings the provers."""


class Answer(StrEnum):
    """A prover's answer to `check-sat`."""

    UNSAT = "unsat"
    SAT = "sat"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and where it is `sat` the model as strings."""

    answer: Answer
    model: tuple[tuple[str, str], ...] = ()


_EXPECTED_STATUS = re.compile(r"^\(set-info :status \w+\)$", re.MULTILINE)


def ask_z3(text: str, *, timeout_s: float) -> Reply:
    """Return z3's answer to an SMT-LIB 2 text."""
    import z3

    solver = z3.Solver()
    solver.set("timeout", max(1, int(timeout_s * 1000)))
    solver.from_string(text)
    answer = Answer(str(solver.check()))
    if answer is not Answer.SAT:
        return Reply(answer)
    model = solver.model()
    return Reply(answer, tuple(sorted((d.name(), str(model[d])) for d in model.decls())))


def ask_cvc5(text: str, *, timeout_s: float) -> Reply:
    """Return cvc5's answer to an SMT-LIB 2 text."""
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("produce-models", "true")
    solver.setOption("tlimit-per", str(max(1, int(timeout_s * 1000))))
    symbols = cvc5.SymbolManager(solver)
    parser = cvc5.InputParser(solver, symbols)
    # Told which answer to expect, cvc5 reports another one as an error; here the answer is what is asked for.
    text = _EXPECTED_STATUS.sub("", text)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation.smt2")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(solver, symbols)
    lines = said.split()
    answer = Answer(lines[-1]) if lines and lines[-1] in set(Answer) else Answer.UNKNOWN
    if answer is not Answer.SAT:
        return Reply(answer)
    constants = symbols.getDeclaredTerms()
    return Reply(answer, tuple(sorted((str(c), str(solver.getValue(c))) for c in constants)))


SOLVERS = {"z3": ask_z3, "cvc5": ask_cvc5}
"""Prover by name, in the order of asking."""


def missing() -> list[str]:
    """Return the provers that are not installed."""
    return [name for name in SOLVERS if importlib.util.find_spec(name) is None]
