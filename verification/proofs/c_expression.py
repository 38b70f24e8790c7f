"""Integer expressions of C++, read as the compiler reads them: each node has a type, conversions are nodes of their own.

What the kernels' index expressions need: names (`row`, `call.k`, `blockIdx.x`), literals, `+ - * / %`, unary minus,
parentheses, `static_cast<T>(x)`, `int64_t{x}`, calls of the functions in `C_FUNCTIONS` (written out in place) and of `min` and
`max`. Types are int32_t, int64_t, uint32_t and size_t; `int` is int32_t. Two operands meet in the wider type, an
unsigned one where both are equally wide, as the usual arithmetic conversions have it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CType:
    """An integer type of C++."""

    name: str
    bits: int
    signed: bool

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        return (1 << (self.bits - self.signed)) - 1


INT32 = CType("int32_t", 32, True)
INT64 = CType("int64_t", 64, True)
UINT32 = CType("uint32_t", 32, False)
SIZE = CType("size_t", 64, False)

TYPES = {t.name: t for t in (INT32, INT64, UINT32, SIZE)} | {"int": INT32}


@dataclass(frozen=True, slots=True)
class Node:
    """One node: `op` is an operator, "name", "literal", "min", "max" or "convert" (to `type`)."""

    op: str
    type: CType
    args: tuple[Node, ...] = ()
    name: str = ""
    value: int = 0

    def walk(self) -> Iterator[Node]:
        """Yield this node and those below it, each once, leaves first."""
        yield from dict.fromkeys(self._all())

    def _all(self) -> Iterator[Node]:
        for arg in self.args:
            yield from arg._all()
        yield self


class CSyntaxError(ValueError):
    """An expression that is outside the language; the text says where."""


STRUCT = "Owner"
"""The structure that functions of `C_FUNCTIONS` take; its members are names with a dot."""


@dataclass(frozen=True, slots=True)
class CFunction:
    """A function of the kernels' headers that is written out where it is called."""

    file: str
    """Where it stands, under the folder `include/nvfp4_moe`."""
    parameters: tuple[tuple[str, str], ...]
    """(type, name); a type that is no `TYPES` is a template's: that of the argument; a `STRUCT` is taken by name."""
    result: str
    body: str
    """The returned expression, as written."""
    before: tuple[tuple[str, str, str], ...] = ()
    """Constants ahead of it: (type, name, expression)."""


C_FUNCTIONS: Mapping[str, CFunction] = {
    "ceil_div": CFunction(
        "common.h",
        (("int64_t", "value"), ("int64_t", "divisor")),
        "int64_t",
        "(value + divisor - 1) / divisor",
    ),
    "round_up": CFunction(
        "common.h",
        (("int64_t", "value"), ("int64_t", "multiple")),
        "int64_t",
        "ceil_div(value, multiple) * multiple",
    ),
    "scale_words": CFunction(
        "layouts.h", (("int64_t", "k"),), "int64_t", "ceil_div(k, kBlockSize * kTileBlocks)"
    ),
    "row_byte_128x4": CFunction(
        "layouts.h",
        (("Row", "row"), ("Words", "words")),
        "int64_t",
        "int64_t{row - in_tile} * int64_t{words * kTileBlocks} + "
        "int64_t{(in_tile % kTileLanes * (kTileRows / kTileLanes) + in_tile / kTileLanes) * kTileBlocks}",
        before=(("Row", "in_tile", "row % kTileRows"),),
    ),
    "block_byte_128x4": CFunction(
        "layouts.h",
        (("Block", "block"),),
        "Block",
        "block / kTileBlocks * (kTileRows * kTileBlocks) + block % kTileBlocks",
    ),
    "region_byte": CFunction(
        "quantize.h",
        (("Owner", "owner"), ("int64_t", "words")),
        "int64_t",
        "owner.scale_row * (words * kTileBlocks)",
    ),
    "row_scale_byte": CFunction(
        "quantize.h",
        (("Owner", "owner"), ("int32_t", "row"), ("int64_t", "words")),
        "int64_t",
        "region_byte(owner, words) + row_byte_128x4(row - owner.first_row, words)",
    ),
    "swizzled_128x4": CFunction(
        "layouts.h",
        (("int64_t", "row"), ("int64_t", "block"), ("int64_t", "words")),
        "int64_t",
        "row_byte_128x4(row, words) + block_byte_128x4(block)",
    ),
    "swizzled_8x4": CFunction(
        "layouts.h",
        (("int64_t", "row"), ("int64_t", "block"), ("int64_t", "words")),
        "int64_t",
        "(tile * kSmallTileRows + row % kSmallTileRows) * kTileBlocks + block % kTileBlocks",
        before=(("int64_t", "tile", "row / kSmallTileRows * words + block / kTileBlocks"),),
    ),
}

C_CONSTANTS: Mapping[str, int] = {
    "kBlockSize": 16,
    "kTileRows": 128,
    "kTileBlocks": 4,
    "kTileLanes": 32,
    "kSmallTileRows": 8,
    "kSegmentGrain": 32,
    "kPieceBytes": 16,
    "kWarp": 32,
    "kAtOnce": 8,
    "kThreads": 256,
    "kMostThreads": 256,
}
"""Constants of the sources, all `int`."""

_FOLDED: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}
"""What is computed at once on literals, none of which is negative."""

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*(?:\.\w+)*)|(.))")


def parse(text: str, names: Mapping[str, Node]) -> Node:
    """Return the tree of `text`.

    Args:
        text: an expression of the language above.
        names: what each name stands for: a leaf of `leaf`, or a tree.

    Raises:
        CSyntaxError: anything else than the language, a name that is not given.
    """
    return _Parser(text, names).whole()


def leaf(name: str, ctype: CType) -> Node:
    """Return the tree of a variable."""
    return Node("name", ctype, name=name)


def literal(value: int) -> Node:
    """Return the tree of a decimal literal: int where it fits, else int64_t."""
    return Node("literal", INT32 if value <= INT32.most else INT64, value=value)


def convert(node: Node, to: CType) -> Node:
    """Return `node` in another type; a literal changes by itself."""
    if node.type == to:
        return node
    if node.op == "literal" and to.least <= node.value <= to.most:
        return Node("literal", to, value=node.value)
    return Node("convert", to, (node,))


def common_type(left: CType, right: CType) -> CType:
    """Return the type in which two operands meet."""
    if left.signed == right.signed:
        return left if left.bits >= right.bits else right
    unsigned, signed = (right, left) if left.signed else (left, right)
    return unsigned if unsigned.bits >= signed.bits else signed


class _Parser:
    """One pass of recursive descent."""

    def __init__(self, text: str, names: Mapping[str, Node]) -> None:
        self._text = text
        self._names = names
        self._tokens = [m for m in _TOKEN.finditer(text.strip()) if m.group(0).strip()]
        self._at = 0

    def whole(self) -> Node:
        tree = self._sum()
        if self._at < len(self._tokens):
            raise self._wrong(f"{self._peek()!r} where the expression should end")
        return tree

    def _wrong(self, what: str) -> CSyntaxError:
        return CSyntaxError(f"index expression {self._text!r}: {what}")

    def _peek(self) -> str:
        return self._tokens[self._at].group(0).strip() if self._at < len(self._tokens) else ""

    def _take(self, wanted: str) -> None:
        if self._peek() != wanted:
            raise self._wrong(f"{wanted!r} expected, got {self._peek()!r}")
        self._at += 1

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/", "%"), self._factor)

    def _chain(self, operators: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        tree = operand()
        while (symbol := self._peek()) in operators:
            self._at += 1
            tree = _binary(symbol, tree, operand())
        return tree

    def _factor(self) -> Node:
        token = self._peek()
        if token == "":
            raise self._wrong("it ends where a value is expected")
        self._at += 1
        if token.isdigit():
            return literal(int(token))
        if token == "(":
            return self._until(")")
        if token == "-":
            return _binary("-", literal(0), self._factor())
        if token == "static_cast":
            return self._static_cast()
        if token in TYPES:
            self._take("{")
            return convert(self._until("}"), TYPES[token])
        if self._peek() == "(":
            return self._call(token)
        if token in self._names:
            return self._names[token]
        if token in C_CONSTANTS:
            return literal(C_CONSTANTS[token])
        raise self._wrong(f"unknown name {token!r}")

    def _until(self, end: str) -> Node:
        tree = self._sum()
        self._take(end)
        return tree

    def _static_cast(self) -> Node:
        self._take("<")
        wanted = TYPES.get(self._peek())
        if wanted is None:
            raise self._wrong(f"unknown type {self._peek()!r}")
        self._at += 1
        self._take(">")
        self._take("(")
        return convert(self._until(")"), wanted)

    def _call(self, name: str) -> Node:
        function = C_FUNCTIONS.get(name)
        self._take("(")
        arguments = [self._argument(function, 0)]
        while self._peek() == ",":
            self._at += 1
            arguments.append(self._argument(function, len(arguments)))
        self._take(")")
        if function is None and name in ("min", "max") and len(arguments) == 2:
            return _binary(name, *(a for a in arguments if isinstance(a, Node)))
        if function is None or len(arguments) != len(function.parameters):
            raise self._wrong(f"no function {name} of {len(arguments)} arguments")
        return _written_out(function, arguments, self._names)

    def _argument(self, function: CFunction | None, place: int) -> Node | str:
        """A value, or the name of a structure."""
        if function is None or function.parameters[place : place + 1] != ((STRUCT, "owner"),):
            return self._sum()
        name = self._peek()
        self._at += 1
        return name


def _binary(symbol: str, left: Node, right: Node) -> Node:
    met = common_type(left.type, right.type)
    left, right = convert(left, met), convert(right, met)
    if symbol in _FOLDED and left.op == right.op == "literal" and (symbol != "/" or right.value):
        value = _FOLDED[symbol](left.value, right.value)
        if met.least <= value <= met.most:
            return Node("literal", met, value=value)
    return Node(symbol, met, (left, right))


def _written_out(function: CFunction, arguments: list[Node | str], around: Mapping[str, Node]) -> Node:
    types = dict(TYPES)
    names: dict[str, Node] = {}
    for (type_name, name), argument in zip(function.parameters, arguments, strict=True):
        if isinstance(argument, str):
            names |= {
                f"{name}{n[len(argument) :]}": x for n, x in around.items() if n.startswith(f"{argument}.")
            }
        else:
            types.setdefault(type_name, argument.type)
            names[name] = convert(argument, types[type_name])
    for type_name, name, text in function.before:
        names[name] = convert(parse(text, names), types[type_name])
    return convert(parse(function.body, names), types[function.result])
