"""Witnesses of the routing and placement checks, and their replay on the golden model.

A routing witness is `{"kind": "routing", "topk_ids", "num_experts", "tile", "broken"}`, a placement witness
`{"kind": "placement", "claim", "placement", "tile", "tokens_per_expert"}`. Both say which predicates failed; a replay
makes the routing or the regions again with the present code and asks the predicates again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

MOST_IDS = 1 << 16
"""Routings with more ids are saved without them, as counts."""


def routing_witness(
    topk_ids: torch.Tensor, num_experts: int, *, tile: int, broken: Sequence[str]
) -> dict[str, Any]:
    """Return the JSON form of a routing that broke predicates."""
    return {
        "kind": "routing",
        "topk_ids": topk_ids.tolist(),
        "topk": topk_ids.shape[1],
        "num_experts": num_experts,
        "tile": tile,
        "broken": list(broken),
    }
