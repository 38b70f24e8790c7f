"""`ExpertWeights`: the quantized weights of one rank's experts with their scales, as every layer here takes them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertWeights:
    """The weights of one rank's experts, under the names of the seed's arguments."""

    w1_fp4: Tensor
    """uint8 (E, 2n or n, K/2): gate above up, or one projection."""
    w1_blockscale: Tensor
    """uint8 or float8_e4m3fn (E, round_up(2n or n, 128), 4 * ceil(K/64)), swizzled_128x4."""
    w1_alphas: Tensor
    """float32 (E,): 1 / (a1_gscale * the weight's encode scale)."""
    a1_gscale: Tensor
    """float32 (E,): global encode scale of the first GEMM's activations."""
    w2_fp4: Tensor
    """uint8 (E, K, n/2)."""
    w2_blockscale: Tensor
    """uint8 or float8_e4m3fn (E, round_up(K, 128), 4 * ceil(n/64)), swizzled_128x4."""
    w2_alphas: Tensor
    """float32 (E,)."""
    a2_gscale: Tensor
    """float32 (E,)."""

    def as_dict(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def of_experts(self, first: int, end: int) -> ExpertWeights:
        """Return the experts from `first` up to `end`: one rank's share."""
        return ExpertWeights(**{name: tensor[first:end] for name, tensor in self.as_dict().items()})
