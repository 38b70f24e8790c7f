"""Checking traces: counts held against slow sums, the bound, the claims, expert parallel, the shipped traces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nvfp4_moe.reference.padding import FORMULAS, PLACEMENTS, Sizing
from nvfp4_moe.reference.routing import Routing
from nvfp4_moe.verification import trace_routing
from nvfp4_moe.verification.bound_witness import replay as replay_bound
from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.jobs import jobs_for
from nvfp4_moe.verification.result import Outcome, Verdict
from nvfp4_moe.verification.settings import Settings
from nvfp4_moe.verification.trace_check import BOUND_CLAIM, check_trace
from nvfp4_moe.verification.trace_model import Step, Trace, TraceError, TraceMeta, is_profiling
from nvfp4_moe.verification.trace_routing import ROUTING_CLAIMS, last_ends, tokens_with_repeats
from nvfp4_moe.verification.trace_witness import replay as replay_trace
from nvfp4_moe.verification.traces import open_trace
from nvfp4_moe.verification.worst_case import last_end

EXAMPLES = Path(__file__).parents[2] / "examples" / "router_traces"
Ids = Sequence[Sequence[int]]


def trace_of(*passes: Ids, num_experts: int = 4, layers: Sequence[int] | None = None) -> Trace:
    """Return a trace of these passes, one after the other, all of layer 0 unless said."""
    steps = []
    for number, (ids, layer) in enumerate(zip(passes, layers or [0] * len(passes), strict=True)):
        array = np.array(ids, dtype=np.int32)
        first = sum(len(p) for p in passes[:number])
        steps.append(
            Step(layer=layer, index=number, first_token=first, topk_ids=array, profiling=is_profiling(array))
        )
    meta = TraceMeta(path=Path("t.npz"), form="npz", num_experts=num_experts, topk=len(passes[0][0]))
    return Trace(meta, lambda: iter(steps))


def outcomes(found: list[tuple[str, Outcome]]) -> dict[str, Outcome]:
    return dict(found)


def test_every_claim_is_known_and_told() -> None:
    _, found = check_trace(trace_of([[0], [1]]))
    assert [claim for claim, _ in found] == [BOUND_CLAIM, *ROUTING_CLAIMS]
    assert set(outcomes(found)) <= set(CLAIMS)
    assert {outcome.verdict for _, outcome in found} == {Verdict.HELD}
    assert {outcome.cases for _, outcome in found} == {1}


def test_rows_and_padding_are_what_a_slow_sum_gives() -> None:
    passes = [[[0, 1], [0, 2], [-1, 3]], [[1, 2]], [[2, 3], [2, 3], [2, 3]]]
    report, _ = check_trace(trace_of(*passes), tile=2)
    real, profiling = report.real, report.profiling
    assert (real.passes, real.tokens, real.routed_rows, real.dropped) == (2, 4, 7, 1)
    assert (real.padded_rows, real.padding_rows) == (2 + 2 + 2 + 2 + 2 + 2, 5)
    assert (profiling.passes, profiling.tokens, profiling.routed_rows) == (1, 3, 6)
    assert (profiling.padded_rows, profiling.padding_rows) == (8, 2)
    assert report.max_num_batched_tokens == 3
    assert real.padding_share == pytest.approx(5 / 12)


@pytest.mark.parametrize("tile", [1, 2, 3, 5])
def test_last_ends_are_those_of_the_slow_sum(tile: int) -> None:
    for experts in range(1, 5):
        for counts in itertools.product(range(5), repeat=experts):
            found = last_ends(np.array(counts, dtype=np.int64), tile=tile)
            assert found == {p: last_end(counts, tile=tile, placement=p) for p in PLACEMENTS}


def test_repeats_are_counted_by_token() -> None:
    ids = np.array([[0, 1, 0], [1, 1, 1], [-1, -1, 0], [2, 1, 0]], dtype=np.int32)
    assert tokens_with_repeats(ids) == 2


@pytest.mark.parametrize("max_num_batched_tokens", [None, 5])
def test_highest_use_of_each_formula(max_num_batched_tokens: int | None) -> None:
    rng_free = [[(7 * token + 3 * slot * token + slot) % 6 for slot in range(2)] for token in range(17)]
    passes = [rng_free[:2], rng_free[2:6], rng_free[6:17]]
    report, _ = check_trace(
        trace_of(*passes, num_experts=6), tile=3, max_num_batched_tokens=max_num_batched_tokens
    )
    flat = [row for ids in passes for row in ids]
    batches = passes if max_num_batched_tokens is None else [flat[i : i + 5] for i in range(0, 17, 5)]
    largest = max(map(len, batches)) if max_num_batched_tokens is None else 5
    assert [use.name for use in report.real.formulas] == list(FORMULAS)
    for use in report.real.formulas:
        formula = FORMULAS[use.name]
        own, fixed = [], []
        for ids in batches:
            if formula.ids == "distinct" and any(len(set(row)) < len(row) for row in ids):
                continue
            counts = [sum(row.count(expert) for row in ids) for expert in range(6)]
            end = last_end(counts, tile=3, placement=formula.placement)
            sizes = {"topk": 2, "num_experts": 6, "num_global_experts": 6, "tile": 3}
            own.append(end / formula.rows(Sizing(tokens=len(ids), **sizes)))
            fixed.append(end / formula.rows(Sizing(tokens=largest, **sizes)))
        assert use.judged == len(own)
        assert use.judged + use.repeated == len(batches)
        assert (use.own is None, use.fixed is None) == (not own, not own)
        if use.own and use.fixed:
            assert use.own.share == pytest.approx(max(own))
            assert use.fixed.share == pytest.approx(max(fixed))
            assert use.overruns == sum(share > 1 for share in own)


def test_a_bound_without_padding_is_refuted_with_the_smallest_pass() -> None:
    passes = [[[0], [1], [2], [3]], [[0], [1]], [[0], [0]]]
    report, found = check_trace(trace_of(*passes), bound=parse_bound("max_num_batched_tokens * topk"))
    outcome = outcomes(found)[BOUND_CLAIM]
    assert outcome.verdict is Verdict.REFUTED
    witness = dict(outcome.witness or {})
    assert witness["kind"] == "bound"
    assert witness["trace"] == {
        "file": "t.npz",
        "layer": 0,
        "pass": 1,
        "first_token": 4,
        "tokens": 2,
        "rank": 0,
    }
    assert (witness["topk_ids"], witness["tokens_per_expert"]) == ([[0], [1]], [1, 1, 0, 0])
    assert (witness["rows"], witness["bound"], witness["max_num_batched_tokens"]) == (256, 2, 2)
    assert report.real.passes == 2
    assert outcome.detail.startswith(
        "3 of 3 recorded routings overrun it; the smallest: 2 routed rows on 4 experts"
    )
    assert replay_bound(json.loads(json.dumps(witness))).reproduces


def test_a_bound_is_judged_for_the_given_max_num_batched_tokens() -> None:
    trace = trace_of([[0], [1]], [[2], [3]])
    bound = parse_bound("128 * max_num_batched_tokens")
    for size, rows in ((1, 128), (2, 256), (4, 512)):
        _, found = check_trace(trace, bound=bound, max_num_batched_tokens=size)
        assert outcomes(found)[BOUND_CLAIM].verdict is Verdict.HELD, (size, rows)
    too_small = parse_bound("128 * max_num_batched_tokens - 1")
    _, found = check_trace(trace, bound=too_small, max_num_batched_tokens=4)
    outcome = outcomes(found)[BOUND_CLAIM]
    assert outcome.verdict is Verdict.REFUTED
    assert dict(outcome.witness or {})["max_num_batched_tokens"] == 4
    assert replay_bound(dict(outcome.witness or {})).reproduces


def test_bounds_for_distinct_ids_leave_repeating_passes_out() -> None:
    distinct = parse_bound("exact_distinct")
    report, found = check_trace(trace_of([[0, 0], [1, 2]], [[0, 1], [1, 2]]), bound=distinct)
    assert outcomes(found)[BOUND_CLAIM].cases == 1
    assert "1 left out: a token names an expert twice" in outcomes(found)[BOUND_CLAIM].detail
    assert (report.repeated_tokens, report.distinct) == (1, False)
    assert report.first_repeat is not None
    assert report.first_repeat.index == 0
    _, found = check_trace(trace_of([[0, 0]]), bound=distinct)
    assert outcomes(found)[BOUND_CLAIM].verdict is Verdict.SKIPPED


def test_a_capped_bound_judges_only_what_its_guard_lets_through() -> None:
    trace = trace_of([[0], [1], [2]], [[0]])
    _, found = check_trace(trace, bound=parse_bound("2"), tile=1)
    outcome = outcomes(found)[BOUND_CLAIM]
    assert (outcome.verdict, outcome.cases) == (Verdict.HELD, 1)
    assert "1 refused by its guard" in outcome.detail
    _, found = check_trace(trace, bound=parse_bound("2"), tile=4)
    assert outcomes(found)[BOUND_CLAIM].verdict is Verdict.REFUTED


@pytest.mark.parametrize("max_num_batched_tokens", [None, 2])
def test_irregular_passes_are_counted_also_when_rebatched(max_num_batched_tokens: int | None) -> None:
    steps = [replace(step, contiguous=step.index == 1) for step in trace_of([[0]], [[1]], [[2]])]
    trace = Trace(trace_of([[0]]).meta, lambda: iter(steps))
    report, _ = check_trace(trace, max_num_batched_tokens=max_num_batched_tokens)
    assert report.irregular == 2


def test_expert_parallel_checks_every_rank() -> None:
    trace = trace_of([[0, 4], [1, 2], [3, 0]], num_experts=5)
    report, found = check_trace(trace, expert_parallel_size=2, tile=4)
    assert {outcome.cases for _, outcome in found} == {2}
    assert (report.real.passes, report.real.tokens, report.real.routed_rows) == (1, 3, 6)
    assert report.real.padded_rows == 4 * 5  # ranks of 3 and 2 experts, each expert with rows has a tile
    assert report.real.dropped == 0


@pytest.mark.parametrize(
    ("name", "value"), [("tile", 0), ("expert_parallel_size", 5), ("expert_parallel_size", 0)]
)
def test_sizes_are_refused_at_the_door(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=name):
        check_trace(trace_of([[0], [1]]), **{name: value})


def test_stopping_keeps_what_was_read() -> None:
    asked = iter([False, True])
    seen: list[int] = []
    report, found = check_trace(
        trace_of([[0]], [[1]], [[2]]), should_stop=lambda: next(asked), progress=seen.append
    )
    assert report.stopped
    assert report.real.passes == sum(seen) == 1
    assert outcomes(found)[BOUND_CLAIM].verdict is Verdict.HELD
    assert "stopped before the end" in outcomes(found)[BOUND_CLAIM].detail
    _, found = check_trace(trace_of([[0]]), should_stop=lambda: True)
    assert {outcome.verdict for _, outcome in found} == {Verdict.UNDECIDED}


def test_a_faulty_trace_is_an_error_not_a_verdict() -> None:
    def read() -> Iterator[Step]:
        yield from trace_of([[0]])
        raise TraceError("t.npz", "is cut off")

    with pytest.raises(TraceError, match="is cut off"):
        check_trace(Trace(trace_of([[0]]).meta, read))


# --- routing that is wrong ------------------------------------------------------------------------------------


def _changed(routing: Routing, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Routing:
    return replace(routing, **{name: change(getattr(routing, name).clone())})


def _first_up(values: torch.Tensor) -> torch.Tensor:
    values[0] += 1
    return values


def _swap(values: torch.Tensor) -> torch.Tensor:
    values[[0, 1]] = values[[1, 0]]
    return values


WRONG: list[tuple[str, Callable[[torch.Tensor], torch.Tensor], set[str]]] = [
    ("tokens_per_expert", _first_up, {"routing.counts", "routing.offsets", "padding.coverage"}),
    ("blockscale_offsets", lambda v: v // 2, {"routing.offsets", "padding.disjoint"}),
    ("blockscale_offsets", lambda v: v - 128, {"routing.offsets", "padding.coverage"}),
    ("output_permutation", _swap, {"routing.permutation"}),
    ("input_permutation", _first_up, {"routing.permutation"}),
    ("problem_sizes1", _first_up, {"routing.counts"}),
]


@pytest.mark.parametrize(
    ("name", "change", "claims"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)]
)
def test_a_wrong_routing_breaks_its_claims(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: Callable[[torch.Tensor], torch.Tensor],
    claims: set[str],
) -> None:
    right = trace_routing.route
    monkeypatch.setattr(
        trace_routing, "route", lambda *args, **sizes: _changed(right(*args, **sizes), name, change)
    )
    report, found = check_trace(trace_of([[0, 1], [1, 2]], [[0, 3], [0, 1]]))
    broken = {
        claim for claim, outcome in found if outcome.verdict is Verdict.REFUTED and claim != BOUND_CLAIM
    }
    assert broken == claims
    assert report.broken == dict.fromkeys(broken, 2)
    for claim in broken:
        witness = json.loads(json.dumps(outcomes(found)[claim].witness))
        assert (witness["kind"], witness["claim"], witness["trace"]["pass"]) == ("trace", claim, 0)
        assert witness["topk_ids"] == [[0, 1], [1, 2]]
        assert replay_trace(witness).reproduces
        with monkeypatch.context() as fixed:
            fixed.setattr(trace_routing, "route", right)
            assert not replay_trace(witness).reproduces


GOOD_WITNESS = {
    "kind": "trace",
    "claim": "routing.counts",
    "num_experts": 4,
    "topk": 2,
    "tile": 128,
    "topk_ids": [[0, 1]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": "padding.bound"}, "claim must be one of"),
        ({"claim": ["routing.counts"]}, "claim must be one of"),
        ({"num_experts": 0}, "num_experts must be between 1"),
        ({"num_experts": 1 << 20}, "num_experts must be at most 65536"),
        ({"num_experts": "4"}, "num_experts must be an integer"),
        ({"tile": -1}, "tile must be between 1"),
        ({"topk": 3}, r"topk_ids\[0\] must hold 3 integers"),
        ({"topk_ids": []}, "topk_ids must be a list of tokens"),
        ({"topk_ids": [[0, 4]]}, r"topk_ids\[0\] must hold 2 integers in \[-1, 4\)"),
        ({"topk_ids": [[0, True]]}, r"topk_ids\[0\] must hold"),
        ({"topk_ids": [[0, 1.5]]}, r"topk_ids\[0\] must hold"),
        ({"topk_ids": [7]}, r"topk_ids\[0\] must hold"),
    ],
)
def test_a_trace_witness_from_outside_is_not_trusted(change: dict[str, Any], message: str) -> None:
    assert not replay_trace(GOOD_WITNESS).reproduces
    with pytest.raises((ValueError, TypeError), match=message):
        replay_trace(GOOD_WITNESS | change)


# --- the shipped traces ---------------------------------------------------------------------------------------


def test_sizes_that_int32_offsets_cannot_hold_are_refused_before_a_pass_is_read(tmp_path: Path) -> None:
    trace = open_trace(EXAMPLES / SHIPPED[0][0])
    most = (1 << 30) // 60
    with pytest.raises(ValueError, match=f"tile must be at most {most:,} for a trace with 60 experts"):
        check_trace(trace, tile=most + 1)
    wide = tmp_path / "t.npy"
    np.save(wide, np.zeros((1, 1, 1), np.int32))
    with pytest.raises(ValueError, match="tile must be at most 262,144 for a trace with 4,096 experts"):
        jobs_for(Settings(traces=[wide], experts=4096, tile=1 << 20, subjects=["reference"]))
    assert check_trace(trace, tile=most)[1][0][1].verdict is Verdict.HELD


SHIPPED = [
    ("qwen1.5-moe-a2.7b.layer0.npz", 0, (104, 2434), (2, 16384)),
    ("qwen1.5-moe-a2.7b.layer12.npz", 12, (129, 4357), (2, 8448)),
    ("qwen1.5-moe-a2.7b.layer12.sample.jsonl.gz", 12, (23, 1996), (1, 256)),
]


@pytest.mark.parametrize(("name", "layer", "real", "profiling"), SHIPPED)
def test_shipped_traces_hold(
    name: str, layer: int, real: tuple[int, int], profiling: tuple[int, int]
) -> None:
    report, found = check_trace(open_trace(EXAMPLES / name))
    assert (report.meta.num_experts, report.meta.topk, report.layers) == (60, 4, [layer])
    assert report.meta.model == "Qwen/Qwen1.5-MoE-A2.7B-Chat"
    assert (report.real.passes, report.real.tokens) == real
    assert (report.profiling.passes, report.profiling.tokens) == profiling
    assert report.distinct
    assert (report.irregular, report.broken) == (0, {})
    assert {outcome.verdict for _, outcome in found} == {Verdict.HELD}
    uses = {use.name: use for use in report.real.formulas}
    assert all(use.overruns == 0 for use in uses.values())
    proposed, quack = uses["proposed"].own, uses["quack"].own
    assert proposed is not None
    assert quack is not None
    assert 0.9 < proposed.share < 1.0
    assert quack.share == 1.0


def test_the_sample_is_the_layer_12_trace_from_its_second_pass_on() -> None:
    sample = list(open_trace(EXAMPLES / SHIPPED[2][0]))
    whole = list(open_trace(EXAMPLES / SHIPPED[1][0]))[1 : 1 + len(sample)]
    assert all(np.array_equal(a.topk_ids, b.topk_ids) for a, b in zip(sample, whole, strict=True))


def test_too_small_a_bound_is_refuted_by_a_shipped_trace() -> None:
    trace = open_trace(EXAMPLES / SHIPPED[0][0])
    _, found = check_trace(trace, bound=parse_bound("max_num_batched_tokens * topk + 100 * num_experts"))
    outcome = outcomes(found)[BOUND_CLAIM]
    assert outcome.verdict is Verdict.REFUTED
    assert replay_bound(json.loads(json.dumps(outcome.witness))).reproduces
