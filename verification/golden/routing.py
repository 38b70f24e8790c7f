"""Golden check of the routing metadata: directed and random ids, duplicates, -1, both id types, two tiles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from nvfp4_moe.verification import counter, oracle_routing
from nvfp4_moe.verification.golden.tally import Tally

TOKENS = (0, 1, 2, 5, 64, 129, 300)
TOPK = (1, 2, 8)
EXPERTS = (1, 2, 7, 16, 257)
TILES = (128, 4)
SHAPES = ((96, 64, True), (48, 32, False))
"""(n, k, is_gated), one for each tile."""
FIELDS = (
    "tokens_per_expert",
    "expert_offsets",
    "blockscale_offsets",
    "problem_sizes1",
    "problem_sizes2",
    "input_permutation",
    "output_permutation",
)


def check_routing(tally: Tally) -> None:
    """Every entry of the metadata equals the oracle's."""
    tally.covers(
        f"tokens {', '.join(map(str, TOKENS))}; topk {', '.join(map(str, TOPK))}; "
        f"experts {', '.join(map(str, EXPERTS))}; uniform, with -1, all on one expert, all -1"
    )
    for number, (name, ids, experts) in enumerate(_cases(tally.seed)):
        which = number % len(TILES)
        if not _compare(tally, name, ids, experts, which):
            return


def _cases(seed: int) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Yield name, ids and experts; the id type alternates."""
    start = 0
    for tokens in TOKENS:
        for topk in TOPK:
            for experts in EXPERTS:
                raw = counter.words(seed, "golden_routing", start, tokens * topk)
                start += tokens * topk
                uniform = counter.below(raw, experts).reshape(tokens, topk)
                dropped = torch.where(counter.below(raw, 3, half=0).reshape(tokens, topk) == 0, -1, uniform)
                yield "uniform", uniform.to(torch.int32), experts
                yield "with_minus_one", dropped, experts
                yield "one_expert", torch.full_like(uniform, experts - 1), experts
                yield "all_minus_one", torch.full_like(uniform, -1).to(torch.int32), experts


def _compare(tally: Tally, name: str, ids: torch.Tensor, experts: int, which: int) -> bool:
    tile, (n, k, is_gated) = TILES[which], SHAPES[which]
    true = oracle_routing.route(ids.tolist(), experts, n=n, k=k, is_gated=is_gated, tile=tile)
    subject = tally.model.route(ids, experts, n=n, k=k, is_gated=is_gated, tile=tile)

    case = {
        "family": name,
        "topk_ids": ids.tolist(),
        "num_experts": experts,
        "tile": tile,
        "n": n,
        "k": k,
        "is_gated": is_gated,
    }
    return all(
        tally.compare(
            entry,
            np.array(getattr(true, entry), dtype=np.int64),
            getattr(subject, entry).numpy().astype(np.int64),
            case=case,
        )
        for entry in FIELDS
    )
