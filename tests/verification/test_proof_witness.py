"""A refuted obligation is put to its prover again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.proofs import proving, solvers
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.witness import replay

OBLIGATION = next(o for family in proving.FAMILIES for o in family() if o.level == 1 and o.wrong)


def witness(**changes: Any) -> dict[str, Any]:
    return {"kind": "proof", "obligation": OBLIGATION.key, "solver": "z3", "model": {}} | changes


@pytest.mark.parametrize("solver", solvers.SOLVERS)
def test_a_proved_obligation_does_not_reproduce(solver: str) -> None:
    done = replay(witness(solver=solver))
    assert not done.reproduces
    assert done.lines[-1] == f"{solver} proves it"


def test_a_wrong_obligation_reproduces_with_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(OBLIGATION, goal=OBLIGATION.wrong[0])

    def family() -> list[Obligation]:
        return [wrong]

    monkeypatch.setattr(proving, "FAMILIES", (family,))
    done = replay(witness())
    assert done.reproduces
    assert "z3 has a model against it: " in done.lines[-1]
    assert " = " in done.lines[-1]


def test_what_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"obligation must be one of .*, got 'padding\.nothing'"):
        replay(witness(obligation="padding.nothing"))
    with pytest.raises(ValueError, match="solver must be one of z3, cvc5, got 'yices'"):
        replay(witness(solver="yices"))
    monkeypatch.setattr(solvers, "missing", lambda: ["z3"])
    with pytest.raises(CannotReplay, match="needs z3"):
        replay(witness())


def test_no_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        solvers.SOLVERS, "z3", lambda text, *, timeout_s: solvers.Reply(solvers.Answer.UNKNOWN)
    )
    with pytest.raises(CannotReplay, match="z3 gives no answer"):
        replay(witness())
