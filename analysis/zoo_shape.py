"""What a mixture-of-experts model is to a scale buffer: two widths, experts, top-k; and what one rank has of it.

Tensor parallelism cuts the intermediate width of every expert; it must divide, as vLLM (FusedMoE) and SGLang (FusedMoE)
assert, and the part must be a multiple of 16, because one scale covers 16 columns. Expert parallelism deals whole experts
out: the first ranks hold one more where it does not divide (vLLM determine_expert_map; SGLang refuses that). In vLLM
`--enable-expert-parallel` makes one expert-parallel group of all tensor-parallel ranks, so there the two never come
together; SGLang and TensorRT-LLM allow both.

The hidden width is never cut: every rank sees whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.layouts import LAYOUTS
from nvfp4_moe.reference.padding import TILE, Sizing, check_size, local_experts, round_up
from nvfp4_moe.verification.bound_table import SCALE_LAYOUT
from nvfp4_moe.verification.worst_case import MOST_EXPERTS

MOST_COLUMNS = 1 << 24
"""Widest row that a model may have; far above any, and bytes stay small numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a model's routed experts.

    Raises (on construction):
        TypeError, ValueError: a size that is no integer or not legal, a hidden width that is no multiple of 16, or
            more experts for a token than there are; the text names the model, the size and its value.
    """

    name: str
    hidden_size: int
    """K: columns of a row that the experts read, a multiple of 16."""
    intermediate_size: int
    """Columns of a row between the two GEMMs of one routed expert, over all tensor-parallel ranks."""
    num_experts: int
    """Routed experts, over all ranks; shared experts are not counted."""
    topk: int
    source: str
    """Where the sizes come from."""
    note: str = ""
    """Why the model is a useful case."""

    def __post_init__(self) -> None:
        for name, most in _LIMITS.items():
            value = getattr(self, name)
            try:
                check_size(name, value, at_least=1)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.name}: {error}") from error
            if value > most:
                raise ValueError(f"{self.name}: {name} must be at most {most:,}, got {value}")
        if self.topk > self.num_experts:
            raise ValueError(f"{self.name}: topk ({self.topk}) is above num_experts ({self.num_experts})")
        _check_columns(self.name, "hidden_size", self.hidden_size)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_experts": self.num_experts,
            "topk": self.topk,
            "source": self.source,
        }


_LIMITS = {
    "hidden_size": MOST_COLUMNS,
    "intermediate_size": MOST_COLUMNS,
    "num_experts": MOST_EXPERTS,
    "topk": MOST_EXPERTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What the fullest rank holds of a model; made by `shard`."""

    model: ModelShape
    tensor_parallel_size: int
    expert_parallel_size: int
    intermediate_size: int
    """Columns of this rank, a multiple of 16."""
    num_experts: int
    """Experts of this rank."""

    @property
    def hidden_row_bytes(self) -> int:
        """Return the bytes of a scale row of the first quantization (hidden width), padding columns included."""
        return LAYOUTS[SCALE_LAYOUT].columns(self.model.hidden_size)

    @property
    def intermediate_row_bytes(self) -> int:
        """Return the bytes of a scale row of the second quantization (intermediate width of this rank)."""
        return LAYOUTS[SCALE_LAYOUT].columns(self.intermediate_size)

    def sizing(self, tokens: int, *, tile: int = TILE) -> Sizing:
        """Return what a formula is told when it sizes for `tokens` tokens that reach this rank."""
        return Sizing(
            tokens=tokens,
            topk=self.model.topk,
            num_experts=self.num_experts,
            num_global_experts=self.model.num_experts,
            tile=tile,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the model, and the rank's part under `rank`."""
        return self.model.to_json() | {
            "rank": {"intermediate_size": self.intermediate_size, "num_experts": self.num_experts}
        }


def shard(model: ModelShape, *, tensor_parallel_size: int = 1, expert_parallel_size: int = 1) -> Shard:
    """Return what the fullest rank holds.

    Args:
        model: the whole.
        tensor_parallel_size: ranks that share each expert's intermediate width.
        expert_parallel_size: ranks that the experts are dealt out to.

    Raises:
        TypeError, ValueError: a size that is not legal, a width that does not divide, a part that is no multiple of 16,
            more ranks than experts; the text names the model.
    """
    check_size("tensor_parallel_size", tensor_parallel_size, at_least=1)
    columns, rest = divmod(model.intermediate_size, tensor_parallel_size)
    if rest or not columns:
        raise ValueError(
            f"{model.name}: intermediate_size {model.intermediate_size} does not divide by tensor_parallel_size "
            f"{tensor_parallel_size}, and engines refuse that"
        )
    _check_columns(model.name, f"intermediate_size / {tensor_parallel_size}", columns)
    try:
        experts = local_experts(model.num_experts, expert_parallel_size)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{model.name}: {error}") from error
    return Shard(
        model=model,
        tensor_parallel_size=tensor_parallel_size,
        expert_parallel_size=expert_parallel_size,
        intermediate_size=columns,
        num_experts=experts,
    )


def _check_columns(model: str, name: str, columns: int) -> None:
    block = NVFP4.block_size
    if columns % block:
        raise ValueError(
            f"{model}: {name} is {columns}, no multiple of {block}, the columns of one scale; such weights must be "
            f"padded first, to {round_up(columns, block)} or more"
        )
