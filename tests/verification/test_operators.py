"""The torch operators' own check: ours pass, and what it looks at decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification import operators
from nvfp4_moe.verification.operators import (
    BATCHES,
    CLAIMS,
    TELLING,
    Batch,
    Operator,
    arguments_of,
    check_operators,
    check_own_operators,
)
from nvfp4_moe.verification.result import Verdict

GATHER = Operator(
    name="shuffle_rows",
    schema="(Tensor input, Tensor map) -> Tensor",
    kernel=lambda input, row_map: input.index_select(0, row_map),
    fake=lambda input, row_map: input.new_empty((row_map.shape[0], input.shape[1])),
)


def verdicts(operator: Operator) -> dict[str, str]:
    return {claim: str(found.verdict) for claim, found in check_operators((operator,), seed=0).items()}


def test_our_operators_hold() -> None:
    found = check_own_operators(seed=0, device="cpu")
    assert {claim: outcome.verdict for claim, outcome in found.items()} == dict.fromkeys(CLAIMS, Verdict.HELD)
    assert found["operators.fake"].cases == 7 * (len(BATCHES) + 1)


def test_a_library_that_cannot_be_built_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RuntimeError("no compiler\nsecond line")

    monkeypatch.setattr("nvfp4_moe.cuda.build.host_library", missing)
    for outcome in check_own_operators(seed=0, device="cpu").values():
        assert (outcome.verdict, outcome.detail) == (Verdict.SKIPPED, "RuntimeError: no compiler")


@pytest.mark.parametrize(
    ("changes", "refuted"),
    [
        ({}, None),
        ({"fake": lambda input, row_map: torch.empty_like(input)}, "operators.fake"),
        ({"fake": lambda input, row_map: input.new_empty((len(row_map), 32)).t()}, "operators.fake"),
        ({"fake": lambda input, row_map: input[row_map].float()}, "operators.fake"),
        ({"kernel": lambda input, row_map: input[: len(row_map)]}, "operators.schema"),
        (
            {"schema": "(Tensor(a!) input, Tensor map) -> Tensor"},
            None,
        ),  # marked, and not used: no fault of the bytes
    ],
)
def test_what_does_not_agree_is_refuted(changes: dict[str, Any], refuted: str | None) -> None:
    found = verdicts(replace(GATHER, **changes))
    assert found.get(refuted or "operators.fake") == ("REFUTED" if refuted else "HELD")


def test_a_change_that_the_schema_hides_is_refuted() -> None:
    def kernel(input: Tensor, row_map: Tensor) -> Tensor:
        made = input.index_select(0, row_map)
        if len(input):
            input[0, 0] = 7
        return made

    found = check_operators((replace(GATHER, kernel=kernel),), seed=0)["operators.schema"]
    assert found.verdict is Verdict.REFUTED
    assert (
        found.detail == "shuffle_rows: test_schema: Argument input is not defined as mutable but was mutated"
    )
    assert found.witness is not None
    assert (found.witness["kind"], found.witness["operator"]) == ("operator", "shuffle_rows")


def test_the_telling_batch_hides_nothing() -> None:
    """No size is a multiple of a tile, of a word of scales or of another size, and none is 1."""
    rows = TELLING.tokens * TELLING.topk
    assert rows % 128 > 0
    assert TELLING.k % 64 > 0
    assert min(TELLING.experts, TELLING.topk) > 1
    sizes = (TELLING.tokens, rows, TELLING.experts, TELLING.k, TELLING.n)
    assert len(set(sizes)) == len(sizes)
    ids = arguments_of(TELLING, seed=0, device="cpu")["moe_data"][0]
    assert {-1, *range(TELLING.experts)} == set(ids.flatten().tolist())


def test_a_batch_has_wide_ids_and_views() -> None:
    batch = BATCHES[-1]
    given = arguments_of(batch, seed=0, device="cpu")
    assert given["moe_data"][0].dtype == torch.int64
    for name, place in (("shuffle_rows", 0), ("experts_quant", 0), ("silu_and_mul_experts_quant_", 2)):
        assert given[name][place].stride(0) == given[name][place].shape[1] + batch.row_gap


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: str(batch.tokens))
def test_arguments_are_those_of_a_call(batch: Batch) -> None:
    given = arguments_of(batch, seed=0, device="cpu")
    assert set(given) == {operator.name for operator in operators.own_operators()}
    for operator in operators.own_operators():
        operator.kernel(*given[operator.name])


def test_namespaces_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[torch.library.Library] = []
    destroy: Callable[[torch.library.Library], None] = torch.library.Library._destroy
    monkeypatch.setattr(torch.library.Library, "_destroy", lambda self: (taken.append(self), destroy(self)))
    assert verdicts(GATHER)["operators.fake"] == "HELD"
    assert len(taken) == 1
