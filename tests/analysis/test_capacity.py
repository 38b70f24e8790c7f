"""Verdicts of the formulas under serving flags: the table of configurations, witnesses, every small call."""

from __future__ import annotations

import itertools
from typing import Any

import jsonschema
import pytest

from nvfp4_moe.analysis.capacity import Capacity, Failure, Verdict, capacity
from nvfp4_moe.analysis.serving_flags import Caller, CompilationConfig, ServingFlags
from nvfp4_moe.reference.padding import FORMULAS, Sizing
from nvfp4_moe.verification import schema
from nvfp4_moe.verification.bound_witness import replay
from nvfp4_moe.verification.worst_case import worst_end

SP = CompilationConfig(sequence_parallel=True)
GUARD = Failure.GUARD_FIRES


def judge(experts: int = 256, topk: int = 8, ids: str = "any", tile: int = 128, **flags: Any) -> Capacity:
    return capacity(
        ServingFlags(**({"max_num_batched_tokens": 8192} | flags)),
        experts=experts,
        topk=topk,
        ids=ids,
        tile=tile,
    )


# --- the table of configurations of the source study, row by row: what becomes of the proposed formula -----------------

SAFE, UNSAFE, NOT_APPLICABLE, UNKNOWN = Verdict
TABLE: list[tuple[str, dict[str, Any], Verdict, Failure | None]] = [
    ("single GPU", {}, SAFE, None),
    ("tensor parallel", {"tensor_parallel_size": 8}, SAFE, None),
    ("pipeline parallel", {"pipeline_parallel_size": 4}, SAFE, None),
    ("data parallel, no expert parallel", {"data_parallel_size": 2}, UNSAFE, GUARD),
    (
        "data and tensor parallel, no expert parallel",
        {"data_parallel_size": 4, "tensor_parallel_size": 2},
        UNSAFE,
        GUARD,
    ),
    ("DP+EP", {"data_parallel_size": 2, "enable_expert_parallel": True}, NOT_APPLICABLE, None),
    ("TP+EP", {"tensor_parallel_size": 2, "enable_expert_parallel": True}, NOT_APPLICABLE, None),
    *(
        (
            f"DP+EP over {backend}",
            {"data_parallel_size": 2, "enable_expert_parallel": True, "all2all_backend": backend},
            NOT_APPLICABLE,
            None,
        )
        for backend in ("deepep_high_throughput", "deepep_low_latency", "flashinfer_nvlink_two_sided")
    ),
    (
        "sequence-parallel experts (TP, DP and EP)",
        {"tensor_parallel_size": 2, "data_parallel_size": 2, "enable_expert_parallel": True},
        NOT_APPLICABLE,
        None,
    ),
    (
        "enable_sp, batch no multiple of the ranks",
        {"tensor_parallel_size": 4, "compilation_config": SP, "max_num_batched_tokens": 8191},
        UNSAFE,
        GUARD,
    ),
    ("enable_sp, batch a multiple", {"tensor_parallel_size": 4, "compilation_config": SP}, SAFE, None),
    ("prefill context parallel, no EP", {"prefill_context_parallel_size": 2}, UNSAFE, GUARD),
    ("dual batch overlap", {"enable_dbo": True}, SAFE, None),
    (
        "CUDA graphs",
        {"compilation_config": CompilationConfig()},
        SAFE,
        None,
    ),
    ("speculative decoding", {"num_speculative_tokens": 4}, SAFE, None),
    ("LoRA", {"enable_lora": True}, NOT_APPLICABLE, None),
    (
        "FusedMoEConfig built directly, 2,049",
        {"caller": Caller.CONFIG, "max_num_batched_tokens": 2049},
        UNSAFE,
        GUARD,
    ),
    (
        "FusedMoEConfig built directly, 2,048",
        {"caller": Caller.CONFIG, "max_num_batched_tokens": 2048},
        SAFE,
        None,
    ),
    ("the operation called directly", {"caller": Caller.OP}, UNKNOWN, None),
]


@pytest.mark.parametrize(
    ("flags", "verdict", "failure"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_proposed_formula_in_every_configuration(
    flags: dict[str, Any], verdict: Verdict, failure: Failure | None
) -> None:
    answer = judge(**flags)
    proposed = answer.formulas["proposed"]
    assert (proposed.verdict, proposed.failure) == (verdict, failure)
    jsonschema.validate(answer.to_json(), schema.load("capacity"))


def test_huge_data_parallelism_that_the_variable_served_is_a_regression() -> None:
    """data_parallel_size x max_num_batched_tokens <= 163,840: served before, refused after."""
    answer = judge(data_parallel_size=16)
    assert answer.reach.max_tokens == 131_072
    assert answer.formulas["vllm_env"].verdict is Verdict.SAFE
    proposed = answer.formulas["proposed"]
    assert proposed.witness is not None
    assert "regression" in proposed.witness.advice
    beyond = judge(data_parallel_size=32).formulas
    assert beyond["vllm_env"].verdict is Verdict.UNSAFE
    assert beyond["proposed"].witness is not None
    assert "regression" not in beyond["proposed"].witness.advice


def test_known_numbers_of_deepseek_r1() -> None:
    answer = judge(data_parallel_size=8)
    assert (answer.reach.max_tokens, answer.rows) == (65_536, 556_800)
    proposed = answer.formulas["proposed"]
    assert (proposed.rows, proposed.required) == (98_048, 556_800)
    assert proposed.witness is not None
    assert (proposed.witness.tokens, proposed.witness.limit) == (8_193, 65_536)
    assert proposed.witness.routing is None
    assert answer.formulas["loose"].verdict is Verdict.SAFE


@pytest.mark.parametrize(("name", "tokens"), [("vllm_env", 147_712), ("sglang", 49_408)])
def test_capped_formulas_overrun_near_the_cap(name: str, tokens: int) -> None:
    """topk 1, 128 experts: the guard lets rows through that leave no room for padding."""
    below = judge(128, 1, max_num_batched_tokens=tokens - 1).formulas[name]
    assert below.verdict is Verdict.SAFE
    judged = judge(128, 1, max_num_batched_tokens=tokens).formulas[name]
    assert (judged.verdict, judged.failure) == (Verdict.UNSAFE, Failure.OVERRUN)
    assert judged.witness is not None
    assert judged.witness.tokens == tokens
    assert judged.witness.routing is not None
    assert f"to at most {tokens - 1:,}" in judged.witness.advice
    assert replay(judged.witness.routing.to_json()).reproduces


def test_advice_about_a_cap_makes_it_safe() -> None:
    """The batch that is advised is safe for the same ranks, and one more token is not."""
    for ranks in (1, 3, 8):
        witness = (
            judge(128, 1, data_parallel_size=ranks, max_num_batched_tokens=60_000).formulas["sglang"].witness
        )
        assert witness is not None
        advised = int(witness.advice.rsplit(" ", 1)[1].replace(",", ""))
        for tokens, verdict in ((advised, Verdict.SAFE), (advised + 1, Verdict.UNSAFE)):
            again = judge(128, 1, data_parallel_size=ranks, max_num_batched_tokens=tokens)
            assert again.formulas["sglang"].verdict is verdict


def test_distinct_ids_make_the_formulas_safe_that_count_on_them() -> None:
    assert judge(8, 2).formulas["exact_distinct"].verdict is Verdict.UNSAFE
    assert {j.verdict for j in judge(8, 2, ids="distinct").formulas.values()} == {Verdict.SAFE}


def test_every_call_of_small_sizes_agrees_with_the_verdict() -> None:
    """Safe is a formula exactly when its guard lets every call through and none needs more than it finds."""
    sizes = itertools.product(
        (1, 2, 3, 5), (1, 2, 3, 5), (1, 2, 4, 5), (1, 2), ("any", "distinct"), (1, 7, 12)
    )
    for experts, topk, tile, ranks, ids, batch in sizes:
        if topk > experts:
            continue
        answer = judge(experts, topk, ids, tile, data_parallel_size=ranks, max_num_batched_tokens=batch)
        most = answer.reach.max_tokens
        assert most == ranks * batch
        for name, formula in FORMULAS.items():
            if formula.capped:
                continue
            wrong = [
                tokens
                for tokens in range(1, most + 1)
                if (formula.sized_for != "call" and tokens > batch)
                or worst_end(tokens, topk, experts, tile=tile, ids=ids, placement=formula.placement)
                > formula.rows(_sizing(tokens if formula.sized_for == "call" else batch, topk, experts, tile))
            ]
            judged = answer.formulas[name]
            assert (judged.witness.tokens if judged.witness else None) == min(wrong, default=None), (
                name, experts, topk, tile, ranks, ids, batch,
            )  # fmt: skip


def _sizing(tokens: int, topk: int, experts: int, tile: int) -> Sizing:
    return Sizing(tokens=tokens, topk=topk, num_experts=experts, num_global_experts=experts, tile=tile)


@pytest.mark.parametrize(
    ("sizes", "flags", "said"),
    [
        ({"topk": 9, "experts": 8}, {}, r"topk \(9\) is above the number of experts \(8\)"),
        ({"experts": 1 << 21}, {}, "experts must be at most"),
        ({"tile": 65_537}, {"max_num_batched_tokens": 10**9}, "tile must be at most 65,536, got 65537"),
        (
            {"experts": 2, "topk": 1},
            {"data_parallel_size": 4, "enable_expert_parallel": True},
            "must be at most",
        ),
        ({}, {"max_num_batched_tokens": 10**18, "data_parallel_size": 8}, r"10\^18"),
        ({"ids": "some"}, {}, "ids must be one of"),
    ],
)
def test_sizes_that_no_server_has(sizes: dict[str, Any], flags: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        judge(**sizes, **flags)
