"""Memory of the block-scale buffers of one layer, by every sizing formula, for a model and its serving flags.

A layer of routed experts quantizes twice: rows of the hidden width before the first GEMM, rows of the intermediate width
before the second. Both buffers have the rows that the formula gives; a row has 4 * ceil(K / 64) bytes. The peak over the
layer is the larger of the two, since vLLM (run_cutlass_moe_fp4) and SGLang (cutlass_moe_fp4) drop the first pair of
codes and scales before they allocate the second.

M is what each formula is told: `max_num_batched_tokens`. A formula that is sized for the call is thereby shown at its
largest. `safe` is the verdict of `nvfp4-moe bound`: no call that the formula's own guard lets through, up to M tokens,
needs more rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nvfp4_moe.analysis.zoo_shape import ModelShape, Shard, shard
from nvfp4_moe.reference.padding import FORMULAS, Formula
from nvfp4_moe.verification.bound_table import Configuration, formula_lines

VERSION = 1
"""Version of the JSON."""
BASELINE = "vllm_env"
"""What savings are counted from: the buffer that the proposed formula replaces."""
EXACT = "exact_any"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """One formula for one model and one M."""

    shard: Shard
    max_num_batched_tokens: int
    formula: Formula
    rows: int
    exact_rows: int
    """Rows of the exact worst case, any ids."""
    baseline_rows: int
    safe: bool | None
    """None: the formula is meant for distinct ids, and topk is larger than the number of experts."""

    @property
    def model(self) -> ModelShape:
        """Return the model."""
        return self.shard.model

    @property
    def hidden_bytes(self) -> int:
        """Return the bytes of the first buffer."""
        return self.rows * self.shard.hidden_row_bytes

    @property
    def intermediate_bytes(self) -> int:
        """Return the bytes of the second buffer."""
        return self.rows * self.shard.intermediate_row_bytes

    @property
    def peak_bytes(self) -> int:
        """Return the most bytes that are held at once."""
        return max(self.hidden_bytes, self.intermediate_bytes)

    @property
    def saved_bytes(self) -> int:
        """Return the peak of the baseline less this one's; negative where this one is larger."""
        row = max(self.shard.hidden_row_bytes, self.shard.intermediate_row_bytes)
        return self.baseline_rows * row - self.peak_bytes

    @property
    def over_exact(self) -> float:
        """Return rows over those of the exact worst case, at least 1 for a formula that covers every routing."""
        return self.rows / self.exact_rows

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, which is also a line of the CSV."""
        return {
            "model": self.model.name,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "formula": self.formula.name,
            "rows": self.rows,
            "hidden_bytes": self.hidden_bytes,
            "intermediate_bytes": self.intermediate_bytes,
            "peak_bytes": self.peak_bytes,
            "saved_bytes": self.saved_bytes,
            "over_exact": round(self.over_exact, 6),
            "safe": self.safe,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A model that the ranks cannot divide."""

    model: ModelShape
    reason: str

    def to_json(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"model": self.model.name, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What `savings` found: all models, all M, all formulas of the registry, in this order."""

    lines: tuple[Saving, ...]
    refused: tuple[Refused, ...]
    max_num_batched_tokens: tuple[int, ...]
    tensor_parallel_size: int
    expert_parallel_size: int
    baseline: str

    @property
    def shards(self) -> list[Shard]:
        """Return what a rank holds of each model, in order."""
        return list({line.model.name: line.shard for line in self.lines}.values())

    def of(self, model: str, tokens: int) -> list[Saving]:
        """Return the lines of one model and one M: every formula, in the registry's order."""
        return [x for x in self.lines if x.model.name == model and x.max_num_batched_tokens == tokens]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of `nvfp4-moe savings`."""
        return {
            "version": VERSION,
            "config": {
                "max_num_batched_tokens": list(self.max_num_batched_tokens),
                "tensor_parallel_size": self.tensor_parallel_size,
                "expert_parallel_size": self.expert_parallel_size,
                "baseline": self.baseline,
            },
            "models": [part.to_json() for part in self.shards],
            "refused": [model.to_json() for model in self.refused],
            "savings": [line.to_json() for line in self.lines],
        }


def savings(
    models: Sequence[ModelShape],
    *,
    max_num_batched_tokens: Sequence[int],
    tensor_parallel_size: int = 1,
    expert_parallel_size: int = 1,
    baseline: str = BASELINE,
) -> Savings:
    """Return the memory of every formula for every model and every M.

    Args:
        models: shapes with names that differ.
        max_num_batched_tokens: M, each at least 1: tokens that reach the op on one rank.
        tensor_parallel_size, expert_parallel_size: see `zoo_shape.shard`; a model that they do not divide is listed
            under `refused`.
        baseline: name of the formula that savings are counted from.

    Raises:
        TypeError, ValueError: a size that is not legal, an unknown baseline, models of one name.
    """
    if baseline not in FORMULAS:
        raise ValueError(f"baseline must be one of {', '.join(FORMULAS)}, got {baseline!r:.60}")
    names = [model.name for model in models]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two models are called {min(twice)!r:.60}")
    lines: list[Saving] = []
    refused: list[Refused] = []
    for model in models:
        try:
            part = shard(
                model, tensor_parallel_size=tensor_parallel_size, expert_parallel_size=expert_parallel_size
            )
        except ValueError as error:
            refused.append(Refused(model=model, reason=str(error)))
            continue
        for tokens in max_num_batched_tokens:
            lines += _lines(part, tokens, baseline)
    return Savings(
        lines=tuple(lines),
        refused=tuple(refused),
        max_num_batched_tokens=tuple(max_num_batched_tokens),
        tensor_parallel_size=tensor_parallel_size,
        expert_parallel_size=expert_parallel_size,
        baseline=baseline,
    )


def _lines(part: Shard, tokens: int, baseline: str) -> list[Saving]:
    configuration = Configuration(
        max_num_batched_tokens=tokens,
        topk=part.model.topk,
        experts=part.model.num_experts,
        expert_parallel_size=part.expert_parallel_size,
    )
    found = {line.formula.name: line for line in formula_lines(configuration)}
    return [
        Saving(
            shard=part,
            max_num_batched_tokens=tokens,
            formula=line.formula,
            rows=line.rows,
            exact_rows=found[EXACT].rows,
            baseline_rows=found[baseline].rows,
            safe=line.safe,
        )
        for line in found.values()
    ]
