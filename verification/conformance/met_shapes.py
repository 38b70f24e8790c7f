"""Shapes in which two properties meet that the lists of `cases` keep apart.

Faults often need two: many experts and wide rows, an expert of several tiles and a width that is no multiple of 16
alone. `tests/verification/conformance/test_met_shapes.py` holds the cases of an operation to every pair of classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

Shape = tuple[int, tuple[int, ...]]
"""K and the rows of each expert."""

_MANY = (8, 16, 60, 96, 100, 257)
"""Experts: below and above a warp, a block of 256 threads, and multiples of 16 or not."""
_WIDTHS = (32, 48, 64, 80, 256, 512, 944, 1072, 1328, 2080, 2880)
"""Every K modulo 64 below 272 and above 1,024."""
_TALL: tuple[tuple[int, ...], ...] = ((385,), (0, 514), (3, 386, 130))
"""An expert of four tiles, alone, behind an empty one and between others."""
_NARROW = (32, 48, 64, 80, 96)
"""As many as are odd: the type of the input alternates, and so takes turns at each width."""
_SMALL: tuple[tuple[int, ...], ...] = ((1,), (3, 0, 4), (0, 33), (130,), (0, 0, 2))
_NO_ROWS: tuple[tuple[int, ...], ...] = ((0,), (0, 0, 0), (0,) * 20)
_SLABS: tuple[tuple[int, ...], ...] = ((130,), (0, 131), (129, 3, 130))
_TALL_SLABS: tuple[tuple[int, ...], ...] = ((385, 0, 387), (386,))
_CROWDED = (6, 20, 96, 258)
"""Experts among which several have more than a warp's and more than a tile's rows."""


def few_rows(experts: int, *, first: int) -> tuple[int, ...]:
    """Return six rows: one on the expert `first`, two in the middle, three on the last."""
    rows = {first: 1, experts // 2: 2, experts - 1: 3}
    return tuple(rows.get(expert, 0) for expert in range(experts))


def crowded(experts: int) -> tuple[int, ...]:
    """Return 40 rows on the second, 130 on a middle and 129 on the last but one of many experts."""
    rows = {1: 40, experts // 2: 130, experts - 2: 129}
    return tuple(rows.get(expert, 0) for expert in range(experts))


def ragged_shapes() -> Iterator[Shape]:
    """Yield the shapes of an experts quantizer, about 4 M elements in all."""
    yield from _few(_MANY, _WIDTHS)
    for routing in _TALL:
        for k in _NARROW:
            yield k, routing
    for experts in _CROWDED:
        for k in (16, 48, 96):
            yield k, crowded(experts)
    for k in (1072, 2080):
        yield k, (385,)
    for k in (1328, 2864, 1040):
        for routing in _SMALL:
            yield k, routing
    for routing in _NO_ROWS:
        for k in (528, 2880):
            yield k, routing


def masked_shapes() -> Iterator[Shape]:
    """Yield those of a masked quantizer, whose slabs all have the rows of the fullest; about 11 M elements."""
    yield from _few((8, 60, 66, 257), (*_NARROW, 528))
    yield from _few((8, 66, 257), (1328,))
    for routing in _SLABS:
        for k in (*_NARROW, 528, 1328):
            yield k, routing
    for experts in _CROWDED[:2]:
        for k in (16, 48, 96):
            yield k, crowded(experts)
    yield 16, crowded(_CROWDED[2])
    yield from _few(_MANY[:1], (544, 944, 1040))
    yield 2880, (130,)
    for routing in _TALL_SLABS:
        for k in _NARROW:
            yield k, routing
    for k in (528, 2880):
        yield k, (0, 0, 0)


def _few(many: tuple[int, ...], widths: tuple[int, ...]) -> Iterator[Shape]:
    """Yield each number of experts at each width twice, so with both types: with and without rows on the first expert."""
    for step, (experts, k) in enumerate(product(many, widths)):
        for first in (0, 1) if step % 2 else (1, 0):
            yield k, few_rows(experts, first=first)
