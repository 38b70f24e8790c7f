"""Which values an expression can take where every size is at least 1: the sign of a divisor, without a prover.

A range is (least, most), both included, with an infinity where there is no limit. Ranges are safe, not exact: each use
of a size counts as a size of its own, so `topk*topk - 2*topk + 2` has no lower limit here although it is never
below 1. A value that depends on a division by what may be zero or negative has no limits at all.
"""

from __future__ import annotations

from itertools import product
from math import inf

from nvfp4_moe.reference.padding import LARGEST_SIZE
from nvfp4_moe.verification.expression_tree import Call, Chain, Integer, Negation, Node, Size

Limit = int | float
"""An int, or an infinity."""

Range = tuple[Limit, Limit]

ANYTHING: Range = (-inf, inf)


def value_range(node: Node) -> Range:
    """Return the range of a tree's values, over all sizes of at least 1."""
    match node:
        case Integer(value):
            return value, value
        case Size():
            return 1, inf
        case Negation(operand):
            return _negated(value_range(operand))
        case Chain(first, steps):
            reached = value_range(first)
            for step in steps:
                reached = _rounded_out(_applied(step.operator, reached, value_range(step.operand)))
            return reached
        case Call("round_up", (rounded, multiple)):
            (low, high), (least, most) = value_range(rounded), value_range(multiple)
            return _rounded_out((low, high + most - 1)) if least > 0 else ANYTHING
        case Call(function, arguments):
            choose = min if function == "min" else max
            lows, highs = zip(*map(value_range, arguments), strict=True)
            return choose(lows), choose(highs)


def _negated(values: Range) -> Range:
    low, high = values
    return -high, -low


def _applied(operator: str, left: Range, right: Range) -> Range:
    match operator:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            corners = [_times(x, y) for x, y in product(left, right)]
            return min(corners), max(corners)
    if right[0] <= 0:
        return ANYTHING
    if operator == "%":
        return 0, right[1] - 1
    corners = [_floor(x, y) for x, y in product(left, right)]
    return min(corners), max(corners)


def _times(left: Limit, right: Limit) -> Limit:
    return left * right if left and right else 0  # infinity times zero: the product of all that is below it


def _floor(value: Limit, divisor: Limit) -> Limit:
    """Return floor(value / divisor) of limits, the divisor positive: what is below an infinity comes to 0 or -1."""
    if abs(value) == inf:
        return value
    if divisor == inf:
        return -1 if value < 0 else 0
    return value // divisor


def _rounded_out(values: Range) -> Range:
    """Keep limits within 10^18 of zero, where they are exact; none gets narrower."""
    low, high = values
    return (
        min(low, LARGEST_SIZE) if low >= -LARGEST_SIZE else -inf,
        max(high, -LARGEST_SIZE) if high <= LARGEST_SIZE else inf,
    )
