"""Which figures belong to a run of `savings`: names, what they show in words, and how to draw each.

for planned in plan_figures(savings, uses=uses, models=shards):
    figure = planned.draw(THEMES["dark"])
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.bytes_by_model import BARS, draw_bytes_by_model
from nvfp4_moe.analysis.figures.looseness import draw_looseness
from nvfp4_moe.analysis.figures.padding_used import draw_padding_used
from nvfp4_moe.analysis.figures.rows_by_tokens import draw_rows_by_tokens
from nvfp4_moe.analysis.figures.theme import Theme
from nvfp4_moe.analysis.savings import Savings
from nvfp4_moe.analysis.savings_curves import MOST_TOKENS, looseness_map, rows_by_tokens
from nvfp4_moe.analysis.savings_padding import PaddingUse
from nvfp4_moe.analysis.tables import mebibytes
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import Shard

_LONGEST_SLUG = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One figure, not drawn yet."""

    name: str
    """Stem of its files and of its ids: lower-case letters, digits, - and _."""
    label: str
    """What it shows, for those who cannot see it."""
    caption: str
    """What it is, in a line."""
    draw: Callable[[Theme], Figure]


def plan_figures(
    savings: Savings, *, uses: Sequence[PaddingUse] = (), shards: Sequence[Shard] = ()
) -> list[Planned]:
    """Return the figures of a run.

    Args:
        savings: bytes by model, one figure for each M.
        uses: padding that routings use, one figure for all; none without.
        shards: what a rank holds of the models that get figures of their own: rows over tokens for each, a map of
            looseness for each topk among them.
    """
    planned = [_bytes(savings, tokens) for tokens in savings.max_num_batched_tokens]
    planned += [_rows(part, name) for part, name in zip(shards, _slugs(shards), strict=True)]
    if uses:
        planned.append(_padding(uses))
    for topk in dict.fromkeys(part.model.topk for part in shards):
        planned.append(_looseness(topk, shards))
    return planned


def _bytes(savings: Savings, tokens: int) -> Planned:
    said = []
    for part in savings.shards:
        peaks = {line.formula.name: line.peak_bytes for line in savings.of(part.model.name, tokens)}
        said.append(f"{part.model.name} {', '.join(f'{name} {mebibytes(peaks[name])}' for name in BARS)}")
    return Planned(
        name=f"bytes_by_model-{tokens}",
        label=f"Bars: peak MiB of the scale buffers of one layer at {tokens:,} batched tokens. {'; '.join(said)}.",
        caption=f"Peak bytes of the scale buffers of one layer at {tokens:,} batched tokens, model by model",
        draw=lambda theme: draw_bytes_by_model(savings, tokens=tokens, theme=theme),
    )


def _rows(part: Shard, slug: str) -> Planned:
    curves = rows_by_tokens(part)
    ends = "; ".join(
        f"{curve.names[0]} from {curve.rows[0]:,} to {curve.rows[-1]:,}" for curve in curves.curves
    )
    return Planned(
        name=f"rows_by_tokens-{slug}",
        label=f"Lines: scale rows of {part.model.name} from 1 to {MOST_TOKENS:,} batched tokens, above the exact worst "
        f"case. {ends}.",
        caption=f"Rows of every formula against batched tokens: {part.model.name}",
        draw=partial(_drawn, draw_rows_by_tokens, curves),
    )


def _padding(uses: Sequence[PaddingUse]) -> Planned:
    medians = "; ".join(f"{use.name}, {use.batching}: {use.quantiles[3]:.0%}" for use in uses)
    return Planned(
        name="padding_used",
        label=f"Boxes: padding rows that routings use, as a share of the bound's. Medians: {medians}.",
        caption="Padding that recorded and synthetic routings use, under the bound",
        draw=partial(_drawn, draw_padding_used, uses),
    )


def _looseness(topk: int, shards: Sequence[Shard]) -> Planned:
    found = looseness_map(topk)
    own = {part.model.name: part.model for part in shards if part.expert_parallel_size == 1}
    models = list((ZOO | own).values())
    return Planned(
        name=f"looseness-topk{topk}",
        label=f"Map over experts and batched tokens at topk {topk}: rows of the proposed formula over the exact worst "
        f"case, from {min(map(min, found.ratio)):.2f} to {max(map(max, found.ratio)):.0f}. It is near 1 once tokens x "
        "topk reach the number of experts.",
        caption=f"Proposed over exact worst case, by experts and tokens, topk {topk}",
        draw=lambda theme: draw_looseness(found, theme=theme, models=models),
    )


def _drawn(draw: Callable[..., Figure], numbers: object, theme: Theme) -> Figure:
    return draw(numbers, theme=theme)


def _slugs(shards: Sequence[Shard]) -> list[str]:
    """Return a part of a file name for each model, no two alike."""
    found: list[str] = []
    for part in shards:
        slug = re.sub("[^a-z0-9]+", "-", part.model.name.lower()).strip("-")[:_LONGEST_SLUG] or "model"
        numbered = (f"{slug}-{number}" for number in itertools.count(2))
        found.append(next(name for name in itertools.chain([slug], numbered) if name not in found))
    return found
