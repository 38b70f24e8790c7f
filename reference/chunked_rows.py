"""The fast path under the quantizers: the same bytes as `Recipe.quantize_blocks`, in pieces that stay in cache.

A tensor-at-a-time computation streams every intermediate through memory. Here the rows are cut into pieces of at most
`piece_elements` elements, on which a few in-place operations (`piece_quantizer`) run over scratch that is
allocated once. torch splits each operation among its threads, always in the same way, so that each works on what is
in its own cache.

A piece that holds an Inf or NaN, or a multiplier that is not finite, goes through `Recipe.quantize_blocks` itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nvfp4_moe.reference.arithmetic import Operations, keeps_subnormals
from nvfp4_moe.reference.casts import pack_encoded
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.padding import ceil_div
from nvfp4_moe.reference.piece_quantizer import ROUNDS_BEYOND_LARGEST, PieceQuantizer
from nvfp4_moe.reference.recipes import Recipe
from nvfp4_moe.reference.scale_tables import WORTH_A_TABLE, ScaleTables

ELEMENTS_PER_THREAD = 2**16
"""Their scratch, 14 to 16 bytes each, fits in a second-level cache of 1 MiB; in much smaller pieces the calls count."""
MOST_THREADS = 8
"""For how many threads pieces grow: beyond, the scratch would weigh more than the speed is worth."""
ELEMENTS_ON_A_GPU = 2**22
"""Enough to hide the launches."""


def piece_elements(device: torch.device) -> int:
    """Return how many elements a piece has on a device."""
    if device.type == "cpu":
        return ELEMENTS_PER_THREAD * min(torch.get_num_threads(), MOST_THREADS)
    return ELEMENTS_ON_A_GPU


@keeps_subnormals
def quantize_rows_into(
    packed: torch.Tensor,
    block_scale: torch.Tensor,
    input: torch.Tensor,
    global_scale: torch.Tensor,
    *,
    recipe: Recipe,
    ops: Operations,
    elements: int | None = None,
) -> None:
    """Quantize rows into given tensors.

    Args:
        packed: uint8 (R, K/2), contiguous.
        block_scale: uint8 (R, K/16), contiguous.
        input: bf16, f16 or f32 (R, K), any strides.
        global_scale: float32 () or (R, 1).
        recipe: the recipe.
        ops: the arithmetic.
        elements: how many elements a piece may have (at least a row is taken), by default as the device wants it.
    """
    rows, columns = input.shape
    rows_per_piece = min(rows, max(1, (elements or piece_elements(input.device)) // columns))
    quantizer = PieceQuantizer(input.dtype, input.device, elements=rows_per_piece * columns)
    for start, end, run_scale in _runs(
        global_scale, rows, least_rows=ceil_div(WORTH_A_TABLE * NVFP4.block_size, columns)
    ):
        blocks = (end - start) * columns // NVFP4.block_size
        tables = ScaleTables.worth_it(blocks, input.dtype, run_scale, recipe=recipe, ops=ops)
        for first in range(start, end, max(1, rows_per_piece)):
            piece = slice(first, min(first + rows_per_piece, end))
            scale = run_scale if run_scale.dim() == 0 else global_scale[piece]
            tensors = (packed[piece], block_scale[piece], input[piece])
            if not _quantize_finite(quantizer, *tensors, scale, tables, recipe=recipe, ops=ops):
                _quantize_plainly(*tensors, scale, recipe=recipe, ops=ops)


def _runs(
    global_scale: torch.Tensor, rows: int, *, least_rows: int
) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Cut the rows where the global scale changes: (first row, row after the last, scale).

    Runs of at least `least_rows` rows under one scale have it as (); what lies between them stays whole, with (rows, 1).
    """
    if global_scale.dim() == 0:
        yield 0, rows, global_scale
        return
    values, counts = torch.unique_consecutive(global_scale.view(-1), return_counts=True)
    start = end = 0
    for value, count in zip(values, counts.tolist(), strict=True):
        if count >= least_rows:
            if start < end:
                yield start, end, global_scale[start:end]
            yield end, end + count, value
            start = end + count
        end += count
    if start < end:
        yield start, end, global_scale[start:end]


def _quantize_finite(
    quantizer: PieceQuantizer,
    packed: torch.Tensor,
    block_scale: torch.Tensor,
    input: torch.Tensor,
    global_scale: torch.Tensor,
    tables: ScaleTables | None,
    *,
    recipe: Recipe,
    ops: Operations,
) -> bool:
    """Quantize a piece; returns False, with nothing written, if an element or a scaled one is not finite."""
    blocks = input.contiguous().view(-1, NVFP4.block_size)
    amax_bits = quantizer.amax_bits(blocks)
    if amax_bits is None:
        return False
    amax = amax_bits.view(input.dtype).to(torch.float32)
    if tables is not None:
        scale_bytes, multiplier = tables.look_up(amax_bits)
    else:
        values = recipe.block_values(amax.view(len(input), -1), global_scale, ops)
        scale_bytes, multiplier = values["block_scale"].view(-1), values["multiplier"].view(-1)
    largest_scaled = float((amax * multiplier).amax())
    if not largest_scaled < torch.inf:  # also where it is NaN
        return False
    block_scale.view(-1).copy_(scale_bytes)
    quantizer.encode(
        blocks,
        multiplier.unsqueeze(1),
        packed.view(-1, NVFP4.block_size // 2),
        saturates=largest_scaled >= ROUNDS_BEYOND_LARGEST,
    )
    return True


def _quantize_plainly(
    packed: torch.Tensor,
    block_scale: torch.Tensor,
    input: torch.Tensor,
    global_scale: torch.Tensor,
    *,
    recipe: Recipe,
    ops: Operations,
) -> None:
    blocks = input.reshape(len(input), -1, NVFP4.block_size)
    codes, values = recipe.quantize_blocks(blocks, global_scale, ops)
    packed.copy_(pack_encoded(codes.flatten(-2)))
    block_scale.copy_(values["block_scale"])
