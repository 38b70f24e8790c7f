"""Conformance cases: shapes, routings and values, directed before random, each a function of (seed, group, index).

A case is small data; tensors are made from it where it runs. `quant_cases` gives those of the two quantizers,
`routing_cases` those of the routing metadata. Every small routing meets a width of each class. Level 1 keeps below 40 M elements an operation; level 2 adds row counts one
by one at several widths, tiles and near misses, and many experts at a model's width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from nvfp4_moe.verification.conformance import met_shapes
from nvfp4_moe.verification.conformance.values import GLOBAL_SCALES, VALUES
from nvfp4_moe.verification.counter import word

WIDTH_CLASSES = ((16, 80, 144, 208, 272), (48, 112, 240), (32, 96, 224), (64, 192), (128, 256))
"""Small K by what is left of it: 16 and 48 mod 64, 32 mod 64, 64 mod 128, aligned."""

SMALL_WIDTHS = tuple(sorted(k for widths in WIDTH_CLASSES for k in widths))

MODEL_WIDTHS = (
    *(512, 768, 1024, 1408, 1536, 1856, 2048, 2688, 2880, 3072, 4096, 5120, 6144, 7168, 8192),
    *(
        14336,
        16384,
        18432,
        28672,
    ),  # models' hidden and intermediate widths; below, tensor-parallel shards of them
    *(176, 352, 384, 464, 704, 720, 928, 1344, 1440, 1792, 3584),
)

SMALL_ROUTINGS: tuple[tuple[int, ...], ...] = (
    *((rows,) for rows in (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)),
    *((rows,) for rows in (127, 128, 129, 255, 256, 257)),
    *((1, 1), (0, 1), (1, 0), (127, 1), (1, 127), (128, 128), (129, 127), (2, 0, 1)),
    *((0, 0, 5, 0), (0, 0, 0), (1,) * 5, (3, 0, 2, 0, 0, 1, 4), (4, 4), (1, 7), (130, 0, 1, 33)),
    *((33,) * 8, (1,) * 15, (1,) * 16, (1,) * 17, (0, 5) * 10, (2,) * 36, (3, 1, 0, 1) * 10),
)
"""Rows of each expert."""

_MASKED_ROWS = 600
"""Slabs of more rows in all get one row more only."""

EXPERT_COUNTS = (
    *(1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 36, 40, 60, 64, 128, 160),
    *(255, 256, 257, 384, 512, 513, 1024),
)

ROUTED_EXPERT_COUNTS = tuple(sorted((*EXPERT_COUNTS, 6, 9, 10, 11, 13, 14, 32, 48, 96, 192, 320, 511, 1025)))
"""Those of the routing metadata, which cost little."""

_HOT_ROWS = 130
"""Of one expert among empty ones: more than a tile."""

_LAUNCHES = ((65_537,), (65_530, 0, 7))
"""Rows past the 65,535 that one dimension of a grid holds."""

_LARGE_LAUNCHES = ((262_141,), (0, 262_100, 41))

_ONE_ROW_FROM = 16_385
"""Widths from here on get one row: they are there for the columns."""


VIEWS = ("global_scale_apart", "global_scale_expanded", "input_transposed", "output_apart", "offsets_apart")
"""Every other element of a vector, one element for all experts, columns that follow each other, rows with a gap."""
MASKED_VIEWS = ("global_scale_apart", "offsets_apart")
"""Those of the masked form, whose `masked_m` stands for the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantCase:
    """One call of a quantizer."""

    operation: str
    group: str
    index: int
    seed: int
    tokens_per_expert: tuple[int, ...]
    unrouted_rows: int
    """Rows of the row tensors behind expert_offsets[E]: slots whose id was -1."""
    k: int
    dtype: str
    values: str
    global_scales: str
    extra_scale_rows: int = 0
    """Rows of the scale buffer at and after S; nothing may touch them."""
    offset: int = 0
    """Bytes, a power of two or 0: the pointers are this much off a multiple of twice the offset."""
    offset_all: bool = True
    """Also the pointers whose declared alignment forbids it; the subject may then refuse."""
    row_gap: int = 0
    """Elements between the rows of the input: a strided view."""
    view: str = ""
    """One of `VIEWS`: another tensor that is a view with strides of its own; the subject may refuse."""

    @property
    def masked(self) -> bool:
        """Whether each expert has a slab of its own."""
        return "masked" in self.operation

    @property
    def fused(self) -> bool:
        """Whether the input is gate and up, side by side."""
        return self.operation.startswith("silu_and_mul")

    @property
    def rows(self) -> int:
        if self.masked:
            return len(self.tokens_per_expert) * (max(self.tokens_per_expert) + self.unrouted_rows)
        return sum(self.tokens_per_expert) + self.unrouted_rows

    @property
    def elements(self) -> int:
        return self.rows * self.k

    def to_json(self) -> dict[str, Any]:
        return {"kind": "quant", **asdict(self), "tokens_per_expert": list(self.tokens_per_expert)}


def quant_cases(operation: str, *, level: int, seed: int) -> Iterator[QuantCase]:
    """Yield the cases of a quantizer, smallest shapes first inside each group."""
    for index, (k, routing, group) in enumerate(_shapes(level)):
        pick = word(seed, f"quant.{operation}", index)
        yield QuantCase(
            operation=operation,
            group=group,
            index=index,
            seed=seed,
            tokens_per_expert=routing,
            unrouted_rows=_unrouted(pick, k),
            k=k,
            dtype=("bf16", "f16")[index & 1],
            values=_values_of(index, pick >> 8, group),
            global_scales=_global_scales_of(index, pick >> 16, _values_of(index, pick >> 8, group)),
            extra_scale_rows=(0, 0, 0, 0, 128, 128, 256, 384)[pick >> 24 & 7],
            offset=(0, 0, 0, 8, 4, 16, 32, 64)[pick >> 32 & 7],
            offset_all=bool(pick >> 40 & 1),
            row_gap=_ROW_GAPS[index % len(_ROW_GAPS)] if group == "strided" else 0,
        )
    yield from _viewed(operation, VIEWS, seed)


def _viewed(operation: str, views: tuple[str, ...], seed: int) -> Iterator[QuantCase]:
    for number, (view, (k, routing)) in enumerate(product(views, _VIEWED)):
        yield QuantCase(
            operation=operation,
            group="views",
            index=number,
            seed=seed,
            tokens_per_expert=routing,
            unrouted_rows=number % 2,
            k=k,
            dtype=("bf16", "f16")[number & 1],
            values="windowed",
            global_scales="same" if view == "global_scale_expanded" else "distinct",
            view=view,
        )


_ROW_GAPS = (8, 16, 32, 48, 40)
"""Elements; a subject that wants rows aligned to 32 bytes may refuse 8 and 40, none may misread them."""

_VIEWED = ((16, (5, 0, 2)), (80, (33, 1)), (256, (130, 3)))


def _unrouted(pick: int, k: int) -> int:
    """More than a tile now and then, where rows are cheap."""
    few = (0, 0, 1, 5)[pick & 3]
    return 130 if few == 0 and k <= 272 and pick >> 2 & 3 == 0 else few


def _values_of(index: int, pick: int, group: str) -> str:
    """Every family with both types in turn; in the group "values" strictly, elsewhere shifted at random."""
    shift = 0 if group == "values" else pick % 3
    return list(VALUES)[(index // 2 + shift) % len(VALUES)]


def _global_scales_of(index: int, pick: int, values: str) -> str:
    """Any family; those that reach 2^24 for every other case of SiLU's tail in f16, whose products are subnormal there."""
    if values == "silu_tail" and index & 1 and pick >> 8 & 1:
        return "wide"
    return GLOBAL_SCALES[pick % len(GLOBAL_SCALES)]


def masked_cases(operation: str, *, seed: int) -> Iterator[QuantCase]:
    """Yield the cases of a masked quantizer: every small routing with a width of each class, then single dangers."""
    for index, (k, routing, group) in enumerate(_masked_shapes()):
        pick = word(seed, f"masked.{operation}", index)
        many = len(routing) * max(routing) > _MASKED_ROWS
        yield QuantCase(
            operation=operation,
            group=group,
            index=index,
            seed=seed,
            tokens_per_expert=routing,
            unrouted_rows=1 if many or k > 272 else (0, 1, 5, 130)[pick & 3],
            k=k,
            dtype=("bf16", "f16")[index & 1],
            values=_values_of(index, pick >> 8, group),
            global_scales=_global_scales_of(index, pick >> 16, _values_of(index, pick >> 8, group)),
            offset=(0, 0, 0, 8, 4, 16, 32, 64)[pick >> 32 & 7] if group == "masked" else 0,
            offset_all=bool(pick >> 40 & 1),
            row_gap=_ROW_GAPS[index % len(_ROW_GAPS)] if group == "strided" else 0,
        )
    yield from _viewed(operation, MASKED_VIEWS, seed)


def _masked_shapes() -> Iterator[tuple[int, tuple[int, ...], str]]:
    yield 80, (33, 1), "first"
    for number, routing in enumerate(SMALL_ROUTINGS):
        for widths in WIDTH_CLASSES:
            yield widths[number // 2 % len(widths)], routing, "masked"
    for k, routing in ((16, (385,)), (16, (513, 0, 5)), (80, (263, 1)), (112, (300, 129))):
        yield k, routing, "slabs"
    for k in (512, 1056, 2048, 2880, 7168):
        for routing in ((1,), (3, 0, 4), (17,)):
            yield k, routing, "widths"
    for experts in (37, 64, 128, 257):
        for routing in sparse_routings(experts):
            yield (16 if max(routing) > 1 else 80), routing, "sparse"
    for k in (16, 48, 256):
        for routing in ((5,), (0, 3, 1), (33, 130)):
            yield k, routing, "strided"
    yield from ((k, routing, "met") for k, routing in met_shapes.masked_shapes())


def law_bases(operation: str, *, seed: int) -> Iterator[QuantCase]:
    """Yield the calls that laws are tried on: no offset, no spare rows, several experts, both types."""
    for index, (k, routing) in enumerate(
        ((48, (3, 0, 2, 5)), (64, (33, 1, 129)), (208, (1, 7)), (272, (16, 16, 16, 5)))
    ):
        yield QuantCase(
            operation=operation,
            group="laws",
            index=index,
            seed=seed,
            tokens_per_expert=routing,
            unrouted_rows=0,
            k=k,
            dtype=("bf16", "f16")[index & 1],
            values=("windowed", "ties", "special", "any")[index],
            global_scales="distinct",
        )


def _shapes(level: int) -> Iterator[tuple[int, tuple[int, ...], str]]:
    """Yield (k, routing, group): small shapes, model widths with few rows, many experts, launches past a limit."""
    yield 80, (33, 1), "first"  # more than a warp's rows in the very first call
    for number, routing in enumerate(SMALL_ROUTINGS):
        for widths in WIDTH_CLASSES:
            yield widths[number // 2 % len(widths)], routing, "tiles"
    for routing in ((97,), (113,), (126,), (385,), (513,), (0,) * 17):
        yield 16, routing, "tiles"
    for k in (1056, 2048, 2880, 2896):
        yield k, (130,), "tiles"
    yield 272, (1, 0, 2) * 15, "experts"
    for step, k in enumerate(MODEL_WIDTHS):
        routings = ((1,), (2, 1), (3, 0, 4), (16 + step % 17, 1), (64, step % 5))
        for routing in routings[: 1 if k >= _ONE_ROW_FROM else None]:
            yield k, routing, "widths"
    for experts in EXPERT_COUNTS:
        for k in (16, 80):
            yield k, tuple((expert * 7 + experts) % 3 for expert in range(experts)), "experts"
            for routing in sparse_routings(experts):
                yield k, routing, "sparse"
    for routing in _LAUNCHES:
        yield 16, routing, "launch"
    for k, rows in ((512, 64), (512, 65), (1024, 130)):
        for _ in range(4 * len(VALUES)):
            yield k, (rows, rows // 2, 1), "values"
    for k in (16, 48, 80, 256):
        for routing in ((5,), (0, 3, 1), (33, 130)):
            yield k, routing, "strided"
    yield from ((k, routing, "met") for k, routing in met_shapes.ragged_shapes())
    if level >= 2:
        yield from _large_shapes()


def sparse_routings(experts: int) -> list[tuple[int, ...]]:
    """Return routings where long runs of experts have no rows: what a scan over the experts may lose."""
    last, hot = experts - 1, experts // 2
    filled: tuple[dict[int, int], ...] = (
        {last: 3},
        {0: 2, last: 3},
        {expert: 1 + expert % 3 for expert in range(0, experts, 17)},
        {hot: _HOT_ROWS},
    )
    made = (tuple(rows.get(expert, 0) for expert in range(experts)) for rows in filled)
    return list(dict.fromkeys(made))


def _large_shapes() -> Iterator[tuple[int, tuple[int, ...], str]]:
    for rows in range(1, 321):
        yield 256, (rows, rows % 5), "rows"
    for first, k in enumerate((2048, 2880, 7168), start=1):
        for rows in range(first, 321, 3):  # launch geometry changes with the rows
            yield k, (rows, rows % 7), "rows"
    for k in SMALL_WIDTHS:
        for tiles in range(1, 9):
            for near in (-1, 0, 1):
                yield k, (128 * tiles + near, 1), "near_tiles"
    for experts in EXPERT_COUNTS:
        yield 2048, tuple((expert * 5 + experts) % 4 for expert in range(experts)), "experts"
    for routing in _LARGE_LAUNCHES:
        yield 16, routing, "launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingCase:
    """One call of the routing metadata."""

    index: int
    seed: int
    tokens: int
    topk: int
    num_experts: int
    ids: str
    """Family of ids, one of `ID_FAMILIES`."""
    id_dtype: str
    is_gated: bool
    n: int
    k: int
    id_gap: int = 0
    """Ids between the tokens': a slice of a wider tensor; the subject may refuse."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": "routing", "operation": "get_cutlass_moe_mm_data", **asdict(self)}


ID_FAMILIES = (
    *("uniform", "one_expert", "cyclic", "duplicates", "last_expert"),
    *("negative", "one_negative", "all_negative", "whole_tiles"),
)


_TOKENS = (0, 1, 2, 3, 5, 17, 64, 127, 128, 129, 255, 257, 384, 512, 2048)
_TOPK = (*range(1, 11), 12, 16, 22)
_LAUNCHED_IDS = ((65_536, 1), (8193, 8), (65_537, 1))
"""Tokens and ids of each: as many slots as 2^16 and more."""
_LAUNCHED_FAMILIES = ((1, "negative"), (257, "negative"), (384, "one_expert"), (1025, "last_expert"))

_ID_GAPS, _APART = (1, 6), ", apart"
"""Ids between the tokens', in calls of their own: a subject may refuse them."""


def routing_cases(*, level: int, seed: int, id_dtypes: tuple[str, ...]) -> Iterator[RoutingCase]:
    """Yield the cases of `get_cutlass_moe_mm_data`: every expert count with every family of ids, token counts in turn."""
    for index, (experts, family, tokens, topk) in enumerate(_routed(level)):
        pick = word(seed, "routing_cases", index)
        yield RoutingCase(
            index=index,
            seed=seed,
            tokens=tokens,
            topk=topk or _TOPK[pick % len(_TOPK)],
            num_experts=experts,
            ids=family.removesuffix(_APART),
            id_dtype=id_dtypes[(pick >> 32) % len(id_dtypes)],
            is_gated=bool(pick >> 8 & 1),
            n=(16, 37, 512, 1407, 1536, 2048, 2881, 1)[pick >> 16 & 7],
            k=(16, 1024, 2880, 7168)[pick >> 24 & 3],
            id_gap=_ID_GAPS[index % len(_ID_GAPS)] if family.endswith(_APART) else 0,
        )


def _routed(level: int) -> Iterator[tuple[int, str, int, int | None]]:
    """Yield (experts, family of ids, tokens, topk or None)."""
    for row, experts in enumerate(ROUTED_EXPERT_COUNTS):
        for column, family in enumerate(ID_FAMILIES):
            for turn in range(2 if level == 1 else 7):
                # Steps coprime to the token counts: each expert count and each family meets all of them in turn.
                yield experts, family, _TOKENS[(2 * row + 4 * column + 7 * turn) % len(_TOKENS)], None
    for experts in (8, 256):
        for tokens, topk in _LAUNCHED_IDS:
            yield experts, "uniform", tokens, topk
        for family in ("uniform", "negative"):
            for tokens, topk in ((3, 2), (130, 8)):
                yield experts, family + _APART, tokens, topk
    for experts, family in _LAUNCHED_FAMILIES:
        yield experts, family, 9_001, 8
