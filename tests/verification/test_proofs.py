"""The proofs: both provers prove every obligation, refute every wrong goal, and the shipped files are what they read."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import nvfp4_moe
from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.proofs import __main__ as entry
from nvfp4_moe.verification.proofs import index, obligations, prove, proving, solvers, write_smt2
from nvfp4_moe.verification.proofs.obligation import Obligation
from nvfp4_moe.verification.proofs.proving import FOLDER, smt2_files
from nvfp4_moe.verification.proofs.solvers import SOLVERS, Answer, Reply
from nvfp4_moe.verification.proofs.terms import integers
from nvfp4_moe.verification.result import Verdict

TIMEOUT_S = 60.0
LEVEL_1 = obligations(1)
LEVEL_2 = [o for o in obligations(2) if o.level == 2]
CONTROLS = [pytest.param(o, i, id=f"{o.key}-{i}") for o in LEVEL_1 for i in range(len(o.wrong))]

by_key = pytest.mark.parametrize("obligation", LEVEL_1, ids=lambda o: o.key)


@by_key
def test_both_provers_prove(obligation: Obligation) -> None:
    answers = {name: ask(obligation.smt2(), timeout_s=TIMEOUT_S).answer for name, ask in SOLVERS.items()}
    assert answers == dict.fromkeys(SOLVERS, Answer.UNSAT)


@pytest.mark.parametrize(("obligation", "wrong"), CONTROLS)
def test_both_provers_refute_the_wrong_goal(obligation: Obligation, wrong: int) -> None:
    replies = {name: ask(obligation.smt2_wrong(wrong), timeout_s=TIMEOUT_S) for name, ask in SOLVERS.items()}
    assert {name: reply.answer for name, reply in replies.items()} == dict.fromkeys(SOLVERS, Answer.SAT)
    assert all(reply.model for reply in replies.values())


@pytest.mark.slow
@pytest.mark.parametrize("obligation", LEVEL_2, ids=lambda o: o.key)
def test_level_2(obligation: Obligation) -> None:
    test_both_provers_prove(obligation)
    for wrong in range(len(obligation.wrong)):
        test_both_provers_refute_the_wrong_goal(obligation, wrong)


def test_every_obligation_has_a_control_and_a_name_of_its_own() -> None:
    everything = obligations(2)
    assert all(o.wrong for o in everything)
    assert len({o.key for o in everything}) == len(everything)
    assert {o.claim_id for o in everything} <= set(CLAIMS)


def test_127_cannot_be_126_nor_one_expert_fewer() -> None:
    proposed = next(o for o in LEVEL_1 if o.name == "proposed_128")
    assert "(* experts 127)" in str(proposed.goal)
    assert "(* experts 126)" in str(proposed.wrong[0])
    assert "(* (- experts 1) 127)" in str(proposed.wrong[1])


def test_shipped_files_are_the_generated_text() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.smt2")}
    assert shipped == smt2_files(), (
        "run: python -m nvfp4_moe.verification.proofs --write-smt2 verification/proofs/smt2"
    )


def test_writing_removes_files_of_dropped_obligations(tmp_path) -> None:
    (tmp_path / "padding.bound.dropped.smt2").write_text("old")
    (tmp_path / "notes.txt").write_text("kept")
    written = write_smt2(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*smt2_files(), "notes.txt"}
    assert len(written) == len(smt2_files())


# --- judging ----------------------------------------------------------------------------------------------


def two_obligations(level: int) -> list[Obligation]:
    x = integers("x")[0]
    first = Obligation(
        claim_id="padding.bound", name="one", statement="", given=(x > 0,), goal=x >= 1, wrong=(x >= 2,)
    )
    second = Obligation(
        claim_id="padding.disjoint", name="two", statement="", given=(x > 0,), goal=x >= 1, wrong=(x >= 2,)
    )
    return [first, second]


def answering(answer: Answer):
    def ask(text: str, *, timeout_s: float) -> Reply:
        return Reply(answer, (("x", "1"),) if answer is Answer.SAT else ())

    return ask


@pytest.fixture
def fake(monkeypatch):
    """Return a function that runs `prove` on two small obligations with the given answers of z3 and cvc5."""

    def run(z3: Answer, cvc5: Answer, **options):
        monkeypatch.setattr(proving, "obligations", two_obligations)
        monkeypatch.setattr(solvers, "SOLVERS", {"z3": answering(z3), "cvc5": answering(cvc5)})
        return prove(1, **options)

    return run


def test_proved_needs_both(fake) -> None:
    outcomes = dict(fake(Answer.UNSAT, Answer.UNSAT))
    assert [o.verdict for o in outcomes.values()] == [Verdict.PROVED, Verdict.PROVED]
    assert [o.cases for o in outcomes.values()] == [2, 2]


@pytest.mark.parametrize(
    ("z3", "cvc5", "named"),
    [
        (Answer.UNKNOWN, Answer.UNSAT, "one (z3)"),
        (Answer.UNSAT, Answer.UNKNOWN, "one (cvc5)"),
        (Answer.UNKNOWN, Answer.UNKNOWN, "one (z3, cvc5)"),
    ],
)
def test_unknown_is_undecided_and_named(fake, z3, cvc5, named) -> None:
    outcome = dict(fake(z3, cvc5))["padding.bound"]
    assert outcome.verdict is Verdict.UNDECIDED
    assert named in outcome.detail


@pytest.mark.parametrize(
    ("z3", "cvc5", "solver", "said"),
    [
        (Answer.SAT, Answer.SAT, "z3", "z3 has a model against one"),
        (Answer.SAT, Answer.UNSAT, "z3", "cvc5 says unsat"),
        (Answer.UNSAT, Answer.SAT, "cvc5", "z3 says unsat"),
        (Answer.UNKNOWN, Answer.SAT, "cvc5", "z3 says unknown"),
    ],
)
def test_a_model_refutes_even_where_the_provers_disagree(fake, z3, cvc5, solver, said) -> None:
    outcome = dict(fake(z3, cvc5))["padding.bound"]
    assert outcome.verdict is Verdict.REFUTED
    assert said in outcome.detail
    assert outcome.witness == {
        "kind": "proof",
        "obligation": "padding.bound.one",
        "solver": solver,
        "model": {"x": "1"},
    }


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        (["cvc5"], "needs cvc5 (pip install 'nvfp4-moe[proofs]'); z3 alone is there"),
        (["z3"], "needs z3 (pip install 'nvfp4-moe[proofs]'); cvc5 alone is there"),
        (["z3", "cvc5"], "needs z3 and cvc5 (pip install 'nvfp4-moe[proofs]')"),
    ],
)
def test_a_missing_prover_skips_every_claim_by_name(monkeypatch, absent, said) -> None:
    monkeypatch.setattr(solvers, "missing", lambda: absent)
    outcomes = prove(1)
    assert {claim_id for claim_id, _ in outcomes} == {o.claim_id for o in LEVEL_1}
    assert all(o.verdict is Verdict.SKIPPED and o.detail.startswith(said) for _, o in outcomes)


def test_missing_looks_at_the_packages(monkeypatch) -> None:
    assert solvers.missing() == []
    monkeypatch.setattr(solvers.importlib.util, "find_spec", lambda name: None)
    assert solvers.missing() == ["z3", "cvc5"]


def test_progress_counts_questions_and_stop_leaves_out_what_is_not_finished(fake) -> None:
    done: list[int] = []
    finished = fake(Answer.UNSAT, Answer.UNSAT, progress=done.append, should_stop=lambda: len(done) >= 3)
    assert [claim_id for claim_id, _ in finished] == ["padding.bound"]
    assert sum(done) == 3


def test_a_real_wrong_goal_is_refuted_with_numbers(monkeypatch) -> None:
    x, y = integers("x y")
    wrong = Obligation(
        claim_id="padding.bound",
        name="bad",
        statement="",
        given=(x > 0, y > x),
        goal=y > x + 1,
        wrong=(y > x + 2,),
    )
    monkeypatch.setattr(proving, "obligations", lambda level: [wrong])
    [(claim_id, outcome)] = prove(1)
    assert (claim_id, outcome.verdict) == ("padding.bound", Verdict.REFUTED)
    assert outcome.witness is not None
    model = {name: int(value) for name, value in outcome.witness["model"].items()}
    assert model["y"] == model["x"] + 1


def test_outcomes_can_go_to_another_process(fake) -> None:
    outcomes = fake(Answer.SAT, Answer.UNSAT)
    assert pickle.loads(pickle.dumps(outcomes)) == outcomes


# --- the entry point, and what is reported ------------------------------------------------------------------


def test_entry_prints_json(fake, capsys, monkeypatch) -> None:
    fake(Answer.UNSAT, Answer.UNSAT)
    assert entry.main(["--level", "1", "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(e["id"], e["verdict"]) for e in printed] == [
        ("padding.bound", "PROVED"),
        ("padding.disjoint", "PROVED"),
    ]
    assert all(e["seconds"] >= 0 for e in printed)
    fake(Answer.SAT, Answer.UNSAT)
    assert entry.main([]) == 1
    fake(Answer.UNKNOWN, Answer.UNSAT)
    assert entry.main([]) == 3


@pytest.mark.parametrize(("module", "loads"), [("proofs.__main__", False), ("proofs.expression", True)])
def test_the_process_of_the_provers_does_not_load_torch(module: str, loads: bool) -> None:
    """The second row shows that the first one can fail."""
    program = f"import sys; import nvfp4_moe.verification.{module}; print('torch' in sys.modules)"
    root = Path(nvfp4_moe.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(loads)


@pytest.mark.parametrize(
    ("blocks", "row"),
    [(128, 16_777_216), (448, 4_793_472), (1024, 2_097_152)],
    ids=["K=2048", "K=7168", "K=16384"],
)
def test_first_wrapping_row(blocks: int, row: int) -> None:
    swizzle = index.SWIZZLES[0]
    assert index.first_wrapping_row(swizzle, blocks) == row

    def last_byte(row: int) -> int:
        columns = -(-blocks // 4)
        return ((row // 128) * columns + columns - 1) * 512 + 511

    assert last_byte(row - 1) < 2**31 <= last_byte(row)
