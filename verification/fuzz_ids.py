"""Fuzzing with ids: `topk_ids` through the whole routing path, every invariant checked on what comes out.

The routing under test is a callable with the arguments of `reference.routing.route`; nothing of it is trusted. Its
outputs go through the predicates, and the scale rows that its offsets lead to are looked at row by row: each routed
row has one of its own, in its expert's region, inside the rows that each bound gives for the call.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nvfp4_moe.reference.padding import Sizing
from nvfp4_moe.reference.routing import route as reference_route
from nvfp4_moe.verification.bound_witness import BoundWitness
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.families import FAMILIES
from nvfp4_moe.verification.fuzz_plan import Attained, Batch, BatchResult, Broken, Use
from nvfp4_moe.verification.predicates import RoutingTensors
from nvfp4_moe.verification.result import Witness
from nvfp4_moe.verification.routing_check import ROUTING_CLAIMS, Route, broken_claims
from nvfp4_moe.verification.routing_witness import routing_witness

_GEMM_SIZES = ((64, 48, True), (48, 64, False), (16, 16, True))
"""(n, k, is_gated) of successive cases; the three values differ where a mix-up could hide."""


def run_ids(batch: Batch, bounds: Sequence[Bound], *, route: Route = reference_route) -> BatchResult:
    """Route every case of a batch and check all invariants; `route` is the implementation under test."""
    result = BatchResult(batch=batch, cases=batch.cases)
    result.checked = dict.fromkeys((*ROUTING_CLAIMS, "padding.bound"), batch.cases)
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
            witness = _check_bound(bound, use, batch, index, topk_ids, routing)
            if witness is not None:
                detail = f"{bound.name}: the call needs {witness['rows']:,} rows, the bound gives {witness['bound']:,}"
                found.append(Broken(claim="padding.bound", detail=detail, witness=witness, size=size))
    return found


def _check_bound(
    bound: Bound, use: Use, batch: Batch, index: int, topk_ids: torch.Tensor, routing: RoutingTensors
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
    use.add(
        Use(
            bound=bound.name,
            cases=1,
            attained=int(attained),
            end=end,
            rows=rows,
            example=Attained(batch=batch, index=index, tokens=sizing.tokens) if attained else None,
        )
    )
    if end <= rows:
        return None
    return BoundWitness(
        bound=bound,
        relation="overrun",
        ids=bound.ids,
        placement=bound.placement,
        sizing=sizing,
        tokens=tokens,
        tokens_per_expert=routing.tokens_per_expert.tolist(),
        bound_rows=rows,
    ).to_json()


def _ids_distinct(topk_ids: torch.Tensor) -> bool:
    """Tell whether no token names an expert twice, -1 aside."""
    ids = topk_ids.sort(dim=1).values
    return not bool(((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any())
