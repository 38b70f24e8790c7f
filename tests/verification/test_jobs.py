"""The row of a written bound's proof: what provers say of it stands beside the search, under an id of its own."""

from __future__ import annotations

import random

import pytest

from nvfp4_moe.reference.padding import exact_any_rows
from nvfp4_moe.verification import jobs
from nvfp4_moe.verification.bound_witness import replay
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.proofs import expression as proving
from nvfp4_moe.verification.proofs import solvers
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED, Method, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.runner import execute
from nvfp4_moe.verification.settings import Settings

M, K, E = SIZES = ("max_num_batched_tokens", "topk", "num_experts")
T = f"{M}*{K}"
PROPOSED = f"{T}+127*{E}"
UNTRANSLATED = f"{PROPOSED} + max(0, 0//(({K} - 11)*({K} - 11) + 1))"
"""Right, and its divisor positive; that takes more than ranges of values to see."""

RIGHT = (
    PROPOSED,
    f"{T}+(tile-1)*min({T},{E})",
    f"tile*min({T},({T}+(tile-1)*{E})//tile)",
    f"{T}+tile*{E}",
)


def rows_of(text: str, **options: int) -> list[Row]:
    return list(jobs._written_bound_proof(Settings(bound=text, **options), parse_bound(text)))


def bound_job(text: str) -> Job:
    settings = Settings(bound=text)
    return jobs._bound_job(settings, parse_bound(text))


@pytest.mark.parametrize(
    ("text", "verdict", "required"),
    [
        (PROPOSED, Verdict.PROVED, True),
        (f"{T}+126*{E}", Verdict.REFUTED, True),
        (UNTRANSLATED, Verdict.UNDECIDED, False),
    ],
)
def test_every_answer_of_the_provers_is_a_row(text: str, verdict: Verdict, required: bool) -> None:
    (row,) = rows_of(text)
    assert (row.claim_id, row.method) == ("padding.bound.written", Method.PROOF)
    assert (row.outcome.verdict, row.required) == (verdict, required)
    assert row.outcome.detail


@pytest.mark.parametrize("text", ["0", "-5", f"{K}-1"])
def test_nothing_is_said_where_the_guard_lets_nothing_through(text: str) -> None:
    assert rows_of(text) == []


def test_nothing_is_said_of_formulas_stated_sizes_or_without_provers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_of("proposed") == []
    assert rows_of(PROPOSED, topk=8, experts=8, max_num_batched_tokens=64) == []  # the search is exact there
    monkeypatch.setattr(solvers, "missing", lambda: ["z3", "cvc5"])
    assert rows_of(PROPOSED) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [(UNTRANSLATED, EXIT_OK), (f"{T}+127*min({E},5000)//max(1,1)", EXIT_REFUTED), ("0", EXIT_UNDECIDED)],
)
def test_exit_code_of_the_search_and_the_proof(text: str, code: int) -> None:
    """The second is right everywhere on the grid: provers alone refute it."""
    result = execute(Settings(bound=text), [bound_job(text)])
    assert result.exit_code == code
    search = next(c for c in result.claims if (c.id, c.method) == ("padding.bound", Method.SEARCH))
    assert search.verdict is (Verdict.SKIPPED if code == EXIT_UNDECIDED else Verdict.HELD)


@pytest.mark.parametrize(
    ("text", "stated", "verdict"),
    [
        (PROPOSED, {"topk": 8}, Verdict.PROVED),
        (f"{T}+127*256", {"experts": 256}, Verdict.PROVED),
        (f"{T}+127*256", {"experts": 257}, Verdict.REFUTED),
        (f"{T}+127*32", {"experts": 256, "expert_parallel_size": 8}, Verdict.PROVED),
        (f"{PROPOSED}-(1-min(1,max({K}-21,21-{K})))", {"experts": 256}, Verdict.REFUTED),
        (f"{PROPOSED}-(1-min(1,max({K}-21,21-{K})))", {"topk": 20}, Verdict.PROVED),
        (f"{M}*8+127*{E}", {"topk": 8, "experts": 60}, Verdict.PROVED),
        # capped: the stated batch limits the call, not the rows
        ("160000", {"max_num_batched_tokens": 8192, "topk": 1, "tile": 128}, Verdict.REFUTED),
        (f"65536*{K}", {"max_num_batched_tokens": 512}, Verdict.PROVED),
        (f"65536*{K}", {"max_num_batched_tokens": 513}, Verdict.REFUTED),
    ],
)
def test_the_proof_is_for_the_stated_sizes(text: str, stated: dict[str, int], verdict: Verdict) -> None:
    (row,) = rows_of(text, **stated)
    assert row.outcome.verdict is verdict, row.outcome
    if verdict is Verdict.REFUTED:
        assert row.outcome.witness is not None
        assert replay(row.outcome.witness).reproduces


# --- right bounds with one dip somewhere --------------------------------------------------------------------


def planted(rng: random.Random) -> tuple[str, dict[str, int]]:
    """Return a right bound less a dip at one value or residue of a size, and sizes that hit it."""
    size = rng.choice(SIZES)
    at = rng.randrange(1, 5_000)
    period = rng.randrange(at + 1, 10_000)
    depth = rng.choice((1_000, 10**6))
    away = f"max({size}-{at},{at}-{size})"
    hit = rng.choice(
        (
            f"max(0,1-{away})",
            f"max(0,1-({size}-{at})*({size}-{at}))//max(1,1)",
            f"1//({away}+1)",
            f"1//(({size}-{at})*({size}-{at})+1)",
            f"(1-min(1,max({size}%{period}-{at},{at}-{size}%{period})))",
        )
    )
    sizes = dict(zip(SIZES, (256, 1, 2), strict=True)) | {size: at}
    return f"{rng.choice(RIGHT)}-{depth}*{hit}", sizes


@pytest.mark.parametrize("seed", range(12))
def test_a_dip_is_refuted_or_told_as_undecided(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text, sizes = planted(random.Random(seed))
    bound = parse_bound(text)
    assert bound.expression is not None
    rows = bound.expression.evaluate({**sizes, "tile": 128})
    assert exact_any_rows(sizes[M] * sizes[K], sizes[E]) > rows, "the dip is not where it was planted"
    monkeypatch.setattr(proving, "EXPRESSION_TIMEOUT_S", 0.4)
    (row,) = rows_of(text)
    assert row.outcome.verdict in (Verdict.REFUTED, Verdict.UNDECIDED), row.outcome
