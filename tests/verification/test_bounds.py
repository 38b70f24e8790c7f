"""Bounds: the wrong ones fall to their smallest witness, the right ones hold, looseness is told with a witness."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification.bound_witness import BoundWitness, replay
from nvfp4_moe.verification.bounds import GRID, Grid, check_attained, check_values, find_counterexample
from nvfp4_moe.verification.expressions import ExpressionError, parse_bound
from nvfp4_moe.verification.result import Outcome, Verdict
from nvfp4_moe.verification.worst_case import ids_of_counts

PROPOSED = "max_num_batched_tokens*topk + 127*num_experts"
RIGHT = [name for name in FORMULAS if name not in ("vllm_env", "sglang")]


def found(outcome: Outcome) -> dict[str, Any]:
    """Return the witness of a refutation that replays."""
    assert outcome.verdict is Verdict.REFUTED, outcome.detail
    assert outcome.witness is not None
    witness = dict(outcome.witness)
    assert replay(witness).reproduces
    return witness


@pytest.mark.parametrize(
    ("bound", "tokens", "topk", "experts", "mnbt", "rows", "bound_rows"),
    [
        # 126 in place of 127; no padding term; one expert short; one row short
        ("max_num_batched_tokens*topk + 126*num_experts", 1, 1, 1, 1, 128, 127),
        ("max_num_batched_tokens*topk", 1, 1, 1, 1, 128, 1),
        ("max_num_batched_tokens*topk + 127*(num_experts-1)", 1, 1, 1, 1, 128, 1),
        (f"{PROPOSED} - 1", 1, 1, 1, 1, 128, 127),
        # caps without a padding term fall where 1,024 or 2,048 experts each open a tile
        ("65536*topk", 513, 1, 1024, 513, 65_664, 65_536),
        ("sglang", 513, 1, 1024, 513, 65_664, 65_536),
        ("163840*topk", 1281, 1, 2048, 1281, 163_968, 163_840),
        ("vllm_env", 1281, 1, 2048, 1281, 163_968, 163_840),
        ("1000000000000000", 999_999_999_740_032, 1, 2048, 999_999_999_740_032, 10**15 + 128, 10**15),
        # right up to a size, then wrong
        ("min(max_num_batched_tokens, 8192)*topk + 127*num_experts", 8193, 1, 1, 8193, 8320, 8319),
        # the rows of the largest grid batch, wrong for one model only
        (f"{PROPOSED} - (num_experts // 1024)", 1024, 1, 1024, 1024, 131_072, 131_071),
        (f"{PROPOSED} - 1000*max(0, 1 - (topk-11)*(topk-11))//max(1, 1)", 0, 11, 1, 1, 0, -862),
        (f"{PROPOSED} - max(0, 1 - max(num_experts-192, 192-num_experts))", 64, 3, 192, 64, 24_576, 24_575),
        ("max_num_batched_tokens*topk + 127*min(num_experts, 1024)", 1025, 1, 2048, 1025, 131_200, 131_073),
        # a negative number of rows is refuted by a call of no tokens
        ("max_num_batched_tokens - 2", 0, 1, 1, 1, 0, -1),
    ],
)
def test_wrong_bound_falls_to_its_smallest_witness(
    bound: str, tokens: int, topk: int, experts: int, mnbt: int, rows: int, bound_rows: int
) -> None:
    witness = found(find_counterexample(parse_bound(bound)))
    assert sum(witness["tokens_per_expert"]) == tokens * topk
    given = {
        key: witness[key]
        for key in ("kind", "tokens", "topk", "num_experts", "max_num_batched_tokens", "tile")
    }
    assert given == {
        "kind": "bound",
        "tokens": tokens,
        "topk": topk,
        "num_experts": experts,
        "max_num_batched_tokens": mnbt,
        "tile": 128,
    }
    assert (witness["rows"], witness["bound"]) == (rows, bound_rows)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("ranks", [1, 2, 16])
def test_right_formula_holds(name: str, ranks: int) -> None:
    outcome = find_counterexample(parse_bound(name), expert_parallel_size=ranks)
    assert outcome.verdict is Verdict.HELD, outcome.detail
    assert outcome.cases > 5_000


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("tile", [1, 8, 64, 256])
def test_right_formula_holds_for_every_tile(name: str, tile: int) -> None:
    grid = Grid(max_num_batched_tokens=(1, 2, 7, 8, 9, 255, 256, 257), topk=(1, 2, 8), experts=(1, 2, 8, 60))
    assert find_counterexample(parse_bound(name), grid, tile=tile).verdict is Verdict.HELD


def test_a_formula_with_127_is_wrong_for_larger_tiles() -> None:
    assert find_counterexample(parse_bound(PROPOSED), tile=128).verdict is Verdict.HELD
    witness = found(find_counterexample(parse_bound(PROPOSED), tile=256))
    assert (witness["rows"], witness["bound"], witness["tokens_per_expert"]) == (256, 128, [1])


@pytest.mark.parametrize("name", ["exact_distinct", "flashinfer_cutlass"])
def test_distinct_formulas_need_distinct_ids(name: str) -> None:
    bound = parse_bound(name)
    assert find_counterexample(bound, ids="distinct").verdict is Verdict.HELD
    witness = found(find_counterexample(bound, ids="any"))
    assert witness["topk"] > witness["num_experts"] or max(witness["tokens_per_expert"]) > witness["tokens"]


def test_quack_rows_are_needed_by_its_own_placement() -> None:
    assert check_attained(parse_bound("quack"), tight=True).verdict is Verdict.HELD


# --- the smallest witness, by trying everything -------------------------------------------------------------


def smallest_by_force(bound_text: str, grid: Grid, *, tile: int, ids: str) -> tuple[int, int, int] | None:
    """Return the smallest (routed rows, experts, topk) that overruns, over all count vectors of all calls."""
    bound = parse_bound(bound_text)
    best = None
    for experts, topk, mnbt in product(grid.experts, grid.topk, grid.max_num_batched_tokens):
        if ids == "distinct" and topk > experts:
            continue
        sizes = {"max_num_batched_tokens": mnbt, "topk": topk, "num_experts": experts, "tile": tile}
        assert bound.expression is not None
        rows = bound.expression.evaluate(sizes)
        for tokens in range((rows // topk if bound.capped else mnbt) + 1):
            most = tokens if ids == "distinct" else tokens * topk
            for counts in product(range(most + 1), repeat=experts):
                needed = sum((count + tile - 1) // tile * tile for count in counts)
                size = (sum(counts), experts, topk)
                if size[0] == tokens * topk and needed > rows and (best is None or size < best):
                    best = size
    return best


@pytest.mark.parametrize("ids", ["any", "distinct"])
@pytest.mark.parametrize(
    "text",
    [
        "max_num_batched_tokens*topk + (tile-2)*num_experts",
        "max_num_batched_tokens*topk + (tile-1)*(num_experts-1)",
        "max_num_batched_tokens*topk + (tile-1)*min(num_experts, 2)",
        "tile*num_experts + max_num_batched_tokens*topk - 2*topk",
        "max_num_batched_tokens*topk + (tile-1)*num_experts",
        "2*tile*topk",
        "round_up(5, tile)",
        "max(max_num_batched_tokens, 3)*num_experts*2",
    ],
)
def test_smallest_equals_brute_force(text: str, ids: str) -> None:
    grid = Grid(max_num_batched_tokens=(1, 2, 3, 4), topk=(1, 2), experts=(1, 2, 3))
    for tile in (2, 3):
        outcome = find_counterexample(parse_bound(text), grid, tile=tile, ids=ids)
        true = smallest_by_force(text, grid, tile=tile, ids=ids)
        witness = outcome.witness
        subject = witness and (sum(witness["tokens_per_expert"]), witness["num_experts"], witness["topk"])
        assert subject == true


# --- sizes, guards, ranks -----------------------------------------------------------------------------------


def test_stated_sizes_are_one_configuration() -> None:
    grid = GRID.with_sizes(max_num_batched_tokens=8192, topk=8, experts=256)
    assert grid.is_single
    outcome = find_counterexample(parse_bound("proposed"), grid)
    assert (outcome.verdict, outcome.cases) == (Verdict.EXHAUSTED, 1)
    assert "max_num_batched_tokens 8,192, topk 8, experts 256" in outcome.detail


def test_some_sizes_leave_a_grid() -> None:
    grid = GRID.with_sizes(experts=256)
    assert not grid.is_single
    outcome = find_counterexample(parse_bound(PROPOSED), grid)
    assert outcome.verdict is Verdict.HELD
    assert outcome.cases == len(GRID.topk) * len(GRID.max_num_batched_tokens)


def test_stated_batch_limits_a_capped_bound() -> None:
    """vLLM's cap is never reached with 8,192 tokens; with its own guard alone it is."""
    bound = parse_bound("vllm_env")
    sizes = {"topk": 1, "experts": 128}
    assert (
        find_counterexample(bound, GRID.with_sizes(max_num_batched_tokens=8192, **sizes)).verdict
        is Verdict.EXHAUSTED
    )
    assert found(find_counterexample(bound, GRID.with_sizes(**sizes)))["tokens"] == 147_712
    stated = found(find_counterexample(bound, GRID.with_sizes(max_num_batched_tokens=10**6, **sizes)))
    assert (stated["tokens"], stated["max_num_batched_tokens"]) == (147_712, 10**6)


def test_stated_batch_is_kept_in_the_witness() -> None:
    grid = GRID.with_sizes(max_num_batched_tokens=4096, topk=8, experts=8)
    witness = found(find_counterexample(parse_bound("max_num_batched_tokens*topk"), grid))
    assert witness["max_num_batched_tokens"] == 4096
    assert witness["tokens"] == 3985  # 128 * ((31,880 + 127*8) // 128) = 32,896 > 32,768


def test_ranks_share_the_experts() -> None:
    grid = GRID.with_sizes(max_num_batched_tokens=64, topk=1, experts=256)
    witness = found(find_counterexample(parse_bound("2048"), grid, expert_parallel_size=8))
    assert (witness["num_experts"], witness["num_global_experts"]) == (32, 256)
    assert sum(witness["tokens_per_expert"]) == 17
    # distinct ids and topk above the local experts: a token reaches each of them once
    few = Grid(max_num_batched_tokens=(4,), topk=(8,), experts=(8,))
    witness = found(
        find_counterexample(
            parse_bound("0*max_num_batched_tokens + 128"), few, ids="distinct", expert_parallel_size=4
        )
    )
    assert (witness["num_experts"], witness["tokens_per_expert"]) == (2, [1, 1])
    assert witness["topk_ids"] == [[0, 1, -1, -1, -1, -1, -1, -1]]


def test_a_guard_that_refuses_every_row_is_no_pass() -> None:
    outcome = find_counterexample(parse_bound("0"))
    assert (outcome.verdict, outcome.cases) == (Verdict.SKIPPED, 0)
    assert "guard lets no routed row through" in outcome.detail


def test_grid_is_the_stated_one() -> None:
    large = (48, 60, 64, 72, 96, 128, 160, 192, 256, 257, 320, 384, 512, 1024, 2048)
    assert GRID.experts == (*range(1, 18), *large)
    assert GRID.topk == (*range(1, 17), 22)
    assert {1, 127, 128, 129, 2048, 8192, 16384, 32768, 65536, 131072, 163840} <= set(
        GRID.max_num_batched_tokens
    )
    assert str(GRID) == "the stated grid"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ids": "all"}, "ids must be one of any, distinct, got 'all'"),
        ({"tile": 0}, "tile must be between 1 and 10.18, got 0"),
        (
            {"expert_parallel_size": 3000},
            "expert_parallel_size .3000. must be at most the number of experts .2048.",
        ),
        (
            {"grid": GRID.with_sizes(topk=9, experts=8), "ids": "distinct"},
            "topk .9. must be at most .* experts .8.",
        ),
        ({"grid": GRID.with_sizes(experts=10**9)}, "experts must be at most 1,048,576, got 1000000000"),
        ({"grid": GRID.with_sizes(topk=0)}, "topk must be between 1 and 10.18, got 0"),
    ],
)
def test_refusals(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        find_counterexample(parse_bound("proposed"), **options)


@pytest.mark.parametrize("check", [find_counterexample, check_attained, check_values])
def test_a_bound_without_a_value_names_the_sizes(check: Any) -> None:
    with pytest.raises(
        ExpressionError, match=r"division by zero with max_num_batched_tokens=1, .* num_experts=1,"
    ):
        check(parse_bound("max_num_batched_tokens // (num_experts - 1)"))


def test_sizes_may_leave_out_where_a_bound_has_no_value() -> None:
    check_values(parse_bound("max_num_batched_tokens // (num_experts - 1)"), GRID.with_sizes(experts=8))


# --- tightness ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "attained", "tight"),
    [
        ("proposed", Verdict.HELD, Verdict.REFUTED),
        ("exact_any", Verdict.HELD, Verdict.HELD),
        ("exact_distinct", Verdict.HELD, Verdict.HELD),
        ("loose", Verdict.HELD, Verdict.REFUTED),
        ("trtllm_cutedsl", Verdict.HELD, Verdict.HELD),
        ("torchao", Verdict.REFUTED, Verdict.REFUTED),
        ("0", Verdict.SKIPPED, Verdict.SKIPPED),
    ],
)
def test_attained(bound: str, attained: Verdict, tight: Verdict) -> None:
    assert check_attained(parse_bound(bound)).verdict is attained
    assert check_attained(parse_bound(bound), tight=True).verdict is tight


def test_attained_witness_uses_every_row() -> None:
    outcome = check_attained(parse_bound("proposed"), GRID.with_sizes(experts=8))
    assert outcome.witness is not None
    witness = BoundWitness.from_json(outcome.witness)
    assert witness.rows == witness.bound_rows
    assert (witness.tokens_per_expert, witness.sizing.topk) == ([1] * 8, 1)
    assert replay(outcome.witness).reproduces


def test_slack_witness_is_the_smallest_loose_configuration() -> None:
    witness = found(check_attained(parse_bound("proposed"), tight=True))
    assert (witness["tokens_per_expert"], witness["rows"], witness["bound"]) == ([1, 0], 128, 255)
    torchao = found(check_attained(parse_bound("torchao")))
    assert (torchao["tokens_per_expert"], torchao["rows"], torchao["bound"]) == ([1], 128, 129)


# --- running: progress, stopping, ids -----------------------------------------------------------------------


@pytest.mark.parametrize("check", [find_counterexample, check_attained])
def test_progress_adds_up(check: Any) -> None:
    steps: list[int] = []
    outcome = check(parse_bound("proposed"), progress=steps.append)
    assert sum(steps) == outcome.cases == 32 * 17 * len(GRID.max_num_batched_tokens)
    assert len(steps) > 10


@pytest.mark.parametrize("check", [find_counterexample, check_attained])
def test_stopping_is_undecided(check: Any) -> None:
    calls = iter(range(10**9))
    outcome = check(parse_bound("torchao"), should_stop=lambda: next(calls) >= 5)
    assert outcome.verdict is Verdict.UNDECIDED
    assert outcome.cases == 5
    assert "stopped" in outcome.detail


def test_small_witness_has_ids_that_agree_with_its_counts() -> None:
    witness = found(find_counterexample(parse_bound("65536*topk")))
    assert witness["topk_ids"] == ids_of_counts(witness["tokens_per_expert"], 513, 1)
    assert "topk_ids" not in found(find_counterexample(parse_bound("1638400*topk")))
