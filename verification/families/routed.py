"""Families that start as ids: what routers, hash tables, padded batches and expert parallelism hand to the op.

Scores are integers. The k best experts of softmax(logits) are the k largest logits, because exp rises, so the
softmax is not computed; the sigmoid of grouped routing is a table, because there a bias is added to it and scores of
a group are summed. Ties go to the expert with the lower id, by a key that is unique to each expert.
"""

from __future__ import annotations

import torch

from nvfp4_moe.verification import counter
from nvfp4_moe.verification.families import tables
from nvfp4_moe.verification.families.family import Draw, IdsFamily
from nvfp4_moe.verification.families.lanes import LANES, splat, words_for

SCORE_BITS = 15
"""Bits of a random score; with 15 a lane is never negative when read as int16."""
_GROUPS = (8, 4, 2, 1)
"""Numbers of expert groups tried: the first that divides the experts into groups of two or more is taken."""
_RANKS = 4
"""Ranks of the expert-parallel family."""
_VOCABULARY = 64
"""Tokens that the hash family draws from."""


def _best(scores: torch.Tensor, topk: int) -> torch.Tensor:
    """Return the ids of the topk largest scores of the last dimension; ties go to the lower id."""
    experts = scores.shape[-1]
    tie = torch.arange(experts - 1, -1, -1, device=scores.device)
    return (scores * experts + tie).topk(topk, dim=-1).indices


def _scores(draw: Draw, experts: int) -> torch.Tensor:
    """Return uniform integers int64 (count, tokens, experts) in [0, 2^15): a lane of a word for each."""
    each = words_for(experts)
    raw = draw.words("scores", draw.setting.tokens * each).bitwise_and_(splat((1 << SCORE_BITS) - 1))
    lanes = raw.view(torch.int16).view(draw.count, draw.setting.tokens, LANES * each)
    return lanes[:, :, :experts].long()


def _bias(draw: Draw, bits: int) -> torch.Tensor:
    """Return int64 (count, 1, E): an offset for each expert in [0, 2^bits), so that some are popular."""
    return counter.bits(draw.words("bias", draw.setting.num_experts), bits).unsqueeze(1)


def _uniform_distinct(draw: Draw) -> torch.Tensor:
    return _best(_scores(draw, draw.setting.num_experts), draw.setting.topk)


def _softmax_topk(draw: Draw) -> torch.Tensor:
    logits = _scores(draw, draw.setting.num_experts) + _bias(draw, SCORE_BITS - 1)
    return _best(logits, draw.setting.topk)


def _grouped_topk(draw: Draw) -> torch.Tensor:
    """DeepSeek-V3: sigmoid scores plus a bias; groups ranked by the sum of their two best; the best of half of them."""
    experts, topk = draw.setting.num_experts, draw.setting.topk
    logits = _scores(draw, experts) >> (SCORE_BITS - tables.SIGMOID_BITS)
    scores = tables.sigmoid()[logits] + _bias(draw, tables.SIGMOID_BITS + 4)
    groups = next(g for g in _GROUPS if g == 1 or (experts % g == 0 and experts // g >= 2))
    size = experts // groups
    kept = max(groups // 2, -(-topk // size))
    grouped = scores.view(draw.count, draw.setting.tokens, groups, size)
    best_groups = _best(grouped.topk(min(2, size), dim=-1).values.sum(-1), kept)
    allowed = torch.zeros(grouped.shape[:-1], dtype=torch.bool).scatter_(-1, best_groups, True)
    return _best(grouped.masked_fill(~allowed.unsqueeze(-1), -1).view_as(scores), topk)


def _zipf(draw: Draw) -> torch.Tensor:
    """Expert of popularity rank r is drawn with weight 1/r, ranks dealt to the experts anew in each case."""
    setting = draw.setting
    cumulative = tables.zipf_cumulative(setting.num_experts)
    raw = draw.words("draws", setting.tokens * setting.topk)
    ranks = torch.searchsorted(cumulative, counter.below(raw, int(cumulative[-1])), right=True)
    experts = counter.order(draw.words("ranks", setting.num_experts))
    return _shaped(draw, experts.gather(1, ranks))


def _dirichlet_multinomial(draw: Draw) -> torch.Tensor:
    """Expert weights are the gaps between E - 1 uniform points, a flat Dirichlet; slots are drawn by weight."""
    setting = draw.setting
    cuts = counter.bits(draw.words("cuts", setting.num_experts - 1), 31).sort(dim=1).values
    points = counter.bits(draw.words("draws", setting.tokens * setting.topk), 31)
    return _shaped(draw, torch.searchsorted(cuts, points, right=True))


def _hash_duplicates(draw: Draw) -> torch.Tensor:
    """k hashes of a token's vocabulary entry: ids repeat inside a token, and whole tokens repeat."""
    setting = draw.setting
    table = counter.below(draw.words("table", _VOCABULARY * setting.topk), setting.num_experts)
    entries = counter.below(draw.words("tokens", setting.tokens), _VOCABULARY)
    table = table.view(draw.count, _VOCABULARY, setting.topk)
    return table.gather(1, entries.unsqueeze(-1).expand(-1, -1, setting.topk))


def _padding_ids(draw: Draw) -> torch.Tensor:
    """A live batch in a larger captured one: the padding tokens all have id 0, or -1, or repeat the first token."""
    setting = draw.setting
    raw = draw.words("draws", setting.tokens * setting.topk)
    ids = _shaped(draw, counter.below(raw, setting.num_experts))
    if setting.tokens == 0:
        return ids
    head = draw.words("live", 1)
    live = counter.below(head, setting.tokens + 1)
    kind = counter.below(head, 3, half=0).unsqueeze(-1)
    padding = torch.where(kind == 0, 0, torch.where(kind == 1, -1, ids[:, :1]))
    return torch.where((torch.arange(setting.tokens) >= live).unsqueeze(-1), padding, ids)


def _expert_parallel(draw: Draw) -> torch.Tensor:
    """Distinct ids over four ranks' experts, seen by one rank: the other ranks' experts are -1."""
    setting = draw.setting
    ids = _best(_scores(draw, _RANKS * setting.num_experts), setting.topk)
    first = counter.below(draw.words("rank", 1), _RANKS).unsqueeze(-1) * setting.num_experts
    local = ids - first
    return local.masked_fill((local < 0) | (local >= setting.num_experts), -1)


def _shaped(draw: Draw, ids: torch.Tensor) -> torch.Tensor:
    return ids.view(draw.count, draw.setting.tokens, draw.setting.topk)


ROUTED = (
    IdsFamily(
        name="uniform_distinct",
        description="distinct uniform experts for each token",
        draw_ids=_uniform_distinct,
        ids="distinct",
    ),
    IdsFamily(
        name="softmax_topk",
        description="top-k of the softmax of random logits, some experts popular",
        draw_ids=_softmax_topk,
        ids="distinct",
    ),
    IdsFamily(
        name="grouped_topk",
        description="grouped routing of DeepSeek-V3: sigmoid scores with bias, best groups, best experts in them",
        draw_ids=_grouped_topk,
        ids="distinct",
    ),
    IdsFamily(
        name="expert_parallel",
        description="distinct experts over four ranks; ids of other ranks are -1",
        draw_ids=_expert_parallel,
        ids="distinct",
    ),
    IdsFamily(
        name="zipf",
        description="popularity falls as one over the rank",
        draw_ids=_zipf,
    ),
    IdsFamily(
        name="dirichlet_multinomial",
        description="expert weights from a flat Dirichlet distribution, new in each case",
        draw_ids=_dirichlet_multinomial,
    ),
    IdsFamily(
        name="hash_duplicates",
        description="hash routing: ids repeat inside a token, tokens repeat",
        draw_ids=_hash_duplicates,
    ),
    IdsFamily(
        name="padding_ids",
        description="a padded batch: padding tokens with id 0, with -1, or copies of the first token",
        draw_ids=_padding_ids,
    ),
)
"""The families that start as ids."""
