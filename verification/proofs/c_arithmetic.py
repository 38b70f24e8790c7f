"""What the machine computes for a tree of `c_expression`, and what has to hold so that it computes the right number.

`exact` is the number that the expression means, `wrapped` the one that words of the stated widths give. They agree
where every node fits its type (`faults` names the first that does not). The same conditions for all values at once are
terms for the provers: over unbounded integers (`integer_conditions`), or over vectors of exactly the words' widths, by
the overflow predicates of SMT-LIB 2.7 (`vector_conditions`).

Division is that of C for a dividend of at least 0, which is a condition too: an index is never negative.
"""

from __future__ import annotations

from collections.abc import Mapping

from nvfp4_moe.verification.proofs.c_expression import CType, Node
from nvfp4_moe.verification.proofs.terms import (
    BOOL,
    INT,
    Term,
    bit_vector,
    conj,
    eq,
    minimum,
    neg,
)
from nvfp4_moe.verification.proofs.terms import literal as literal_term

_UNSIGNED = {"/": "bvudiv", "%": "bvurem"}
_SIGNED_OVERFLOW = {"+": "bvsaddo", "-": "bvssubo", "*": "bvsmulo"}
_UNSIGNED_OVERFLOW = {"+": "bvuaddo", "-": "bvusubo", "*": "bvumulo"}
_VECTOR = {"+": "bvadd", "-": "bvsub", "*": "bvmul", **_UNSIGNED}


def exact(node: Node, values: Mapping[str, int]) -> int:
    """Return the number that the expression means, for values of its names.

    Raises:
        ZeroDivisionError: a divisor is zero.
    """
    return _value(node, values, wrap=False)


def wrapped(node: Node, values: Mapping[str, int]) -> int:
    """Return the number that two's complement words of the nodes' types give."""
    return _value(node, values, wrap=True)


def faults(node: Node, values: Mapping[str, int]) -> Node | None:
    """Return the first node, leaves first, whose exact value does not fit its type; None: all fit."""
    for part in node.walk():
        value = exact(part, values)
        if not part.type.least <= value <= part.type.most:
            return part
        if part.op in ("/", "%") and exact(part.args[0], values) < 0:
            return part
    return None


def _value(node: Node, values: Mapping[str, int], *, wrap: bool) -> int:
    if node.op == "literal":
        return node.value
    if node.op == "name":
        return values[node.name]
    operands = [_value(arg, values, wrap=wrap) for arg in node.args]
    value = operands[0] if node.op == "convert" else _applied(node.op, *operands)
    return _in_words(value, node.type) if wrap else value


def _applied(op: str, left: int, right: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "min" | "max":
            return min(left, right) if op == "min" else max(left, right)
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - quotient * right


def _in_words(value: int, ctype: CType) -> int:
    low = value % (1 << ctype.bits)
    return low - (1 << ctype.bits) if low > ctype.most else low


# --- for all values -----------------------------------------------------------------------------------------


def integer_term(node: Node) -> Term:
    """Return the exact value over unbounded integers, names as they are but for their dots."""
    match node.op:
        case "literal":
            return literal_term(node.value, INT)
        case "name":
            return Term(symbol(node.name), INT)
        case "convert":
            return integer_term(node.args[0])
    left, right = (integer_term(arg) for arg in node.args)
    match node.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left // right
        case "%":
            return left % right
    return minimum(left, right) if node.op == "min" else _maximum(left, right)


def integer_conditions(node: Node) -> list[Term]:
    """Return what has to hold for every node to fit its type."""
    conditions = []
    for part in _parts(node):
        value = integer_term(part)
        conditions += [value >= part.type.least, value <= part.type.most]
        if part.op in ("/", "%"):
            conditions += [integer_term(part.args[0]) >= 0, integer_term(part.args[1]) > 0]
    return list(dict.fromkeys(conditions))


def vector_term(node: Node) -> Term:
    """Return what the words compute: a bit vector as wide as the node's type."""
    sort = bit_vector(node.type.bits)
    match node.op:
        case "literal":
            return literal_term(node.value, sort)
        case "name":
            return Term(symbol(node.name), sort)
        case "convert":
            return _converted(vector_term(node.args[0]), node.args[0].type, node.type)
    left, right = (vector_term(arg) for arg in node.args)
    if node.op in ("min", "max"):
        smaller = Term("bvsle" if node.type.signed else "bvule", BOOL, (left, right))
        chosen = (left, right) if node.op == "min" else (right, left)
        return Term("ite", sort, (smaller, *chosen))
    return Term(_VECTOR[node.op], sort, (left, right))


def vector_conditions(node: Node) -> list[Term]:
    """Return what has to hold for every node to fit its type, by the provers' overflow predicates."""
    conditions = []
    for part in _parts(node):
        arguments = tuple(vector_term(arg) for arg in part.args)
        if part.op == "convert":
            conditions += _survives(arguments[0], part.args[0].type, part.type)
        elif part.op in ("/", "%"):
            conditions += [not_negative(x, arg.type) for x, arg in zip(arguments, part.args, strict=True)]
            conditions += [neg(eq(arguments[1], 0))]
        elif part.op not in ("min", "max"):
            predicate = (_SIGNED_OVERFLOW if part.type.signed else _UNSIGNED_OVERFLOW)[part.op]
            conditions.append(neg(Term(predicate, BOOL, arguments)))
    return list(dict.fromkeys(c for c in conditions if c.head != "true"))


def not_negative(term: Term, ctype: CType) -> Term:
    """Return that a word, read in its type, is at least 0."""
    return term >= 0 if ctype.signed else Term("true", BOOL)


def symbol(name: str) -> str:
    """Return the provers' name of a variable."""
    return name.replace(".", "_")


def both(terms: list[Term]) -> Term:
    """Return the conjunction of any number of terms."""
    return conj(*terms) if terms else Term("true", BOOL)


def _parts(node: Node) -> list[Node]:
    return [part for part in node.walk() if part.args]


def _maximum(left: Term, right: Term) -> Term:
    return Term("ite", left.sort, (left <= right, right, left))


def _converted(term: Term, source: CType, to: CType) -> Term:
    if to.bits > source.bits:
        head = f"(_ {'sign' if source.signed else 'zero'}_extend {to.bits - source.bits})"
        return Term(head, bit_vector(to.bits), (term,))
    if to.bits < source.bits:
        return Term(f"(_ extract {to.bits - 1} 0)", bit_vector(to.bits), (term,))
    return term


def _survives(term: Term, source: CType, to: CType) -> list[Term]:
    """Return that a conversion keeps the number."""
    there = _converted(term, source, to)
    kept = [eq(_converted(there, to, source), term)] if to.bits < source.bits else []
    if source.signed and not to.signed:
        kept.append(not_negative(term, source))
    elif to.signed and not source.signed and to.bits <= source.bits:
        kept.append(not_negative(there, to))
    return kept
