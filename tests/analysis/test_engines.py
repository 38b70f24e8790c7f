"""Engines side by side: known verdicts, proofs of what the formulas really compute, looseness by other arithmetic."""

from __future__ import annotations

import itertools
import json
import statistics

import jsonschema
import pytest

from nvfp4_moe.analysis import engines, engines_proof
from nvfp4_moe.analysis.engines import ENGINES, EngineLine, document, engine_lines
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.reference.padding import FORMULAS, Sizing
from nvfp4_moe.verification import schema
from nvfp4_moe.verification.bound_witness import replay
from nvfp4_moe.verification.expressions import parse
from nvfp4_moe.verification.grid import Grid
from nvfp4_moe.verification.proofs import obligations
from nvfp4_moe.verification.proofs.judging import skipped
from nvfp4_moe.verification.result import Verdict

SMALL = Grid(
    max_num_batched_tokens=(1, 2, 127, 128, 129, 8192, 163_840), topk=(1, 2, 8), experts=(1, 2, 60, 256, 1024)
)
UNSAFE = {"vllm_env", "sglang"}


@pytest.fixture(scope="module")
def lines() -> dict[str, EngineLine]:
    return {line.formula.name: line for line in engine_lines(grid=SMALL)}


def test_every_formula_has_a_line_an_engine_and_a_proof() -> None:
    assert list(ENGINES) == list(FORMULAS)
    assert set(engines_proof.WRITTEN) | set(engines_proof.OBLIGATIONS) == set(FORMULAS)
    known = {obligation.key for obligation in obligations(level=2)}
    assert {key for keys in engines_proof.OBLIGATIONS.values() for key in keys} <= known


def test_capped_formulas_are_unsafe_and_all_others_proved(lines: dict[str, EngineLine]) -> None:
    assert {name for name, line in lines.items() if not line.safe} == UNSAFE
    for name, line in lines.items():
        assert line.proof.verdict is (Verdict.REFUTED if name in UNSAFE else Verdict.PROVED), name
        assert (line.search.witness is not None) == (name in UNSAFE)


def test_witness_of_an_unsafe_formula_replays(lines: dict[str, EngineLine]) -> None:
    for name in UNSAFE:
        witness = lines[name].search.witness
        assert witness is not None
        assert replay(json.loads(json.dumps(dict(witness)))).reproduces


@pytest.mark.parametrize("name", engines_proof.WRITTEN)
def test_what_is_proved_is_the_formula(name: str) -> None:
    """The written form gives the registry's rows; experts of other ranks never lower them."""
    expression, formula = parse(engines_proof.WRITTEN[name]), FORMULAS[name]
    for tokens, topk, experts, tile in itertools.product(
        (1, 2, 5, 127, 8192), (1, 2, 8), (1, 3, 64, 257), (1, 2, 128)
    ):
        sizing = Sizing(tokens=tokens, topk=topk, num_experts=experts, num_global_experts=experts, tile=tile)
        assert expression.rows(sizing) == formula.rows(sizing)
        more = Sizing(
            tokens=tokens, topk=topk, num_experts=experts, num_global_experts=4 * experts, tile=tile
        )
        assert formula.rows(more) >= formula.rows(sizing)


def test_a_wrong_formula_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "max_num_batched_tokens*topk + (tile - 2)*num_experts"
    monkeypatch.setitem(engines_proof.WRITTEN, "proposed", wrong)
    assert engines_proof.prove_formula("proposed", tile=128).verdict is Verdict.REFUTED


def test_without_provers_the_search_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvfp4_moe.verification.proofs.solvers.missing", lambda: ["z3-solver"])
    for name in ("proposed", "quack"):
        assert engines_proof.prove_formula(name, tile=128).verdict is Verdict.SKIPPED


def test_looseness_of_known_formulas(lines: dict[str, EngineLine]) -> None:
    exact = [
        line for name, line in lines.items() if name in ("exact_any", "flashinfer_trtllm", "trtllm_cutedsl")
    ]
    for line in exact:
        assert (line.worst.ratio, line.typical, line.decode) == (1, 1, 1)
        assert line.attained == line.configurations
    proposed = lines["proposed"].worst
    assert (proposed.rows, proposed.exact, proposed.num_experts) == (1 + 127 * 1024, 128, 1024)
    variable = lines["vllm_env"].worst
    assert (variable.rows, variable.exact, variable.tokens, variable.topk) == (163_840 * 8, 128, 1, 8)
    assert lines["torchao"].attained == 0
    assert 1 < lines["loose"].worst.ratio < 2


def test_medians_are_those_of_the_models(lines: dict[str, EngineLine]) -> None:
    line = lines["proposed"]
    full, decoding = [], []
    for model in ZOO.values():
        rows = 8192 * model.topk + 127 * model.num_experts
        for tokens, found in ((8192, full), (64, decoding)):
            routed = tokens * model.topk
            found.append(rows / (128 * min(routed, (routed + 127 * model.num_experts) // 128)))
    assert (line.typical, line.decode) == (statistics.median(full), statistics.median(decoding))


def test_document_follows_its_schema(lines: dict[str, EngineLine]) -> None:
    result = json.loads(json.dumps(document(list(lines.values()), tile=128, expert_parallel_size=1)))
    jsonschema.validate(result, schema.load("engines"))
    assert list(result["formulas"]) == list(FORMULAS)
    del result["formulas"]["quack"]["proof"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(result, schema.load("engines"))


def test_global_experts_make_some_formulas_loose_under_expert_parallelism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "prove_formula", lambda name, tile: skipped(["z3-solver"]))
    found = {line.formula.name: line for line in engine_lines(grid=SMALL, expert_parallel_size=8)}
    assert found["trtllm_old"].typical > found["proposed"].typical
    assert found["flashinfer_trtllm"].worst.ratio > found["trtllm_cutedsl"].worst.ratio == 1


@pytest.mark.parametrize(
    ("sizes", "said"),
    [({"tile": 0}, "tile"), ({"expert_parallel_size": 10**6}, "above the experts of every")],
)
def test_sizes_that_are_not_legal(sizes: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        engine_lines(grid=SMALL, **sizes)
