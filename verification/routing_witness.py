"""Witnesses of the routing and placement checks, and their replay on the golden model.

A routing witness is `{"kind": "routing", "topk_ids", "num_experts", "tile", "broken"}`, a placement witness
`{"kind": "placement", "claim", "placement", "tile", "tokens_per_expert"}`. Both say which predicates failed; a replay
makes the routing or the regions again with the present code and asks the predicates again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from nvfp4_moe.reference.padding import LARGEST_SIZE, PLACEMENTS, check_size, expert_starts, padded_rows
from nvfp4_moe.reference.routing import route
from nvfp4_moe.verification import predicates
from nvfp4_moe.verification.bound_witness import Replay
from nvfp4_moe.verification.placements import LIMITS
from nvfp4_moe.verification.routing_check import broken_claims
from nvfp4_moe.verification.trace_model import MAX_EXPERTS, MAX_PADDED_ROWS, MAX_TOPK
from nvfp4_moe.verification.worst_case import last_end

_N, _K = 16, 32
"""GEMM sizes of a replay; they enter nothing but the problem sizes."""


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


def placement_witness(
    claim: str, tokens_per_expert: Sequence[int], *, placement: str, tile: int
) -> dict[str, Any]:
    """Return the JSON form of counts whose regions, placed by a rule, broke a padding claim."""
    return {
        "kind": "placement",
        "claim": claim,
        "placement": placement,
        "tile": tile,
        "tokens_per_expert": list(tokens_per_expert),
    }


def replay(document: Mapping[str, Any]) -> Replay:
    """Make a routing or its regions again and ask the predicates again.

    Raises:
        ValueError, TypeError: the document is no such witness; the text names the key.
    """
    return _replay_placement(document) if document.get("kind") == "placement" else _replay_routing(document)


def _replay_routing(document: Mapping[str, Any]) -> Replay:
    experts, topk, tile = (_size(document, name) for name in ("num_experts", "topk", "tile"))
    if experts > MAX_EXPERTS:
        raise ValueError(f"num_experts must be at most {MAX_EXPERTS:,}, got {experts}")
    if topk > MAX_TOPK:
        raise ValueError(f"topk must be at most {MAX_TOPK:,}, got {topk}")
    if experts * tile > MAX_PADDED_ROWS:
        raise ValueError(
            f"tile must be at most {MAX_PADDED_ROWS // experts:,} for {experts:,} experts, got {tile}"
        )
    rows = _value(document, "topk_ids")
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == topk for row in rows):
        raise ValueError(f"topk_ids must be a list of lists of {topk} ids")
    for row in rows:
        for value in row:
            check_size(
                "an id of topk_ids, plus one,", value + 1 if isinstance(value, int) else value, at_least=0
            )
    topk_ids = torch.tensor(rows, dtype=torch.int64).view(len(rows), topk)
    routing = route(topk_ids, experts, n=_N, k=_K, is_gated=True, tile=tile)
    broken = broken_claims(topk_ids, routing, num_experts=experts, n=_N, k=_K, is_gated=True, tile=tile)
    lines = [f"routing: {len(rows):,} tokens, topk {topk:,}, {experts:,} experts, tile {tile:,}"]
    lines += [f"{claim}: broken by {', '.join(names)}" for claim, names in broken.items()]
    return Replay(bool(broken), (*lines, *(() if broken else ("every predicate holds",))))


def _replay_placement(document: Mapping[str, Any]) -> Replay:
    tile, placement = _size(document, "tile"), _value(document, "placement")
    if placement not in PLACEMENTS:
        raise ValueError(f"placement must be one of {', '.join(PLACEMENTS)}, got {placement!r:.60}")
    counts = _value(document, "tokens_per_expert")
    if not isinstance(counts, list) or not counts:
        raise ValueError("tokens_per_expert must be a list of counts")
    counts = [check_size(f"tokens_per_expert[{e}]", count, at_least=0) for e, count in enumerate(counts)]
    if sum(counts) + len(counts) * tile > LARGEST_SIZE:
        raise ValueError(
            f"the regions of tokens_per_expert ({sum(counts)} rows, {len(counts)} experts, tile {tile}) must end by "
            f"{LARGEST_SIZE}"
        )
    starts = expert_starts(counts, placement=placement, tile=tile)
    limit = LIMITS[placement](sum(counts), len(counts), tile)
    end = last_end(counts, placement=placement, tile=tile)
    as_tensor, regions = torch.tensor(counts), torch.tensor(starts)
    held = {
        "regions_disjoint": predicates.regions_disjoint(regions[:-1], as_tensor, tile=tile),
        "rows_fit": predicates.rows_fit(regions, as_tensor),
        "starts_aligned": predicates.starts_aligned(regions, tile=tile),
        "regions_inside": predicates.regions_inside(regions[:-1], as_tensor, limit, tile=tile),
    }
    broken = [name for name, holds in held.items() if not bool(holds)]
    lines = (
        f"regions: {len(counts):,} experts placed by {placement}, tile {tile:,}, {padded_rows(counts, tile=tile):,} "
        f"padded rows, the last ends at {end:,} of {limit:,}",
        f"broken: {', '.join(broken)}" if broken else "every predicate holds",
    )
    return Replay(bool(broken), lines)


def _value(document: Mapping[str, Any], name: str) -> Any:
    if name not in document:
        raise ValueError(f"a witness of kind {document.get('kind')!r:.60} needs {name!r}")
    return document[name]


def _size(document: Mapping[str, Any], name: str) -> int:
    return check_size(name, _value(document, name), at_least=1)
