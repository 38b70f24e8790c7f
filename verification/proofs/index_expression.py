"""An index expression of a kernel with its declared ranges, and the obligation that no part of it leaves its type.

The expression is the source's own text, so that the statement and the code are one string. A range says which values a
name takes where the call passed the checks at the door; its limits are numbers or expressions of names before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nvfp4_moe.verification.proofs.c_arithmetic import (
    both,
    exact,
    integer_conditions,
    integer_term,
    vector_conditions,
    vector_term,
)
from nvfp4_moe.verification.proofs.c_expression import INT32, INT64, CType, Node, convert, leaf, parse
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.terms import (
    BOOL,
    INT,
    Term,
    bit_vector,
    conj,
    disj,
    eq,
    implies,
    literal,
    neg,
)

Limit = int | str
"""A number, or an expression of the names before."""


@dataclass(frozen=True, slots=True)
class Range:
    """The values of one name, both ends included, and its type."""

    type: CType
    least: Limit
    most: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexExpression:
    """One expression.

    Raises (from every method):
        CSyntaxError: `text`, a limit or a relation is outside the language.
    """

    name: str
    """Unique; lower-case words with underscores."""
    text: str
    """As in the source."""
    ranges: Mapping[str, Range]
    given: tuple[str, ...] = ()
    """Relations between names, "left <= right", that hold wherever the expression is computed."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """Values in place of the ranges' ends where relations forbid those, for the control of `obligation`."""
    assigned: tuple[tuple[str, str], ...] = ()
    """Names of the text that are expressions themselves: (name, expression), as `const auto` would have them."""
    file: str = ""
    """Source under the folder `cuda`; empty for an expression of no source."""
    written: str = ""
    """How the source has it where that is outside the language; `text` is then at least as large at every step."""
    below_zero: bool = False
    """The value may be negative: the code compares it before it is an index."""
    limit: int | None = None
    """What the value may not exceed beside its type: a dimension of a grid."""

    def tree(self, text: str | None = None) -> Node:
        """Return the typed tree of the expression, or of another text over the same names."""
        names = {name: leaf(name, r.type) for name, r in self.ranges.items()}
        for name, value in self.assigned:
            names[name] = parse(value, names)
        return parse(self.text if text is None else text, names)

    def limits(self, name: str, values: Mapping[str, int]) -> tuple[int, int]:
        """Return both ends of a range, the names before it having these values."""
        least, most = (
            exact(self._wide(x), values) for x in (self.ranges[name].least, self.ranges[name].most)
        )
        return least, most

    def corner(self) -> dict[str, int]:
        """Return every name at the end of its range, or as `largest` says."""
        values: dict[str, int] = {}
        for name in self.ranges:
            values[name] = self.largest[name] if name in self.largest else self.limits(name, values)[1]
        return values

    def allows(self, values: Mapping[str, int]) -> bool:
        """Return whether values lie in the ranges and keep the relations."""
        for name in self.ranges:
            least, most = self.limits(name, values)
            if not least <= values[name] <= most:
                return False
        return all(exact(self._wide(x), values) <= exact(self._wide(y), values) for x, y in self._relations())

    def domain(self, *, vectors: bool = False) -> list[Term]:
        """Return ranges and relations as terms; over vectors, 64 bits wide.

        Over vectors a product in a relation may wrap, so "x * y <= L" becomes what follows from it without a product:
        for the a with 2^a <= x < 2^(a+1), y <= L / 2^a. That allows a little more, which makes a proof harder, not false.
        """
        term = vector_term if vectors else integer_term
        said = []
        for name, named in self.ranges.items():
            value = term(self._wide(name))
            said += [value >= term(self._wide(named.least)), value <= term(self._wide(named.most))]
        for x, y in self._relations():
            left, right = self._wide(x), self._wide(y)
            far = left.op == "*" and right.op == "literal" and right.value > INT32.most
            said.append(_by_magnitude(left, right.value) if vectors and far else term(left) <= term(right))
        return said

    def _relations(self) -> list[tuple[str, str]]:
        return [(x, y) for x, _, y in (relation.partition("<=") for relation in self.given)]

    def _wide(self, limit: Limit) -> Node:
        names = {name: convert(leaf(name, r.type), INT64) for name, r in self.ranges.items()}
        return convert(parse(str(limit), names), INT64)


def obligation(
    expression: IndexExpression, *, claim_id: str, vectors: bool = True, level: int = 1
) -> Obligation:
    """Return the obligation that every part of an expression fits its type and that its value is at least 0.

    Args:
        expression: what is proved, over its ranges.
        claim_id: the claim that it is part of.
        vectors: over words of the types' widths (else over unbounded integers, for relations that are hard on words).
        level: 1, or 2 for what takes a prover more than a moment.
    """
    tree = expression.tree()
    value = vector_term(tree) if vectors else integer_term(tree)
    conditions = (vector_conditions if vectors else integer_conditions)(tree)
    largest = exact(tree, expression.corner())
    sort = bit_vector(tree.type.bits) if vectors else INT
    index = [value >= 0] if tree.type.signed and not expression.below_zero else []
    if expression.limit is not None:
        index.append(neg(_above(value, expression.limit, unsigned=vectors and not tree.type.signed)))
    there = [eq(x, y) for x, y in _at(expression, vectors=vectors)]
    where = f"{expression.file}: " if expression.file else ""
    return Obligation(
        claim_id=claim_id,
        name=expression.name,
        statement=f"{where}no part of `{expression.text}` leaves its type, up to the value {largest:,}.",
        given=tuple(expression.domain(vectors=vectors)),
        goal=both([*conditions, *index]),
        wrong=(implies(both(there), Term("distinct", BOOL, (value, literal(largest, sort)))),),
        logic="QF_BV" if vectors else "QF_NIA",
        level=level,
    )


def _at(expression: IndexExpression, *, vectors: bool) -> list[tuple[Term, Term]]:
    """Return each name with its value of the corner."""
    pairs = []
    for name, value in expression.corner().items():
        ctype = expression.ranges[name].type
        term = (vector_term if vectors else integer_term)(leaf(name, ctype))
        pairs.append((term, literal(value, term.sort)))
    return pairs


def _above(value: Term, limit: int, *, unsigned: bool) -> Term:
    if not unsigned:
        return value > limit
    return Term("bvugt", BOOL, (value, literal(limit, value.sort)))


def _by_magnitude(product: Node, limit: int) -> Term:
    """Return what x * y <= limit says without the product."""
    x, y = (vector_term(arg) for arg in product.args)
    cases = [conj(x < (2 << a), y <= (limit >> a)) for a in range(limit.bit_length())]
    return disj(*cases)
