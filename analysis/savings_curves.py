"""Rows of every formula as M grows, and how loose the proposed one is over experts and tokens: numbers for figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nvfp4_moe.analysis.zoo_shape import Shard
from nvfp4_moe.reference.padding import FORMULAS, Sizing, exact_any_rows

MOST_TOKENS = 65_536
SAME = 0.01
"""Curves that differ by less than this share everywhere are one line of a figure."""
_POINTS_PER_OCTAVE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Formulas whose rows are the same, or nearly."""

    names: tuple[str, ...]
    rows: tuple[int, ...]
    """Rows of the first formula for each M."""
    within: float
    """The largest share by which a formula of the group differs from the first; 0: they are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Rows over M for one rank of one model."""

    shard: Shard
    tokens: tuple[int, ...]
    exact: tuple[int, ...]
    """The exact worst case, any ids, for each M."""
    curves: tuple[Curve, ...]


def token_axis(most: int = MOST_TOKENS) -> tuple[int, ...]:
    """Return M from 1 to `most`, eight to an octave, every power of two among them."""
    octaves = (most - 1).bit_length()
    points = {round(2 ** (step / _POINTS_PER_OCTAVE)) for step in range(octaves * _POINTS_PER_OCTAVE + 1)}
    return tuple(sorted(point for point in points | {most} if point <= most))


def rows_by_tokens(shard: Shard, *, tokens: Sequence[int] | None = None) -> Curves:
    """Return the rows of every formula for each M, formulas with one curve joined in the registry's order.

    Args:
        shard: what one rank holds of a model.
        tokens: M; None: `token_axis()`.
    """
    axis = token_axis() if tokens is None else tuple(tokens)
    sizings = [shard.sizing(m) for m in axis]
    rows = {name: tuple(formula.rows(sizing) for sizing in sizings) for name, formula in FORMULAS.items()}
    groups: list[list[str]] = []
    for name in rows:
        group = next((group for group in groups if _apart(rows[group[0]], rows[name]) <= SAME), None)
        if group is None:
            groups.append(group := [])
        group.append(name)
    return Curves(
        shard=shard,
        tokens=axis,
        exact=rows["exact_any"],
        curves=tuple(
            Curve(
                names=tuple(group),
                rows=rows[group[0]],
                within=max(_apart(rows[group[0]], rows[name]) for name in group),
            )
            for group in groups
        ),
    )


def _apart(rows: Sequence[int], others: Sequence[int]) -> float:
    """Return the largest relative difference of two curves."""
    return max(abs(a - b) / min(a, b) for a, b in zip(rows, others, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoosenessMap:
    """Rows of `proposed` over those of `exact_any`, both told M tokens."""

    topk: int
    tokens: tuple[int, ...]
    experts: tuple[int, ...]
    ratio: tuple[tuple[float, ...], ...]
    """[expert][token], at least 1."""


def looseness_map(topk: int, *, most_tokens: int = MOST_TOKENS, most_experts: int = 1024) -> LoosenessMap:
    """Return the ratio on powers of two from 1 up to each limit.

    Raises:
        TypeError, ValueError: topk is no legal size.
    """
    tokens = tuple(1 << power for power in range(most_tokens.bit_length()))
    experts = tuple(1 << power for power in range(most_experts.bit_length()))
    return LoosenessMap(
        topk=topk,
        tokens=tokens,
        experts=experts,
        ratio=tuple(tuple(_looseness(m, topk, e) for m in tokens) for e in experts),
    )


def _looseness(tokens: int, topk: int, experts: int) -> float:
    sizing = Sizing(tokens=tokens, topk=topk, num_experts=experts, num_global_experts=experts)
    return FORMULAS["proposed"].rows(sizing) / exact_any_rows(sizing.routed_rows, experts)
