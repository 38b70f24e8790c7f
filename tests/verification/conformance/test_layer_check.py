"""Layer conformance: right layers hold, planted faults of every stage are found, laws see what depends on the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.activations import ACTIVATIONS
from nvfp4_moe.reference.permute import unpermute_rows
from nvfp4_moe.verification.conformance.bounded_plan import bounded_cases
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.layer_cases import (
    FAMILIES,
    ID_FAMILIES,
    LAWS,
    OPERATION,
    LayerCase,
    LayerLawCase,
    law_bases,
    layer_cases,
)
from nvfp4_moe.verification.conformance.plan import may_refuse
from nvfp4_moe.verification.conformance.subject import Subject

LAYER_MODULE = import_module("nvfp4_moe.reference.moe_layer")
CASE = LayerCase(
    index=2, seed=0, tokens=21, topk=2, num_experts=5, n=48, k=80, dtype="bf16", activation="silu", values="exact",
    ids="negative",
)  # fmt: skip
NAMES = [
    "output",
    "a",
    "a1_gscale",
    "w1_fp4",
    "w1_blockscale",
    "w1_alphas",
    "a2_gscale",
    "w2_fp4",
    "w2_blockscale",
    "w2_alphas",
    "topk_weights",
    "topk_ids",
    "activation",
    "workspace13",
    "workspace2",
    "m",
    "n",
    "k",
    "e",
    "device",
    "max_num_batched_tokens",
    "weights_on_input",
]
Checks = Callable[[Subject, Any], dict[str, str]]
Named = dict[str, Any]


@pytest.fixture
def faulty(planted: Callable[..., Subject]) -> Callable[..., Subject]:
    """Return `make(body)`: `body(right, arguments by name)` in place of the right layer."""

    def make(body: Callable[[Callable[..., None], Named], None], contract: Contract | None = None) -> Subject:
        def wrap(right: Callable[..., None]) -> Callable[..., None]:
            return lambda *given: body(
                lambda named: right(*named.values()), dict(zip(NAMES, given, strict=True))
            )

        return planted(OPERATION, wrap, contract)

    return make


@pytest.mark.parametrize("values", FAMILIES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_golden_model_holds(values: str, activation: str, right: Subject, checks: Checks) -> None:
    for dtype in ("bf16", "f16"):
        assert checks(right, replace(CASE, values=values, activation=activation, dtype=dtype)) == {}


@pytest.mark.parametrize("law", LAWS)
def test_the_golden_model_keeps_the_laws(law: str, right: Subject, checks: Checks) -> None:
    for base in law_bases(seed=0):
        assert checks(right, LayerLawCase(law=law, base=base)) == {}


def twice_weighted(right: Callable[[Named], None], given: Named) -> None:
    right(given)
    if given["weights_on_input"]:
        given["output"].mul_(given["topk_weights"].to(given["output"].dtype))


def input_scaled_in_place(right: Callable[[Named], None], given: Named) -> None:
    """As vLLM does: the caller's activations are changed."""
    right(given)
    if given["weights_on_input"]:
        given["a"].mul_(given["topk_weights"].to(given["a"].dtype))


def adds_skipped_slots(right: Callable[[Named], None], given: Named) -> None:
    """Sum the row behind the routed ones for id -1, which the workspace happens to hold."""
    right(given)
    skipped = (given["topk_ids"] < 0).any(1)
    given["output"][skipped] += given["workspace13"].view(-1)[: given["k"]]


def one_gscale(right: Callable[[Named], None], given: Named) -> None:
    right({**given, "a2_gscale": given["a2_gscale"].amin().expand_as(given["a2_gscale"]).contiguous()})


def up_first(right: Callable[[Named], None], given: Named) -> None:
    half = given["n"]
    w1 = torch.cat([given["w1_fp4"][:, half:], given["w1_fp4"][:, :half]], 1)
    right({**given, "w1_fp4": w1})


def last_weight_lost(right: Callable[[Named], None], given: Named) -> None:
    weights = given["topk_weights"].clone()
    weights[:, -1] = 0
    right({**given, "topk_weights": weights})


def reads_weight_padding(right: Callable[[Named], None], given: Named) -> None:
    right(given)
    given["output"][0, 0] += given["w2_blockscale"].view(torch.uint8)[0].max().to(torch.bfloat16)


def nothing(right: Callable[[Named], None], given: Named) -> None:
    pass


@pytest.mark.parametrize(
    ("body", "change", "told"),
    [
        (twice_weighted, {"topk": 1, "weights_on_input": True}, {"golden": "bytes"}),
        (input_scaled_in_place, {"topk": 1, "weights_on_input": True}, {"inputs": "memory"}),
        (adds_skipped_slots, {}, {"coverage": "bytes", "golden": "bytes", "poison": "bytes"}),
        (one_gscale, {"values": "any"}, {"golden": "bytes"}),
        (up_first, {}, {"golden": "bytes"}),
        (last_weight_lost, {}, {"golden": "bytes"}),
        (reads_weight_padding, {}, {"golden": "bytes", "poison": "bytes"}),
        (nothing, {}, {"coverage": "bytes"}),
    ],
)
def test_planted_faults_are_found(
    body: Callable[..., None],
    change: Named,
    told: dict[str, str],
    faulty: Callable[..., Subject],
    checks: Checks,
) -> None:
    assert checks(faulty(body), replace(CASE, **change)) == told


def test_arithmetic_that_nobody_measured_is_an_advisory(right: Subject, checks: Checks) -> None:
    layer = right.operations[OPERATION]
    assert checks(Subject("s", "cpu", Contract(), run_cutlass_moe_fp4=layer), CASE) == {"golden": "advisory"}


def by_batch(right: Callable[[Named], None], given: Named) -> None:
    """One unit in the last place where the batch is small."""
    right(given)
    if given["m"] < 3:
        given["output"].view(torch.int16).add_(1)


def by_place(right: Callable[[Named], None], given: Named) -> None:
    right(given)
    given["output"][::2].view(torch.int16).add_(1)


def by_ids(right: Callable[[Named], None], given: Named) -> None:
    """Take another rank's rows for expert 0's."""
    ids = given["topk_ids"]
    right({**given, "topk_ids": ids.clamp(min=0) if len(given["w1_fp4"]) < 4 else ids})


@pytest.mark.parametrize(("law", "body"), [("single", by_batch), ("tokens", by_place), ("split", by_ids)])
def test_what_breaks_the_laws(
    law: str, body: Callable[..., None], faulty: Callable[..., Subject], checks: Checks
) -> None:
    found = [checks(faulty(body), LayerLawCase(law=law, base=base)) for base in law_bases(seed=0)]
    assert {"laws": "bytes"} in found


def test_a_layer_that_grows_breaks_again(faulty: Callable[..., Subject], checks: Checks) -> None:
    most = [0]

    def body(right: Callable[[Named], None], given: Named) -> None:
        right(given)
        if given["m"] < most[0]:
            given["output"].view(torch.int16)[0].add_(1)
        most[0] = max(most[0], given["m"])

    assert checks(faulty(body), LayerLawCase(law="again", base=next(law_bases(seed=0)))) == {"laws": "bytes"}


def test_a_wrong_rounding_of_the_sum_is_found(
    right: Subject, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums in the row type, as vLLM has them, lie outside where more than one slot counts."""
    true = unpermute_rows

    def coarse(rows: Tensor, permutation: Tensor, weights: Tensor, *, routed_rows: int) -> Tensor:
        total = torch.zeros(len(weights), rows.shape[1], dtype=rows.dtype)
        for slot in range(weights.shape[1]):
            one = torch.zeros_like(weights)
            one[:, slot] = weights[:, slot]
            total += true(rows, permutation, one, routed_rows=routed_rows)
        return total

    layer = right.operations[OPERATION]

    def rounded(*given: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(LAYER_MODULE, "unpermute_rows", coarse)
            layer(*given)

    subject = Subject("coarse", "cpu", right.contract, run_cutlass_moe_fp4=rounded)
    assert checks(subject, replace(CASE, values="any", topk=4, ids="uniform")) == {"golden": "bytes"}


def test_cases_cover_activations_routings_and_sizes() -> None:
    cases = list(layer_cases(level=1, seed=0))
    assert {case.activation for case in cases} == set(ACTIVATIONS)
    assert {case.ids for case in cases} >= set(ID_FAMILIES) - {"last_expert"}
    assert {case.values for case in cases} == set(FAMILIES)
    assert {case.dtype for case in cases} == {"bf16", "f16"}
    assert any(case.tokens == 0 for case in cases)
    assert {case.weights_on_input for case in cases} == {True, False}
    assert all(case.topk == 1 for case in cases if case.weights_on_input)
    assert {case.k % 64 for case in cases} >= {0, 16, 32, 48}
    assert len(list(layer_cases(level=2, seed=0))) > 6 * len(cases)
    assert may_refuse(CASE, Contract())
    assert not may_refuse(replace(CASE, n=64, k=128), Contract())


def test_contracts_limit_the_cases() -> None:
    def of(contract: Contract) -> list[Any]:
        return list(bounded_cases(OPERATION, contract, level=1, seed=0))

    assert of(Contract(recipe="tensorrt_llm")) == []
    unskipped = of(Contract(negative_ids="unsupported"))
    assert all("negative" not in getattr(case, "ids", "") for case in unskipped)
    assert all(case.law != "split" for case in unskipped if isinstance(case, LayerLawCase))
    assert all(isinstance(case, LayerCase) for case in of(Contract(batch_invariant=False)))
