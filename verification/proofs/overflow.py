"""Refutes an index expression that can leave its type, without memory: the smallest configuration, and what mends it.

`refute_index` asks the provers whether any part of an expression can leave its type over its ranges. Where one can, it
looks for

- the smallest configuration that does: the first name as small as it can be, with that the second, and so on; both
  provers then confirm that no configuration before it, in this order, does;
- the smallest widening that mends it: the fewest names that have to be read as `int64_t`, and among those the choice
  with the fewest operations on 64 bits; both provers confirm it;
- the bits that a signed index needs to hold every value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from nvfp4_moe.verification.proofs import solvers
from nvfp4_moe.verification.proofs.c_arithmetic import (
    both,
    exact,
    faults,
    integer_conditions,
    integer_term,
    vector_conditions,
    vector_term,
    wrapped,
)
from nvfp4_moe.verification.proofs.c_expression import INT32, INT64, TYPES, leaf
from nvfp4_moe.verification.proofs.index_expression import IndexExpression, Limit, Range
from nvfp4_moe.verification.proofs.judging import put, skipped
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.solvers import Answer
from nvfp4_moe.verification.proofs.terms import Term, conj, disj, eq
from nvfp4_moe.verification.result import Outcome, Verdict

TIMEOUT_S = 10.0
"""Seconds for one question to one prover; most take milliseconds."""

FIRST_TIMEOUT_S = 2.0
"""Seconds over integers, before words are tried: what takes longer there takes minutes."""

MOST_WIDENED = 3
"""Names that are widened together at most, before an expression counts as beyond mending."""

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_CLAIM = "index.no_wrap"


class _NoAnswerError(Exception):
    """A prover could not tell in time."""


def refute_index(
    expression: str,
    ranges: Mapping[str, tuple[Limit, Limit]],
    width: int = 32,
    *,
    given: tuple[str, ...] = (),
    types: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Outcome:
    """Return whether any part of an index expression of C++ can leave its type.

    Args:
        expression: as `c_expression` reads it, such as "row * k + column".
        ranges: least and most value of each name, both included; a limit may be an expression of the names before it
            ("rows - 1"). The order of the names is the order of the search for the smallest configuration.
        width: bits of the names' type, 32 or 64, signed.
        given: relations "left <= right" between names that hold wherever the expression is computed.
        types: types of names that have another one ("uint32_t"), by name.
        timeout_s: seconds for one question to one prover.

    Returns:
        PROVED: no part can. REFUTED: with the witness {"kind": "index", "expression", "ranges", "width", "given",
        "types", "values", "exact", "wrapped", "mended", "bits"}, where "mended" is the widened expression or None.
        UNDECIDED: a prover could not tell. SKIPPED: a prover is missing.

    Raises:
        ValueError: an expression, limit or relation outside the language, another width, an unknown type.
    """
    if width not in (INT32.bits, INT64.bits):
        raise ValueError(f"the width of an index must be 32 or 64 bits, got {width!r}")
    unknown = [name for name in (types or {}).values() if name not in TYPES]
    if unknown:
        raise ValueError(f"the type of a name must be one of {', '.join(TYPES)}, got {unknown[0]!r}")
    plain = INT32 if width == INT32.bits else INT64
    named = {
        name: Range(TYPES[types[name]] if types and name in types else plain, *limits)
        for name, limits in ranges.items()
    }
    stated = IndexExpression(name="given", text=expression, ranges=named, given=given)
    absent = solvers.missing()
    if absent:
        return skipped(absent)
    answers = _answers(stated, timeout_s)
    if Answer.SAT not in answers.values():
        return _judged(answers)
    told = {
        "ranges": {name: list(limits) for name, limits in ranges.items()},
        "width": width,
        "given": list(given),
        "types": dict(types or {}),
    }
    try:
        return _Search(stated, timeout_s).outcome(told)
    except _NoAnswerError as error:
        text = f"`{expression}` leaves its type; the smallest configuration is not known: {error}"
        return Outcome(verdict=Verdict.REFUTED, cases=len(answers), detail=text)


def _may_leave(expression: IndexExpression, *, vectors: bool = False) -> Obligation:
    """As `index_expression.obligation`, without its control: nothing here has a largest value."""
    tree = expression.tree()
    value = (vector_term if vectors else integer_term)(tree)
    conditions = (vector_conditions if vectors else integer_conditions)(tree)
    return Obligation(
        claim_id=_CLAIM,
        name=expression.name,
        statement=f"no part of `{expression.text}` leaves its type.",
        given=tuple(expression.domain(vectors=vectors)),
        goal=both([*conditions, *([value >= 0] if tree.type.signed else [])]),
        wrong=(),
        logic="QF_BV" if vectors else "QF_NIA",
    )


def _answers(expression: IndexExpression, timeout_s: float) -> dict[str, Answer]:
    """Ask each prover whether the type can be left, over integers and, where it cannot tell, over words.

    A model of the first prover ends it: exact arithmetic confirms what is built on it.
    """
    answers: dict[str, Answer] = {}
    for name, ask in solvers.SOLVERS.items():
        answers[name] = ask(_may_leave(expression).smt2(), timeout_s=min(timeout_s, FIRST_TIMEOUT_S)).answer
        if answers[name] is Answer.UNKNOWN:
            answers[name] = ask(_may_leave(expression, vectors=True).smt2(), timeout_s=timeout_s).answer
        if answers[name] is Answer.SAT:
            break
    return answers


def _judged(answers: Mapping[str, Answer]) -> Outcome:
    silent = [name for name, answer in answers.items() if answer is not Answer.UNSAT]
    if silent:
        text = f"no answer in time: {', '.join(silent)}"
        return Outcome(verdict=Verdict.UNDECIDED, cases=len(answers), detail=text)
    text = f"no part leaves its type, {' and '.join(answers)} agree"
    return Outcome(verdict=Verdict.PROVED, cases=len(answers), detail=text)


@dataclass
class _Search:
    """One refuted expression; counts its questions."""

    expression: IndexExpression
    timeout_s: float
    asked: int = 0
    smallest: Mapping[str, int] = field(default_factory=dict)

    def outcome(self, told: dict[str, object]) -> Outcome:
        self.smallest = values = self._smallest()
        tree = self.expression.tree()
        value, machine = exact(tree, values), wrapped(tree, values)
        mended, bits = self._mended(), self._bits()
        sizes = ", ".join(f"{name} = {v:,}" for name, v in values.items())
        cure = f"`{mended}` mends it" if mended else "no wider name mends it"
        return Outcome(
            verdict=Verdict.REFUTED,
            cases=self.asked,
            detail=f"`{self.expression.text}` leaves its type first at {sizes}: {value:,} is read as {machine:,}; "
            f"{cure}; an index needs {bits} bits",
            witness={
                "kind": "index",
                "expression": self.expression.text,
                **told,
                "values": values,
                "exact": value,
                "wrapped": machine,
                "mended": mended,
                "bits": bits,
            },
        )

    # --- the smallest configuration ---------------------------------------------------------------------------

    def _smallest(self) -> dict[str, int]:
        values: dict[str, int] = {}
        for name in self.expression.ranges:
            values[name] = self._least_of(name, values)
        before = put(self._nothing_before(values), timeout_s=self.timeout_s)
        assert before is not None
        self.asked += len(before.replies)
        if before.open:
            raise _NoAnswerError(f"{before.open[0]} gives no answer on what lies before it")
        if (
            before.disproved
            or not self.expression.allows(values)
            or not self._leaves(values, self.expression)
        ):
            raise RuntimeError(
                f"{self.expression.text}: {values} is not the smallest, which is a mistake here"
            )
        return values

    def _leaves(self, values: Mapping[str, int], expression: IndexExpression) -> bool:
        tree = expression.tree()
        return faults(tree, values) is not None or (tree.type.signed and exact(tree, values) < 0)

    def _least_of(self, name: str, before: Mapping[str, int]) -> int:
        """Halve the range of a name, the names before it fixed, until nothing smaller leaves its type."""
        low, high = self.expression.limits(name, before)
        while low < high:
            middle = (low + high) // 2
            found = self._model(name, before, middle)
            low, high = (middle + 1, high) if found is None else (low, found)
        return low

    def _model(self, name: str, before: Mapping[str, int], most: int) -> int | None:
        """Return a value of at most `most` with which the type can be left; None: there is none."""
        whole, value = _may_leave(self.expression), self._name(name)
        text = replace(whole, given=(*whole.given, *self._fixed(before), value <= most)).smt2()
        self.asked += 1
        reply = solvers.SOLVERS["z3"](text, timeout_s=self.timeout_s)
        if reply.answer is Answer.UNKNOWN:
            raise _NoAnswerError(f"z3 gives no answer on {name} up to {most:,}")
        return int(dict(reply.model).get(str(value), most)) if reply.answer is Answer.SAT else None

    def _fixed(self, values: Mapping[str, int]) -> list[Term]:
        return [eq(self._name(name), value) for name, value in values.items()]

    def _name(self, name: str) -> Term:
        return integer_term(leaf(name, self.expression.ranges[name].type))

    def _nothing_before(self, values: Mapping[str, int]) -> Obligation:
        earlier: list[Term] = []
        for at, (name, value) in enumerate(values.items()):
            same = self._fixed(dict(list(values.items())[:at]))
            earlier.append(conj(*same, self._name(name) < value) if same else self._name(name) < value)
        whole = _may_leave(self.expression)
        return replace(whole, given=(*whole.given, disj(*earlier)))

    # --- what mends it ----------------------------------------------------------------------------------------

    def _mended(self) -> str | None:
        for count in range(1, MOST_WIDENED + 1):
            for text in sorted(self._widened(count), key=self._wide_operations):
                if self._holds(replace(self.expression, text=text)):
                    return text
        return None

    def _widened(self, count: int) -> Iterator[str]:
        text = self.expression.text
        places = [
            m
            for m in _NAME.finditer(text)
            if m.group() in self.expression.ranges
            and self.expression.ranges[m.group()].type.bits < INT64.bits
        ]
        for chosen in combinations(places, count):
            widened = text
            for match in reversed(chosen):
                widened = f"{widened[: match.start()]}int64_t{{{match.group()}}}{widened[match.end() :]}"
            yield widened

    def _wide_operations(self, text: str) -> int:
        tree = self.expression.tree(text)
        return sum(n.type.bits == INT64.bits and n.op not in ("convert", "literal") for n in tree.walk())

    def _holds(self, expression: IndexExpression) -> bool:
        if self._leaves(self.smallest, expression):
            return False
        answers = _answers(expression, self.timeout_s)
        self.asked += len(answers)
        return set(answers.values()) == {Answer.UNSAT}

    def _bits(self) -> int:
        """Return the bits of a signed word that holds every value."""
        low, high = 2, 2 * INT64.bits
        while low < high:
            middle = (low + high) // 2
            if self._fits(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _fits(self, bits: int) -> bool:
        value = integer_term(self.expression.tree())
        end = 1 << (bits - 1)
        whole = _may_leave(self.expression)
        self.asked += 1
        text = replace(whole, goal=conj(value < end, value >= -end)).smt2()
        reply = solvers.SOLVERS["z3"](text, timeout_s=self.timeout_s)
        if reply.answer is Answer.UNKNOWN:
            raise _NoAnswerError(f"z3 gives no answer on {bits} bits")
        return reply.answer is Answer.UNSAT
