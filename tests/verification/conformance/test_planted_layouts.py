"""Planted faults of where things go: slabs of the masked form, scale layouts, the token of a routed row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.cases import RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject

MASKED, SWIZZLE, ROUTING = "scaled_fp4_masked_quant", "swizzle", "get_cutlass_moe_mm_data"
Operation = Callable[..., Any]
Find = Callable[..., dict[str, str]]


def count_of_the_expert_before(right: Operation) -> Operation:
    """Take masked_m one expert late."""

    def quantize(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, masked_m: Tensor) -> None:
        right(output, scales, input, g, masked_m.roll(1))

    return quantize


def scale_of_the_expert_before(right: Operation) -> Operation:
    def quantize(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, masked_m: Tensor) -> None:
        right(output, scales, input, g.roll(1), masked_m)

    return quantize


def slabs_without_padding(right: Operation) -> Operation:
    """Place the scales of expert e behind e * M rows, not e * round_up(M, 128)."""

    def quantize(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, masked_m: Tensor) -> None:
        right(output, scales, input, g, masked_m)
        experts, rows = input.shape[:2]
        placed, flat = scales.clone(), scales.view(-1, scales.shape[-1])
        for expert in range(1, experts):
            own = placed[expert, : -(-int(masked_m[expert]) // 128) * 128]
            flat[expert * rows : expert * rows + len(own)] = own[: len(flat) - expert * rows]

    return quantize


def one_row_more(right: Operation) -> Operation:
    """Quantize row masked_m[e] too."""

    def quantize(output: Tensor, scales: Tensor, input: Tensor, g: Tensor, masked_m: Tensor) -> None:
        more = torch.clamp(masked_m + (masked_m > 0), max=input.shape[1])
        right(output, scales, input, g, more.to(torch.int32))

    return quantize


@pytest.mark.parametrize(
    "wrap", [count_of_the_expert_before, scale_of_the_expert_before, slabs_without_padding, one_row_more]
)
def test_masked_quantizers(wrap: Callable[[Operation], Operation], planted: Any, first_broken: Find) -> None:
    assert first_broken(planted(MASKED, wrap))


def swapped_in_tile(right: Operation) -> Operation:
    """Rows r and r + 32 of a tile side by side the wrong way round: (4, 32) read as (32, 4)."""

    def swizzle(linear: Tensor) -> Tensor:
        out = right(linear)
        tiles = out.view(-1, 32, 4, 4).transpose(1, 2).reshape(-1, 32, 4, 4)
        return tiles.reshape(out.shape)  # type: ignore[no-any-return]

    return swizzle


def column_tiles_first(right: Operation) -> Operation:
    """Column tiles outside, row tiles inside: the same for one tile of either."""

    def swizzle(linear: Tensor) -> Tensor:
        out = right(linear)
        words = out.shape[1] // 4
        return out.view(-1, words, 512).transpose(0, 1).reshape(out.shape)  # type: ignore[no-any-return]

    return swizzle


def eight_rows(right: Operation) -> Operation:
    """The 8x4 layout, of the size of the other."""

    def swizzle(linear: Tensor) -> Tensor:
        padded = torch.zeros_like(right(linear))
        padded[: len(linear), : linear.shape[1]] = linear
        rows, columns = padded.shape
        return padded.view(rows // 8, 8, columns // 4, 4).transpose(1, 2).reshape(rows, columns)

    return swizzle


def padding_of_ones(right: Operation) -> Operation:
    def swizzle(linear: Tensor) -> Tensor:
        inside = right(torch.ones_like(linear))
        return torch.where(inside == 0, 1, right(linear)).to(torch.uint8)

    return swizzle


@pytest.mark.parametrize("wrap", [swapped_in_tile, column_tiles_first, eight_rows, padding_of_ones])
def test_scale_layouts(wrap: Callable[[Operation], Operation], planted: Any, first_broken: Find) -> None:
    assert first_broken(planted(SWIZZLE, wrap)) == {"golden": "bytes"}


def tokens_in_a_cycle(ids: Tensor, rows: Tensor, slots: Tensor) -> None:
    """The token of slot s is s mod M, as if the ids lay (topk, M): right for topk 1."""
    placed = slots < len(slots)
    rows[slots[placed].long()] = (torch.arange(len(slots), dtype=torch.int32) % len(ids))[placed]


def tokens_over_the_wrong_topk(ids: Tensor, rows: Tensor, slots: Tensor) -> None:
    """The token of slot s is s over the next power of two: right for powers of two."""
    power = 1 << (ids.shape[1] - 1).bit_length()
    placed = slots < len(slots)
    rows[slots[placed].long()] = (torch.arange(len(slots), dtype=torch.int32) // power)[placed]


@pytest.mark.parametrize("change", [tokens_in_a_cycle, tokens_over_the_wrong_topk])
@pytest.mark.parametrize("row_order", ["stable", "any"])
def test_the_token_of_a_routed_row(
    change: Callable[[Tensor, Tensor, Tensor], None], row_order: Any, planted: Any, first_broken: Find
) -> None:
    def wrap(right: Operation) -> Operation:
        def route(ids: Tensor, *outputs: Any) -> None:
            right(ids, *outputs)
            offsets, rows, slots = outputs[0], outputs[3], outputs[4]
            routed = slots.masked_fill(slots >= int(offsets[-1]), len(slots))
            change(ids, rows, routed)

        return route

    subject: Subject = planted(ROUTING, wrap, Contract(row_order=row_order))
    assert first_broken(subject, lambda case: isinstance(case, RoutingCase)) == {"golden": "bytes"}
