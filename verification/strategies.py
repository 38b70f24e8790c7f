"""Hypothesis strategies for routings; they shrink towards few rows, few experts and low ids.

The only module that imports hypothesis (extra `test`). Values are drawn in the order experts, tokens, topk, rows, and
each shrinks to its smallest, so the counterexample that hypothesis reports is a smallest one: a bound with 126 in
place of 127 shrinks to one row on one expert.
"""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from nvfp4_moe.reference.padding import TILE, Sizing

_NEAR_TILE = 2


def _rows(most: int, tile: int) -> st.SearchStrategy[int]:
    """Return row counts in [0, most]; a third of them next to a multiple of the tile."""
    if most < tile - _NEAR_TILE:
        return st.integers(0, most)
    near = st.builds(
        lambda tiles, step: min(max(tiles * tile + step, 0), most),
        st.integers(0, most // tile),
        st.integers(-_NEAR_TILE, _NEAR_TILE),
    )
    return st.one_of(st.integers(0, most), st.sampled_from((0, 1)), near)


def counts(
    *, most_experts: int = 16, most_rows: int = 1024, tile: int = TILE
) -> st.SearchStrategy[list[int]]:
    """Return a strategy for tokens_per_expert: 1 to `most_experts` counts of 0 to `most_rows` rows."""
    return st.lists(_rows(most_rows, tile), min_size=1, max_size=most_experts)


@st.composite
def sizings(
    draw: st.DrawFn,
    *,
    most_tokens: int = 4096,
    most_topk: int = 16,
    most_experts: int = 1024,
    tiles: st.SearchStrategy[int] | None = None,
) -> Sizing:
    """Draw sizes without expert parallelism: tokens from 0, topk and experts from 1, tile 128 unless `tiles` is given."""
    experts = draw(st.integers(1, most_experts))
    return Sizing(
        tokens=draw(st.integers(0, most_tokens)),
        topk=draw(st.integers(1, most_topk)),
        num_experts=experts,
        num_global_experts=experts,
        tile=TILE if tiles is None else draw(tiles),
    )


@st.composite
def topk_ids(
    draw: st.DrawFn,
    *,
    most_tokens: int = 8,
    most_topk: int = 4,
    most_experts: int = 8,
    distinct: bool = False,
    dropped: bool = True,
) -> tuple[torch.Tensor, int]:
    """Draw (topk_ids int32 (tokens, topk), number of experts).

    Args:
        draw: given by hypothesis.
        most_tokens, most_topk, most_experts: limits, each at least 1; some batches have no token.
        distinct: the ids of a token differ (-1 aside).
        dropped: ids may be -1.
    """
    experts = draw(st.integers(1, most_experts))
    slot = st.tuples(st.integers(0, experts - 1), st.booleans() if dropped else st.just(False))
    unique = (lambda pair: pair[0]) if distinct else None
    limit = min(most_topk, experts) if distinct else most_topk
    # The first token sets topk: a list of free length loses slots one by one when it shrinks.
    first = draw(st.lists(slot, min_size=1, max_size=limit, unique_by=unique))
    row = st.lists(slot, min_size=len(first), max_size=len(first), unique_by=unique)
    rows = [first, *draw(st.lists(row, max_size=most_tokens - 1))]
    if draw(st.booleans()) and draw(st.booleans()):
        rows = []
    ids = [[-1 if drop else expert for expert, drop in row] for row in rows]
    return torch.tensor(ids, dtype=torch.int32).view(len(rows), len(first)), experts
