"""Probes of `get_cutlass_moe_mm_data`: what it accepts, in which order its rows stand, what becomes of ids -1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nvfp4_moe.verification.conformance.call import TURNS, Refused, SubjectRaised
from nvfp4_moe.verification.conformance.cases import RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.routing_check import (
    check_routing,
    make_topk_ids,
    run_routing,
    true_routing,
)
from nvfp4_moe.verification.conformance.subject import Subject

_COUNTS = ((5, 2, 4), (64, 8, 17), (129, 6, 60))
"""(tokens, topk, experts) that are tried."""
_MOST_EXPERTS = 1024


def _case(ids: str, number: int, seed: int, **changes: Any) -> RoutingCase:
    tokens, topk, experts = _COUNTS[number]
    given: dict[str, Any] = {
        "index": number,
        "seed": seed,
        "tokens": tokens,
        "topk": topk,
        "num_experts": experts,
        "ids": ids,
        "id_dtype": "int32",
        "is_gated": True,
        "n": 512,
        "k": 1024,
    }
    return RoutingCase(**given | changes)


def _judged(subject: Subject, case: RoutingCase, arena: Arena, **contract: Any) -> dict[str, Any]:
    """Return what a case comes to under a contract: right, wrong (with the first fault), refused or raised."""
    held_to = Subject(subject.name, subject.device, Contract(**contract), **subject.operations)
    try:
        faults = check_routing(held_to, case, arena).faults
    except Refused as refusal:
        return {"answer": "refused", "text": str(refusal)}
    except SubjectRaised as raised:
        return {"answer": "raised", "text": str(raised).strip().splitlines()[-1]}
    return {"answer": "wrong", "text": faults[0].text} if faults else {"answer": "right", "text": ""}


def _worst(answers: list[dict[str, Any]]) -> dict[str, Any]:
    return next((answer for answer in answers if answer["answer"] != "right"), answers[0])


def ids(subject: Subject, arena: Arena, seed: int) -> dict[str, Any]:
    """Return for each dtype of ids what calls come to, rows in any order."""
    return {
        dtype: _worst(
            [
                _judged(
                    subject,
                    _case(family, number, seed, id_dtype=dtype),
                    arena,
                    row_order="any",
                    deterministic=False,
                )
                for number in range(len(_COUNTS))
                for family in ("uniform", "one_expert", "last_expert")
            ]
        )
        for dtype in ("int32", "int64")
    }


def order(subject: Subject, arena: Arena, seed: int) -> dict[str, Any]:
    """Return whether rows stand in token order, and whether repeated calls give the same order."""
    cases = [
        _case(family, number, seed) for number in range(len(_COUNTS)) for family in ("uniform", "cyclic")
    ]
    repeated = _worst([_judged(subject, case, arena, row_order="any") for case in cases])
    return {"stable": _worst([_judged(subject, case, arena) for case in cases]), "repeated": repeated}


def negative(subject: Subject, arena: Arena, seed: int) -> dict[str, Any]:
    """Return what ids -1 come to, by rows in token order and in any order."""
    families = ("negative", "one_negative", "all_negative")
    cases = [_case(family, number, seed) for number in range(len(_COUNTS)) for family in families]
    return {
        row_order: _worst([_judged(subject, case, arena, row_order=row_order, **loose) for case in cases])
        for row_order, loose in (("stable", {}), ("any", {"deterministic": False}))
    }


def experts(subject: Subject, arena: Arena, seed: int) -> dict[str, Any]:
    """Return the most experts for which the counts are right, and what one more comes to."""

    def right(count: int) -> dict[str, Any]:
        case = _case("uniform", 1, seed, num_experts=count)
        try:
            run, faults = run_routing(subject, case, make_topk_ids(case), arena, TURNS[1])
        except Refused as refusal:
            return {"answer": "refused", "text": str(refusal)}
        except SubjectRaised as raised:
            return {"answer": "raised", "text": str(raised).strip().splitlines()[-1]}
        same = torch.equal(run["expert_offsets"], true_routing(case).expert_offsets)
        return {"answer": "right" if same and not faults else "wrong", "text": ""}

    answer = right(_MOST_EXPERTS)
    if answer["answer"] == "right":
        return {"most": _MOST_EXPERTS, "refused_above": False}
    low, high = 0, _MOST_EXPERTS
    while high - low > 1:
        middle = (low + high) // 2
        tried = right(middle)
        if tried["answer"] == "right":
            low = middle
        else:
            high, answer = middle, tried
    return {"most": low, "refused_above": answer["answer"] == "refused", "text": answer["text"]}


ROUTING_PROBES: dict[str, Callable[[Subject, Arena, int], dict[str, Any]]] = {
    "ids": ids,
    "order": order,
    "negative": negative,
    "routing_experts": experts,
}
"""Probes of the routing metadata by name."""
