"""Replaying an index expression: the witness of the provers reproduces, the mended expression does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nvfp4_moe.verification.index_witness import replay
from nvfp4_moe.verification.proofs.overflow import refute_index
from nvfp4_moe.verification.witness import can_replay
from nvfp4_moe.verification.witness import replay as replay_any

WITNESS: dict[str, Any] = {
    "kind": "index",
    "expression": "row * k + column",
    "width": 32,
    "types": {},
    "values": {"k": 7168, "row": 299_593, "column": 1024},
}


def test_what_the_provers_found_reproduces_and_its_cure_does_not() -> None:
    found = refute_index("row * k", {"k": (7168, 7168), "row": (0, 2**31 - 1)}).witness
    assert found is not None
    stored = json.loads(json.dumps(found))
    assert can_replay(stored)
    assert replay_any(stored).reproduces
    assert not replay({**stored, "expression": stored["mended"]}).reproduces


def test_it_says_what_is_computed() -> None:
    lines = "\n".join(replay(WITNESS).lines)
    assert "row * k + column" in lines
    assert "row = 299,593" in lines
    assert "2,147,483,648 is read as -2,147,483,648" in lines


def test_a_row_earlier_fits() -> None:
    assert not replay({**WITNESS, "values": {"k": 7168, "row": 299_592, "column": 1024}}).reproduces


def test_an_index_below_zero_reproduces() -> None:
    below = {**WITNESS, "expression": "row - k", "values": {"k": 2, "row": 1}}
    assert replay(below).reproduces
    assert "-1 is no index" in "\n".join(replay(below).lines)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"expression": None}, TypeError, "expression must be text"),
        ({"values": [1]}, TypeError, "values must be integers by name"),
        ({"values": {"k": 1.5}}, TypeError, "values must be integers by name"),
        ({"width": 16}, ValueError, "width must be 32 or 64"),
        ({"types": {"k": "float"}}, ValueError, "the type of k must be one of"),
        ({"values": {"k": 2**31, "row": 0, "column": 0}}, ValueError, "is no int32_t"),
        ({"expression": "row / column", "values": {"row": 1, "column": 0}}, ValueError, "divides by zero"),
        ({"expression": "row +"}, ValueError, "ends where a value is expected"),
        ({"values": {"row": 1}}, ValueError, "unknown name 'k'"),
    ],
)
def test_bad_input(change: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        replay({**WITNESS, **change})
