"""Moving rows between token and expert order: the gather before quantization, the weighted sum at the end.

`shuffle_rows`: output[i] = input[row_map[i]], any dtype, bytes unchanged.

`unpermute_rows`, for token t and column j, all in float32 with each operation rounded to nearest even:

    sum = +0
    for slot in 0 .. topk-1, in this order, skipped slots left out:
        sum = sum + topk_weights[t, slot] * float32(input[output_permutation[t * topk + slot], j])
    output[t, j] = sum rounded once to the output dtype

The product is rounded before it is added (no fused multiply-add); subnormals are kept. The order of the sum is part of the
contract: it makes the result a function of the token's own rows and weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import keeps_subnormals
from nvfp4_moe.reference.checks import check_indices

FLOAT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""Legal dtypes of the rows that are summed and of the result."""


def shuffle_rows(input: Tensor, row_map: Tensor) -> Tensor:
    """Return the rows `row_map` of `input`. Reads two scalars on the host to check the indices.

    Args:
        input: any dtype (rows, columns).
        row_map: int32 or int64 (D,), each in [0, rows).

    Returns:
        (D, columns) in the dtype of `input`.

    Raises:
        TypeError: a map that is not an int32 or int64 tensor.
        ValueError: shapes that do not fit, or an index outside the rows: the text names its position and
            value.
    """
    if input.ndim != 2:
        raise ValueError(f"input must be (rows, columns), got {tuple(input.shape)}")
    check_indices("row_map", row_map, below=input.shape[0])
    return input.index_select(0, row_map)


@keeps_subnormals
def unpermute_rows(
    input: Tensor,
    output_permutation: Tensor,
    topk_weights: Tensor,
    *,
    routed_rows: int,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return each token's weighted sum of its experts' rows. The module states the arithmetic.

    Args:
        input: bfloat16, float16 or float32 (rows, columns), rows in expert order; those from `routed_rows`
            are not read.
        output_permutation: int32 or int64 (M * topk,), the row of each slot, `routed_rows` where the slot was
            skipped.
        topk_weights: float32 (M, topk); those of skipped slots do not count, whatever they are.
        routed_rows: T, expert_offsets[E].
        dtype: of the result, by default that of `input`.

    Returns:
        (M, columns); a token whose slots were all skipped is zero.

    Raises:
        TypeError: another dtype.
        ValueError: shapes that do not fit, or an index outside [0, routed_rows]: the text names its position
            and value.
    """
    for name, given in (("input", input.dtype), ("the result", dtype or input.dtype)):
        if given not in FLOAT_DTYPES:
            raise TypeError(f"{name} must be {' or '.join(map(str, FLOAT_DTYPES))}, got {given}")
    if topk_weights.dtype != torch.float32:
        raise TypeError(f"topk_weights must be float32, got {topk_weights.dtype}")
    if input.ndim != 2 or topk_weights.ndim != 2:
        raise ValueError(
            f"input must be (rows, columns) and topk_weights (tokens, topk), "
            f"got {tuple(input.shape)} and {tuple(topk_weights.shape)}"
        )
    if not 0 <= routed_rows <= input.shape[0]:
        raise ValueError(f"routed_rows must be in [0, {input.shape[0]}], got {routed_rows}")
    check_indices("output_permutation", output_permutation, below=routed_rows + 1)
    tokens, topk = topk_weights.shape
    if len(output_permutation) != tokens * topk:
        raise ValueError(
            f"output_permutation must have tokens x topk = {tokens * topk} entries, got {len(output_permutation)}"
        )
    rows = output_permutation.reshape(tokens, topk)
    total = torch.zeros((tokens, input.shape[1]), dtype=torch.float32, device=input.device)
    for slot in range(topk):
        token = (rows[:, slot] < routed_rows).nonzero().squeeze(1)
        terms = topk_weights[token, slot, None] * input[rows[token, slot]].to(torch.float32)
        total[token] = total[token] + terms
    return total.to(dtype or input.dtype)
