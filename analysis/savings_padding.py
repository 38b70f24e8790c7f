"""How much of the bound's padding real and synthetic routings use: samples for a distribution.

The bound T + (A-1)*E allows (A-1)*E rows of padding. A routing uses S - T of them, S being the scale rows that the GEMM
reads. The *share* is (S - T) / ((A-1)*E), between 0 and 1 for every routing. Beside it stands the share that the worst
routing of as many rows would use, which is what no formula can go below.

Recorded traces are taken pass by pass as they were recorded, or re-batched; profiling passes (dummy tokens, all routed
alike) are left out. Families are drawn for the experts, top-k and tokens of a model: a case is a function of
(seed, family, sizes, index).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nvfp4_moe.analysis.zoo_shape import Shard
from nvfp4_moe.reference.padding import TILE, exact_any_rows
from nvfp4_moe.verification.families import FAMILIES, MOST_EXPERTS, Setting
from nvfp4_moe.verification.families.lanes import CHUNK_WORDS, Workspace
from nvfp4_moe.verification.families.measure import measure_family
from nvfp4_moe.verification.trace_model import Step, Trace, TraceError
from nvfp4_moe.verification.traces import rebatch

CASES = 64
"""Routings drawn of each family."""
MOST_PASSES = 1 << 20
"""Passes of a trace that are kept; more are refused."""
FAMILY_TOKENS = 2_048
_MOST_SCORES = 1 << 19
"""Tokens x experts of one case: families of ids make a score for each."""
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingUse:
    """Routings of one source."""

    name: str
    kind: str
    """"trace" or "family"."""
    num_experts: int
    topk: int
    batching: str
    """How tokens were put together, in words."""
    shares: tuple[float, ...]
    """(S - T) / ((A-1)*E) of each routing, rising."""
    worst: tuple[float, ...]
    """The same of the worst routing of as many rows, in the order of its own size."""

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Return the shares at `QUANTILES`."""
        return tuple(float(value) for value in np.quantile(self.shares, QUANTILES))

    @property
    def typical_worst(self) -> float:
        """Return the median of `worst`."""
        return float(np.median(self.worst))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: quantiles in place of every sample."""
        return {
            "name": self.name,
            "kind": self.kind,
            "num_experts": self.num_experts,
            "topk": self.topk,
            "batching": self.batching,
            "routings": len(self.shares),
            "share": {f"{q:g}": round(v, 6) for q, v in zip(QUANTILES, self.quantiles, strict=True)},
            "worst_share": round(self.typical_worst, 6),
        }


def trace_padding(trace: Trace, *, name: str, max_num_batched_tokens: int | None = None) -> PaddingUse:
    """Return the padding that the real passes of a trace use.

    Args:
        trace: from `open_trace`.
        name: what the source is called.
        max_num_batched_tokens: re-batch to full batches of it; None: passes as recorded.

    Raises:
        TraceError: a faulty trace, no pass that is not a profiling pass, or more than `MOST_PASSES`.
    """
    steps: Iterable[Step] = trace
    batching = "passes as recorded"
    if max_num_batched_tokens is not None:
        steps = rebatch(trace, max_num_batched_tokens=max_num_batched_tokens)
        batching = f"batches of up to {max_num_batched_tokens:,}"
    routed, padded = array("q"), array("q")
    for step in steps:
        if step.profiling:
            continue
        ids = step.topk_ids[step.topk_ids >= 0]
        counts = np.bincount(ids, minlength=1)
        routed.append(int(counts.sum()))
        padded.append(int((-(-counts // TILE)).sum()) * TILE)
        if len(routed) > MOST_PASSES:
            raise TraceError(trace.meta.path, f"holds more than {MOST_PASSES:,} passes; give a part of it")
    if not routed:
        raise TraceError(trace.meta.path, "holds no pass that is not a profiling pass")
    return _use(
        name,
        "trace",
        num_experts=trace.meta.num_experts,
        topk=trace.meta.topk,
        batching=batching,
        routed=list(routed),
        padded=list(padded),
    )


def family_padding(
    shard: Shard, *, max_num_batched_tokens: int, seed: int = 0, cases: int = CASES
) -> list[PaddingUse]:
    """Return the padding that every family of routings uses at the sizes of one rank of a model.

    Tokens are `max_num_batched_tokens`, less where that would be above 2,048 or above 2^19 scores (tokens x experts).
    Families that have no routings for the sizes are left out; all are, above 8,192 experts.
    """
    if shard.num_experts > MOST_EXPERTS:
        return []
    tokens = min(max_num_batched_tokens, FAMILY_TOKENS, max(_MOST_SCORES // shard.num_experts, 1))
    setting = Setting(num_experts=shard.num_experts, tokens=tokens, topk=shard.model.topk)
    space = Workspace.allocate(CHUNK_WORDS)
    uses = []
    for name, family in FAMILIES.items():
        if family.supports(setting):
            measured = measure_family(family, seed, setting, 0, cases, space=space)
            uses.append(
                _use(
                    name,
                    "family",
                    num_experts=setting.num_experts,
                    topk=setting.topk,
                    batching=f"{tokens:,} token{'' if tokens == 1 else 's'}",
                    routed=measured.routed.tolist(),
                    padded=measured.padded.tolist(),
                )
            )
    return uses


def _use(
    name: str,
    kind: str,
    *,
    num_experts: int,
    topk: int,
    batching: str,
    routed: list[int],
    padded: list[int],
) -> PaddingUse:
    allowed = (TILE - 1) * num_experts
    return PaddingUse(
        name=name,
        kind=kind,
        num_experts=num_experts,
        topk=topk,
        batching=batching,
        shares=tuple(sorted((s - t) / allowed for t, s in zip(routed, padded, strict=True))),
        worst=tuple(sorted((exact_any_rows(t, num_experts) - t) / allowed for t in routed)),
    )
