"""The torch operators: what their schemas and fake kernels tell a compiler, against what the operation does.

- `operators.schema`: an argument that the operation changes, or returns a view of, is marked so, and no other is;
- `operators.fake`: the fake kernel gives outputs of the same number, shape, strides, type and device, also where the
  compiler traces the call with sizes that vary.

Both are what `torch.library.opcheck` looks at. It needs calls that hide nothing: of their sizes none is a multiple of a
tile, all differ, and the smallest have one row, one expert and none at all.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.reference.layouts import scale_shape
from nvfp4_moe.reference.routing import route
from nvfp4_moe.verification.conformance.values import make_values
from nvfp4_moe.verification.counter import below, words
from nvfp4_moe.verification.result import Outcome, Verdict

CLAIMS = ("operators.schema", "operators.fake")

_TESTS = {
    "test_schema": "operators.schema",
    "test_faketensor": "operators.fake",
    "test_aot_dispatch_dynamic": "operators.fake",
}
"""Parts of `opcheck` and the claims that they decide."""
_SLOW = ("test_aot_dispatch_dynamic",)
"""Parts that are run on `TELLING` alone, or on the only batch."""
_PREFACE = "found mismatched tensor metadata"
"""Of what `opcheck` says of a difference; behind it is the difference."""
MOST_ELEMENTS = 1 << 24
"""Routed rows times K of a call that a file may ask for."""
_LONGEST = 240
"""Characters of a detail."""
_numbers = count()


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator, as `torch.library` wants it."""

    name: str
    schema: str
    """Arguments and results, without the name: "(Tensor input, Tensor map) -> Tensor"."""
    kernel: Callable[..., Any]
    """For the CPU and for CUDA."""
    fake: Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sizes of the calls."""

    tokens: int
    topk: int
    experts: int
    k: int
    n: int
    id_bits: int = 32
    """Of the ids' integer type."""
    row_gap: int = 0
    """Elements between the rows of the quantizers' and the gather's input: a view."""


TELLING = Batch(tokens=13, topk=2, experts=5, k=80, n=48)
"""Sizes that hide nothing."""
BATCHES = (
    Batch(tokens=0, topk=3, experts=4, k=48, n=37),
    Batch(tokens=1, topk=1, experts=1, k=16, n=16),
    TELLING,
    Batch(tokens=67, topk=4, experts=130, k=208, n=112, id_bits=64, row_gap=32),
)
"""None, the smallest, those that hide nothing, more experts than a tile has rows with int64 ids and views as inputs."""


def own_operators() -> tuple[Operator, ...]:
    """Return this project's operators.

    Raises:
        ImportError: the part that builds kernels is not there.
    """
    torch_ops = importlib.import_module("nvfp4_moe.cuda.torch_ops")
    schemas = {name: f"({rest}" for name, rest in (schema.split("(", 1) for schema in torch_ops.SCHEMAS)}
    return tuple(
        Operator(name=name, schema=schemas[name], kernel=kernel, fake=fake)
        for name, (kernel, fake) in torch_ops.KERNELS.items()
    )


def prepare(device: str) -> None:
    """Build the library of a device, which takes a while the first time.

    Raises:
        ImportError, RuntimeError: the part that builds it is not there, or no compiler, or no device.
    """
    build = importlib.import_module("nvfp4_moe.cuda.build")
    build.cuda_library() if device == "cuda" else build.host_library()


def check_own_operators(
    *, seed: int, device: str, progress: Callable[[int], None] = lambda calls: None
) -> dict[str, Outcome]:
    """Return the outcome of each claim for this project's operators; SKIPPED where no library can be built."""
    try:
        prepare(device)
        operators = own_operators()
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return {claim: Outcome(verdict=Verdict.SKIPPED, cases=0, detail=reason) for claim in CLAIMS}
    return check_operators(operators, seed=seed, device=device, progress=progress)


def check_operators(
    operators: tuple[Operator, ...],
    *,
    seed: int,
    device: str = "cpu",
    batches: tuple[Batch, ...] | None = None,
    progress: Callable[[int], None] = lambda calls: None,
) -> dict[str, Outcome]:
    """Return the outcome of each claim over every operator and batch, up to the first refutation of it.

    Args:
        operators: under the names of this project's, whose arguments they take.
        seed: of the values and ids.
        device: "cpu" or "cuda".
        batches: sizes of the calls, by default `BATCHES`.
        progress: told of finished calls.
    """
    tried = BATCHES if batches is None else batches
    calls = dict.fromkeys(CLAIMS, 0)
    found: dict[str, Outcome] = {}
    with _defined(operators) as defined:
        for claim, operator, batch, error in _checked(defined, tried, seed, device):
            progress(1)
            calls[claim] += 1
            if error is not None and claim not in found:
                found[claim] = _refuted(operator, batch, error, calls[claim], seed=seed, device=device)
    held = f"{len(operators)} operators, batches of {', '.join(str(b.tokens) for b in tried)} tokens"
    return {
        claim: found.get(claim, Outcome(verdict=Verdict.HELD, cases=calls[claim], detail=held))
        for claim in CLAIMS
    }


class _defined:
    """The operators in a namespace of their own; it is taken back at the end."""

    def __init__(self, operators: tuple[Operator, ...]) -> None:
        self._operators = operators
        self._namespace = f"nvfp4_moe_check{next(_numbers)}"
        self._library = torch.library.Library(self._namespace, "DEF")

    def __enter__(self) -> Mapping[str, Any]:
        for operator in self._operators:
            self._library.define(operator.name + operator.schema)
            for key in ("CPU", "CUDA"):
                self._library.impl(operator.name, operator.kernel, key)
            name = f"{self._namespace}::{operator.name}"
            torch.library.register_fake(name, operator.fake, lib=self._library)
        space = getattr(torch.ops, self._namespace)
        return {operator.name: getattr(space, operator.name).default for operator in self._operators}

    def __exit__(self, *_: object) -> None:
        self._library._destroy()


def _checked(
    defined: Mapping[str, Any], batches: tuple[Batch, ...], seed: int, device: str
) -> Iterator[tuple[str, str, Batch, str | None]]:
    """Yield claim, operator, batch and what is wrong of each part of each call."""
    for batch in batches:
        arguments = arguments_of(batch, seed=seed, device=device)
        for name, operator in defined.items():
            for test, claim in _TESTS.items():
                if test in _SLOW and batch != TELLING and len(batches) > 1:
                    continue
                yield claim, name, batch, _error(operator, arguments[name], test)


def _error(operator: Any, arguments: tuple[Any, ...], test: str) -> str | None:
    """Return what a part of `opcheck` says of a call, or None."""
    try:
        torch.library.opcheck(operator, arguments, test_utils=(test,))
    except Exception as error:  # a fake kernel may raise anything; the operation itself is judged elsewhere
        said = str(error.__cause__ or error).strip() or type(error).__name__
        return f"{test}: {said.splitlines()[0].rpartition(_PREFACE)[2].removeprefix(':').strip()}"
    return None


def _refuted(operator: str, batch: Batch, error: str, calls: int, *, seed: int, device: str) -> Outcome:
    witness = {"kind": "operator", "operator": operator, **asdict(batch), "seed": seed, "device": device}
    return Outcome(
        verdict=Verdict.REFUTED, cases=calls, detail=f"{operator}: {error}"[:_LONGEST], witness=witness
    )


_ID_DTYPES = {32: torch.int32, 64: torch.int64}
"""By `Batch.id_bits`."""


def arguments_of(batch: Batch, *, seed: int, device: str) -> dict[str, tuple[Any, ...]]:
    """Return the arguments of every operator for a batch; some ids are -1."""
    slots = batch.tokens * batch.topk
    raw = words(seed, "operators.ids", batch.tokens << 16, slots)
    ids = (below(raw, batch.experts + 1) - 1).view(batch.tokens, batch.topk).to(_ID_DTYPES[batch.id_bits])
    routing = route(ids, batch.experts, n=batch.n, k=batch.k)
    values = make_values(
        "windowed", seed=seed, index=batch.tokens, rows=slots, columns=2 * batch.k, dtype="bf16"
    )
    weights = make_values("windowed", seed=seed, index=0, rows=batch.tokens, columns=16, dtype="bf16")

    def moved(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.to(device) for tensor in tensors)

    def rows(dense: Tensor) -> Tensor:
        wide = dense.new_zeros((len(dense), dense.shape[1] + batch.row_gap), device=device)
        wide[:, : dense.shape[1]] = dense
        return wide[:, : dense.shape[1]]

    scale = torch.arange(1, batch.experts + 1, dtype=torch.float32) * 100
    scaling = moved(scale, routing.expert_offsets, routing.blockscale_offsets)
    packed = torch.zeros((slots, batch.k // 2), dtype=torch.uint8)
    words_shape = (routing.padded_rows, scale_shape(0, batch.k, "swizzled_128x4")[1] // 4)
    scales = torch.zeros(words_shape, dtype=torch.int32)
    half = values[:, : batch.k]
    topk_weights = torch.empty((batch.tokens, batch.topk)).copy_(weights[:, : batch.topk])
    return {
        "moe_data": (*moved(ids), batch.experts, batch.n, batch.k, True),
        "shuffle_rows": (rows(values[: batch.tokens]), *moved(routing.input_permutation)),
        "unpermute_rows": moved(values, routing.output_permutation, topk_weights, routing.expert_offsets),
        "experts_quant": (rows(half), *scaling, "ieee"),
        "silu_and_mul_experts_quant": (rows(values), *scaling, "ieee"),
        "experts_quant_": (*moved(packed, scales), rows(half), *scaling, "ieee", "zero"),
        "silu_and_mul_experts_quant_": (*moved(packed, scales), rows(values), *scaling, "ieee", "zero"),
    }
