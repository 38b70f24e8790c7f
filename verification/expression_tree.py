"""The tree of a written bound: exact evaluation on integers, and the text that parses to the same tree.

`verification.expressions` has the grammar and the parser. Every value, also every intermediate one, stays within
10^18 of zero: a result beyond it is an error, so evaluation takes bounded time. `//` and `%` round down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from nvfp4_moe.reference.padding import LARGEST_SIZE, Sizing, round_up
from nvfp4_moe.verification.bad_input import BadInput

NAMES = ("max_num_batched_tokens", "topk", "num_experts", "tile")
"""The sizes that an expression may name; `num_experts` is the count on this rank."""

SUM_OPERATORS = ("+", "-")
PRODUCT_OPERATORS = ("*", "//", "%")


class ExpressionError(BadInput):
    """A text that is no expression, or one without a value for some sizes; `column` counts from 1."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(f"column {column}: {message}")
        self.column = column


# --- the tree: columns are for error texts, two trees that differ in them alone are equal ------------------


@dataclass(frozen=True, slots=True)
class Integer:
    value: int
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Size:
    """One of `NAMES`."""

    name: str
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    operand: Node
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Step:
    """An operator and its right operand."""

    operator: str
    operand: Node
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one precedence applied from left to right: `a - b + c` is one node, however long it is."""

    first: Node
    steps: tuple[Step, ...]

    @property
    def is_sum(self) -> bool:
        return self.steps[0].operator in SUM_OPERATORS


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Node, ...]
    column: int = field(default=1, compare=False)


Node = Integer | Size | Negation | Chain | Call


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `str()` gives a text that parses to an equal tree and is no longer than the one parsed."""

    root: Node

    def __str__(self) -> str:
        return _unparse(self.root)

    @property
    def names(self) -> frozenset[str]:
        """Return the sizes that the expression names."""
        return frozenset(node.name for node in _walk(self.root) if isinstance(node, Size))

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return the exact value for `sizes`, which maps every one of `NAMES` to an int.

        Raises:
            ExpressionError: division or rounding by zero (or below), or a result beyond 10^18; the text names the
                sizes.
        """
        return _evaluate(self.root, sizes)

    def rows(self, sizing: Sizing) -> int:
        """Return the value for the sizes of `sizing`, as the rows of a buffer."""
        return self.evaluate(
            {
                "max_num_batched_tokens": sizing.tokens,
                "topk": sizing.topk,
                "num_experts": sizing.num_experts,
                "tile": sizing.tile,
            }
        )


def _walk(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Negation(operand):
            yield from _walk(operand)
        case Chain(first, steps):
            yield from _walk(first)
            for step in steps:
                yield from _walk(step.operand)
        case Call(_, arguments):
            for argument in arguments:
                yield from _walk(argument)


def _unparse(node: Node) -> str:
    match node:
        case Integer(value):
            return str(value)
        case Size(name):
            return name
        case Negation(operand):
            text = _unparse(operand)
            return f"-({text})" if isinstance(operand, Chain) else f"-{text}"
        case Call(function, arguments):
            return f"{function}({','.join(map(_unparse, arguments))})"
        case Chain(first, steps):
            parts = [_operand(node, first)]
            for step in steps:
                parts += [step.operator, _operand(node, step.operand)]
            return "".join(parts)


def _operand(parent: Chain, node: Node) -> str:
    """Return the text of an operand: a chain needs parentheses unless it is a product inside a sum."""
    text = _unparse(node)
    bare = not isinstance(node, Chain) or (parent.is_sum and not node.is_sum)
    return text if bare else f"({text})"


# --- evaluation --------------------------------------------------------------------------------------------


def _evaluate(node: Node, sizes: Mapping[str, int]) -> int:
    match node:
        case Integer(value):
            return value
        case Size(name):
            return sizes[name]
        case Negation(operand):
            return -_evaluate(operand, sizes)
        case Chain(first, steps):
            value = _evaluate(first, sizes)
            for step in steps:
                value = _apply(step, value, _evaluate(step.operand, sizes), sizes)
            return value
        case Call(function, arguments):
            values = [_evaluate(argument, sizes) for argument in arguments]
            if function == "min":
                return min(values)
            if function == "max":
                return max(values)
            if values[1] <= 0:
                _no_value(node.column, f"round_up to a multiple of {values[1]}", sizes)
            return _limited(round_up(values[0], values[1]), node.column, sizes)


def _apply(step: Step, left: int, right: int, sizes: Mapping[str, int]) -> int:
    match step.operator:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "*":
            value = left * right
        case operator:
            if right == 0:
                _no_value(step.column, "division by zero", sizes)
            value = left // right if operator == "//" else left % right
    return _limited(value, step.column, sizes)


def _limited(value: int, column: int, sizes: Mapping[str, int]) -> int:
    if abs(value) > LARGEST_SIZE:
        _no_value(column, "a result beyond 10^18", sizes)
    return value


def _no_value(column: int, what: str, sizes: Mapping[str, int]) -> NoReturn:
    raise ExpressionError(column, f"{what} with " + ", ".join(f"{name}={sizes[name]}" for name in NAMES))
