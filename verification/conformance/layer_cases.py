"""Cases of the whole layer, `run_cutlass_moe_fp4` with the seed's argument list.

- exact: small integers times powers of two, so that no order of additions changes a bit of either GEMM: the output is one
  number (`reference.layer_bounds` finds so) and bytes are compared;
- any: values of the size of activations, every scale byte of a window: the output must lie in the derived interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from nvfp4_moe.reference.activations import ACTIVATIONS
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.counter import word

OPERATION = "run_cutlass_moe_fp4"
FAMILIES = ("exact", "any")
ID_FAMILIES = (
    "uniform",
    "one_expert",
    "negative",
    "cyclic",
    "duplicates",
    "all_negative",
    "one_negative",
    "last_expert",
)
LAWS = ("tokens", "single", "again", "split")
"""Tokens in another order; some tokens alone; the same call after a larger one; experts dealt out to two ranks."""

_SHAPES = (
    *((16, 16), (48, 80), (64, 64), (80, 112), (176, 32), (32, 272), (16, 144)),
    *((128, 128), (96, 160), (64, 256)),  # whole scale tiles, which no kernel refuses, and steps of 32
)
"""Intermediate and hidden size."""
_TOKENS = (1, 2, 5, 17, 33, 0, 3, 130, 64)
_EXPERTS = (5, 1, 16, 2, 60, 4)
_TOPK = (2, 1, 4, 8, 1)
_LARGE = tuple(
    (n, k, tokens)
    for n, k in ((464, 1024), (720, 512), (1408, 256), (128, 2880), (96, 4096), (1440, 64))
    for tokens in (1, 7, 65, 260)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCase:
    """One call of the layer."""

    index: int
    seed: int
    tokens: int
    topk: int
    num_experts: int
    n: int
    k: int
    dtype: str
    activation: str
    values: str
    """One of `FAMILIES`."""
    ids: str
    """One of `ID_FAMILIES`."""
    weights_on_input: bool = False
    operation: str = OPERATION

    @property
    def elements(self) -> int:
        return (self.tokens * self.topk + 3 * self.num_experts * self.n) * self.k

    def to_json(self) -> dict[str, Any]:
        return {"kind": "layer", **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLawCase:
    """A law and the call that it is tried on."""

    law: str
    base: LayerCase
    operation: str = OPERATION

    def to_json(self) -> dict[str, Any]:
        return {"kind": "layer_law", "law": self.law, "operation": self.operation, "base": asdict(self.base)}


def layer_cases(*, level: int, seed: int) -> Iterator[LayerCase]:
    """Yield exact cases, then others: sizes, routings and activations in turn, with steps that have no common factor."""
    small = 40 if level == 1 else 270
    for index in range(small):
        n, k = _SHAPES[index % len(_SHAPES)]
        yield _case(index, seed, _TOKENS[index % len(_TOKENS)], n, k, FAMILIES[index >= small // 3])
    if level > 1:
        for number, (n, k, tokens) in enumerate(_LARGE):
            yield _case(small + number, seed, tokens, n, k, "any")


def _case(index: int, seed: int, tokens: int, n: int, k: int, values: str) -> LayerCase:
    pick = word(seed, "layer_cases", index)
    topk = _TOPK[index % len(_TOPK)]
    return LayerCase(
        index=index,
        seed=seed,
        tokens=tokens,
        topk=topk,
        num_experts=_EXPERTS[(index // 2) % len(_EXPERTS)],
        n=n,
        k=k,
        dtype=("bf16", "f16")[pick & 1],
        activation=list(ACTIVATIONS)[(index // 2) % len(ACTIVATIONS)],
        values=values,
        ids=ID_FAMILIES[(index // 3) % len(ID_FAMILIES)],
        weights_on_input=topk == 1 and bool(pick >> 8 & 1),
    )


def law_bases(*, seed: int) -> Iterator[LayerCase]:
    """Yield the calls that laws are tried on: values that round, ids -1 among them."""
    first = _case(1 << 20, seed, 33, 48, 80, "any")
    yield replace(
        first, topk=4, num_experts=6, activation="silu", ids="negative", dtype="bf16", weights_on_input=False
    )
    yield replace(
        first, index=first.index + 1, tokens=130, n=32, k=272, topk=2, num_experts=3, activation="relu2_no_mul",
        ids="uniform", dtype="f16", weights_on_input=False,
    )  # fmt: skip


def in_domain(case: LayerCase, contract: Contract) -> bool:
    """Return whether the contract lets the case occur."""
    skips = "negative" in case.ids and contract.negative_ids == "unsupported"
    too_many = contract.max_experts is not None and case.num_experts > contract.max_experts
    return (
        not skips and not too_many and case.k % contract.k_multiple == 0 and case.n % contract.k_multiple == 0
    )
