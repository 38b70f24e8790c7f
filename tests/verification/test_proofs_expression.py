"""Proofs of written bounds: right ones proved by both provers, wrong ones refuted by confirmed sizes."""

from __future__ import annotations

import pytest

from nvfp4_moe.reference.padding import FORMULAS, Sizing, exact_any_rows
from nvfp4_moe.verification.bound_witness import replay
from nvfp4_moe.verification.expressions import parse
from nvfp4_moe.verification.proofs import __main__ as entry
from nvfp4_moe.verification.proofs import expression as module
from nvfp4_moe.verification.proofs import solvers
from nvfp4_moe.verification.proofs.expression import (
    NotTranslatedError,
    bound_obligation,
    prove_expression,
)
from nvfp4_moe.verification.proofs.solvers import Answer, Reply
from nvfp4_moe.verification.result import Verdict

T = "max_num_batched_tokens*topk"

RIGHT = {
    "proposed": f"{T} + 127*num_experts",
    "any_tile": f"{T} + (tile-1)*num_experts",
    "loose": f"{T} + (tile-1)*min({T}, num_experts)",
    "exact": f"tile*min({T}, ({T} + (tile-1)*num_experts)//tile)",
    "rounded": f"round_up({T} + 127*num_experts, 128)",
    "torchao": f"{T} + tile*num_experts",
    "quack": f"tile*(round_up({T}, tile)//tile + num_experts - 1)",
    "maximum": f"max({T}, 1) + max(127*num_experts, 0)",
    "remainder": f"{T} + 127*num_experts - ({T} + 127*num_experts) % 128",
}
WRONG = {
    "126": f"{T} + 126*num_experts",
    "no_padding": T,
    "one_expert_short": f"{T} + 127*(num_experts-1)",
    "cap": "65536*topk",
    "one_tile_short": f"tile*min({T}, ({T} + (tile-1)*num_experts)//tile - 1)",
    "negative": f"-{T}",
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_bound_is_proved(name: str) -> None:
    outcome = prove_expression(parse(RIGHT[name]), tile=128)
    assert outcome.verdict is Verdict.PROVED, outcome
    assert outcome.cases == 2


@pytest.mark.parametrize("name", ["any_tile", "loose", "exact"])
def test_for_every_tile(name: str) -> None:
    assert prove_expression(parse(RIGHT[name]), tile=None).verdict is Verdict.PROVED


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_bound_is_refuted_by_sizes_that_break_it(name: str) -> None:
    expression = parse(WRONG[name])
    outcome = prove_expression(expression, tile=128)
    assert outcome.verdict is Verdict.REFUTED, outcome
    assert outcome.witness is not None
    assert replay(outcome.witness).reproduces
    tokens, topk, experts = (outcome.witness[s] for s in ("max_num_batched_tokens", "topk", "num_experts"))
    sizing = Sizing(tokens=tokens, topk=topk, num_experts=experts, num_global_experts=experts)
    assert exact_any_rows(tokens * topk, experts) > expression.rows(sizing)


def test_a_routing_of_too_many_experts_to_list_is_named_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EXPERTS", 0)
    outcome = prove_expression(parse(WRONG["126"]), tile=128)
    assert (outcome.verdict, outcome.witness) == (Verdict.REFUTED, None)
    assert "num_experts=" in outcome.detail


def test_a_cap_holds_under_its_guard_only() -> None:
    """Without max_num_batched_tokens the guard is M*topk <= rows; a cap that leaves room for no padding is refuted."""
    obligation = bound_obligation(parse("65536*topk"), tile=128)
    assert "(<= routed (* 65536 topk))" in map(str, obligation.given)
    assert not any("(<= routed" in str(g) for g in bound_obligation(parse(T), tile=128).given)


@pytest.mark.parametrize("text", [f"{T} // (topk - 1)", f"{T} % (0 - 3)", f"round_up({T}, num_experts - 1)"])
def test_a_divisor_of_unknown_sign_is_undecided(text: str) -> None:
    with pytest.raises(NotTranslatedError, match="divisor"):
        bound_obligation(parse(text), tile=128)
    outcome = prove_expression(parse(text), tile=128)
    assert outcome.verdict is Verdict.UNDECIDED
    assert "not translated" in outcome.detail


@pytest.mark.parametrize(
    "divisor",
    [
        "max(1, 1)",
        "max(topk - 5, 1)",
        "num_experts + 1",
        "2*topk",
        "min(topk, 4)",
        "round_up(topk, 8)",
        "(topk+7)//8",
    ],
)
def test_a_divisor_that_is_known_to_be_positive_is_translated(divisor: str) -> None:
    outcome = prove_expression(parse(f"{T} + 127*num_experts + topk//({divisor})"), tile=128)
    assert outcome.verdict is Verdict.PROVED, outcome


@pytest.mark.parametrize("text", ["0", "-5", "topk - 1", "min(topk, 4) - 5", "0*tile"])
def test_a_guard_that_lets_nothing_through_is_no_proof(text: str) -> None:
    outcome = prove_expression(parse(text), tile=128)
    assert (outcome.verdict, outcome.detail) == (
        Verdict.SKIPPED,
        "its guard lets no routed row through, for any sizes",
    )


@pytest.mark.parametrize("text", ["max(0, topk - 1000)*topk", "topk"])
def test_a_guard_that_lets_some_rows_through_is_refuted_where_it_does(text: str) -> None:
    assert prove_expression(parse(text), tile=128).verdict is Verdict.REFUTED


def test_translations_mean_what_python_computes() -> None:
    """A goal "expression = value" is proved for the value that Python gives, and refuted for the next one."""
    text = f"round_up({T} - 700, 128) + ({T} - 700)//tile*3 - ({T} - 700)%7 + max(topk, 2, 5) - min(num_experts, tile)"
    sizes = {"max_num_batched_tokens": 9, "topk": 3, "num_experts": 200, "tile": 128}
    value = parse(text).evaluate(sizes)

    def obligation(claimed: int) -> module.Obligation:
        translation = module._Translation()
        rows = translation.term(parse(text).root)
        fixed = [module.eq(module.SIZES[name], size) for name, size in sizes.items()]
        return module.Obligation(
            claim_id="padding.bound",
            name="meaning",
            statement="",
            given=(*fixed, *translation.definitions),
            goal=module.eq(rows, claimed),
            wrong=(module.eq(rows, claimed + 1),),
        )

    meaning = obligation(value)
    answers = {name: ask(meaning.smt2(), timeout_s=20).answer for name, ask in solvers.SOLVERS.items()}
    assert answers == dict.fromkeys(solvers.SOLVERS, Answer.UNSAT)
    assert solvers.ask_z3(meaning.smt2_wrong(0), timeout_s=20).answer is Answer.SAT


def test_a_model_that_breaks_nothing_is_not_a_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    model = (("max_num_batched_tokens", "1"), ("topk", "1"), ("num_experts", "1"))
    lying = dict.fromkeys(solvers.SOLVERS, lambda text, *, timeout_s: Reply(Answer.SAT, model))
    monkeypatch.setattr(solvers, "SOLVERS", lying)
    outcome = prove_expression(parse(RIGHT["proposed"]), tile=128)
    assert outcome.verdict is Verdict.UNDECIDED
    assert "no counterexample" in outcome.detail


def test_a_model_beyond_the_largest_size_is_not_a_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    model = (("max_num_batched_tokens", str(10**18)), ("topk", "2"), ("num_experts", "1"))
    huge = dict.fromkeys(solvers.SOLVERS, lambda text, *, timeout_s: Reply(Answer.SAT, model))
    monkeypatch.setattr(solvers, "SOLVERS", huge)
    outcome = prove_expression(parse(WRONG["126"]), tile=128)
    assert outcome.verdict is Verdict.UNDECIDED
    assert "cannot be computed" in outcome.detail


def test_missing_provers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "missing", lambda: ["cvc5"])
    assert prove_expression(parse(T), tile=128).verdict is Verdict.SKIPPED


def test_expressions_are_the_registry_formulas() -> None:
    sizing = Sizing(tokens=37, topk=5, num_experts=11, num_global_experts=11)
    names = {
        "proposed": "proposed",
        "loose": "loose",
        "exact": "exact_any",
        "torchao": "torchao",
        "quack": "quack",
    }
    for name, formula in names.items():
        assert parse(RIGHT[name]).rows(sizing) == FORMULAS[formula].rows(sizing)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [(RIGHT["proposed"], 0, "PROVED"), (WRONG["126"], 1, "REFUTED"), (f"{T}//(topk-1)", 3, "UNDECIDED")],
)
def test_entry(text: str, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--bound", text]) == code
    assert capsys.readouterr().out.startswith(said)


def test_entry_with_a_bound_that_does_not_parse(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--bound", "topk +"]) == 2
    assert "column" in capsys.readouterr().err
