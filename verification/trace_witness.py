"""The witness of a routing claim that a recorded pass broke: the pass, its ids, and what was broken.

JSON form: `kind` ("trace"), `claim`, `broken` (names of predicates), `num_experts` (on the rank), `topk`, `tile`,
`trace` (file, layer, pass, first_token, tokens, rank) and `topk_ids` (tokens, topk). It stands alone: a replay reads
the ids, not the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.verification.bound_witness import Replay
from nvfp4_moe.verification.trace_model import MAX_EXPERTS, MAX_OPEN_IDS, MAX_TOPK
from nvfp4_moe.verification.trace_report import Place
from nvfp4_moe.verification.trace_routing import ROUTING_CLAIMS, broken_claims, check_trace_sizes, route_ids

KIND = "trace"


def trace_witness(
    claim: str,
    broken: Sequence[str],
    topk_ids: torch.Tensor,
    *,
    num_experts: int,
    tile: int,
    file: Path,
    place: Place,
) -> dict[str, Any]:
    """Return the JSON form of a pass that breaks `claim`."""
    return {
        "kind": KIND,
        "claim": claim,
        "broken": list(broken),
        "num_experts": num_experts,
        "topk": int(topk_ids.shape[1]),
        "tile": tile,
        "trace": {"file": str(file), **place.to_json()},
        "topk_ids": topk_ids.tolist(),
    }


def replay(document: Mapping[str, Any]) -> Replay:
    """Route the recorded ids again and check the claim.

    Raises:
        ValueError, TypeError: the document is no such witness; the text names the key and its value.
    """
    claim = document.get("claim")
    if claim not in ROUTING_CLAIMS:
        raise ValueError(f"claim must be one of {', '.join(ROUTING_CLAIMS)}, got {claim!r:.60}")
    num_experts = check_size("num_experts", document.get("num_experts", 0), at_least=1)
    if num_experts > MAX_EXPERTS:
        raise ValueError(f"num_experts must be at most {MAX_EXPERTS}, got {num_experts}")
    tile = check_size("tile", document.get("tile", 0), at_least=1)
    check_trace_sizes(num_experts, tile=tile)
    ids = _ids(document, num_experts)
    routed = route_ids(ids, num_experts, tile=tile)
    broken = broken_claims(routed).get(str(claim), [])
    what = f"{claim}: {ids.shape[0]:,} tokens, topk {ids.shape[1]}, {num_experts} experts, tile {tile}"
    if broken:
        return Replay(True, (f"{what}: broken again: {', '.join(broken)}",))
    return Replay(False, (f"{what}: holds now",))


def _ids(document: Mapping[str, Any], num_experts: int) -> torch.Tensor:
    """Return topk_ids (tokens, topk) int32 of a document that is not trusted."""
    topk = check_size("topk", document.get("topk", 0), at_least=1)
    rows = document.get("topk_ids")
    if topk > MAX_TOPK or not isinstance(rows, list) or not 1 <= len(rows) <= MAX_OPEN_IDS // topk:
        raise ValueError(f"topk_ids must be a list of tokens with topk ({topk}) ids each")
    for token, row in enumerate(rows):
        right = isinstance(row, list) and len(row) == topk
        if not right or not all(type(n) is int and -1 <= n < num_experts for n in row):
            raise ValueError(
                f"topk_ids[{token}] must hold {topk} integers in [-1, {num_experts}), got {row!r:.60}"
            )
    return torch.tensor(rows, dtype=torch.int32)
