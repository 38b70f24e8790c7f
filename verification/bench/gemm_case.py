"""Cases of the grouped GEMM: operands in the buffers of the protocol, every padding byte poisoned, and their true outputs.

Values:

- `integer`: any code, scales 1 and 2. Products are multiples of 1/4 up to 144, so up to K = 29,127 every partial sum of
  them is a float32 number and every right kernel gives the same bits: bytes are compared.
- `wide`: any code, any finite non-negative scale byte. The output must lie in the interval that
  `nvfp4_moe.reference.gemm_bounds` derives.

Poison is what no owner wrote: scale rows behind an expert's last, scale columns past K / 16, scale rows of weights past N,
and rows behind the last expert's (codes, scales and outputs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nvfp4_moe.reference.expert_layouts import experts_to_layout, packed_blockscale_offsets
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.gemm_bounds import ACCUMULATORS, inside, output_interval
from nvfp4_moe.reference.grouped_gemm import Operands, grouped_gemm, read_operands
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.verification.bench.quant_case import FILL, WrongBytesError
from nvfp4_moe.verification.counter import words

LAYOUT = "swizzled_128x4"
NAN_SCALE = 0x7F
ONE = 0x38
"""The scale byte of 1; 8 more is 2."""
FINITE_SCALES = 0x7F
VALUES = ("integer", "wide")


class WrongOutputError(WrongBytesError):
    """A grouped GEMM wrote what it must not."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GemmCase:
    """Tensors of one call; `offsets` vectors have E + 1 entries, as the routing data has them."""

    a: Tensor
    a_scale: Tensor
    """uint8, linear (rows, K/16)."""
    a_blockscale: Tensor
    b: Tensor
    b_blockscale: Tensor
    alphas: Tensor
    problem_sizes: Tensor
    expert_offsets: Tensor
    blockscale_offsets: Tensor

    @property
    def rows(self) -> int:
        """Rows that an expert owns."""
        return int(self.expert_offsets[-1])

    def output(self, dtype: torch.dtype) -> Tensor:
        """Return an output in which every byte is `FILL`."""
        size = (len(self.a), self.b.shape[1])
        return torch.full(size, FILL * 257 - 2**16, dtype=torch.int16, device=self.a.device).view(dtype)

    def arguments(self, out: Tensor) -> tuple[Tensor, ...]:
        """Return the arguments of the op, in its order."""
        return (
            out, self.a, self.b, self.a_blockscale, self.b_blockscale, self.alphas, self.problem_sizes,
            self.expert_offsets[:-1], self.blockscale_offsets[:-1],
        )  # fmt: skip

    def only(self, rows: Tensor, counts: Sequence[int], *, poison: int = NAN_SCALE) -> GemmCase:
        """Return the case of some of the rows: `counts` of them for each expert, in order."""
        return replace(self, **_of_rows(self.a[rows], self.a_scale[rows], counts, self.b, poison))

    def operands(self, expert: int) -> tuple[slice, Operands]:
        """Return the rows of an expert and the exact operands of its product."""
        first, end = self.expert_offsets[expert : expert + 2].tolist()
        start, stop = self.blockscale_offsets[expert : expert + 2].tolist()
        ends = torch.tensor([0, end - first], dtype=torch.int32, device=self.a.device)
        scale_ends = torch.tensor([0, stop - start], dtype=torch.int32, device=self.a.device)
        operands = read_operands(
            self.a[first:end], self.b[expert : expert + 1], self.a_blockscale[start:stop],
            self.b_blockscale[expert : expert + 1], self.alphas[expert : expert + 1], ends, scale_ends,
        )  # fmt: skip
        return slice(first, end), operands

    def check(self, name: str, out: Tensor, *, exact: bool, experts: Sequence[int] | None = None) -> None:
        """Compare an output: bytes where `exact`, else intervals; rows behind the last must be as they were.

        Args:
            name: of the subject, for the message.
            out: (rows, N), once filled with `FILL`.
            exact: whether the values are `integer`.
            experts: those to look at, by default all.

        Raises:
            WrongOutputError: something differs.
        """
        for expert in range(len(self.b)) if experts is None else experts:
            rows, operands = self.operands(expert)
            if rows.start == rows.stop:
                continue
            got = out[rows]
            if exact:
                right = got.view(torch.int16) == grouped_gemm(operands, dtype=out.dtype).view(torch.int16)
            else:
                low, high = output_interval(
                    operands, dtype=out.dtype, accumulator=ACCUMULATORS["truncating_mma"]
                )
                right = inside(got, low, high)
            if not bool(right.all()):
                at = tuple(torch.nonzero(~right)[0].tolist())
                raise WrongOutputError(
                    f"{name}: expert {expert}: {int((~right).sum())} of {right.numel()} outputs are wrong, first at row "
                    f"{at[0]}, column {at[1]}: {float(got[at])}, true {float(operands.values[at])}"
                )
        if bool((out[self.rows :].view(torch.uint8) != FILL).any()):
            raise WrongOutputError(f"{name}: rows that no expert owns were written")


def make_case(
    counts: Sequence[int],
    *,
    n: int,
    k: int,
    values: str,
    seed: int = 1,
    device: str | torch.device = "cpu",
    poison: int = NAN_SCALE,
    spare_rows: int = 3,
) -> GemmCase:
    """Return a case of len(counts) experts with `spare_rows` rows behind the last.

    Raises:
        ValueError: unknown values.
    """
    if values not in VALUES:
        raise ValueError(f"values must be one of {', '.join(VALUES)}, got {values!r}")
    experts, rows = len(counts), sum(counts) + spare_rows
    family = f"gemm.{values} {experts} {n} {k}"
    b = _bytes(seed, f"{family} b", (experts, n, k // 2), device)
    b_scale = _scales(values, _bytes(seed, f"{family} b scale", (experts, n, k // NVFP4.block_size), device))
    a = _bytes(seed, f"{family} a", (rows, k // 2), device)
    a_scale = _scales(values, _bytes(seed, f"{family} a scale", (rows, k // NVFP4.block_size), device))
    steps = torch.arange(experts, dtype=torch.float32, device=device)
    return GemmCase(
        b=b,
        b_blockscale=_poisoned(
            to_layout(b_scale, LAYOUT), to_layout(torch.ones_like(b_scale), LAYOUT), poison
        ),
        alphas=(3 + steps) / 1024,
        **_of_rows(a, a_scale, counts, b, poison),
    )


def _of_rows(a: Tensor, a_scale: Tensor, counts: Sequence[int], b: Tensor, poison: int) -> dict[str, Tensor]:
    rows = torch.tensor(counts, dtype=torch.int32, device=a.device)
    offsets = torch.cat((rows.new_zeros(1), rows.cumsum(0, dtype=torch.int32)))
    starts = packed_blockscale_offsets(offsets)
    placed, owned = (
        experts_to_layout(scales, offsets, starts, layout=LAYOUT)
        for scales in (a_scale, torch.ones_like(a_scale))
    )
    n, k = b.shape[1], 2 * b.shape[2]
    sizes = torch.stack((rows, torch.full_like(rows, n), torch.full_like(rows, k)), 1)
    return {
        "a": a,
        "a_scale": a_scale,
        "a_blockscale": _poisoned(placed, owned, poison),
        "problem_sizes": sizes,
        "expert_offsets": offsets,
        "blockscale_offsets": starts,
    }


def _poisoned(placed: Tensor, owned: Tensor, poison: int) -> Tensor:
    return placed.masked_fill_(owned == 0, poison)


def _bytes(seed: int, family: str, shape: Sequence[int], device: str | torch.device) -> Tensor:
    count = math.prod(shape)
    out = torch.empty(-(-count // 8), dtype=torch.int64, device=device)
    for first in range(0, len(out), _MOST_WORDS):
        piece = out[first : first + _MOST_WORDS]
        piece.copy_(words(seed, family, first, len(piece), device=str(device)))
    return out.view(torch.uint8)[:count].view(tuple(shape))


_MOST_WORDS = 2**26
"""Random words made at a time: half a gigabyte."""


def _scales(values: str, raw: Tensor) -> Tensor:
    return ONE + 8 * (raw & 1) if values == "integer" else raw % FINITE_SCALES
