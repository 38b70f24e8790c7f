"""Routing metadata: each planted fault is refuted by its check; any row order is judged by its meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.cases import RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.routing_check import OUTPUTS, make_topk_ids, true_routing
from nvfp4_moe.verification.conformance.subject import Subject

OPERATION = "get_cutlass_moe_mm_data"
CASE = RoutingCase(
    index=3,
    seed=0,
    tokens=17,
    topk=4,
    num_experts=7,
    ids="negative",
    id_dtype="int32",
    is_gated=True,
    n=512,
    k=1024,
)
ANY_ORDER = Contract(row_order="any", id_dtypes=("int32", "int64"))
NAMES = (
    *(
        "topk_ids",
        "expert_offsets",
        "problem_sizes1",
        "problem_sizes2",
        "input_permutation",
        "output_permutation",
    ),
    *("num_experts", "n", "k", "blockscale_offsets", "is_gated"),
)
Checks = Callable[[Subject, RoutingCase], dict[str, str]]


def then(change: Callable[[dict[str, Any]], None]) -> Callable[[Any], Any]:
    def wrap(operation: Any) -> Any:
        def faulty(*arguments: Any) -> None:
            operation(*arguments)
            change(dict(zip(NAMES, arguments, strict=True)))

        return faulty

    return wrap


def unstable(o: dict[str, Tensor]) -> None:
    """Turn the rows of each expert around: a legal order, not the stable one."""
    first, end = o["expert_offsets"][:-1].tolist(), o["expert_offsets"][1:].tolist()
    for start, stop in zip(first, end, strict=True):
        o["input_permutation"][start:stop] = o["input_permutation"][start:stop].flip(0)
        inside = (o["output_permutation"] >= start) & (o["output_permutation"] < stop)
        o["output_permutation"][inside] = start + stop - 1 - o["output_permutation"][inside]


def entry(name: str, index: int, by: int = 1) -> Callable[[dict[str, Tensor]], None]:
    def change(o: dict[str, Tensor]) -> None:
        o[name].view(-1)[index] += by

    return change


@pytest.mark.parametrize("contract", [Contract(), ANY_ORDER])
def test_right_ones_pass(contract: Contract, planted: Any, checks: Checks) -> None:
    for ids in ("uniform", "negative", "all_negative", "last_expert"):
        for tokens in (0, 1, 17):
            subject = planted(OPERATION, lambda right: right, contract)
            assert checks(subject, replace(CASE, ids=ids, tokens=tokens)) == {}


@pytest.mark.parametrize("contract", [Contract(), ANY_ORDER])
@pytest.mark.parametrize("name", OUTPUTS)
def test_one_wrong_entry(name: str, contract: Contract, planted: Any, checks: Checks) -> None:
    found = checks(planted(OPERATION, then(entry(name, 0)), contract), CASE)
    assert set(found) == {"golden"}


def test_another_order_is_wrong_only_where_it_is_promised(planted: Any, checks: Checks) -> None:
    assert checks(planted(OPERATION, then(unstable), Contract()), CASE) == {"golden": "bytes"}
    assert checks(planted(OPERATION, then(unstable), ANY_ORDER), CASE) == {}


def test_an_order_that_changes_from_call_to_call(planted: Any, checks: Checks) -> None:
    calls: list[int] = []

    def sometimes(o: dict[str, Tensor]) -> None:
        calls.append(1)
        if len(calls) % 2:
            unstable(o)

    assert checks(planted(OPERATION, then(sometimes), ANY_ORDER), CASE) == {"golden": "contract"}
    free = replace(ANY_ORDER, deterministic=False)
    assert checks(planted(OPERATION, then(sometimes), free), CASE) == {}


def two_slots_one_row(o: dict[str, Tensor]) -> None:
    rows = o["output_permutation"]
    routed = (rows < o["expert_offsets"][-1]).nonzero().view(-1)
    ids = o["topk_ids"].view(-1)[routed]
    expert = int(ids.bincount().argmax())
    one, other = routed[ids == expert][:2].tolist()
    rows[other] = rows[one]


def wrong_token(o: dict[str, Tensor]) -> None:
    o["input_permutation"][0] = (o["input_permutation"][0] + 1) % len(o["topk_ids"])


def other_expert(o: dict[str, Tensor]) -> None:
    rows = o["output_permutation"]
    low, high = int(rows.argmin()), int((rows == o["expert_offsets"][-1] - 1).nonzero()[0])
    rows[low], rows[high] = rows[high].clone(), rows[low].clone()


@pytest.mark.parametrize("change", [two_slots_one_row, wrong_token, other_expert], ids=lambda c: c.__name__)
def test_what_is_wrong_in_any_order(change: Callable[..., None], planted: Any, checks: Checks) -> None:
    assert checks(planted(OPERATION, then(change), ANY_ORDER), CASE) == {"golden": "bytes"}


def test_the_tail_is_zero_in_any_order(planted: Any, checks: Checks) -> None:
    behind = then(entry("input_permutation", -1))
    assert checks(planted(OPERATION, behind, ANY_ORDER), CASE) == {"golden": "contract"}
    kept = keeping("input_permutation", slice(-1, None))
    assert checks(planted(OPERATION, kept, ANY_ORDER), CASE) == {"golden": "contract"}


def keeping(name: str, part: slice) -> Callable[[Any], Any]:
    def wrap(operation: Any) -> Any:
        def faulty(*arguments: Any) -> None:
            given = dict(zip(NAMES, arguments, strict=True))
            stale = given[name].clone()
            operation(*arguments)
            given[name].view(-1)[part] = stale.view(-1)[part]

        return faulty

    return wrap


@pytest.mark.parametrize(
    ("name", "part", "finding"),
    [
        ("expert_offsets", slice(0, 1), "bytes"),
        ("blockscale_offsets", slice(-1, None), "bytes"),
        ("problem_sizes2", slice(2, 3), "bytes"),
        ("input_permutation", slice(-1, None), "contract"),
        ("output_permutation", slice(4, 5), "bytes"),
    ],
)
def test_entries_that_are_not_written(
    name: str, part: slice, finding: str, planted: Any, checks: Checks
) -> None:
    found = checks(planted(OPERATION, keeping(name, part), Contract()), CASE)
    assert found == {"coverage": finding}


def test_ids_are_an_input(planted: Any, checks: Checks) -> None:
    found = checks(planted(OPERATION, then(entry("topk_ids", 0, 0)), Contract()), CASE)
    assert found == {}
    assert checks(planted(OPERATION, then(entry("topk_ids", 0)), Contract()), CASE) == {"inputs": "memory"}


def test_true_metadata_of_a_small_case_by_hand() -> None:
    case = replace(CASE, tokens=3, topk=1, num_experts=2, ids="one_expert", index=1)
    assert make_topk_ids(case).tolist() == [[1], [1], [1]]
    true = true_routing(case)
    assert true.expert_offsets.tolist() == [0, 0, 3]
    assert true.blockscale_offsets.tolist() == [0, 0, 128]
    assert true.problem_sizes1.tolist() == [[0, 1024, 1024], [3, 1024, 1024]]
    assert true.problem_sizes2.tolist() == [[0, 1024, 512], [3, 1024, 512]]
    assert torch.equal(true.input_permutation, torch.arange(3, dtype=torch.int32))
