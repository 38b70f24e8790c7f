"""Cases of the grouped GEMM `cutlass_fp4_moe_mm`: exact ones first, then those judged by the derived bound.

In an exact family every order of additions gives the same bits (`reference.gemm_bounds.order_free`), so bytes are compared:

- one_hot: a row's scales are zero but for one block, another for each row: what is multiplied is one block, and a scale
  byte read from a wrong place shows as zero or as another power of two;
- one_hot_weight: the same of the weight's columns;
- integers: every code, scales 1, 2 and 4;
- zeros: every scale zero: +0 is due.

The others round: `any` has every code and every scale byte, `cancelling` sums that are small beside their terms, `nan` a
NaN scale of the last row and one of the last column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from nvfp4_moe.verification.counter import word

OPERATION = "cutlass_fp4_moe_mm"
EXACT_FAMILIES = ("one_hot", "one_hot_weight", "integers", "zeros")
FAMILIES = (*EXACT_FAMILIES, "any", "cancelling", "nan")
ALPHAS = ("one", "powers", "distinct")
DTYPES = ("bf16", "f16")

WIDTHS = (16, 32, 48, 64, 80, 112, 128, 144, 192, 272)
"""K: every remainder of 64 that a multiple of 16 leaves, one and several scale tiles."""
COLUMNS = (8, 16, 24, 56, 120, 128, 136, 256, 264)
"""N: multiples of 8 below, at and past the scale tile."""
ROUTINGS: tuple[tuple[int, ...], ...] = (
    *((1,), (2,), (7,), (16,), (33,), (64,), (127,), (128,), (129,), (0,)),
    *((1, 1), (0, 3), (3, 0), (5, 0, 2), (0, 0, 1, 0), (1,) * 17, (0, 5) * 6, (130, 0, 1, 33), (2, 257)),
)
_WIDE = (((3, 0, 1), 40, 2880), ((1, 2), 8, 7168), ((2,), 264, 1408), ((9, 1), 2880, 16), ((1,) * 33, 8, 16))
"""Rows of the experts, N, K: models' widths, and many experts."""
_LARGE = (
    *(((rows, 1), 136, 144) for rows in range(3, 300, 11)),
    *(((2, 1), n, 64) for n in range(8, 400, 8)),
    *(((2, 1), 72, k) for k in range(16, 1040, 16)),
    *(((1,) * experts, 16, 32) for experts in (36, 40, 60, 128, 255, 256, 257)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmCase:
    """One call of the grouped GEMM."""

    index: int
    seed: int
    tokens_per_expert: tuple[int, ...]
    n: int
    k: int
    dtype: str
    values: str
    """One of `FAMILIES`."""
    alphas: str
    """One of `ALPHAS`."""
    unrouted_rows: int = 0
    """Rows of `a` and `out` behind expert_offsets[E]."""
    extra_scale_rows: int = 0
    """Rows of a_blockscale at and after the last expert's."""
    operation: str = OPERATION

    @property
    def routed_rows(self) -> int:
        return sum(self.tokens_per_expert)

    @property
    def elements(self) -> int:
        return (self.routed_rows + self.unrouted_rows + len(self.tokens_per_expert) * self.n) * self.k

    @property
    def is_exact(self) -> bool:
        return self.values in EXACT_FAMILIES

    def to_json(self) -> dict[str, Any]:
        return {"kind": "gemm", **asdict(self), "tokens_per_expert": list(self.tokens_per_expert)}


LAWS = ("rows", "alone", "single", "again")
"""Rows in another order; each expert by itself; each of some rows by itself; the same call after a larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmLawCase:
    """A law and the call that it is tried on."""

    law: str
    base: GemmCase
    operation: str = OPERATION

    def to_json(self) -> dict[str, Any]:
        return {"kind": "gemm_law", "law": self.law, "operation": self.operation, "base": asdict(self.base)}


def gemm_cases(*, level: int, seed: int) -> Iterator[GemmCase]:
    """Yield the exact cases of every shape, then the others, at level 1 of every other shape."""
    shapes = list(_shapes(level))
    for exact in (True, False):
        families = [name for name in FAMILIES if (name in EXACT_FAMILIES) == exact]
        for number, (routing, n, k) in enumerate(shapes):
            if level == 1 and not exact and number % 2:
                continue
            index = 2 * number + (not exact)
            pick = word(seed, "gemm_cases", index)
            yield GemmCase(
                index=index,
                seed=seed,
                tokens_per_expert=routing,
                n=n,
                k=k,
                dtype=DTYPES[pick >> 16 & 1],
                values=families[number // 2 % len(families)],
                alphas=ALPHAS[number % len(ALPHAS)],
                unrouted_rows=(0, 0, 1, 5)[pick & 3],
                extra_scale_rows=(0, 0, 128, 256)[pick >> 8 & 3],
            )


def _shapes(level: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Every other pair of a width and a column count (from level 2: every one), every routing, models' widths."""
    for number, (k, n) in enumerate(product(WIDTHS, COLUMNS)):
        if level > 1 or number % 2 == 0:
            yield ROUTINGS[number % 9], n, k
    for number, routing in enumerate(ROUTINGS):
        yield routing, COLUMNS[number % len(COLUMNS)], WIDTHS[(3 * number + 4) % len(WIDTHS)]
    yield from _WIDE
    if level > 1:
        yield from _LARGE


def law_bases(*, seed: int) -> Iterator[GemmCase]:
    """Yield the calls that laws are tried on: values that round, so that another order of additions shows."""
    for index, (routing, n, k) in enumerate(
        (((3, 0, 7), 24, 272), ((1, 130, 2), 136, 80), ((33, 5), 8, 2880))
    ):
        yield GemmCase(
            index=(1 << 20) + index,
            seed=seed,
            tokens_per_expert=routing,
            n=n,
            k=k,
            dtype=DTYPES[index & 1],
            values="cancelling",
            alphas="distinct",
        )
