"""How far a right GEMM may be from the exact one, derived; and when it may not differ at all.

**Accumulators.** A subject adds K exact products in an order and in a way of its own. Let S be the sum of |a * b| and u
the most that one addition loses, relative to the largest magnitude it meets. Every partial result is at most S (1 + ...)
in magnitude, so after n additions

    |acc - sum| <= g * S,    g = n*u / (1 - n*u),    n = K.

- `ieee_float32`: u = 2^-24. Every addition is rounded to nearest, in any order, tree or split (Higham, Accuracy and
  Stability of Numerical Algorithms, 2nd ed., section 4.2: n - 1 roundings at most on the way of each product).
- `truncating_mma`: u = 2^-23. A matrix instruction adds L products and the accumulator at once: all are aligned to the
  largest exponent and cut off below 2^-24 of it or finer, the sum is cut to 24 bits. Of the L + 1 terms L lose less than
  2^-24 of the largest, the sum less than 2^-23 of itself: together L*2^-24 + 2^-23 <= L*2^-23 for L >= 2, and there are
  K / L steps. (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ CS 2021, measured
  truncation with one extra bit on A100; L is 4 or more on every tensor core.)

**Scale and output.** alpha * acc is rounded to float32 (2^-24 of itself, at least 2^-150), then to nearest in the output
type. Rounding is monotone, so both ends of the interval are rounded and a right output lies between them: no tolerance
in units of the output is needed. What float64 itself loses in computing the ends is covered by 2^-40 of S.

**Exact cases.** If all products of a row and a column are multiples of one unit and S is at most 2^24 units, every partial
sum of any subset is a float32 number, in every order, truncated or not: then bytes are compared (`order_free`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nvfp4_moe.reference.grouped_gemm import Operands

FLOAT32_DIGITS = 24
FLOAT32_UNIT_ROUNDOFF = 2.0**-FLOAT32_DIGITS
HALF_SMALLEST_FLOAT32 = 2.0**-150
FLOAT64_SLACK = 2.0**-40
"""Of S: far more than the 2^-52 of each float64 operation below, far less than any bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulator:
    """A way to add products; the module derives its bound."""

    name: str
    unit_roundoff: float

    def factor(self, k: int) -> float:
        """Return g for K columns.

        Raises:
            ValueError: so many columns that the bound says nothing.
        """
        lost = k * self.unit_roundoff
        if lost >= 1:
            raise ValueError(f"{self.name} bounds no sum of {k} products")
        return lost / (1 - lost)


ACCUMULATORS = {
    accumulator.name: accumulator
    for accumulator in (
        Accumulator(name="ieee_float32", unit_roundoff=2.0**-24),
        Accumulator(name="truncating_mma", unit_roundoff=2.0**-23),
    )
}
"""Every accumulator by its name."""


def error_bound(operands: Operands, accumulator: Accumulator) -> Tensor:
    """Return how far alpha * acc, rounded to float32, may be from alpha * sum: float64 (T, N), NaN where that is."""
    lost = accumulator_loss(operands.magnitude, operands.a.shape[1], accumulator)
    scaled = lost * operands.alpha_of_row.to(torch.float64).abs()
    rounded = (operands.values.abs() + scaled) * FLOAT32_UNIT_ROUNDOFF + HALF_SMALLEST_FLOAT32
    return torch.where(lost == 0, 0.0, scaled + rounded).masked_fill(operands.is_nan, torch.nan)


def accumulator_loss(magnitude: Tensor, k: int, accumulator: Accumulator) -> Tensor:
    """Return what adding K products whose magnitudes sum to `magnitude` may lose, float64."""
    return (accumulator.factor(k) + FLOAT64_SLACK) * magnitude


def output_interval(
    operands: Operands, *, dtype: torch.dtype, accumulator: Accumulator
) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest output of `dtype` that a right GEMM can give, each (T, N); NaN where it must.

    Args:
        operands: of the GEMM.
        dtype: bfloat16 or float16.
        accumulator: one of `ACCUMULATORS`.
    """
    bound = error_bound(operands, accumulator)
    return rounded_ends(operands.values - bound, operands.values + bound, dtype)


def rounded_ends(low: Tensor, high: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the ends of float64 intervals, taken outward to float32, as the output type rounds them."""
    return _float32_below(low).to(dtype), _float32_below(-high).neg().to(dtype)


def inside(output: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return which outputs lie in their interval: bool; a NaN is due where the interval is NaN, and nowhere else."""
    return torch.where(low.isnan(), output.isnan(), (low <= output) & (output <= high))


def order_free(operands: Operands) -> Tensor:
    """Return where every order of additions gives the same bits, by the module's criterion: bool (T, N)."""
    of_rows = _lowest_bit(operands.a)[:, None]
    of_columns = _lowest_bit(operands.b)  # (E, N)
    counts = torch.tensor(operands.expert_offsets, device=of_rows.device).diff()
    unit = of_rows * torch.repeat_interleave(of_columns, counts, dim=0)
    return ~operands.is_nan & (operands.magnitude <= unit * 2.0**FLOAT32_DIGITS)


def _lowest_bit(values: Tensor) -> Tensor:
    """Return, for each row of multiples of 2^-10, the largest power of two that its elements are multiples of."""
    integers = (values.nan_to_num(0.0) * 2.0**10).to(torch.int64).abs()
    lowest = torch.where(integers > 0, integers & -integers, 1 << 32)
    return lowest.amin(-1).to(torch.float64) * 2.0**-10


def _float32_below(values: Tensor) -> Tensor:
    """Return the largest float32 that is at most each float64."""
    nearest = values.to(torch.float32)
    below = torch.nextafter(nearest, torch.full_like(nearest, -torch.inf))
    return torch.where(nearest.to(torch.float64) > values, below, nearest)
