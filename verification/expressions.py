"""Written bounds: a small language for the rows of a block-scale buffer, parsed into a tree and evaluated exactly.

Grammar (spaces and tabs are free)::

    sum     = product (("+" | "-") product)*
    product = factor (("*" | "//" | "%") factor)*
    factor  = "-" factor | INTEGER | NAME | "(" sum ")" | FUNCTION "(" sum ("," sum)* ")"

`NAME` is one of `NAMES`; `FUNCTION` is `min` or `max` with at least two arguments, or `round_up(x, y)`, the smallest
multiple of y that is at least x. Operators of one line associate to the left; `//` and `%` round down, as in Python.
There is no `/`, no `**`, no fraction. Text has at most `MOST_CHARACTERS` characters, and parentheses, calls and
unary minus nest at most `MOST_DEPTH` deep. Integers, also every intermediate result, stay within 10^18 of zero, so
evaluation takes bounded time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from nvfp4_moe.reference.padding import FORMULAS, LARGEST_SIZE, Formula, Sizing
from nvfp4_moe.verification.expression_tree import (
    NAMES,
    PRODUCT_OPERATORS,
    SUM_OPERATORS,
    Call,
    Chain,
    Expression,
    ExpressionError,
    Integer,
    Negation,
    Node,
    Size,
    Step,
)

__all__ = [
    "MOST_CHARACTERS",
    "MOST_DEPTH",
    "NAMES",
    "Bound",
    "Expression",
    "ExpressionError",
    "expression_bound",
    "formula_bound",
    "parse",
    "parse_bound",
]

MOST_CHARACTERS = 1_000
MOST_DEPTH = 50

_FUNCTIONS = ("min", "max", "round_up")
_LEGAL = f"integers, {', '.join(NAMES)}, + - * // %, parentheses, min(x, y), max(x, y), round_up(x, y)"
_TOKEN = re.compile(r"[0-9]+|[A-Za-z_][A-Za-z_0-9]*|//|\*\*|[-+*/%(),]")
_END = ""
_QUOTED = 40  # characters of a wrong token that an error shows


# --- parsing -----------------------------------------------------------------------------------------------


def parse(text: str) -> Expression:
    """Return the expression that `text` writes.

    Raises:
        ExpressionError: not in the language, too long, nested too deep, or an integer above 10^18; the text has the
            column, what stands there and what is legal.
    """
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(
            MOST_CHARACTERS + 1,
            f"an expression has at most {MOST_CHARACTERS:,} characters, got {len(text):,}",
        )
    return _Parser(text).parse()


def _tokens(text: str) -> list[tuple[str, int]]:
    """Return (token, column) pairs, behind the last one an end token at the column after the text."""
    tokens = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            raise ExpressionError(at + 1, f"{text[at]!r} is not legal; legal are {_LEGAL}")
        tokens.append((found.group(), at + 1))
        at = found.end()
    return [*tokens, (_END, len(text) + 1)]


class _Parser:
    """Recursive descent over the grammar of the module, one method a rule."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0

    def parse(self) -> Expression:
        root = self.sum()
        if self.token != _END:
            self.refuse("an operator or the end")
        return Expression(root)

    @property
    def token(self) -> str:
        return self.tokens[self.at][0]

    @property
    def column(self) -> int:
        return self.tokens[self.at][1]

    def take(self) -> str:
        token = self.token
        self.at += 1
        return token

    def refuse(self, legal: str) -> NoReturn:
        """Raise for the token in hand; `/` and `**` are named, since they are what people try."""
        if self.token == "/":
            raise ExpressionError(
                self.column, f"'/' is not legal, write // (it rounds down); legal are {_LEGAL}"
            )
        if self.token == "**":
            raise ExpressionError(self.column, f"'**' is not legal; legal are {_LEGAL}")
        given = f"got {_cut(self.token)!r}" if self.token != _END else "the text ends"
        raise ExpressionError(self.column, f"expected {legal}, {given}")

    def deeper(self, rule: Callable[[], Node], column: int) -> Node:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise ExpressionError(column, f"nested deeper than {MOST_DEPTH}")
        node = rule()
        self.depth -= 1
        return node

    def sum(self) -> Node:
        return self.chain(self.product, SUM_OPERATORS)

    def product(self) -> Node:
        return self.chain(self.factor, PRODUCT_OPERATORS)

    def chain(self, operand: Callable[[], Node], operators: tuple[str, ...]) -> Node:
        first = operand()
        steps = []
        while self.token in operators:
            column = self.column
            operator = self.take()
            steps.append(Step(operator, operand(), column))
        return Chain(first, tuple(steps)) if steps else first

    def factor(self) -> Node:
        column = self.column
        if self.token == "-":
            self.take()
            return Negation(self.deeper(self.factor, column), column)
        if self.token == "(":
            self.take()
            node = self.deeper(self.sum, column)
            self.expect(")")
            return node
        if self.token[:1].isdigit():
            return self.integer()
        if self.token in NAMES:
            return Size(self.take(), column)
        if self.token in _FUNCTIONS:
            return self.call()
        if self.token[:1].isalpha() or self.token.startswith("_"):
            self.unknown_name()
        self.refuse("an integer, a name, a function, '-' or '('")

    def integer(self) -> Integer:
        column = self.column
        value = int(self.take())
        if value > LARGEST_SIZE:
            raise ExpressionError(column, f"integers are at most 10^18, got {_cut(str(value))}")
        return Integer(value, column)

    def call(self) -> Call:
        column = self.column
        function = self.take()
        self.expect("(")
        arguments = [self.deeper(self.sum, column)]
        while self.token == ",":
            self.take()
            arguments.append(self.deeper(self.sum, column))
        self.expect(")")
        if function == "round_up" and len(arguments) != 2:
            raise ExpressionError(column, f"round_up(x, y) takes 2 arguments, got {len(arguments)}")
        if len(arguments) < 2:
            raise ExpressionError(column, f"{function}() takes at least 2 arguments, got {len(arguments)}")
        return Call(function, tuple(arguments), column)

    def expect(self, token: str) -> None:
        if self.token != token:
            self.refuse(repr(token) if token == "(" else f"an operator or {token!r}")
        self.take()

    def unknown_name(self) -> NoReturn:
        known = "a formula's name must stand alone" if self.token in FORMULAS else "unknown name"
        raise ExpressionError(self.column, f"{known}: {_cut(self.token)!r}; legal are {_LEGAL}")


def _cut(token: str) -> str:
    return token if len(token) <= _QUOTED else f"{token[:_QUOTED]}..."


# --- bounds: a formula of the registry, or an expression ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A rule for the rows of a block-scale buffer, with the guard, ids and placement that it is meant for."""

    name: str
    """The formula's registry name, or the expression as it was written."""
    rule: str
    rows: Callable[[Sizing], int]
    ids: str = "any"
    placement: str = "packed"
    capped: bool = False
    """True: the rows do not depend on max_num_batched_tokens, and the guard is M * topk <= rows."""
    expression: Expression | None = None

    def most_tokens(self, sizing: Sizing, rows: int) -> int:
        """Return the most tokens M that the guard lets through, -1 if not even a call of none."""
        return max(rows // sizing.topk, -1) if self.capped else sizing.tokens


def formula_bound(formula: Formula) -> Bound:
    """Return a formula of the registry as a bound."""
    return Bound(
        name=formula.name,
        rule=formula.rule,
        rows=formula.rows,
        ids=formula.ids,
        placement=formula.placement,
        capped=formula.capped,
    )


def expression_bound(text: str) -> Bound:
    """Return the expression that `text` writes as a bound on packed experts with any ids.

    Raises:
        ExpressionError: as `parse`.
    """
    expression = parse(text)
    return Bound(
        name=text.strip(),
        rule=text.strip(),
        rows=expression.rows,
        capped="max_num_batched_tokens" not in expression.names,
        expression=expression,
    )


def parse_bound(text: str) -> Bound:
    """Return the bound that `text` names (a formula of the registry) or writes (an expression).

    Raises:
        ExpressionError: neither; for a lone unknown word the text lists the formulas.
    """
    word = text.strip()
    if word in FORMULAS:
        return formula_bound(FORMULAS[word])
    try:
        return expression_bound(text)
    except ExpressionError as error:
        if word.isidentifier():
            raise ExpressionError(
                error.column,
                f"{word!r} is neither a formula ({', '.join(FORMULAS)}) nor a size ({', '.join(NAMES)})",
            ) from None
        raise
