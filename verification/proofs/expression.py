"""Proves a written bound: at least the exact worst case, for every max_num_batched_tokens, topk and number of experts.

A bound is an expression over the sizes (`verification.expressions`). The exact worst case of M*topk rows over E experts
does not fall in M (`padding.monotone`), so it is enough that for all sizes >= 1

    A * min(T, floor((T + (A-1)*E) / A)) <= expression,   T = max_num_batched_tokens * topk.

Where the expression does not name max_num_batched_tokens its guard is M * topk <= rows (a cap), so T is the largest that
the cap lets through or less.

Such a cap may let nothing through; then every routing is covered because there is none, and that is no proof.

Divisions of the expression become quotients with their defining inequalities. One whose divisor is not known to be
positive (`ranges.value_range`) is not translated: a proof would have to speak about errors too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from nvfp4_moe.reference.padding import Sizing, exact_any_rows
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expression_tree import Call, Chain, Expression, Integer, Negation, Node, Size
from nvfp4_moe.verification.expressions import expression_bound
from nvfp4_moe.verification.proofs import solvers
from nvfp4_moe.verification.proofs.judging import judge, put, skipped
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.ranges import value_range
from nvfp4_moe.verification.proofs.solvers import Answer
from nvfp4_moe.verification.proofs.terms import (
    BOOL,
    INT,
    Term,
    eq,
    integers,
    is_ceil,
    is_floor,
    literal,
    minimum,
)
from nvfp4_moe.verification.result import Outcome, Verdict, Witness
from nvfp4_moe.verification.worst_case import MOST_EXPERTS, worst_tokens_per_expert

SIZES = {name: Term(name, INT) for name in ("max_num_batched_tokens", "topk", "num_experts", "tile")}


Definition = Callable[[Term, Term, Term], Term]


EXPRESSION_TIMEOUT_S = 10.0
"""Seconds for each prover: most expressions take less than one."""


class NotTranslatedError(ValueError):
    """An expression that provers are not asked about; the text says which part."""


def prove_expression(
    expression: Expression,
    *,
    tile: int | None,
    stated: Mapping[str, int] | None = None,
    timeout_s: float | None = None,
) -> Outcome:
    """Return whether `expression` covers every routing of the packed placement, any ids, for all sizes.

    Args:
        expression: the bound, in rows.
        tile: rows of a scale tile; None: any tile.
        stated: sizes that are not any, by name; max_num_batched_tokens limits the calls of a cap.
        timeout_s: seconds for each prover; None: `EXPRESSION_TIMEOUT_S`.

    Returns:
        PROVED; REFUTED with a routing of a prover's sizes, which exact arithmetic has confirmed; UNDECIDED (also for an
        expression that is not translated); SKIPPED without the provers, and where the guard lets no row through.
    """
    timeout_s = EXPRESSION_TIMEOUT_S if timeout_s is None else timeout_s
    absent = solvers.missing()
    if absent:
        return skipped(absent)
    try:
        obligation = bound_obligation(expression, tile=tile, stated=stated)
    except NotTranslatedError as error:
        return Outcome(verdict=Verdict.UNDECIDED, cases=0, detail=f"not translated: {error}")
    question = put(obligation, timeout_s=timeout_s)
    assert question is not None  # nothing asked it to stop
    outcome = judge([question])
    if outcome.verdict is Verdict.PROVED and _lets_nothing_through(obligation, timeout_s=timeout_s):
        return Outcome(
            verdict=Verdict.SKIPPED,
            cases=outcome.cases,
            detail="its guard lets no routed row through, for any sizes",
        )
    if outcome.verdict is Verdict.REFUTED and outcome.witness is not None:
        return _confirmed(outcome, expression, outcome.witness["model"], tile)
    return outcome


def _lets_nothing_through(obligation: Obligation, *, timeout_s: float) -> bool:
    """Return whether a prover says that what is given never holds: its goal is then proved by anything."""
    text = replace(obligation, goal=Term("false", BOOL)).smt2()
    return any(ask(text, timeout_s=timeout_s).answer is Answer.UNSAT for ask in solvers.SOLVERS.values())


def _confirmed(
    outcome: Outcome, expression: Expression, model: Mapping[str, str], tile: int | None
) -> Outcome:
    sizes = {name: int(model.get(name, "1")) for name in SIZES}
    if tile is not None:
        sizes["tile"] = tile
    named = ", ".join(f"{name}={size}" for name, size in sizes.items())
    routed = sizes["max_num_batched_tokens"] * sizes["topk"]
    try:
        rows = exact_any_rows(routed, sizes["num_experts"], tile=sizes["tile"])
        bound = expression.evaluate(sizes)
    except ValueError as error:  # provers know no largest size
        text = f"a model that cannot be computed: {named}: {error}"
        return Outcome(verdict=Verdict.UNDECIDED, cases=outcome.cases, detail=text)
    if rows <= bound:
        text = f"a model that is no counterexample: {named} needs {rows} rows of {bound}"
        return Outcome(verdict=Verdict.UNDECIDED, cases=outcome.cases, detail=text)
    detail = f"{named} needs {rows} rows, the bound gives {bound}"
    return replace(outcome, detail=detail, witness=_witness(expression, sizes, bound))


def _witness(expression: Expression, sizes: Mapping[str, int], bound_rows: int) -> Witness | None:
    """Return the worst routing for `sizes`, which replays without a prover; None for more experts than are listed."""
    tokens, topk, experts, tile = (sizes[name] for name in SIZES)
    if experts > MOST_EXPERTS:
        return None
    bound = expression_bound(str(expression))
    return BoundWitness(
        bound=bound,
        relation="overrun",
        ids=bound.ids,
        placement=bound.placement,
        sizing=Sizing(tokens=tokens, topk=topk, num_experts=experts, num_global_experts=experts, tile=tile),
        tokens=tokens,
        tokens_per_expert=worst_tokens_per_expert(tokens, topk, experts, tile=tile),
        bound_rows=bound_rows,
    ).to_json()


def bound_obligation(
    expression: Expression, *, tile: int | None, stated: Mapping[str, int] | None = None
) -> Obligation:
    """Return the obligation of `prove_expression`.

    Raises:
        NotTranslatedError: a divisor that is not known to be positive.
    """
    routed, reach = integers("routed reach")
    experts, any_tile = SIZES["num_experts"], SIZES["tile"]
    translation = _Translation()
    rows = translation.term(expression.root)
    given = [
        *(size >= 1 for size in SIZES.values()),
        eq(routed, SIZES["max_num_batched_tokens"] * SIZES["topk"]),
        is_floor(reach, routed + (any_tile - 1) * experts, any_tile),
        *translation.definitions,
    ]
    if tile is not None:
        given.append(eq(any_tile, tile))
    capped = "max_num_batched_tokens" not in expression.names
    if capped:
        given.append(routed <= rows)
    for name, size in (stated or {}).items():
        call_alone = capped and name == "max_num_batched_tokens"
        given.append(SIZES[name] <= size if call_alone else eq(SIZES[name], size))
    return Obligation(
        claim_id="padding.bound.written",
        name="expression",
        statement=f"For all sizes that are not stated the exact worst case is at most {expression}.",
        given=tuple(given),
        goal=any_tile * minimum(routed, reach) <= rows,
        wrong=(rows < 0,),
    )


def _maximum(left: Term, right: Term) -> Term:
    return left + right - minimum(left, right)


class _Translation:
    """One pass over a tree; quotients get names and definitions."""

    def __init__(self) -> None:
        self.definitions: list[Term] = []

    def term(self, node: Node) -> Term:
        match node:
            case Integer(value):
                return literal(value, INT)
            case Size(name):
                return SIZES[name]
            case Negation(operand):
                return 0 - self.term(operand)
            case Chain(first, steps):
                chained = self.term(first)
                for step in steps:
                    chained = self._apply(step.operator, chained, step.operand)
                return chained
            case Call("round_up", (rounded, multiple)):
                divisor = self._positive(multiple)
                return divisor * self._quotient(is_ceil, self.term(rounded), divisor)
            case Call(function, arguments):
                first_term, *others = [self.term(argument) for argument in arguments]
                return functools.reduce(minimum if function == "min" else _maximum, others, first_term)

    def _apply(self, operator: str, left: Term, operand: Node) -> Term:
        match operator:
            case "+":
                return left + self.term(operand)
            case "-":
                return left - self.term(operand)
            case "*":
                return left * self.term(operand)
        divisor = self._positive(operand)
        quotient = self._quotient(is_floor, left, divisor)
        return quotient if operator == "//" else left - divisor * quotient

    def _positive(self, node: Node) -> Term:
        if value_range(node)[0] < 1:
            raise NotTranslatedError(f"a divisor that is not known to be positive: {Expression(node)}")
        return self.term(node)

    def _quotient(self, definition: Definition, value: Term, divisor: Term) -> Term:
        quotient = Term(f"quotient_{len(self.definitions)}", INT)
        self.definitions.append(definition(quotient, value, divisor))
        return quotient
