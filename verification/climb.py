"""Hill climbing towards a bound: how much of its rows can a routing be made to use?

From random routings of exactly the bound's tokens, rows are moved from one expert to another. A move is kept when the
end of the last region rises, or stays and the rows beyond the first of each last tile are no less gathered on few
experts (by their sum of squares): gathered rows open a tile sooner than scattered ones. The moves are those that padding
responds to: one row, the rows of the last tile but one, a whole tile, or any number. Formulas are opaque: nothing here
knows where their worst case lies, so that reaching it says something about both. The walk is a function of the seed and
the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.padding import TILE, Sizing
from nvfp4_moe.verification import counter
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.placements import last_ends, placement_starts
from nvfp4_moe.verification.result import Outcome, Verdict

STARTS = 8
"""Walks that climb side by side."""
STEPS_PER_PAIR = 20
"""Moves tried for each walk, times (experts + 4)^2: a move picks a pair of experts."""
PATIENCE_PER_PAIR = 2
"""A search ends after this many moves without a gain, times (experts + 4)^2."""
EXPERTS = (1, 2, 5, 8, 16)
MOST_EXPERTS = 1 << 13
"""Larger models are not climbed: every walk moves whole count vectors."""
MOST_WORDS = 1 << 24
"""Random words that the starts of a search may take: 128 MiB. Sizes that need more are not climbed."""
MOST_STEPS = 1 << 13
_MOST_MOVED = 1 << 19
"""Steps x experts of a search of `climb_bounds`, which has about a second for each."""
_TOPK = (1, 2)
_EXTRA_TILES = 3
_MOVES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """The fullest routing that one search found."""

    bound: Bound
    sizing: Sizing
    tokens_per_expert: list[int]
    end: int
    """Rows that the routing needs."""
    rows: int
    """Rows that the bound gives."""
    routings: int
    """Routings looked at: the starts and every move."""

    @property
    def use(self) -> float:
        """Return end / rows."""
        return self.end / self.rows if self.rows > 0 else float(self.end > 0)

    def witness(self) -> BoundWitness:
        """Return the routing as a witness that attains or overruns the bound (or leaves it loose)."""
        relation = "attained" if self.end == self.rows else "overrun"
        return BoundWitness(
            bound=self.bound,
            relation=relation,
            ids=self.bound.ids,
            placement=self.bound.placement,
            sizing=self.sizing,
            tokens=self.sizing.tokens,
            tokens_per_expert=self.tokens_per_expert,
            bound_rows=self.rows,
        )


def climb(
    bound: Bound, sizing: Sizing, *, seed: int = 0, starts: int = STARTS, steps: int | None = None
) -> Climb:
    """Climb from `starts` random routings of `sizing.tokens` tokens; stop once a walk uses every row or none gains.

    Args:
        bound: what to climb towards.
        sizing: tokens, topk, experts and tile; all tokens are routed, none of the ids is dropped.
        seed: of starts and moves.
        starts: walks side by side.
        steps: moves tried for each walk; None: enough for the number of experts.
    """
    experts, tile = sizing.num_experts, sizing.tile
    pairs = (experts + 4) ** 2
    steps = STEPS_PER_PAIR * pairs if steps is None else steps
    counts = _random_routings(bound, sizing, seed, starts)
    most = sizing.tokens if bound.ids == "distinct" else int(counts.sum(1).max())
    rows = bound.rows(sizing)
    raw = counter.words(seed, _stream("moves", bound, sizing), 0, steps * starts * 2).view(steps, starts, 2)
    ends, gathered = _ends(counts, bound, tile), _gathered(counts, tile)
    done = gained = highest = 0
    while done < steps and done - gained < PATIENCE_PER_PAIR * pairs:
        if int(ends.max()) > highest:
            highest, gained = int(ends.max()), done
        if highest >= rows:
            break
        moved = _move(counts, raw[done], most=most, tile=tile)
        moved_ends, moved_gathered = _ends(moved, bound, tile), _gathered(moved, tile)
        kept = (moved_ends > ends) | ((moved_ends == ends) & (moved_gathered >= gathered))
        counts = torch.where(kept[:, None], moved, counts)
        ends, gathered = torch.where(kept, moved_ends, ends), torch.where(kept, moved_gathered, gathered)
        done += 1
    best = int(ends.argmax())
    return Climb(
        bound=bound,
        sizing=sizing,
        tokens_per_expert=counts[best].tolist(),
        end=int(ends[best]),
        rows=rows,
        routings=(done + 1) * starts,
    )


def climb_bounds(
    bounds: Sequence[Bound],
    progress: Callable[[int], None],
    should_stop: Callable[[], bool],
    *,
    seed: int = 0,
    tile: int = TILE,
    experts: Sequence[int] = EXPERTS,
) -> list[tuple[str, Outcome]]:
    """Climb towards each bound for several sizes.

    Args:
        bounds: what to climb towards.
        progress: told the routings looked at since its last call.
        should_stop: asked between searches.
        seed: of starts and moves.
        tile: rows of a scale tile.
        experts: expert counts to try; sizes beyond `MOST_EXPERTS` and `MOST_WORDS` are left out.

    Returns:
        For each bound (`padding.bound`, outcome) and (`padding.attained`, outcome): REFUTED with the routing that
        overran it, HELD otherwise; attained is HELD with its witness, or UNDECIDED with the highest use. Both are SKIPPED where no size could
        be climbed.
    """
    outcomes: list[tuple[str, Outcome]] = []
    for bound in bounds:
        found = []
        for sizing in _sizings(bound, tile, experts):
            if should_stop():
                break
            if sizing.tokens <= bound.most_tokens(sizing, bound.rows(sizing)):
                found.append(climb(bound, sizing, seed=seed, steps=_steps(sizing)))
                progress(found[-1].routings)
        outcomes += _outcomes(bound, found)
    return outcomes


def _outcomes(bound: Bound, found: Sequence[Climb]) -> list[tuple[str, Outcome]]:
    if not found:
        skipped = Outcome(verdict=Verdict.SKIPPED, cases=0, detail=f"{bound.name}: no size could be climbed")
        return [("padding.bound", skipped), ("padding.attained", skipped)]
    routings = sum(result.routings for result in found)
    over = min(
        (result for result in found if result.end > result.rows),
        key=lambda result: (sum(result.tokens_per_expert), result.sizing.num_experts),
        default=None,
    )
    highest = max(found, key=lambda result: result.use)
    full = next((result for result in found if result.end == result.rows), None)
    detail = f"{bound.name}: highest use {highest.use:.6f} from {len(found)} searches"
    if over is not None:
        holds = Outcome(
            verdict=Verdict.REFUTED,
            cases=routings,
            detail=f"{bound.name}: {over.witness()}",
            witness=over.witness().to_json(),
        )
    else:
        holds = Outcome(verdict=Verdict.HELD, cases=routings, detail=detail)
    attained = Outcome(
        verdict=Verdict.UNDECIDED if full is None else Verdict.HELD,
        cases=routings,
        detail=detail,
        witness=None if full is None else full.witness().to_json(),
    )
    return [("padding.bound", holds), ("padding.attained", attained)]


def _sizings(bound: Bound, tile: int, experts: Sequence[int]) -> list[Sizing]:
    """Return sizes with T at and a few tiles above the number of experts, where bounds are tight if ever."""
    sizings = []
    for count in (count for count in experts if count <= MOST_EXPERTS):
        for topk in _TOPK:
            if bound.ids == "distinct" and topk > count:
                continue
            for rows in (count, count + _EXTRA_TILES * tile):
                tokens = max(rows // topk, 1)
                sizing = Sizing(
                    tokens=tokens, topk=topk, num_experts=count, num_global_experts=count, tile=tile
                )
                if sizing not in sizings and _start_words(bound, sizing) <= MOST_WORDS:
                    sizings.append(sizing)
    return sizings


def _start_words(bound: Bound, sizing: Sizing) -> int:
    """Return the random words that the starts of a search take."""
    each = sizing.num_experts if bound.ids == "distinct" else sizing.topk
    return STARTS * sizing.tokens * each


def _steps(sizing: Sizing) -> int:
    """Return the moves that a search of `climb_bounds` may try."""
    enough = STEPS_PER_PAIR * (sizing.num_experts + 4) ** 2
    return min(enough, MOST_STEPS, _MOST_MOVED // sizing.num_experts)


def _random_routings(bound: Bound, sizing: Sizing, seed: int, starts: int) -> torch.Tensor:
    """Return counts int64 (starts, E) of routings of all tokens; distinct ids where the bound asks for them."""
    tokens, topk, experts = sizing.tokens, sizing.topk, sizing.num_experts
    stream = _stream("starts", bound, sizing)
    if bound.ids == "distinct":
        raw = counter.words(seed, stream, 0, starts * tokens * experts).view(starts, tokens, experts)
        ids = counter.order(raw)[:, :, : min(topk, experts)].reshape(starts, -1)
    else:
        ids = counter.below(counter.words(seed, stream, 0, starts * tokens * topk), experts).view(starts, -1)
    ones = torch.ones((), dtype=torch.int64).expand_as(ids)
    return torch.zeros(starts, experts, dtype=torch.int64).scatter_add_(1, ids, ones)


def _move(counts: torch.Tensor, raw: torch.Tensor, *, most: int, tile: int) -> torch.Tensor:
    """Return the counts after one move in each walk: `raw` (starts, 2) words choose from, to and how many."""
    experts = counts.shape[1]
    source, target = counter.below(raw[:, :1], experts), counter.below(raw[:, :1], experts, half=0)
    have, room = counts.gather(1, source), most - counts.gather(1, target)
    amounts = torch.cat(
        [
            torch.ones_like(have),
            torch.remainder(have - 1, tile),  # leaves the source its tiles, the last with one row
            torch.full_like(have, tile),
            counter.below(raw[:, 1:], have + 1),
        ],
        dim=1,
    )
    amount = amounts.gather(1, counter.below(raw[:, 1:], _MOVES, half=0))
    amount = torch.minimum(amount, torch.minimum(have, room)).masked_fill(source == target, 0)
    return counts.scatter_add(1, source, -amount).scatter_add_(1, target, amount)


def _ends(counts: torch.Tensor, bound: Bound, tile: int) -> torch.Tensor:
    return last_ends(counts, placement_starts(counts, placement=bound.placement, tile=tile), tile=tile)


def _gathered(counts: torch.Tensor, tile: int) -> torch.Tensor:
    """Return the sum of squares of the rows beyond the first of each last tile, int64 (starts,)."""
    beyond = torch.remainder(counts - 1, tile).masked_fill_(counts == 0, 0)
    return (beyond * beyond).sum(1)


def _stream(purpose: str, bound: Bound, sizing: Sizing) -> str:
    s = sizing
    return f"climb/{purpose}/{bound.ids}/E{s.num_experts}/M{s.tokens}/k{s.topk}/A{s.tile}"
