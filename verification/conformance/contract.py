"""`Contract`: what a subject promises beyond the bytes, and the presets of the public engines.

The default is strict: every padding byte zero, id -1 skipped, stable row order, the chip's own arithmetic. A subject
that promises less says so here, and is then held to exactly that; nothing else loosens a judgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from nvfp4_moe.reference.recipes import RECIPES

Arithmetic = Literal["hardware", "ieee"]
Padding = Literal["zero", "unspecified"]
NegativeIds = Literal["skipped", "unsupported"]
RowOrder = Literal["stable", "any"]
Strided = Literal["refused", "honoured"]

_DEFAULT_ALIGNMENT = MappingProxyType({"default": 16, "input": 32, "output_scale": 128})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The promises of a subject.

    Raises (on construction):
        TypeError, ValueError: a value outside the closed set; the text names the field, the value and what is legal.
    """

    recipe: str = "vllm"
    """Recipe of `reference.recipes.RECIPES` that the quantizers follow, one that takes the global encode scale."""
    arithmetic: Arithmetic = "hardware"
    k_padding: Padding = "zero"
    """Scale bytes of valid rows past the last 16-column block."""
    row_padding: Padding = "zero"
    """Scale bytes of the rows that round an expert up to the tile."""
    negative_ids: NegativeIds = "skipped"
    row_order: RowOrder = "stable"
    placement: Literal["packed"] = "packed"
    deterministic: bool = True
    batch_invariant: bool = True
    alignment: Mapping[str, int] = field(default_factory=lambda: _DEFAULT_ALIGNMENT)
    """Bytes to which each tensor (by parameter name, else "default") must be aligned."""
    readable_slack: Mapping[str, int] = field(default_factory=dict)
    """Bytes past the end of a tensor (by parameter name) that the subject may read."""
    mutates: tuple[str, ...] = ()
    """Inputs that the subject may change."""
    k_multiple: int = 16
    """Widths that are no multiple of it are outside the domain and must be refused."""
    max_experts: int | None = None
    id_dtypes: tuple[str, ...] = ("int32",)
    strided: Strided = "refused"
    pdl: bool = False
    """The subject uses programmatic dependent launch."""

    def __post_init__(self) -> None:
        for name, legal in _CLOSED.items():
            value = getattr(self, name)
            if value not in legal:
                raise ValueError(
                    f"Contract.{name} must be one of {', '.join(map(repr, legal))}, got {value!r}"
                )
        if self.recipe not in LEGAL_RECIPES:
            raise ValueError(
                f"Contract.recipe must be one of {', '.join(LEGAL_RECIPES)}, got {self.recipe!r}"
            )
        for name in ("deterministic", "batch_invariant", "pdl"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"Contract.{name} must be True or False, got {getattr(self, name)!r}")
        if self.k_multiple < 16 or self.k_multiple % 16:
            raise ValueError(
                f"Contract.k_multiple must be a positive multiple of 16, got {self.k_multiple!r}"
            )
        if self.max_experts is not None and self.max_experts < 1:
            raise ValueError(f"Contract.max_experts must be at least 1 or None, got {self.max_experts!r}")
        for tensor, alignment in self.alignment.items():
            if alignment < 1 or alignment & (alignment - 1):
                raise ValueError(f"Contract.alignment[{tensor!r}] must be a power of two, got {alignment!r}")
        for tensor, slack in self.readable_slack.items():
            if slack < 0:
                raise ValueError(f"Contract.readable_slack[{tensor!r}] must not be negative, got {slack!r}")
        if not set(self.id_dtypes) <= {"int32", "int64"} or not self.id_dtypes:
            raise ValueError(f"Contract.id_dtypes must name int32, int64 or both, got {self.id_dtypes!r}")

    def alignment_of(self, tensor: str) -> int:
        """Return the bytes to which the tensor must be aligned."""
        return self.alignment.get(tensor, self.alignment.get("default", 16))

    @classmethod
    def preset(cls, engine: str) -> Contract:
        """Return what a public engine promises.

        Args:
            engine: a name of `PRESETS`.

        Raises:
            ValueError: unknown engine.
        """
        if engine not in PRESETS:
            raise ValueError(f"Contract.preset must be one of {', '.join(PRESETS)}, got {engine!r}")
        return PRESETS[engine]

    def as_code(self) -> str:
        """Return the contract as the Python expression that makes it, defaults left out."""
        default = Contract()
        said = [
            f"{f.name}={_plain(getattr(self, f.name))!r}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(default, f.name)
        ]
        return f"Contract({', '.join(said)})"


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


LEGAL_RECIPES = tuple(
    name for name, recipe in RECIPES.items() if recipe.global_scale == "global_encode_scale"
)
"""The protocol passes the global scale in this direction."""

_CLOSED: dict[str, tuple[str, ...]] = {
    "arithmetic": get_args(Arithmetic),
    "k_padding": get_args(Padding),
    "row_padding": get_args(Padding),
    "negative_ids": get_args(NegativeIds),
    "row_order": get_args(RowOrder),
    "placement": ("packed",),
    "strided": get_args(Strided),
}

PRESETS: dict[str, Contract] = {
    "strict": Contract(),
    # vLLM nvfp4_experts_quant.cu writes real rows and real blocks only; moe_data.cu orders rows by atomics and leaves
    # the tail behind -1 ids unwritten.
    "vllm": Contract(
        k_padding="unspecified",
        row_padding="unspecified",
        negative_ids="unsupported",
        row_order="any",
        deterministic=False,
    ),
    # SGLang's buffer is zeroed by the caller when K % 64 != 0; the kernel itself writes what vLLM's does.
    "sglang": Contract(
        k_padding="unspecified",
        row_padding="unspecified",
        negative_ids="unsupported",
        row_order="any",
        deterministic=False,
    ),
    # FlashInfer / TensorRT-LLM: the expand kernel zeroes the K padding of valid rows, row padding is left unwritten.
    "flashinfer": Contract(recipe="tensorrt_llm", row_padding="unspecified"),
    "tensorrt-llm": Contract(recipe="tensorrt_llm", row_padding="unspecified"),
}
"""Promises of public engines, read in their sources; `Contract.preset(name)`."""
