"""Shapes in which two properties meet that the lists of `cases` keep apart.

Faults often need two: many experts and wide rows, an expert of several tiles and a width that is no multiple of 16
alone. `tests/verification/conformance/test_met_shapes.py` holds the cases of an operation to every pair of classes.
"""

from __future__ import annotations

from collections.abc import Iterator

Shape = tuple[int, tuple[int, ...]]
"""K and the rows of each expert."""

_MANY = (8, 16, 48, 60, 96, 160, 257)
"""Experts: below and above a warp, a block of 256 threads, and multiples of 16 or not."""
_WIDTHS = (32, 48, 64, 80, 256, 512, 944, 1072, 1328, 2080, 2880)
"""Every K modulo 64 below 272 and above 1,024."""
_TALL = ((385,), (0, 514), (3, 386, 130))
"""An expert of four tiles, alone, behind an empty one and between others."""
_NARROW = (32, 48, 64, 80)
_NO_ROWS = ((0,), (0, 0, 0), (0,) * 20)
_SLABS = ((130,), (0, 131), (129, 3, 130))
_CROWDED = (6, 20, 96, 258)
"""Experts among which several have more than a warp's and more than a tile's rows."""


def few_rows(experts: int) -> tuple[int, ...]:
    """Return six rows on the first, the middle and the last expert."""
    rows = {0: 1, experts // 2: 2, experts - 1: 3}
    return tuple(rows.get(expert, 0) for expert in range(experts))


def crowded(experts: int) -> tuple[int, ...]:
    """Return 40 rows on the second, 130 on a middle and 129 on the last but one of many experts."""
    rows = {1: 40, experts // 2: 130, experts - 2: 129}
    return tuple(rows.get(expert, 0) for expert in range(experts))


def ragged_shapes() -> Iterator[Shape]:
    """Yield the shapes of an experts quantizer, about 3 M elements in all."""
    for experts in _MANY:
        for k in _WIDTHS:
            yield k, few_rows(experts)
    for routing in _TALL:
        for k in _NARROW:
            yield k, routing
    for experts in _CROWDED:
        for k in (16, 48, 96):
            yield k, crowded(experts)
    for k in (1072, 2080):
        yield k, (385,)
    for k in (1328, 2864):
        for routing in ((1,), (3, 0, 4), (0, 33), (130,)):
            yield k, routing
    for routing in _NO_ROWS:
        for k in (528, 2880):
            yield k, routing


def masked_shapes() -> Iterator[Shape]:
    """Yield those of a masked quantizer, whose slabs all have the rows of the fullest; about 8 M elements."""
    for experts in (8, 16, 60, 96, 257):
        for k in (*_NARROW, 528, 1328):
            yield k, few_rows(experts)
    for routing in _SLABS:
        for k in (*_NARROW, 528, 1328):
            yield k, routing
    for experts in _CROWDED[:2]:
        for k in (16, 48, 96):
            yield k, crowded(experts)
    yield 16, crowded(96)
    for k in (544, 944, 1040):
        yield k, few_rows(_MANY[0])
    yield 2880, (130,)
    for k in _NARROW:
        yield k, (385, 0, 387)
    for k in (528, 2880):
        yield k, (0, 0, 0)
