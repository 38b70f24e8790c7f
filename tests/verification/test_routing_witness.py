"""Routing and placement witnesses: replayed on the golden model, read without trust."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nvfp4_moe.reference import routing as reference_routing
from nvfp4_moe.verification import routing_witness as witnesses
from nvfp4_moe.verification.routing_check import broken_claims

ROUTING = witnesses.routing_witness(torch.tensor([[0, 1], [-1, 1]]), 3, tile=4, broken=["stable"])
PLACEMENT = witnesses.placement_witness("padding.disjoint", [3, 0, 5], placement="align_up", tile=4)


@pytest.mark.parametrize("document", [ROUTING, PLACEMENT])
def test_the_golden_model_does_not_reproduce(document: dict[str, Any]) -> None:
    told = witnesses.replay(document)
    assert not told.reproduces
    assert told.lines[-1] == "every predicate holds"


def test_a_broken_routing_reproduces(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_expert_more(ids: torch.Tensor, experts: int, **sizes: Any) -> reference_routing.Routing:
        return reference_routing.route(torch.where(ids >= 0, (ids + 1) % experts, ids), experts, **sizes)

    monkeypatch.setattr(witnesses, "route", one_expert_more)
    told = witnesses.replay(ROUTING)
    assert told.reproduces
    assert any(line.startswith("routing.counts: broken by") for line in told.lines)


def test_broken_regions_reproduce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "expert_starts", lambda counts, **rule: [0, 0, 0, 8])
    told = witnesses.replay(PLACEMENT)
    assert told.reproduces
    assert "regions_disjoint" in told.lines[-1]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"num_experts": 0}, "num_experts must be between 1"),
        ({"num_experts": 2_000_000_000}, "num_experts must be at most 65,536, got 2000000000"),
        ({"topk": 10**18}, "topk must be at most 1,024, got 10"),
        ({"tile": 10**17}, "tile must be at most 357,913,941 for 3 experts, got 10"),
        ({"topk": 3}, "lists of 3 ids"),
        ({"topk_ids": 5}, "lists of 2 ids"),
        ({"topk_ids": [[0, -2]]}, "topk_ids"),
        ({"topk_ids": [[0, 10**30]]}, "topk_ids"),
        ({"topk_ids": [[0, 3]]}, r"outside \[-1, 3\)"),
        ({"topk_ids": [[0, "x"]]}, "topk_ids"),
    ],
)
def test_bad_routings_are_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        witnesses.replay(ROUTING | change)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"placement": "loose"}, "placement must be one of"),
        ({"tokens_per_expert": []}, "list of counts"),
        ({"tokens_per_expert": [1, -1]}, r"tokens_per_expert\[1\]"),
        ({"tile": True}, "tile must be an integer"),
    ],
)
def test_bad_placements_are_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        witnesses.replay(PLACEMENT | change)


def test_missing_keys_are_named() -> None:
    with pytest.raises(ValueError, match="needs 'num_experts'"):
        witnesses.replay({"kind": "routing"})
    with pytest.raises(ValueError, match="needs 'tile'"):
        witnesses.replay({"kind": "placement"})


def test_wrong_shapes_are_a_broken_claim() -> None:
    ids = torch.tensor([[0, 1]])
    routing = reference_routing.route(ids, 3, n=16, k=32)
    broken = broken_claims(ids, routing, num_experts=4, n=16, k=32, is_gated=True, tile=128)
    assert "shape of tokens_per_expert" in broken["routing.offsets"]
