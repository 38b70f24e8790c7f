"""Ranges of values: no evaluated value lies outside, and divisors that people write are known to be positive."""

from __future__ import annotations

import random
from itertools import product
from math import inf

import pytest

from nvfp4_moe.verification.expression_tree import NAMES, Expression
from nvfp4_moe.verification.expressions import ExpressionError, parse
from nvfp4_moe.verification.proofs.ranges import ANYTHING, value_range


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", (7, 7)),
        ("topk", (1, inf)),
        ("-topk", (-inf, -1)),
        ("num_experts + 1", (2, inf)),
        ("1 - topk", (-inf, 0)),
        ("topk*num_experts + 3", (4, inf)),
        ("max(topk - 9, 1)", (1, inf)),
        ("max(1, 1)", (1, 1)),
        ("min(topk, 5, num_experts + 2)", (1, 5)),
        ("round_up(topk, 16)", (1, inf)),
        ("round_up(3, 16)", (3, 18)),
        ("round_up(3, topk - 1)", ANYTHING),
        ("(topk + 127)//128", (1, inf)),
        ("(topk + 128)//tile", (0, inf)),
        ("topk % 8 + 1", (1, 8)),
        ("topk % num_experts", (0, inf)),
        ("topk // (num_experts - 1)", ANYTHING),
        ("topk % -3", ANYTHING),
        ("(topk - 1)*0", (0, 0)),
        ("(0 - 5)//topk", (-5, -1)),
        ("1000000000*1000000000*1000*topk", (10**18, inf)),
        ("(topk - 11)*(topk - 11)", ANYTHING),
    ],
)
def test_range(text: str, values: tuple[float, float]) -> None:
    assert value_range(parse(text).root) == values


def random_text(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*NAMES, *map(str, (0, 1, 2, 3, 11, 127, 128))])
    left, right = random_text(rng, depth - 1), random_text(rng, depth - 1)
    if rng.random() < 0.3:
        return f"{rng.choice(['min', 'max', 'round_up'])}({left}, {right})"
    return f"({left} {rng.choice(['+', '-', '*', '//', '%'])} {right})"


def values_of(expression: Expression) -> list[int]:
    values = []
    for sizes in product((1, 2, 7, 128), repeat=len(NAMES)):
        try:
            values.append(expression.evaluate(dict(zip(NAMES, sizes, strict=True))))
        except ExpressionError:
            continue
    return values


@pytest.mark.parametrize("seed", range(4))
def test_no_value_lies_outside_its_range(seed: int) -> None:
    rng = random.Random(seed)
    limited = 0
    for _ in range(60):
        expression = parse(random_text(rng, 4))
        low, high = value_range(expression.root)
        limited += (low, high) != ANYTHING
        assert all(low <= value <= high for value in values_of(expression)), expression
    assert limited > 20
