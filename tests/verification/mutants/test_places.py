"""Places in the buffers of a call: what is left unwritten and what lies outside is exactly what was named."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.mutants.places import (
    LAYOUT,
    blocks_of,
    last_with_rows,
    memory_around,
    padding_rows,
    read_outside,
    rows_unwritten,
    scale_index,
    scales_unwritten,
    write_outside,
)
from nvfp4_moe.verification.mutants.wrap import MASKED, QUANT, Factory, MaskedCall, QuantCall

K, COUNTS, STARTS = 80, (130, 0, 3), (0, 256, 256, 384)
STALE = 0x5A


def call() -> QuantCall:
    """Return a call for three experts, of which the second has no rows, outputs stale."""
    rows = sum(COUNTS)
    return QuantCall(
        output=torch.full((rows, K // 2), STALE, dtype=torch.uint8),
        output_scale=torch.full((STARTS[-1], 8), STALE, dtype=torch.uint8).view(torch.int32),
        input=torch.ones(rows, K, dtype=torch.bfloat16),
        input_global_scale=torch.ones(len(COUNTS)),
        expert_offsets=torch.tensor([0, 130, 130, 133], dtype=torch.int32),
        blockscale_offsets=torch.tensor(STARTS, dtype=torch.int32),
    )


def test_a_scale_lies_where_the_layout_puts_it() -> None:
    linear = torch.arange(1, 1 + 3 * K // 16, dtype=torch.uint8).view(3, K // 16)
    of_expert = to_layout(linear, LAYOUT).reshape(-1)
    first_byte = STARTS[2] * 8
    for row in range(3):
        for column in range(K // 16):
            at = scale_index(call(), 2, row, column) - first_byte
            assert of_expert[at] == linear[row, column]


def test_slabs_of_the_masked_form_follow_each_other() -> None:
    masked = MaskedCall(
        output=torch.zeros(2, 5, 8, dtype=torch.uint8),
        output_scale=torch.zeros(2, 128, 1, dtype=torch.int32),
        input=torch.ones(2, 5, 16, dtype=torch.bfloat16),
        input_global_scale=torch.ones(2),
        masked_m=torch.tensor([0, 5], dtype=torch.int32),
    )
    assert scale_index(masked, 1, 0, 0) == 128 * 4
    assert padding_rows(masked, 0) == range(0)
    assert padding_rows(masked, 1) == range(5, 128)


def test_what_a_call_has() -> None:
    assert blocks_of(call()) == 5
    assert last_with_rows(call()) == 2
    assert padding_rows(call(), 0) == range(130, 256)


def run(factory: Factory, given: QuantCall) -> None:
    factory(reference_subject()).operations[QUANT](*given.values())


def test_scales_are_left_at_those_places_alone() -> None:
    given, true = call(), call()
    places = [scale_index(given, 0, 200, 7), scale_index(given, 2, 1, 4)]
    run(scales_unwritten(QUANT, lambda _: places), given)
    run(scales_unwritten(QUANT, lambda _: []), true)
    differing = (given.scales.view(-1) != true.scales.view(-1)).nonzero().view(-1).tolist()
    assert differing == sorted(places)
    assert set(given.scales.view(-1)[places].tolist()) == {STALE}
    assert torch.equal(given.output, true.output)


def test_rows_are_left_at_those_numbers_alone() -> None:
    given, true = call(), call()
    run(rows_unwritten(QUANT, lambda _: [131]), given)
    run(rows_unwritten(QUANT, lambda _: []), true)
    assert (given.output != true.output).any(-1).nonzero().view(-1).tolist() == [131]
    assert set(given.output[131].tolist()) == {STALE}


def test_the_operation_must_be_of_its_kind() -> None:
    with pytest.raises(KeyError):
        scales_unwritten("shuffle_rows", lambda _: [])
    assert callable(scales_unwritten(MASKED, lambda _: []))


def test_bytes_around_a_tensor() -> None:
    whole = torch.zeros(32, dtype=torch.uint8)
    part = whole[8:16].view(torch.int32)
    assert memory_around(part)[1] == 8
    write_outside(part, 8, 7)
    write_outside(part, -1, 9)
    write_outside(part, 24, 1)  # behind the memory: nothing is there
    write_outside(part, -9, 1)
    assert {i: int(v) for i, v in enumerate(whole) if v} == {7: 9, 16: 7}
    read_outside(part, 8, 16)  # inside the memory: nothing is seen of it
