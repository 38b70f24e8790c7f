"""Fuzzing as a campaign: same cases whenever and wherever, nothing run twice, wrong bounds found and kept."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from nvfp4_moe.verification.bound_witness import replay
from nvfp4_moe.verification.campaign import BatchResult, Campaign, CampaignError, Found
from nvfp4_moe.verification.campaign_job import campaign_job
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.fuzz_campaign import (
    FIRST_ROUND,
    SliceRunner,
    campaign_outcomes,
    check_counterexamples,
    plan_of,
    slices,
)
from nvfp4_moe.verification.fuzz_plan import Form, Sizes, batches
from nvfp4_moe.verification.result import Verdict
from nvfp4_moe.verification.routing_witness import routing_witness
from nvfp4_moe.verification.settings import Settings

SMALL = Sizes(experts=(2, 3), topk=2, tile=4)
PROPOSED = parse_bound("proposed")
WRONG = parse_bound("max_num_batched_tokens * topk + (tile - 2) * num_experts")


def test_slices_never_repeat_a_case_of_a_level_or_of_each_other() -> None:
    one = Sizes(experts=(5,))
    levels = {
        batch for level in (1, 2, 3) for form in Form for batch in batches(1, level, form=form, sizes=one)
    }
    parts = list(islice(slices(1, sizes=one), 60))
    ran = [batch for part in parts for batch in part.batches()]
    assert len(set(ran)) == len(ran) > 0
    assert not levels & set(ran)
    assert len({part.key for part in parts}) == len(parts)
    assert parts[0].number == FIRST_ROUND
    assert {part.form for part in parts} == set(Form)


def test_the_order_of_slices_is_fixed() -> None:
    keys = [part.key for part in islice(slices(1, sizes=SMALL), 5)]
    assert keys == [
        f"counts round {FIRST_ROUND} experts 2",
        f"ids round {FIRST_ROUND} experts 2",
        f"counts round {FIRST_ROUND} experts 3",
        f"ids round {FIRST_ROUND} experts 3",
        f"counts round {FIRST_ROUND + 1} experts 2",
    ]


def run(path: Path, bound_text: str, count: int) -> tuple[Campaign, SliceRunner]:
    bound = parse_bound(bound_text)
    campaign = Campaign.open(path, seed=1, version="0.1.0", plan=plan_of([bound], SMALL))
    campaign.run(islice(slices(1, sizes=SMALL), count), runner := SliceRunner([bound]))
    return campaign, runner


def test_a_right_bound_holds_and_a_resumed_campaign_is_the_same_as_one_run(tmp_path: Path) -> None:
    run(tmp_path / "a", "proposed", 1)[0].close()
    resumed, _ = run(tmp_path / "a", "proposed", 2)
    whole, _ = run(tmp_path / "b", "proposed", 2)
    with resumed, whole:
        assert resumed.summary().counts == whole.summary().counts
        assert resumed.summary().cases == whole.summary().cases > 1000
        outcomes = dict(campaign_outcomes(whole))
    assert {outcome.verdict for outcome in outcomes.values()} == {Verdict.HELD}
    assert {"padding.bound", "padding.disjoint", "routing.permutation"} <= set(outcomes)
    assert outcomes["padding.bound"].cases > 1000
    assert "campaign of 2 slices, seed 1" in outcomes["padding.bound"].detail


def test_a_wrong_bound_is_refuted_and_its_witness_kept(tmp_path: Path) -> None:
    with run(tmp_path / "a", WRONG.name, 1)[0] as campaign:
        outcome = dict(campaign_outcomes(campaign))["padding.bound"]
        kept = campaign.counterexamples()
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.cases > 0
    witness = json.loads(json.dumps(outcome.witness))
    assert replay(witness).reproduces
    assert sum(witness["tokens_per_expert"]) == min(sum(found.witness["tokens_per_expert"]) for found in kept)
    with Campaign.open(tmp_path / "a", seed=1, version="0.1.0", plan=plan_of([WRONG], SMALL)) as campaign:
        assert dict(campaign_outcomes(campaign))["padding.bound"].witness == outcome.witness


def test_a_counterexample_of_a_batch_that_never_ended_still_refutes(tmp_path: Path) -> None:
    def dying(part: object, report: object) -> BatchResult:
        raise KeyboardInterrupt

    with Campaign.open(tmp_path / "a", seed=1, version="0.1.0") as campaign:
        with pytest.raises(KeyboardInterrupt):
            campaign.run(slices(1, sizes=SMALL), dying)
        campaign._store.add_counterexample("k", "padding.bound", {"kind": "bound", "tokens_per_expert": [3]})
        campaign._store.add_counterexample("k", "padding.bound", {"kind": "bound", "tokens_per_expert": [1]})
        campaign._store.add_counterexample("k", "padding.bound", {"kind": "other"})
        ((claim, outcome),) = campaign_outcomes(campaign)
    assert (claim, outcome.verdict, outcome.cases) == ("padding.bound", Verdict.REFUTED, 0)
    assert dict(outcome.witness or {})["tokens_per_expert"] == [1]


def test_plans_tell_what_is_checked() -> None:
    plans = {
        plan_of([PROPOSED], SMALL),
        plan_of([WRONG], SMALL),
        plan_of([PROPOSED], Sizes(experts=(2,), topk=2, tile=4)),
        plan_of([PROPOSED], Sizes(experts=(2, 3), tile=4)),
        plan_of([PROPOSED], Sizes(experts=(2, 3), topk=2)),
    }
    assert len(plans) == 5


def test_results_do_not_depend_on_the_runner(tmp_path: Path) -> None:
    part = next(slices(1, sizes=SMALL))
    found: list[Found] = []
    fresh = SliceRunner([PROPOSED])(part, found.append)
    _, used = run(tmp_path / "a", "proposed", 2)
    assert used(part, found.append) == fresh
    assert found == []


@pytest.mark.parametrize(
    ("claim", "witness", "told"),
    [
        ("padding.bound", {"kind": "x"}, "the kind of a counterexample must be one of"),
        ("padding.bound", {"kind": "bound"}, "needs 'max_num_batched_tokens'"),
        ("quant.golden", {"kind": "routing"}, "a campaign does not check this claim"),
        (
            "routing.counts",
            routing_witness(torch.tensor([[0]]), 1, tile=4, broken=["stable"]),
            "not reproduce",
        ),
    ],
)
def test_a_foreign_counterexample_refutes_nothing(
    claim: str, witness: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with run(tmp_path / "a", WRONG.name, 1)[0] as campaign:
        check_counterexamples(campaign, tmp_path / "a")
        campaign._store.add_counterexample("batch", claim, witness)
        with pytest.raises(CampaignError, match=told):
            check_counterexamples(campaign, tmp_path / "a")


def test_a_campaign_of_sizes_that_no_routing_is_built_for_is_refused(tmp_path: Path) -> None:
    settings = Settings(budget=1.0, topk=1025, folder=tmp_path / "out")
    with pytest.raises(ValueError, match="nothing can be fuzzed: routings are built for a topk of at most"):
        campaign_job(settings, PROPOSED, Sizes(topk=1025))
    assert not (tmp_path / "out").exists()
