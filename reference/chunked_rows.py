"""The fast path under the quantizers: the same bytes as `Recipe.quantize_blocks`, in pieces that stay in cache.

A tensor-at-a-time computation streams every intermediate through memory. Here the rows are cut into groups
whose values per block fit in cache, and each group into pieces of at most `Pieces.elements` elements, on which
a few in-place operations (`piece_quantizer`) run over scratch that is allocated once. On the CPU a piece is
small enough for torch to run each operation in the calling thread, and several threads take groups in turn; on
a GPU pieces are large and one thread issues them.

A group that holds an Inf or NaN, or a multiplier that is not finite, goes through `Recipe.quantize_blocks` itself.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from nvfp4_moe.reference.arithmetic import Operations, keep_subnormals_in_this_thread, keeps_subnormals
from nvfp4_moe.reference.casts import pack_encoded
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.padding import ceil_div
from nvfp4_moe.reference.piece_quantizer import ROUNDS_BEYOND_LARGEST, PieceQuantizer
from nvfp4_moe.reference.recipes import Recipe

MOST_THREADS = 8
"""More threads would wait for the interpreter lock, which each holds while it issues an operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """How the work is cut."""

    elements: int
    """Elements of a piece, a multiple of the block size."""
    pieces_per_group: int
    threads: int

    @classmethod
    def for_device(cls, device: torch.device) -> Pieces:
        """Return the cut for a device: in cache and in parallel on the CPU, few large launches elsewhere."""
        if device.type == "cpu":
            # From 2^15 elements on torch splits one operation among threads of its own. Smaller
            # pieces cost more in calls than they save; larger groups cost memory.
            threads = min(torch.get_num_threads(), MOST_THREADS)
            return cls(elements=2**15 - 2**9, pieces_per_group=4, threads=threads)
        return cls(elements=2**25, pieces_per_group=1, threads=1)


def quantize_rows_into(
    packed: torch.Tensor,
    block_scale: torch.Tensor,
    input: torch.Tensor,
    global_scale: torch.Tensor,
    *,
    recipe: Recipe,
    ops: Operations,
    pieces: Pieces | None = None,
) -> None:
    """Quantize rows into given tensors.

    Args:
        packed: uint8 (R, K/2), contiguous.
        block_scale: uint8 (R, K/16), contiguous.
        input: bf16, f16 or f32 (R, K), any strides.
        global_scale: float32 () or (R, 1).
        recipe: the recipe.
        ops: the arithmetic.
        pieces: how to cut the work, by default as the device wants it.
    """
    cut = pieces or Pieces.for_device(input.device)
    rows, columns = input.shape
    rows_per_group = max(1, cut.elements * cut.pieces_per_group // columns)
    starts = iter(range(0, rows, rows_per_group))

    def work() -> None:
        quantizer = PieceQuantizer(
            input.dtype,
            input.device,
            group_elements=min(rows, rows_per_group) * columns,
            piece_elements=cut.elements,
        )
        # `next` of a range iterator is atomic, so threads share out the groups without a lock.
        for start in starts:
            group = slice(start, min(start + rows_per_group, rows))
            scale = global_scale if global_scale.dim() == 0 else global_scale[group]
            _quantize_group(
                quantizer, input[group], scale, packed[group], block_scale[group], recipe=recipe, ops=ops
            )

    threads = min(cut.threads, ceil_div(rows, rows_per_group))
    if threads <= 1:
        keeps_subnormals(work)()
        return
    with ThreadPoolExecutor(threads, initializer=keep_subnormals_in_this_thread) as pool:
        for done in [pool.submit(work) for _ in range(threads)]:
            done.result()


def _quantize_group(
    quantizer: PieceQuantizer,
    input: torch.Tensor,
    global_scale: torch.Tensor,
    packed: torch.Tensor,
    block_scale: torch.Tensor,
    *,
    recipe: Recipe,
    ops: Operations,
) -> None:
    blocks = input.contiguous().view(-1, NVFP4.block_size)
    amax = quantizer.block_amax(blocks)
    if amax is not None:
        values = recipe.block_values(amax.view(len(input), -1), global_scale, ops)
        multiplier = values["multiplier"].view(-1)
        largest_scaled = float((amax * multiplier).amax())
        if largest_scaled < torch.inf:  # also false for NaN
            block_scale.copy_(values["block_scale"])
            saturates = largest_scaled >= ROUNDS_BEYOND_LARGEST
            quantizer.encode(
                blocks, multiplier.unsqueeze(1), packed.view(-1, NVFP4.block_size // 2), saturates=saturates
            )
            return
    codes, values = recipe.quantize_blocks(blocks.view(len(input), -1, NVFP4.block_size), global_scale, ops)
    packed.copy_(pack_encoded(codes.flatten(-2)))
    block_scale.copy_(values["block_scale"])
