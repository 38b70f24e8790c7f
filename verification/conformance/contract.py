"""`Contract`: what a subject promises beyond the bytes, and the presets of the public engines.

The default is strict: every padding byte zero, id -1 skipped, stable row order, the chip's own arithmetic. A subject
that promises less says so here, and is then held to exactly that; nothing else loosens a judgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.reference.recipes import RECIPES

Arithmetic = Literal["hardware", "ieee"]
Padding = Literal["zero", "unspecified"]
NegativeIds = Literal["skipped", "unsupported"]
RowOrder = Literal["stable", "any"]
Strided = Literal["refused", "honoured"]

TENSORS = (
    *("input", "input_global_scale", "input_offset_by_experts", "output_scale_offset_by_experts", "masked_m"),
    *("map", "linear", "topk_ids", "output", "output_scale"),
    *("expert_offsets", "problem_sizes1", "problem_sizes2", "input_permutation", "output_permutation"),
    "blockscale_offsets",
    *("out", "a", "b", "a_blockscale", "b_blockscale", "alphas", "problem_sizes"),
)
"""Parameters of the operations that are tensors."""

LARGEST_BYTES = 1 << 20
LARGEST_MULTIPLE = 1 << 20
"""What no kernel reaches: an alignment, a slack or a width above is a slip, and would ask for absurd memory."""

_ROWS = dict.fromkeys(("a", "workspace13", "workspace2"), "input")
"""Rows that the quantizers inside a layer read."""

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
            _check_word(name, getattr(self, name), legal)
        for name in ("deterministic", "batch_invariant", "pdl"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"Contract.{name} must be True or False, got {getattr(self, name)!r}")
        check_size("Contract.k_multiple", self.k_multiple, at_least=16)
        if self.k_multiple % 16 or self.k_multiple > LARGEST_MULTIPLE:
            raise ValueError(
                "Contract.k_multiple must be a positive multiple of 16, at most"
                f" {LARGEST_MULTIPLE:,}, got {self.k_multiple!r}"
            )
        if self.max_experts is not None:
            _check_max_experts(self.max_experts)
        for tensor, alignment in _items("alignment", self.alignment, ("default", *TENSORS)):
            check_size(f"Contract.alignment[{tensor!r}]", alignment, at_least=1)
            if alignment & (alignment - 1) or alignment > LARGEST_BYTES:
                raise ValueError(
                    f"Contract.alignment[{tensor!r}] must be a power of two, at most {LARGEST_BYTES:,},"
                    f" got {alignment!r}"
                )
        for tensor, slack in _items("readable_slack", self.readable_slack, TENSORS):
            check_size(f"Contract.readable_slack[{tensor!r}]", slack, at_least=0)
            if slack > LARGEST_BYTES:
                raise ValueError(
                    f"Contract.readable_slack[{tensor!r}] must be at most {LARGEST_BYTES:,}, got {slack!r}"
                )
        _check_words("mutates", self.mutates, TENSORS)
        _check_words("id_dtypes", self.id_dtypes, ("int32", "int64"))
        if not self.id_dtypes:
            raise ValueError("Contract.id_dtypes must name int32, int64 or both, got ()")

    def alignment_of(self, tensor: str) -> int:
        """Return the bytes to which the tensor must be aligned.

        Unless it is named, what a GEMM or a layer is given is as what quantizers write and read: its scales as
        `output_scale`, its rows and workspaces as `input`.
        """
        if tensor not in self.alignment:
            tensor = "output_scale" if tensor.endswith("blockscale") else _ROWS.get(tensor, tensor)
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


def _check_word(name: str, value: object, legal: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in legal:
        wrong = ValueError if isinstance(value, str) else TypeError
        raise wrong(f"Contract.{name} must be one of {', '.join(map(repr, legal))}, got {value!r:.60}")


def _check_words(name: str, value: object, legal: tuple[str, ...]) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"Contract.{name} must be a tuple of names, got {value!r:.60}")
    for word in value:
        _check_word(f"{name}[{value.index(word)}]", word, legal)


def _check_max_experts(value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"Contract.max_experts must be an integer or None, got {value!r:.60}")
    if value < 1:
        raise ValueError(f"Contract.max_experts must be at least 1 or None, got {value!r}")


def _items(name: str, value: object, legal: tuple[str, ...]) -> Iterable[tuple[str, Any]]:
    """Return the entries of a table of tensors after a look at its keys."""
    if not isinstance(value, Mapping):
        raise TypeError(f"Contract.{name} must map tensor names to bytes, got {value!r:.60}")
    for tensor in value:
        if not isinstance(tensor, str):
            raise TypeError(f"Contract.{name} must have names of tensors as keys, got {tensor!r:.60}")
        if tensor not in legal:
            raise ValueError(f"Contract.{name} must name tensors of {', '.join(legal)}, got {tensor!r:.60}")
    return value.items()


LEGAL_RECIPES = tuple(
    name for name, recipe in RECIPES.items() if recipe.global_scale == "global_encode_scale"
)
"""The protocol passes the global scale in this direction."""

_CLOSED: dict[str, tuple[str, ...]] = {
    "recipe": LEGAL_RECIPES,
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
