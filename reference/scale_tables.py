"""Scale byte and multiplier of a block, from the bits of its amax.

Under one global scale both are functions of block_amax alone, and a 16-bit float has at most 2^15 finite magnitudes.
For many blocks it is cheaper to run the recipe once over all magnitudes and look each block up; for few, and for
float32, the recipe runs over the blocks themselves. The bytes are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.recipes import Recipe

WORTH_A_TABLE = 3 * 2**14
"""Blocks from which on the table pays: running the recipe costs several times a look-up, and there are 2^15 entries."""
MAGNITUDES_AT_ONCE = 2**12
"""Keeps the recipe's intermediates small."""


@dataclass(frozen=True, slots=True)
class ScaleTables:
    """What a recipe makes of every finite magnitude of a 16-bit dtype under one global scale."""

    block_scale: torch.Tensor
    """uint8 (finite magnitudes,)."""
    multiplier: torch.Tensor
    """float32 (finite magnitudes,)."""

    @classmethod
    def worth_it(
        cls, blocks: int, dtype: torch.dtype, global_scale: torch.Tensor, *, recipe: Recipe, ops: Operations
    ) -> ScaleTables | None:
        """Return the tables if they pay for this many blocks under a global scale () or (R, 1), else None."""
        if blocks < WORTH_A_TABLE or global_scale.dim() or dtype.itemsize != torch.int16.itemsize:
            return None
        device = global_scale.device
        infinity = int(torch.tensor(torch.inf, dtype=dtype).view(torch.int16))
        tables = cls(
            torch.empty(infinity, dtype=torch.uint8, device=device),
            torch.empty(infinity, dtype=torch.float32, device=device),
        )
        for start in range(0, infinity, MAGNITUDES_AT_ONCE):
            bits = torch.arange(
                start, min(start + MAGNITUDES_AT_ONCE, infinity), dtype=torch.int16, device=device
            )
            values = recipe.block_values(bits.view(dtype).to(torch.float32).unsqueeze(0), global_scale, ops)
            tables.block_scale[start : start + len(bits)] = values["block_scale"][0]
            tables.multiplier[start : start + len(bits)] = values["multiplier"][0]
        return tables

    def look_up(self, amax_bits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return block_scale uint8 (B,) and multiplier float32 (B,) for the bits int16 (B,) of finite magnitudes."""
        index = amax_bits.to(torch.int32)
        return self.block_scale.index_select(0, index), self.multiplier.index_select(0, index)
