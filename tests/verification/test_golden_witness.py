"""A difference between golden model and oracle runs again from its witness, and is gone where the model is right."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from nvfp4_moe.verification import golden
from nvfp4_moe.verification.golden.casts import check_e2m1
from nvfp4_moe.verification.golden.tally import Tally
from nvfp4_moe.verification.result import Verdict
from nvfp4_moe.verification.witness import replay

CLAIM = "cast.e2m1"


def ties_up(tally: Tally) -> None:
    """Encode 2.5 as 3: half a step away from zero."""
    right = tally.model.encode_e2m1

    def encode(values: torch.Tensor) -> torch.Tensor:
        return torch.where(values == 2.5, 5, right(values)).to(torch.uint8)

    tally.model = dataclasses.replace(tally.model, encode_e2m1=encode)
    check_e2m1(tally)


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(golden, "CHECKS", {CLAIM: ties_up})
    ((claim, outcome),) = golden.check_reference(seed=3)
    assert (claim, outcome.verdict) == (CLAIM, Verdict.REFUTED)
    return dict(outcome.witness or {})


def test_a_fault_reproduces_while_it_is_there(
    witness: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (witness["claim"], witness["level"], witness["seed"]) == (CLAIM, 1, 3)
    monkeypatch.setitem(golden.CHECKS, CLAIM, ties_up)
    done = replay(witness)
    assert done.reproduces
    assert "value 2.5" in done.lines[1]
    monkeypatch.setitem(golden.CHECKS, CLAIM, check_e2m1)
    done = replay(witness)
    assert not done.reproduces
    assert "all 16 codes decoded" in done.lines[0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"claim": "cast.e3m2"}, "claim must be one of cast.e2m1, "),
        ({"claim": None}, "claim must be one of"),
        ({"level": 3}, "level must be 1 or 2, got 3"),
        ({"level": "1"}, "level must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_witnesses_that_are_not_legal(change: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        replay({"kind": "golden", "claim": CLAIM, **change})
