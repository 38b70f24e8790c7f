"""A refuted claim on an operator is checked again, on the sizes of its witness."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from nvfp4_moe.verification import operator_witness
from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.operators import TELLING, Operator, check_operators
from nvfp4_moe.verification.witness import replay

GATHER = Operator(
    name="shuffle_rows",
    schema="(Tensor input, Tensor map) -> Tensor",
    kernel=lambda input, row_map: input.index_select(0, row_map),
    fake=lambda input, row_map: input.new_empty((len(row_map), input.shape[1] + 1)),
)


def witness(**changes: Any) -> dict[str, Any]:
    return {"kind": "operator", "operator": "shuffle_rows", **asdict(TELLING), **changes}


def test_ours_do_not_reproduce_it() -> None:
    done = replay(witness())
    assert not done.reproduces
    assert done.lines[-1] == "schema and fake kernel agree with it"


def test_what_was_found_reproduces(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check_operators((GATHER,), seed=3)["operators.fake"].witness
    assert found is not None
    assert (found["seed"], found["device"]) == (3, "cpu")
    monkeypatch.setattr(operator_witness, "own_operators", lambda: (GATHER,))
    done = replay(found)
    assert done.reproduces
    assert done.lines[-1].startswith("operators.fake: shuffle_rows: test_faketensor: Shapes ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operator": "gather"}, "operator must be one of moe_data"),
        ({"tokens": "13"}, "tokens must be an integer"),
        ({"experts": 0}, "experts must be in"),
        ({"k": 24}, "k must be a multiple of 16"),
        ({"tokens": 65_536, "topk": 64}, "at most 16,777,216"),
        ({"id_bits": 16}, "id_bits must be 32 or 64"),
        ({"row_gap": -8}, "row_gap must be in"),
        ({"device": "tpu"}, "device must be"),
        ({"seed": "0"}, "seed must be an integer"),
    ],
)
def test_what_is_not_legal_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        replay(witness(**changes))


def test_no_library_cannot_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: str) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(operator_witness, "prepare", missing)
    with pytest.raises(CannotReplay, match="no compiler"):
        replay(witness())
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(CannotReplay, match="needs a CUDA device"):
        replay(witness(device="cuda"))
