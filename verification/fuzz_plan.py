"""Batches of fuzzing: which cases they hold, and what running one gives.

A batch is a range of indices of one family in one setting, in one of two forms: count vectors, or ids through the
whole routing path. It says everything that its cases depend on, is small, hashable and picklable, and can be run in
any order, process or session; `batches` lists those of a level without end being known to anybody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.families import (
    EXPERTS,
    FAMILIES,
    MOST_EXPERTS,
    CountsFamily,
    Family,
    Setting,
)
from nvfp4_moe.verification.result import Witness


class Form(StrEnum):
    """What a case is."""

    COUNTS = "counts"
    IDS = "ids"


COUNTS_SIZES = ((64, 1), (8192, 8), (512, 2), (1024, 6), (2, 1))
"""(tokens, topk) of successive batches of the fast families; totals scale to their product."""
ROUTED_SIZES = ((64, 8), (129, 1), (96, 2), (16, 6), (127, 4), (128, 1))
"""(tokens, topk) of successive batches of count vectors that are counted from ids."""
IDS_SIZES = (
    (0, 1),
    (1, 1),
    (127, 1),
    (128, 2),
    (129, 1),
    (1, 8),
    (33, 6),
    (255, 2),
    (256, 4),
    (257, 1),
    (64, 8),
)
"""(tokens, topk) of successive batches of ids: T at and next to 0, 1 and multiples of the tile."""

MOST_TOPK = 1 << 10
"""As many as a recorded trace may have."""
MOST_PADDED_ROWS = 1 << 30
"""Experts x tile of a routing, at most: with its routed rows the offsets then fit int32."""

_FAST_CASES, _FEWEST_FAST_CASES = 1 << 14, 64
_FAST_WORK = 1 << 24
"""Counts that a batch of a fast family has at most."""
_IDS_CASES = 4
_MOST_IDS_ROWS = 1 << 13
"""Rows of a case of ids whose counts scale with experts * tile: above it the tile is made smaller."""
_ROUTED_WORK = 1 << 17
"""Scores that a batch of count vectors counted from ids makes, about."""
_MOST_ROUTED_CASES, _FEWEST_ROUTED_CASES = 2048, 8
_COUNTS_ROUNDS = {1: 4, 2: 60, 3: 60}
_IDS_ROUNDS = {1: 3, 2: 33, 3: 33}
"""Batches of each (family, expert count) at each level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A range of cases: indices index * cases .. (index + 1) * cases - 1 of (seed, family, setting)."""

    form: Form
    seed: int
    family: str
    num_experts: int
    tokens: int
    topk: int
    index: int
    cases: int
    tile: int = TILE

    @property
    def setting(self) -> Setting:
        """Return the sizes that the family draws for."""
        return Setting(num_experts=self.num_experts, tokens=self.tokens, topk=self.topk, tile=self.tile)

    @property
    def start(self) -> int:
        """Return the index of the first case."""
        return self.index * self.cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Attained:
    """A case that uses every row of a bound; `fuzz.Tally` makes a witness of it when it reports."""

    batch: Batch
    index: int
    """Of the case, in its family."""
    tokens: int
    """That the bound was told."""


@dataclass(kw_only=True)
class Use:
    """How far routings filled one bound."""

    bound: str
    cases: int = 0
    refused: int = 0
    """Cases outside the bound's own guard."""
    attained: int = 0
    """Cases that use every row."""
    end: int = 0
    rows: int = 0
    """The fullest case: rows that it needs, and rows that the bound gives."""
    example: Attained | None = None
    """A case that attains the bound: the first found."""

    @property
    def highest(self) -> float:
        """Return the highest use, rows needed over rows given; 0 before any case."""
        return self.end / self.rows if self.rows > 0 else float(self.end > 0)

    def add(self, other: Use) -> None:
        """Take in what another batch or case found."""
        self.cases += other.cases
        self.refused += other.refused
        self.attained += other.attained
        self.example = self.example or other.example
        if other.end * self.rows > self.end * other.rows or self.rows == 0:
            self.end, self.rows = other.end, other.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A claim that a case broke."""

    claim: str
    detail: str
    witness: Witness
    size: tuple[int, int]
    """(routed rows, experts): the smallest witness of a claim is kept."""


@dataclass(kw_only=True)
class BatchResult:
    """What a batch found."""

    batch: Batch
    cases: int
    checked: dict[str, int] = field(default_factory=dict)
    """Cases by claim id."""
    uses: list[Use] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    """The smallest case of the batch for each claim that does not hold."""

    @property
    def highest_use(self) -> float:
        """Return the highest use over all bounds of the run."""
        return max((use.highest for use in self.uses), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What to fuzz: sizes that the user fixed, or everything."""

    experts: Sequence[int] = EXPERTS
    """Experts on this rank."""
    topk: int | None = None
    tile: int = TILE

    @property
    def too_large(self) -> str | None:
        """Return why no routing of these sizes is built, or None: experts, topk, and experts x tile have maxima."""
        experts = min(self.experts)
        if experts > MOST_EXPERTS:
            return f"routings are built for at most {MOST_EXPERTS:,} experts on a rank, got {experts:,}"
        if self.topk is not None and self.topk > MOST_TOPK:
            return f"routings are built for a topk of at most {MOST_TOPK:,}, got {self.topk:,}"
        if experts * self.tile > MOST_PADDED_ROWS:
            return (
                f"routings are built for experts x tile of at most {MOST_PADDED_ROWS:,}, "
                f"got {experts:,} x {self.tile:,}"
            )
        return None


def batches(
    seed: int, level: int, *, form: Form, sizes: Sizes | None = None, first_round: int = 0
) -> Iterator[Batch]:
    """Give the batches of a level, round by round: every family and expert count once in each.

    Args:
        seed: of all cases.
        level: 1, 2 or 3; higher levels have more rounds, and begin with those of the lower ones.
        form: counts or ids.
        sizes: fixed sizes; None: all.
        first_round: skip the rounds before; a campaign that goes on for ever asks for ever later rounds.

    Raises:
        ValueError: an unknown level.
    """
    rounds = _COUNTS_ROUNDS if form is Form.COUNTS else _IDS_ROUNDS
    if level not in rounds:
        raise ValueError(f"level must be one of {', '.join(map(str, rounds))}, got {level!r}")
    for number in range(first_round, first_round + rounds[level]):
        yield from round_of_batches(seed, number, form=form, sizes=sizes)


def round_of_batches(seed: int, number: int, *, form: Form, sizes: Sizes | None = None) -> Iterator[Batch]:
    """Give one batch of every family and expert count; rounds never repeat a case. Sizes that
    are too large to build routings of (`Sizes.too_large`) have no batches."""
    fixed = sizes or Sizes()
    for experts in (count for count in fixed.experts if not replace(fixed, experts=(count,)).too_large):
        for family in FAMILIES.values():
            choices = _sizes_of(family, form)
            tokens, topk = choices[(number + experts) % len(choices)]
            setting = Setting(
                num_experts=experts,
                tokens=tokens,
                topk=fixed.topk or (min(topk, experts) if family.ids == "distinct" else topk),
                tile=_tile_of(family, form, experts, fixed.tile),
            )
            if family.supports(setting):
                yield Batch(
                    form=form,
                    seed=seed,
                    family=family.name,
                    num_experts=experts,
                    tokens=setting.tokens,
                    topk=setting.topk,
                    index=number,
                    cases=_cases_of(family, form, setting),
                    tile=setting.tile,
                )


def _sizes_of(family: Family, form: Form) -> Sequence[tuple[int, int]]:
    if form is Form.IDS:
        return IDS_SIZES
    return COUNTS_SIZES if family.fast else ROUTED_SIZES


def _tile_of(family: Family, form: Form, experts: int, tile: int) -> int:
    if form is Form.IDS and isinstance(family, CountsFamily):
        return min(tile, max(_MOST_IDS_ROWS // experts, 2))
    return tile


def _cases_of(family: Family, form: Form, setting: Setting) -> int:
    if form is Form.IDS:
        return _IDS_CASES
    if family.fast:
        return min(_FAST_CASES, max(_FAST_WORK // setting.num_experts, _FEWEST_FAST_CASES))
    work = max(setting.tokens * max(setting.num_experts, setting.topk), 1)
    return min(max(_ROUTED_WORK // work, _FEWEST_ROUTED_CASES), _MOST_ROUTED_CASES)
