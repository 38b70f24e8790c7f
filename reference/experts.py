"""NVFP4 quantization of the rows of many experts, each with its own global scale.

**Ragged**: expert e owns the rows [expert_offsets[e], expert_offsets[e + 1]) of the input; the rows at or after
expert_offsets[E] belong to nobody. Packed rows stay where the input's are; the scales of expert e begin at row
blockscale_offsets[e] of their buffer (`expert_layouts`). **Masked**: expert e owns the first masked_m[e] rows of its
slab. In both, what nobody owns is zero in `packed` and in `block_scale`, and the global scale of an expert without
rows may be anything, Inf and NaN included: it is used nowhere.

The law that defines both: the rows of one expert get the bytes that `quantize` gives them alone.
"""

from __future__ import annotations

import itertools

import torch

from nvfp4_moe.reference.arithmetic import Arithmetic, Operations, keeps_subnormals, operations
from nvfp4_moe.reference.checks import (
    check_device,
    check_global_scale,
    check_index_vector,
    check_input,
    check_offsets,
    check_row_counts,
)
from nvfp4_moe.reference.expert_layouts import experts_to_layout, masked_to_layout, packed_blockscale_offsets
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.layouts import layout_by_name
from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.reference.quantize import Quantized, the_global_scale
from nvfp4_moe.reference.recipes import Recipe, recipe_named
from nvfp4_moe.reference.rows import QuantizedRows, quantize_rows
from nvfp4_moe.reference.silu import silu_and_mul


@keeps_subnormals
def quantize_experts(
    input: torch.Tensor,
    global_encode_scale: torch.Tensor | None,
    expert_offsets: torch.Tensor,
    *,
    global_decode_scale: torch.Tensor | None = None,
    blockscale_offsets: torch.Tensor | None = None,
    layout: str = "swizzled_128x4",
    tile: int = TILE,
    scale_rows: int | None = None,
    recipe: Recipe | str = "vllm",
    arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE,
    intermediates: bool = False,
) -> Quantized:
    """Quantize ragged rows, one global scale per expert.

    Args:
        input: bf16, f16 or f32 (rows, K), K a multiple of 16; any strides.
        global_encode_scale: float32 (E,), about 2688 / amax of the expert, finite and positive where the expert has
            rows; None for a recipe of the other direction.
        expert_offsets: int32 or int64 (E + 1,), prefix sums of the routed rows; at most `rows`.
        global_decode_scale: float32 (E,), for recipes that take this direction.
        blockscale_offsets: int32 or int64 (E + 1,), first scale row of each expert; by default packed: prefix sums
            of the routed rows rounded up to `tile`.
        layout: a name of `LAYOUTS`, for block_scale.
        tile: rows of a scale tile, for the default of blockscale_offsets.
        scale_rows: rows of block_scale, by default blockscale_offsets[E].
        recipe: a name of `RECIPES` or a recipe.
        arithmetic: "ieee", "hardware", or operations.
        intermediates: keep what was computed per block as `quantize` does, rows that nobody owns zero.

    Returns:
        packed (rows, K/2) and block_scale (scale_rows, columns of the layout), zero where nobody owns a byte.

    Raises:
        TypeError, ValueError, MissingTableError: as `quantize`; offsets of another dtype, shape or device, not
            starting at 0, descending or above `rows`; blockscale_offsets off the tile grid or overlapping.
    """
    chosen, ops = recipe_named(recipe), operations(arithmetic)
    at = layout_by_name(layout)
    check_input("input", input, dims=2)
    name, given = the_global_scale(chosen, global_encode_scale, global_decode_scale)
    check_index_vector("expert_offsets", expert_offsets)
    check_device("expert_offsets", expert_offsets, input.device)
    offsets = check_offsets("expert_offsets", expert_offsets)
    owned = offsets[-1]
    if owned > input.shape[0]:
        raise ValueError(f"expert_offsets[E] must be at most the {input.shape[0]} input rows, got {owned}")
    counts = [end - start for start, end in itertools.pairwise(offsets)]
    scale = check_global_scale(name, given, device=input.device, rows_of_experts=counts)
    if blockscale_offsets is None:
        if tile % at.tile_rows:
            raise ValueError(
                f"tile must be a multiple of the {at.tile_rows} tile rows of {layout}, got {tile}"
            )
        blockscale_offsets = packed_blockscale_offsets(expert_offsets, tile=tile)
    check_device("blockscale_offsets", blockscale_offsets, input.device)
    scale_of_row = torch.repeat_interleave(scale, expert_offsets.diff(), output_size=owned).unsqueeze(1)
    rows = quantize_rows(input[:owned], scale_of_row, recipe=chosen, ops=ops, keep_values=intermediates)
    block_scale = experts_to_layout(
        rows.block_scale, expert_offsets, blockscale_offsets, layout=layout, scale_rows=scale_rows
    )
    return _with_zero_rows(rows, block_scale, layout, rows_in_all=input.shape[0])


def silu_and_mul_quantize_experts(
    input: torch.Tensor,
    global_encode_scale: torch.Tensor | None,
    expert_offsets: torch.Tensor,
    *,
    global_decode_scale: torch.Tensor | None = None,
    blockscale_offsets: torch.Tensor | None = None,
    layout: str = "swizzled_128x4",
    tile: int = TILE,
    scale_rows: int | None = None,
    recipe: Recipe | str = "vllm",
    arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE,
    intermediates: bool = False,
) -> Quantized:
    """Quantize silu(gate) * up of ragged rows: `silu_and_mul`, rounded to the input dtype, then `quantize_experts`.

    Args:
        input: bf16, f16 or f32 (rows, 2K), the gate in the first K columns; K a multiple of 16.
        others: as `quantize_experts`.
    """
    check_input("input", input, dims=2, gated=True)
    return quantize_experts(
        silu_and_mul(input, arithmetic=arithmetic),
        global_encode_scale,
        expert_offsets,
        global_decode_scale=global_decode_scale,
        blockscale_offsets=blockscale_offsets,
        layout=layout,
        tile=tile,
        scale_rows=scale_rows,
        recipe=recipe,
        arithmetic=arithmetic,
        intermediates=intermediates,
    )


@keeps_subnormals
def quantize_masked(
    input: torch.Tensor,
    global_encode_scale: torch.Tensor | None,
    masked_m: torch.Tensor,
    *,
    global_decode_scale: torch.Tensor | None = None,
    layout: str = "swizzled_128x4",
    recipe: Recipe | str = "vllm",
    arithmetic: Arithmetic | str | Operations = Arithmetic.IEEE,
) -> Quantized:
    """Quantize the first masked_m[e] rows of each expert's slab.

    Args:
        input: bf16, f16 or f32 (E, M, K), K a multiple of 16; any strides.
        global_encode_scale: float32 (E,), as in `quantize_experts`.
        masked_m: int32 or int64 (E,), each in [0, M].
        global_decode_scale, layout, recipe, arithmetic: as `quantize_experts`.

    Returns:
        packed (E, M, K/2) and block_scale (E, *scale_shape(M, K, layout)), zero where nobody owns a byte.

    Raises:
        TypeError, ValueError, MissingTableError: as `quantize`; masked_m of another dtype, shape or device, or
            outside [0, M].
    """
    chosen, ops = recipe_named(recipe), operations(arithmetic)
    layout_by_name(layout)
    check_input("input", input, dims=3)
    experts, most, k = input.shape
    name, given = the_global_scale(chosen, global_encode_scale, global_decode_scale)
    check_index_vector("masked_m", masked_m, length=experts)
    check_device("masked_m", masked_m, input.device)
    counts = check_row_counts("masked_m", masked_m, experts=experts, most=most)
    scale = check_global_scale(name, given, device=input.device, rows_of_experts=counts)
    packed = torch.zeros((experts, most, k // 2), dtype=torch.uint8, device=input.device)
    linear = torch.zeros((experts, most, k // NVFP4.block_size), dtype=torch.uint8, device=input.device)
    for expert, count in enumerate(counts):
        rows = quantize_rows(input[expert, :count], scale[expert], recipe=chosen, ops=ops)
        packed[expert, :count] = rows.packed
        linear[expert, :count] = rows.block_scale
    return Quantized(
        packed=packed, block_scale=masked_to_layout(linear, masked_m, layout=layout), layout=layout
    )


def _with_zero_rows(
    rows: QuantizedRows, block_scale: torch.Tensor, layout: str, *, rows_in_all: int
) -> Quantized:
    def padded(values: torch.Tensor) -> torch.Tensor:
        if len(values) == rows_in_all:
            return values
        whole = values.new_zeros((rows_in_all, *values.shape[1:]))
        whole[: len(values)] = values
        return whole

    kept = None if rows.values is None else {name: padded(value) for name, value in rows.values.items()}
    return Quantized(packed=padded(rows.packed), block_scale=block_scale, layout=layout, intermediates=kept)
