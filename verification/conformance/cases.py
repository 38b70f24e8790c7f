"""Conformance cases: shapes, routings and values, directed before random, each a function of (seed, group, index).

A case is small data; tensors are made from it where it runs. `quant_cases` gives those of the two quantizers,
`routing_cases` those of the routing metadata. Level 1 keeps below 40 M elements an operation; level 2 adds row counts one
by one at several widths, tiles and near misses, and many experts at a model's width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from nvfp4_moe.verification.conformance.values import GLOBAL_SCALES, VALUES
from nvfp4_moe.verification.counter import word

SMALL_WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 144, 192, 208, 256, 272)
"""K over 16 mod 32, 32 mod 64, 64 mod 128 and aligned."""

MODEL_WIDTHS = (
    *(512, 768, 1024, 1408, 1536, 1856, 2048, 2688, 2880, 3072, 4096, 5120, 6144, 7168, 8192),
    *(14336, 16384),  # models' hidden and intermediate widths; below, tensor-parallel shards of them
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

_MASKED_EXPERTS = 36

EXPERT_COUNTS = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    15,
    16,
    17,
    36,
    40,
    60,
    64,
    128,
    160,
    255,
    256,
    257,
    384,
    512,
    513,
    1024,
)


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
            unrouted_rows=(0, 0, 1, 5)[pick & 3],
            k=k,
            dtype=("bf16", "f16")[index & 1],
            values=_values_of(index, pick >> 8, group),
            global_scales=GLOBAL_SCALES[(pick >> 16) % len(GLOBAL_SCALES)],
            extra_scale_rows=(0, 0, 128, 256)[pick >> 24 & 3],
            offset=(0, 0, 0, 0, 0, 16, 32, 64)[pick >> 32 & 7],
            offset_all=bool(pick >> 40 & 1),
            row_gap=32 if group == "strided" else 0,
        )


def _values_of(index: int, pick: int, group: str) -> str:
    """Every family with both types in turn; in the group "values" strictly, elsewhere shifted at random."""
    shift = 0 if group == "values" else pick % 3
    return list(VALUES)[(index // 2 + shift) % len(VALUES)]


def masked_cases(operation: str, *, seed: int) -> Iterator[QuantCase]:
    """Yield the cases of a masked quantizer: every small width with routings of at most 36 experts."""
    index = 0
    for routing in SMALL_ROUTINGS:
        if not 1 < len(routing) <= _MASKED_EXPERTS:
            continue
        for k in SMALL_WIDTHS[:: 1 if len(routing) < 8 else 4]:
            pick = word(seed, f"masked.{operation}", index)
            yield QuantCase(
                operation=operation,
                group="masked",
                index=index,
                seed=seed,
                tokens_per_expert=routing,
                unrouted_rows=(0, 1, 5, 130)[pick & 3] if len(routing) < 8 else 1,
                k=k,
                dtype=("bf16", "f16")[index & 1],
                values=_values_of(index, pick >> 8, "masked"),
                global_scales=GLOBAL_SCALES[(pick >> 16) % len(GLOBAL_SCALES)],
            )
            index += 1


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
    """Yield (k, routing, group): every small width with every small routing, model widths with few rows, many experts."""
    for routing in SMALL_ROUTINGS:
        for k in SMALL_WIDTHS:
            yield k, routing, "tiles"
    for step, k in enumerate(MODEL_WIDTHS):
        for routing in ((1,), (2, 1), (3, 0, 4), (16 + step, 1), (64, step % 5)):
            yield k, routing, "widths"
    for experts in EXPERT_COUNTS:
        for k in (16, 80):
            yield k, tuple((expert * 7 + experts) % 3 for expert in range(experts)), "experts"
    for k, rows in ((512, 64), (512, 65), (1024, 130)):
        for _ in range(4 * len(VALUES)):
            yield k, (rows, rows // 2, 1), "values"
    for k in (16, 48, 80, 256):
        for routing in ((5,), (0, 3, 1), (33, 130)):
            yield k, routing, "strided"
    if level >= 2:
        yield from _large_shapes()


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

    def to_json(self) -> dict[str, Any]:
        return {"kind": "routing", "operation": "get_cutlass_moe_mm_data", **asdict(self)}


ID_FAMILIES = (
    *("uniform", "one_expert", "cyclic", "duplicates", "last_expert"),
    *("negative", "one_negative", "all_negative"),
)


def routing_cases(*, level: int, seed: int, id_dtypes: tuple[str, ...]) -> Iterator[RoutingCase]:
    """Yield the cases of `get_cutlass_moe_mm_data`: every expert count with every family of ids."""
    index = 0
    tokens_of = (
        (0, 1, 2, 3, 5, 17, 64, 127, 128, 129)
        if level == 1
        else (0, 1, 2, 3, 5, 8, 16, 17, 31, 64, 127, 128, 129, 512, 2048)
    )
    for experts in EXPERT_COUNTS:
        for family in ID_FAMILIES:
            for near, tokens in enumerate(tokens_of):
                if level == 1 and (near + experts + len(family)) % 3:
                    continue  # a third of the grid: each expert count meets each family and each token count
                pick = word(seed, "routing_cases", index)
                yield RoutingCase(
                    index=index,
                    seed=seed,
                    tokens=tokens,
                    topk=(1, 2, 4, 6, 8, 10, 22)[pick % 7],
                    num_experts=experts,
                    ids=family,
                    id_dtype=id_dtypes[index % len(id_dtypes)],
                    is_gated=bool(pick >> 8 & 1),
                    n=(16, 512, 1536, 2048)[pick >> 16 & 3],
                    k=(16, 1024, 2880, 7168)[pick >> 24 & 3],
                )
                index += 1
