"""Fuzzing with ids: `topk_ids` through the whole routing path, every invariant checked on what comes out.

The routing under test is a callable with the arguments of `reference.routing.route`; nothing of it is trusted. Its
outputs go through the predicates, and the scale rows that its offsets lead to are looked at row by row: each routed
row has one of its own, in its expert's region, inside the rows that each bound gives for the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from nvfp4_moe.reference.padding import Sizing
from nvfp4_moe.reference.routing import route as reference_route
from nvfp4_moe.verification import predicates
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.families import FAMILIES
from nvfp4_moe.verification.fuzz_plan import Batch, BatchResult, Broken, Use
from nvfp4_moe.verification.result import Witness
from nvfp4_moe.verification.routing_witness import routing_witness

Route = Callable[..., predicates.RoutingTensors]
"""`route(topk_ids, num_experts, *, n, k, is_gated, tile)`."""

CLAIMS = ("routing.counts", "routing.offsets", "routing.permutation", "padding.disjoint", "padding.coverage")
"""Claims checked on every case, beside `padding.bound`."""
_GEMM_SIZES = ((64, 48, True), (48, 64, False), (16, 16, True))
"""(n, k, is_gated) of successive cases; the three values differ where a mix-up could hide."""


def run_ids(batch: Batch, bounds: Sequence[Bound], *, route: Route = reference_route) -> BatchResult:
    """Route every case of a batch and check all invariants; `route` is the implementation under test."""
    result = BatchResult(batch=batch, cases=batch.cases)
    result.checked = dict.fromkeys((*CLAIMS, "padding.bound"), batch.cases)
    result.uses = [Use(bound=bound.name) for bound in bounds]
    smallest: dict[str, Broken] = {}
    for index in range(batch.start, batch.start + batch.cases):
        for broken in _check_case(batch, index, bounds, result.uses, route):
            if broken.claim not in smallest or broken.size < smallest[broken.claim].size:
                smallest[broken.claim] = broken
    result.broken = list(smallest.values())
    return result


def _check_case(
    batch: Batch, index: int, bounds: Sequence[Bound], uses: Sequence[Use], route: Route
) -> list[Broken]:
    """Check one case, count its use of each bound, and return what it broke."""
    topk_ids = FAMILIES[batch.family].topk_ids(batch.seed, index, batch.setting)
    n, k, is_gated = _GEMM_SIZES[index % len(_GEMM_SIZES)]
    routing = route(topk_ids, batch.num_experts, n=n, k=k, is_gated=is_gated, tile=batch.tile)
    size = (int((topk_ids >= 0).sum()), batch.num_experts)
    found = [
        Broken(
            claim=claim,
            detail=", ".join(names),
            witness=routing_witness(topk_ids, batch.num_experts, tile=batch.tile, broken=names),
            size=size,
        )
        for claim, names in broken_claims(
            topk_ids, routing, num_experts=batch.num_experts, n=n, k=k, is_gated=is_gated, tile=batch.tile
        ).items()
    ]
    distinct = _ids_distinct(topk_ids)
    for bound, use in zip(bounds, uses, strict=True):
        if bound.placement == "packed" and (distinct or bound.ids == "any"):
            witness = _check_bound(bound, use, batch, topk_ids, routing)
            if witness is not None:
                detail = f"{bound.name}: the call needs {witness['rows']:,} rows, the bound gives {witness['bound']:,}"
                found.append(Broken(claim="padding.bound", detail=detail, witness=witness, size=size))
    return found


def broken_claims(
    topk_ids: torch.Tensor,
    routing: predicates.RoutingTensors,
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


def _wrong_shapes(topk_ids: torch.Tensor, routing: predicates.RoutingTensors, num_experts: int) -> list[str]:
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


def _check_bound(
    bound: Bound, use: Use, batch: Batch, topk_ids: torch.Tensor, routing: predicates.RoutingTensors
) -> Witness | None:
    """Hold the call's padded rows to the bound for a batch of exactly its tokens; return a witness if it overruns."""
    tokens, topk = topk_ids.shape
    sizing = Sizing(
        tokens=max(tokens, 1),
        topk=topk,
        num_experts=batch.num_experts,
        num_global_experts=batch.num_experts,
        tile=batch.tile,
    )
    rows, end = bound.rows(sizing), int(routing.blockscale_offsets[-1])
    if tokens > bound.most_tokens(sizing, rows):
        use.add(Use(bound=bound.name, refused=1))
        return None
    attained = end == rows
    if attained or end > rows:
        witness = BoundWitness(
            bound=bound,
            relation="attained" if attained else "overrun",
            ids=bound.ids,
            placement=bound.placement,
            sizing=sizing,
            tokens=tokens,
            tokens_per_expert=routing.tokens_per_expert.tolist(),
            bound_rows=rows,
        ).to_json()
    use.add(
        Use(
            bound=bound.name,
            cases=1,
            attained=int(attained),
            end=end,
            rows=rows,
            fullest=witness if attained else None,
        )
    )
    return witness if end > rows else None


def _ids_distinct(topk_ids: torch.Tensor) -> bool:
    """Tell whether no token names an expert twice, -1 aside."""
    ids = topk_ids.sort(dim=1).values
    return not bool(((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any())
