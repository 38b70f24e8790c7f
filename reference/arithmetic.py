"""The arithmetic that a recipe is computed in: which float32 result each operation has.

- ``ieee``: every operation is the correctly rounded float32 one (round to nearest even, subnormals kept). In
  particular `reciprocal` is one division, never torch's own `scalar / tensor`, which rounds twice.
- ``hardware``: as a kernel with approximate instructions computes it. Products stay correctly rounded; the
  reciprocal is PTX ``rcp.approx.ftz.f32`` and SiLU is ``__fdividef(x, 1 + __expf(-x))``, both read from tables
  measured on a chip (`tables`). Without a table the request is refused, never approximated.

A caller's process may flush subnormals (`torch.set_flush_denormal`), which would change results silently; public
entry points are therefore wrapped in `keeps_subnormals`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import lru_cache, wraps
from typing import ParamSpec, Protocol, TypeVar

import torch

from nvfp4_moe.reference.casts import INFINITY_BITS, MAGNITUDE_MASK, MANTISSA_MASK
from nvfp4_moe.reference.tables import Table, find_table

MIN_NORMAL_BITS = 0x0080_0000
"""Bits of the smallest normal float32; a smaller magnitude is subnormal or zero."""
LARGEST_WITH_NORMAL_RECIPROCAL_BITS = 0x7E80_0000
"""Bits of 2^126, whose reciprocal is the smallest normal; above it `ftz` flushes the result."""
SIGN_BIT = -0x8000_0000
"""The sign of a float32 whose bits are read as int32."""


class Arithmetic(StrEnum):
    """Names of the arithmetics."""

    IEEE = "ieee"
    HARDWARE = "hardware"


class Operations(Protocol):
    """The operations in which arithmetics differ. Products and quotients are IEEE float32 in all of them."""

    @property
    def name(self) -> str:
        """What a report calls the arithmetic, with the table it rests on."""
        ...

    def reciprocal(self, values: torch.Tensor) -> torch.Tensor:
        """Return 1/x for float32 `values`, same shape."""
        ...

    def silu_table(self, dtype: torch.dtype) -> torch.Tensor | None:
        """Return SiLU of every input of a 16-bit `dtype` as float32 (2^16,), by bits; None: compute it as ieee."""
        ...


class IeeeOperations:
    """Correctly rounded float32 operations."""

    name = "ieee"

    def reciprocal(self, values: torch.Tensor) -> torch.Tensor:
        """Return the correctly rounded 1/x."""
        return torch.div(torch.ones_like(values), values)

    def silu_table(self, dtype: torch.dtype) -> torch.Tensor | None:
        """Return None: SiLU is its real value rounded once (`silu`)."""
        del dtype
        return None


class HardwareOperations:
    """The approximate instructions of one chip, from its tables.

    Args:
        chip: name of the device as it reports itself; None takes the first table known.

    Raises:
        MissingTableError (on first use of an operation): no table of it is known.
    """

    def __init__(self, chip: str | None = None) -> None:
        self.chip = chip
        self._on_device: dict[tuple[str, torch.device], torch.Tensor] = {}

    @property
    def name(self) -> str:
        """`hardware` and the reciprocal table in use."""
        return f"hardware: {self._table('reciprocal').name}"

    def reciprocal(self, values: torch.Tensor) -> torch.Tensor:
        """Return what rcp.approx.ftz.f32 returns: 1/x moved by the table's ulps, subnormals flushed to zero."""
        ulps = self._values("reciprocal", values.device)
        bits = values.contiguous().view(torch.int32)
        magnitude = bits & MAGNITUDE_MASK
        sign = bits & SIGN_BIT
        exact = torch.div(torch.ones_like(values), values).contiguous().view(torch.int32)
        moved = exact + ulps[(bits & MANTISSA_MASK).to(torch.int64)].to(torch.int32)
        result = torch.where(magnitude < MIN_NORMAL_BITS, sign | INFINITY_BITS, moved)
        result = torch.where(magnitude > LARGEST_WITH_NORMAL_RECIPROCAL_BITS, sign, result)
        result = torch.where(magnitude > INFINITY_BITS, MAGNITUDE_MASK, result)
        return result.view(torch.float32)

    def silu_table(self, dtype: torch.dtype) -> torch.Tensor | None:
        """Return the measured SiLU of every input of `dtype`.

        Raises:
            TypeError: float32 input, which no table can hold.
        """
        kinds = {torch.bfloat16: "silu_bf16", torch.float16: "silu_f16"}
        if dtype not in kinds:
            raise TypeError(
                f"SiLU in arithmetic 'hardware' is a table over bfloat16 or float16 inputs, got {dtype}"
            )
        return self._values(kinds[dtype], torch.device("cpu")).view(torch.float32)

    def _table(self, kind: str) -> Table:
        return find_table(kind, chip=self.chip)

    def _values(self, kind: str, device: torch.device) -> torch.Tensor:
        key = (kind, device)
        if key not in self._on_device:
            self._on_device[key] = self._table(kind).values.to(device)
        return self._on_device[key]


IEEE = IeeeOperations()

P = ParamSpec("P")
T = TypeVar("T")


def operations(arithmetic: Arithmetic | str | Operations) -> Operations:
    """Return the operations of a named arithmetic; an object with operations of its own is returned as it is.

    Raises:
        ValueError: unknown name.
    """
    if not isinstance(arithmetic, str):
        return arithmetic
    try:
        named = Arithmetic(arithmetic)
    except ValueError:
        raise ValueError(f"arithmetic must be one of {', '.join(Arithmetic)}, got {arithmetic!r}") from None
    if named is Arithmetic.IEEE:
        return IEEE
    return HardwareOperations()


def keeps_subnormals(compute: Callable[P, T]) -> Callable[P, T]:
    """Make a function keep subnormals even where its caller's threads flush them to zero.

    If the calling thread flushes, or one of the threads among which torch splits its operations (they keep the setting
    under which they were started, also when the caller's has changed since), the work is done in a new thread that does
    not, and so do those that torch starts for it. The caller's settings are never touched.
    """

    @wraps(compute)
    def kept(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(_here, "keeps", False):
            return compute(*args, **kwargs)
        if _flushes_subnormals():
            with ThreadPoolExecutor(1, initializer=keep_subnormals_in_this_thread) as thread:
                return thread.submit(compute, *args, **kwargs).result()
        _here.keeps = True
        try:
            return compute(*args, **kwargs)
        finally:
            _here.keeps = False

    return kept


def keep_subnormals_in_this_thread() -> None:
    """Stop flushing subnormals in the calling thread and in those that it starts."""
    torch.set_flush_denormal(False)
    _here.keeps = True


_here = threading.local()
"""`keeps`: whether this thread is known to keep subnormals, in a call that has looked already."""

ELEMENTS_OF_A_TASK = 1 << 15
"""torch gives each of its threads a task where an operation has this many elements for each of them."""


def _flushes_subnormals() -> bool:
    """Tell whether the calling thread flushes, or a thread that torch splits its operations among."""
    smallest = _smallest(ELEMENTS_OF_A_TASK * torch.get_num_threads())
    return bool((smallest * 1.0 == 0.0).any())


@lru_cache(maxsize=1)
def _smallest(count: int) -> torch.Tensor:
    return torch.ones(count, dtype=torch.int32, device="cpu").view(torch.float32)
