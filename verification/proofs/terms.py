"""Terms of the SMT-LIB 2 language, written in infix Python and printed as text.

Only what the obligations need: integers, bit vectors, booleans, `+ - * // %`, comparisons, connectives. A term is a
plain tree, so tests evaluate it on numbers and compare it with the code that it speaks about. No solver is imported
here: provers read the printed text (`solvers.py`), never a formula built through their own interface.

`//` and `%` are SMT-LIB `div` and `mod` on integers (Euclidean: equal to Python's for a positive divisor) and signed
`bvsdiv` and `bvsrem` on bit vectors (C's division of signed integers). Python ints beside a term become literals of
its sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

INT = "Int"
BOOL = "Bool"


def bit_vector(width: int) -> str:
    """Return the sort of bit vectors of `width` bits."""
    return f"(_ BitVec {width})"


_INTEGER_OPS = {"+": "+", "-": "-", "*": "*", "//": "div", "%": "mod", "<": "<", "<=": "<="}
_VECTOR_OPS = {
    "+": "bvadd",
    "-": "bvsub",
    "*": "bvmul",
    "//": "bvsdiv",
    "%": "bvsrem",
    "<": "bvslt",
    "<=": "bvsle",
}


@dataclass(frozen=True, slots=True)
class Term:
    """One node: an operator with arguments, or a leaf (a constant's name or a literal) without."""

    head: str
    sort: str
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"({self.head} {' '.join(map(str, self.args))})" if self.args else self.head

    def __bool__(self) -> bool:
        raise TypeError(
            "a Term has no truth value: join terms with conj, disj or implies, and write eq(x, y)"
        )

    def __add__(self, other: Term | int) -> Term:
        return _binary("+", self, other)

    def __radd__(self, other: int) -> Term:
        return _binary("+", other, self)

    def __sub__(self, other: Term | int) -> Term:
        return _binary("-", self, other)

    def __rsub__(self, other: int) -> Term:
        return _binary("-", other, self)

    def __mul__(self, other: Term | int) -> Term:
        return _binary("*", self, other)

    def __rmul__(self, other: int) -> Term:
        return _binary("*", other, self)

    def __floordiv__(self, other: Term | int) -> Term:
        return _binary("//", self, other)

    def __mod__(self, other: Term | int) -> Term:
        return _binary("%", self, other)

    def __lt__(self, other: Term | int) -> Term:
        return _binary("<", self, other)

    def __le__(self, other: Term | int) -> Term:
        return _binary("<=", self, other)

    def __gt__(self, other: Term | int) -> Term:
        return _binary("<", other, self)

    def __ge__(self, other: Term | int) -> Term:
        return _binary("<=", other, self)

    def constants(self) -> Iterator[Term]:
        """Yield the named constants below this node, in order of appearance, with repetitions."""
        if not self.args and self.head[0].isalpha() and self.head not in ("true", "false"):
            yield self
        for arg in self.args:
            yield from arg.constants()


def integers(names: str) -> list[Term]:
    """Return one unbounded integer constant for each blank-separated name."""
    return [Term(name, INT) for name in names.split()]


def vectors(names: str, *, width: int) -> list[Term]:
    """Return one bit-vector constant of `width` bits for each blank-separated name."""
    return [Term(name, bit_vector(width)) for name in names.split()]


def literal(value: int, sort: str) -> Term:
    """Return `value` as a literal of `sort`."""
    if sort == INT:
        return Term(str(value), INT) if value >= 0 else Term("-", INT, (Term(str(-value), INT),))
    width = int(sort.split()[-1].rstrip(")"))
    return Term(f"(_ bv{value % 2**width} {width})", sort)


def _binary(symbol: str, left: Term | int, right: Term | int) -> Term:
    sort = left.sort if isinstance(left, Term) else right.sort if isinstance(right, Term) else INT
    operands = tuple(x if isinstance(x, Term) else literal(x, sort) for x in (left, right))
    if any(x.sort != sort for x in operands):
        raise TypeError(f"{symbol} joins terms of sorts {operands[0].sort} and {operands[1].sort}")
    head = (_INTEGER_OPS if sort == INT else _VECTOR_OPS)[symbol]
    return Term(head, BOOL if symbol in ("<", "<=") else sort, operands)


def eq(left: Term, right: Term | int) -> Term:
    """Return the equation of two terms."""
    return Term("=", BOOL, (left, right if isinstance(right, Term) else literal(right, left.sort)))


def neg(term: Term) -> Term:
    """Return the negation of a boolean term."""
    return Term("not", BOOL, (term,))


def conj(*terms: Term) -> Term:
    """Return the conjunction of boolean terms."""
    return terms[0] if len(terms) == 1 else Term("and", BOOL, terms)


def disj(*terms: Term) -> Term:
    """Return the disjunction of boolean terms."""
    return terms[0] if len(terms) == 1 else Term("or", BOOL, terms)


def implies(left: Term, right: Term) -> Term:
    """Return the implication of two boolean terms."""
    return Term("=>", BOOL, (left, right))


def minimum(left: Term, right: Term) -> Term:
    """Return the smaller of two terms."""
    return Term("ite", left.sort, (left <= right, left, right))


def widen(term: Term, *, by: int) -> Term:
    """Return a bit vector with `by` more bits and the same signed value."""
    width = int(term.sort.split()[-1].rstrip(")"))
    return Term(f"(_ sign_extend {by})", bit_vector(width + by), (term,))


def within(low: Term | int, term: Term, end: Term | int) -> Term:
    """Return low <= term < end."""
    return conj(term >= low, term < end)


def is_ceil(quotient: Term, value: Term, divisor: Term | int) -> Term:
    """Return "quotient = ceil(value / divisor)" without a division: divisor*(quotient-1) < value <= divisor*quotient.

    With a symbolic divisor provers decide this form in milliseconds and give up on `div`.
    """
    return conj((quotient - 1) * divisor < value, value <= quotient * divisor)


def is_floor(quotient: Term, value: Term, divisor: Term | int) -> Term:
    """Return "quotient = floor(value / divisor)" without a division."""
    return conj(quotient * divisor <= value, value < (quotient + 1) * divisor)
