"""The oracle's layouts and routing against published formulas and cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nvfp4_moe.verification import oracle_layout, oracle_routing


@pytest.mark.parametrize("rows", [1, 31, 33, 128, 130, 300])
@pytest.mark.parametrize("blocks", [1, 3, 4, 5, 9])
def test_positions_are_the_published_formulas(rows: int, blocks: int) -> None:
    tiles = -(-blocks // 4)
    row, block = np.arange(rows)[:, None], np.arange(blocks)[None, :]
    big = ((row // 128) * tiles + block // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + block % 4
    small = ((row // 8) * tiles + block // 4) * 32 + row % 8 * 4 + block % 4
    where, size = oracle_layout.scale_positions(rows, blocks, layout="swizzled_128x4")
    assert np.array_equal(where, big)
    assert size == -(-rows // 128) * 128 * tiles * 4
    where, size = oracle_layout.scale_positions(rows, blocks, layout="swizzled_8x4")
    assert np.array_equal(where, small)
    assert size == -(-rows // 8) * 8 * tiles * 4


def test_first_tile_by_hand() -> None:
    where, size = oracle_layout.scale_positions(128, 4, layout="swizzled_128x4")
    assert where[0].tolist() == [0, 1, 2, 3]
    assert where[1, 0] == 16
    assert where[32, 0] == 4
    assert where[96, 3] == 15
    assert size == 512


def test_no_rows_need_no_bytes() -> None:
    where, size = oracle_layout.scale_positions(0, 4, layout="swizzled_128x4")
    assert where.shape == (0, 4)
    assert size == 0


def test_ragged_buffer() -> None:
    linear = np.arange(1, 7, dtype=np.uint8).reshape(3, 2)  # 3 rows, K = 32
    starts = oracle_layout.packed_starts([1, 0, 2], tile=128)
    assert starts == [0, 128, 128, 256]
    buffer = oracle_layout.place_scales(
        linear, [1, 0, 2], starts[:-1], layout="swizzled_128x4", scale_rows=starts[-1]
    )
    assert {int(i): int(buffer[i]) for i in np.flatnonzero(buffer)} == {
        0: 1,
        1: 2,
        512: 3,
        513: 4,
        528: 5,
        529: 6,
    }


def test_whole_tiles() -> None:
    assert [oracle_layout.whole_tiles(n, 128) for n in (0, 1, 127, 128, 129)] == [0, 1, 1, 1, 2]


def test_routing_by_hand() -> None:
    routed = oracle_routing.route([[2, 0], [2, -1], [0, 2], [-1, 2]], 4, n=48, k=32, tile=4)
    assert routed.tokens_per_expert == [2, 0, 4, 0]
    assert routed.expert_offsets == [0, 2, 2, 6, 6]
    assert routed.blockscale_offsets == [0, 4, 4, 8, 8]
    assert routed.input_permutation == [0, 2, 0, 1, 2, 3, 0, 0]
    assert routed.output_permutation == [2, 0, 3, 6, 1, 4, 6, 5]
    assert routed.problem_sizes1 == [[2, 96, 32], [0, 96, 32], [4, 96, 32], [0, 96, 32]]
    assert routed.problem_sizes2 == [[2, 32, 48], [0, 32, 48], [4, 32, 48], [0, 32, 48]]


def test_routing_duplicates_and_plain_gemm() -> None:
    routed = oracle_routing.route([[1, 1]], 2, n=48, k=32, is_gated=False)
    assert routed.tokens_per_expert == [0, 2]
    assert routed.input_permutation == [0, 0]
    assert routed.output_permutation == [0, 1]
    assert routed.problem_sizes1[1] == [2, 48, 32]
