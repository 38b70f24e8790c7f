"""Fuzzing at both levels: right bounds hold and are reached, wrong ones and wrong routings are found."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from nvfp4_moe.reference.padding import FORMULAS, TILE, padded_rows
from nvfp4_moe.reference.routing import Routing, route
from nvfp4_moe.verification import fuzz, fuzz_counts, witness
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.families import EXPERTS, FAMILIES
from nvfp4_moe.verification.fuzz import BatchRunner, Tally, fuzz_monotone
from nvfp4_moe.verification.fuzz_counts import RowTable
from nvfp4_moe.verification.fuzz_plan import Batch, Form, Sizes, Use, batches, round_of_batches
from nvfp4_moe.verification.result import Outcome, Verdict

SMALL = Sizes(experts=(1, 5, 60))


def never() -> bool:
    return False


def ignore(cases: int) -> None:
    del cases


def run_round(form: Form, *bounds: str, number: int = 0, sizes: Sizes = SMALL, **options: Any) -> Tally:
    parsed = [parse_bound(bound) for bound in bounds]
    runner = BatchRunner(parsed, **options)
    tally = Tally(parsed)
    for batch in round_of_batches(0, number, form=form, sizes=sizes):
        tally.add(runner.run(batch))
    return tally


def outcomes(tally: Tally, form: Form) -> dict[str, Outcome]:
    claims = fuzz.COUNTS_CLAIMS if form is Form.COUNTS else fuzz.IDS_LEVEL_CLAIMS
    return dict(tally.outcomes(claim for claim in claims if claim != "padding.monotone"))


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("bound", [name for name in FORMULAS if name not in ("vllm_env", "sglang")])
def test_safe_formulas_hold(form: Form, bound: str) -> None:
    tally = run_round(form, bound, sizes=Sizes(experts=(1, 5)))
    told = outcomes(tally, form)
    attained = told.pop("padding.attained", None)
    verdicts = {claim: outcome.verdict for claim, outcome in told.items()}
    skipped = {"padding.bound"} if form is Form.IDS and FORMULAS[bound].placement != "packed" else set()
    assert {claim for claim, verdict in verdicts.items() if verdict is not Verdict.HELD} == skipped
    if attained is not None and bound not in ("torchao", "flashinfer_cutlass"):
        assert attained.verdict is Verdict.HELD
        assert witness.replay(attained.witness or {}).reproduces
    assert tally.uses[bound].highest <= 1.0


@pytest.mark.parametrize(
    "bound",
    [
        "max_num_batched_tokens*topk + 126*num_experts",
        "max_num_batched_tokens*topk",
        "max_num_batched_tokens*topk + 127*(num_experts - 1)",
        "max_num_batched_tokens*topk + 127*min(num_experts, 59)",
        "round_up(max_num_batched_tokens*topk, tile) + 64*num_experts",
    ],
)
@pytest.mark.parametrize("form", Form)
def test_wrong_bounds_are_refuted_by_a_witness_that_replays(form: Form, bound: str) -> None:
    told = outcomes(run_round(form, bound), form)["padding.bound"]
    assert told.verdict is Verdict.REFUTED
    found = dict(told.witness or {})
    assert padded_rows(found["tokens_per_expert"]) == found["rows"] > found["bound"]
    assert witness.replay(found).reproduces


def test_the_smallest_witness_is_kept() -> None:
    told = outcomes(run_round(Form.COUNTS, "max_num_batched_tokens*topk + 126*num_experts"), Form.COUNTS)
    found = dict(told["padding.bound"].witness or {})
    assert (found["tokens_per_expert"], found["num_experts"], found["bound"]) == ([1], 1, 127)


def test_a_capped_bound_is_only_held_to_what_its_guard_lets_through() -> None:
    told = run_round(Form.COUNTS, "200", sizes=Sizes(experts=(5,)))
    use = told.uses["200"]
    assert use.refused > 0
    assert outcomes(told, Form.COUNTS)["padding.bound"].verdict is Verdict.REFUTED
    nothing = run_round(Form.COUNTS, "0", sizes=Sizes(experts=(5,)))
    assert outcomes(nothing, Form.COUNTS)["padding.bound"].verdict is Verdict.SKIPPED


def test_placements_are_held_to_the_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions that share a tile, are not on a tile, or end late are named."""
    right = fuzz_counts.placement_starts

    def overlapping(counts: torch.Tensor, *, placement: str, tile: int) -> torch.Tensor:
        starts = right(counts, placement=placement, tile=tile)
        return torch.where(starts >= 2 * tile, starts - tile, starts) if placement == "align_up" else starts

    monkeypatch.setattr(fuzz_counts, "placement_starts", overlapping)
    told = outcomes(run_round(Form.COUNTS, "proposed"), Form.COUNTS)
    assert told["padding.disjoint"].verdict is Verdict.REFUTED
    assert (told["padding.disjoint"].witness or {})["placement"] == "align_up"
    monkeypatch.setattr(fuzz_counts, "placement_starts", lambda counts, **rule: right(counts, **rule) + TILE)
    told = outcomes(run_round(Form.COUNTS, "proposed"), Form.COUNTS)
    assert told["padding.placement"].verdict is Verdict.REFUTED
    assert told["padding.disjoint"].verdict is Verdict.HELD


# --- the routing under test --------------------------------------------------------------------------------


def mutant(change: Callable[[torch.Tensor, Routing], Routing]) -> Callable[..., Routing]:
    def routed(topk_ids: torch.Tensor, num_experts: int, **sizes: Any) -> Routing:
        return change(topk_ids, route(topk_ids, num_experts, **sizes))

    return routed


def unstable(ids: torch.Tensor, right: Routing) -> Routing:
    """Rows of each expert in descending slot order."""
    rows, offsets = right.output_permutation.clone(), right.expert_offsets
    kept = (ids.flatten() >= 0).nonzero().flatten()
    experts = ids.flatten()[kept].long()
    rows[kept] = offsets[experts] + offsets[experts + 1] - 1 - rows[kept]
    tokens = right.input_permutation.clone()
    tokens[rows[kept].long()] = (kept // ids.shape[1]).int()
    return replace(right, output_permutation=rows, input_permutation=tokens)


def dirty_tail(ids: torch.Tensor, right: Routing) -> Routing:
    tokens = right.input_permutation.clone()
    tokens[right.routed_rows :] = 7
    return replace(right, input_permutation=tokens)


def dropped_to_zero(ids: torch.Tensor, right: Routing) -> Routing:
    rows = right.output_permutation.clone()
    rows[ids.flatten() == -1] = 0
    return replace(right, output_permutation=rows)


def empty_experts_padded(ids: torch.Tensor, right: Routing) -> Routing:
    """One tile for every expert, empty or not."""
    tiles = torch.div(right.tokens_per_expert + 127, 128, rounding_mode="floor").clamp(min=1) * 128
    return replace(right, blockscale_offsets=torch.nn.functional.pad(tiles.cumsum(0), (1, 0)).int())


def dropped_counted(ids: torch.Tensor, right: Routing) -> Routing:
    counts = right.tokens_per_expert.clone()
    counts[0] += (ids == -1).sum()
    return replace(right, tokens_per_expert=counts)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (unstable, "routing.permutation"),
        (dirty_tail, "routing.permutation"),
        (dropped_to_zero, "routing.permutation"),
        (empty_experts_padded, "routing.offsets"),
        (dropped_counted, "routing.counts"),
        (lambda ids, right: replace(right, problem_sizes1=right.problem_sizes2), "routing.counts"),
        (lambda ids, right: replace(right, expert_offsets=right.expert_offsets[:-1]), "routing.offsets"),
    ],
    ids=["unstable", "tail", "dropped", "empty", "counted", "sizes", "short"],
)
def test_wrong_routings_are_found(change: Callable[[torch.Tensor, Routing], Routing], claim: str) -> None:
    told = outcomes(run_round(Form.IDS, "proposed", route=mutant(change)), Form.IDS)
    assert told[claim].verdict is Verdict.REFUTED
    assert (told[claim].witness or {})["kind"] == "routing"


# --- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", Form)
def test_a_round_has_every_family_and_expert_count(form: Form) -> None:
    seen = {(batch.family, batch.num_experts) for batch in round_of_batches(0, 0, form=form)}
    assert {experts for _, experts in seen} == set(EXPERTS)
    assert {family for family, _ in seen} == set(FAMILIES)
    assert len(seen) == len(EXPERTS) * len(FAMILIES)


@pytest.mark.parametrize("form", Form)
def test_rounds_never_repeat_a_case(form: Form) -> None:
    seen: dict[tuple[object, ...], set[int]] = {}
    for number in range(24):
        for batch in round_of_batches(0, number, form=form, sizes=SMALL):
            indices = seen.setdefault((batch.family, batch.setting), set())
            new = set(range(batch.start, batch.start + batch.cases))
            assert not indices & new
            indices |= new


def test_level_1_has_ten_million_routings_and_levels_nest() -> None:
    plan = list(batches(0, 1, form=Form.COUNTS))
    assert sum(batch.cases for batch in plan) >= 10_000_000
    second = batches(0, 2, form=Form.COUNTS)
    assert [next(second) for _ in plan] == plan
    assert sum(batch.cases for batch in batches(0, 1, form=Form.IDS)) >= 3_000


def test_ids_batches_reach_the_boundary_sizes() -> None:
    totals = {batch.tokens * batch.topk for batch in batches(0, 1, form=Form.IDS)}
    assert totals >= {0, 1, 127, 129, 256, 257}


def test_fixed_sizes() -> None:
    sizes = Sizes(experts=(6,), topk=4, tile=64)
    plan = list(round_of_batches(0, 0, form=Form.COUNTS, sizes=sizes))
    assert {(batch.num_experts, batch.topk, batch.tile) for batch in plan} == {(6, 4, 64)}
    few = {batch.family for batch in round_of_batches(0, 0, form=Form.IDS, sizes=replace(sizes, topk=7))}
    assert "softmax_topk" not in few  # seven distinct of six experts
    assert "zipf" in few
    assert not list(round_of_batches(0, 0, form=Form.IDS, sizes=Sizes(experts=(10**9,))))


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        (Sizes(experts=(8193,)), "at most 8,192 experts on a rank, got 8,193"),
        (Sizes(topk=1025), "a topk of at most 1,024, got 1,025"),
        (
            Sizes(experts=(8192,), tile=1 << 18),
            "experts x tile of at most 1,073,741,824, got 8,192 x 262,144",
        ),
    ],
)
def test_sizes_too_large_to_build_routings_of_are_skipped_with_the_limit(sizes: Sizes, told: str) -> None:
    for fuzz_form in (fuzz.fuzz_counts, fuzz.fuzz_ids):
        found = dict(fuzz_form(1, 0, [parse_bound("proposed")], lambda n: None, lambda: False, sizes=sizes))
        assert found["padding.bound"].verdict is Verdict.SKIPPED
        assert told in found["padding.bound"].detail


@pytest.mark.parametrize("form", Form)
def test_the_largest_sizes_run(form: Form) -> None:
    """Their offsets fit int32, and their memory this machine's."""
    sizes = Sizes(experts=(1024,), topk=1024, tile=1 << 20)
    assert sizes.too_large is None
    told = outcomes(run_round(form, "proposed", number=5, sizes=sizes), form)
    assert told["padding.bound"].verdict is Verdict.HELD


def test_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="level must be one of 1, 2, 3, got 4"):
        list(batches(0, 4, form=Form.IDS))


def test_batches_are_values() -> None:
    for batch in round_of_batches(0, 0, form=Form.IDS, sizes=SMALL):
        assert pickle.loads(pickle.dumps(batch)) == batch
        assert isinstance(hash(batch), int)


def test_a_batch_gives_the_same_in_any_order_and_runner() -> None:
    plan = list(round_of_batches(3, 1, form=Form.COUNTS, sizes=SMALL))
    shared = BatchRunner([parse_bound("proposed"), parse_bound("quack")])
    backwards = [shared.run(batch) for batch in reversed(plan)]
    for batch, result in zip(plan, reversed(backwards), strict=True):
        assert BatchRunner([parse_bound("proposed"), parse_bound("quack")]).run(batch) == result


# --- entry points ------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds in place of a level's."""
    from nvfp4_moe.verification import fuzz_plan

    monkeypatch.setattr(fuzz_plan, "_COUNTS_ROUNDS", {1: 2})
    monkeypatch.setattr(fuzz_plan, "_IDS_ROUNDS", {1: 2})


def _form(run: object) -> Form:
    return Form.COUNTS if run is fuzz.fuzz_counts else Form.IDS


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("run", [fuzz.fuzz_counts, fuzz.fuzz_ids])
def test_outcomes_do_not_depend_on_workers(run: Callable[..., list[tuple[str, Outcome]]]) -> None:
    bounds = [parse_bound("proposed"), parse_bound("max_num_batched_tokens*topk + 126*num_experts")]
    sizes = Sizes(experts=(2, 9))
    told: list[int] = []
    one = run(1, 5, bounds, told.append, never, sizes=sizes)
    assert run(1, 5, bounds, ignore, never, sizes=sizes, workers=3) == one
    assert sum(told) == sum(batch.cases for batch in batches(5, 1, form=_form(run), sizes=sizes))
    claims = fuzz.COUNTS_CLAIMS if run is fuzz.fuzz_counts else fuzz.IDS_LEVEL_CLAIMS
    assert {claim for claim, _ in one} == set(claims)


@pytest.mark.usefixtures("short")
def test_progress_tells_every_case() -> None:
    told: list[int] = []
    fuzz.fuzz_ids(1, 0, [parse_bound("proposed")], told.append, never, sizes=SMALL)
    assert sum(told) == sum(batch.cases for batch in batches(0, 1, form=Form.IDS, sizes=SMALL))


@pytest.mark.usefixtures("short")
def test_stopping_early_reports_what_was_done() -> None:
    done: list[int] = []
    told = dict(
        fuzz.fuzz_ids(1, 0, [parse_bound("proposed")], done.append, lambda: len(done) == 3, sizes=SMALL)
    )
    assert len(done) == 3
    assert told["routing.counts"].cases == sum(done)
    none = dict(fuzz.fuzz_ids(1, 0, [parse_bound("proposed")], ignore, lambda: True, sizes=SMALL))
    assert {outcome.verdict for outcome in none.values()} == {Verdict.SKIPPED}


def test_torch_threads_are_left_as_they_were() -> None:
    threads = torch.get_num_threads()
    batch = Batch(
        form=Form.COUNTS, seed=0, family="uniform", num_experts=4, tokens=4, topk=1, index=0, cases=8
    )
    BatchRunner([parse_bound("proposed")]).run(batch)
    assert torch.get_num_threads() == threads


def test_monotone_holds_and_a_fall_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuzz_monotone(0, 2000).verdict is Verdict.HELD
    monkeypatch.setattr(fuzz, "exact_any_rows", lambda rows, experts, *, tile: rows % 97)
    told = fuzz_monotone(0, 2000)
    assert told.verdict is Verdict.REFUTED
    assert (told.witness or {})["kind"] == "monotone"


def test_row_table_evaluates_once_and_cuts_off_huge_rows() -> None:
    asked: list[int] = []

    def square(value: int) -> int:
        asked.append(value)
        return value * value if value < 100 else 10**30

    table = RowTable(square)
    assert table(torch.tensor([3, 0, 3, 99])).tolist() == [9, 0, 9, 9801]
    assert table(torch.tensor([5000, 3])).tolist() == [1 << 62, 9]
    assert sorted(asked) == [0, 3, 99, 5000]


def test_use_adds_up() -> None:
    use = Use(bound="b")
    for end, rows in ((3, 4), (7, 8), (1, 2)):
        use.add(Use(bound="b", cases=1, end=end, rows=rows))
    assert (use.cases, use.end, use.rows, use.highest) == (3, 7, 8, 0.875)
