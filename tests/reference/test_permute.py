"""Gather and weighted un-permute against loops over single elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.permute import shuffle_rows, unpermute_rows
from nvfp4_moe.reference.routing import route


def patterned(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Values of both signs and many magnitudes, from integer arithmetic."""
    word = torch.arange(rows * columns) * 2654435761 % 65521 - 32760
    return (word.to(torch.float32) / 256).to(dtype).view(rows, columns)


# --- shuffle_rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int32, torch.float8_e4m3fn, torch.bfloat16, torch.float16, torch.float32]
)
@pytest.mark.parametrize("map_dtype", [torch.int32, torch.int64])
def test_rows_are_gathered_byte_for_byte(dtype: torch.dtype, map_dtype: torch.dtype) -> None:
    # Whole rows of every bit pattern, so that a NaN or -0 that was read as a number would show.
    source = (torch.arange(5 * 512) * 37 % 256).to(torch.uint8).view(5, 512)
    row_map = [4, 0, 0, 3]
    shuffled = shuffle_rows(source.view(dtype), torch.tensor(row_map, dtype=map_dtype))
    assert shuffled.dtype == dtype
    assert torch.equal(shuffled.view(torch.uint8), torch.stack([source[row] for row in row_map]))


def test_no_rows_are_gathered() -> None:
    assert shuffle_rows(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int32)).shape == (0, 3)
    assert shuffle_rows(torch.zeros(2, 3), torch.zeros(0, dtype=torch.int32)).shape == (0, 3)


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1])
def test_an_index_outside_is_named(index: int) -> None:
    with pytest.raises(ValueError, match=rf"row_map\[1\] = {index} is outside \[0, 2\)"):
        shuffle_rows(torch.zeros(2, 3), torch.tensor([1, index, 7], dtype=torch.int32))


def test_maps_and_inputs_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError, match=r"row_map must be an int32 or int64 tensor, got torch.uint8"):
        shuffle_rows(torch.zeros(2, 3), torch.zeros(1, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"row_map must be a vector, got \(1, 1\)"):
        shuffle_rows(torch.zeros(2, 3), torch.zeros(1, 1, dtype=torch.int32))
    with pytest.raises(ValueError, match=r"input must be \(rows, columns\), got \(2,\)"):
        shuffle_rows(torch.zeros(2), torch.zeros(1, dtype=torch.int32))


# --- unpermute_rows ---------------------------------------------------------------------------------------------------


def walked(input: Tensor, permutation: list[int], weights: Tensor, routed_rows: int) -> np.ndarray:
    """The sums in float32, one numpy scalar operation at a time."""
    rows = input.to(torch.float32).numpy()
    tokens, topk = weights.shape
    sums = np.zeros((tokens, rows.shape[1]), dtype=np.float32)
    for token in range(tokens):
        for column in range(rows.shape[1]):
            total = np.float32(0)
            for slot in range(topk):
                row = permutation[token * topk + slot]
                if row < routed_rows:
                    product = np.float32(weights[token, slot].item()) * rows[row, column]
                    total = np.float32(total + product)
            sums[token, column] = total
    return sums


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("out_dtype", [None, torch.float32])
def test_sums_run_in_slot_order_in_float32(dtype: torch.dtype, out_dtype: torch.dtype | None) -> None:
    ids = (torch.arange(20) * 7 % 6 - 1).view(5, 4)  # ids -1 to 4, repeats included
    routing = route(ids, 5, n=8, k=16)
    rows = patterned(20, 33, dtype)
    rows[routing.routed_rows :] = torch.nan  # never written, so never to be read
    weights = patterned(5, 4, torch.float32) / 128
    result = unpermute_rows(
        rows, routing.output_permutation, weights, routed_rows=routing.routed_rows, dtype=out_dtype
    )
    true = torch.from_numpy(walked(rows, routing.output_permutation.tolist(), weights, routing.routed_rows))
    assert result.dtype == (out_dtype or dtype)
    assert torch.equal(result.view(torch.uint8), true.to(result.dtype).view(torch.uint8))


def test_the_order_of_the_slots_and_one_rounding_show() -> None:
    """2^24 + 1 + 1 keeps neither 1 in float32; 1 + 1 + 2^24 keeps both. In bfloat16 no intermediate is rounded."""
    rows = torch.tensor([[2.0**24], [1.0], [1.0]])
    weights = torch.ones(1, 3)
    for permutation, total in (([0, 1, 2], 2.0**24), ([1, 2, 0], 2.0**24 + 2)):
        result = unpermute_rows(rows, torch.tensor(permutation), weights, routed_rows=3)
        assert result.tolist() == [[total]]
    halves = torch.tensor(
        [[256.0], [1.0], [1.0]], dtype=torch.bfloat16
    )  # 257 is a tie in bfloat16, 258 is not
    assert unpermute_rows(halves, torch.tensor([0, 1, 2]), weights, routed_rows=3).tolist() == [[258.0]]


def test_the_product_is_rounded_before_it_is_added() -> None:
    """(1 + 2^-12)^2 - (1 + 2^-11) is 2^-24; with the product rounded first it is 0, fused it would be 2^-24."""
    near_one = 1 + 2.0**-12
    rows = torch.tensor([[-(1 + 2.0**-11)], [near_one]])
    result = unpermute_rows(rows, torch.tensor([0, 1]), torch.tensor([[1.0, near_one]]), routed_rows=2)
    assert result.tolist() == [[0.0]]


def test_skipped_slots_do_not_count_whatever_their_weight() -> None:
    rows = torch.tensor([[3.0], [torch.nan]])
    weights = torch.tensor([[2.0, torch.inf], [torch.nan, torch.nan]])
    result = unpermute_rows(rows, torch.tensor([0, 1, 1, 1]), weights, routed_rows=1)
    assert result.tolist() == [[6.0], [0.0]]


def test_no_tokens() -> None:
    result = unpermute_rows(
        torch.zeros(0, 4), torch.zeros(0, dtype=torch.int32), torch.zeros(0, 2), routed_rows=0
    )
    assert result.shape == (0, 4)


ROWS, MAP, WEIGHTS = torch.zeros(2, 3), torch.tensor([0, 1], dtype=torch.int32), torch.zeros(1, 2)


@pytest.mark.parametrize(
    ("arguments", "routed_rows", "error", "message"),
    [
        (
            (ROWS.double(), MAP, WEIGHTS),
            2,
            TypeError,
            "input must be torch.bfloat16 or torch.float16 or torch.float32",
        ),
        ((ROWS, MAP, WEIGHTS.half()), 2, TypeError, "topk_weights must be float32, got torch.float16"),
        ((ROWS, MAP.float(), WEIGHTS), 2, TypeError, "output_permutation must be an int32 or int64"),
        ((ROWS[0], MAP, WEIGHTS), 2, ValueError, r"got \(3,\) and \(1, 2\)"),
        ((ROWS, MAP, WEIGHTS[0]), 2, ValueError, r"got \(2, 3\) and \(2,\)"),
        ((ROWS, MAP, WEIGHTS), 3, ValueError, r"routed_rows must be in \[0, 2\], got 3"),
        ((ROWS, MAP, WEIGHTS), -1, ValueError, r"routed_rows must be in \[0, 2\], got -1"),
        ((ROWS, MAP, torch.zeros(1, 3)), 2, ValueError, "tokens x topk = 3 entries, got 2"),
        ((ROWS, MAP + 2, WEIGHTS), 2, ValueError, r"output_permutation\[1\] = 3 is outside \[0, 3\)"),
        ((ROWS, MAP - 1, WEIGHTS), 2, ValueError, r"output_permutation\[0\] = -1 is outside"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[Tensor, Tensor, Tensor], routed_rows: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        unpermute_rows(*arguments, routed_rows=routed_rows)


def test_a_result_of_another_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match="the result must be"):
        unpermute_rows(ROWS, MAP, WEIGHTS, routed_rows=2, dtype=torch.int32)


@pytest.mark.gpu
def test_the_gpu_gives_the_same_bytes() -> None:
    ids = (torch.arange(400) * 7 % 6 - 1).view(100, 4)
    routing = route(ids, 5, n=8, k=16)
    rows, weights = patterned(400, 48, torch.bfloat16), patterned(100, 4, torch.float32) / 128
    permutation = routing.output_permutation
    on_gpu = unpermute_rows(rows.cuda(), permutation.cuda(), weights.cuda(), routed_rows=routing.routed_rows)
    assert torch.equal(
        on_gpu.cpu(), unpermute_rows(rows, permutation, weights, routed_rows=routing.routed_rows)
    )
    shuffled = shuffle_rows(rows.cuda(), routing.input_permutation.cuda())
    assert torch.equal(shuffled.cpu(), shuffle_rows(rows, routing.input_permutation))
