"""All claims about one routing: its metadata, and the scale rows that its offsets lead to."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nvfp4_moe.verification import predicates
from nvfp4_moe.verification.predicates import RoutingTensors

Route = Callable[..., RoutingTensors]
"""`route(topk_ids, num_experts, *, n, k, is_gated, tile)`, as `reference.routing.route`."""

ROUTING_CLAIMS = (
    "routing.counts",
    "routing.offsets",
    "routing.permutation",
    "padding.disjoint",
    "padding.coverage",
)
"""Claims that `broken_claims` checks."""


def broken_claims(
    topk_ids: torch.Tensor,
    routing: RoutingTensors,
    *,
    num_experts: int,
    n: int,
    k: int,
    is_gated: bool,
    tile: int,
) -> dict[str, list[str]]:
    """Return the routing and padding claims that do not hold of a routing, with the predicates that say so.

    Tensors of a wrong length break the claim they belong to; the predicates need right lengths and are not asked then.
    """
    wrong = _wrong_shapes(topk_ids, routing, num_experts)
    if wrong:
        return {"routing.offsets": wrong}
    broken = predicates.broken_routing_claims(topk_ids, routing, n=n, k=k, is_gated=is_gated, tile=tile)
    if broken:
        return broken  # the regions follow from offsets and counts: with these wrong they are nobody's
    counts, starts = routing.tokens_per_expert.long(), routing.blockscale_offsets.long()
    padded_rows = int(starts[-1])
    offsets = routing.expert_offsets.long()
    held = {
        "padding.disjoint": {
            "regions_disjoint": bool(predicates.regions_disjoint(starts[:-1], counts, tile=tile)),
        },
        "padding.coverage": {
            "rows_covered": predicates.rows_covered(offsets, starts, counts, padded_rows, tile=tile),
            "rows_fit": bool(predicates.rows_fit(starts, counts)),
        },
    }
    return {
        claim: names
        for claim, parts in held.items()
        if (names := [name for name, holds in parts.items() if not holds])
    }


def _wrong_shapes(topk_ids: torch.Tensor, routing: RoutingTensors, num_experts: int) -> list[str]:
    slots = topk_ids.numel()
    shapes = {
        "tokens_per_expert": (num_experts,),
        "expert_offsets": (num_experts + 1,),
        "blockscale_offsets": (num_experts + 1,),
        "problem_sizes1": (num_experts, 3),
        "problem_sizes2": (num_experts, 3),
        "input_permutation": (slots,),
        "output_permutation": (slots,),
    }
    return [
        f"shape of {name}" for name, shape in shapes.items() if tuple(getattr(routing, name).shape) != shape
    ]
