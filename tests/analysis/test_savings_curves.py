"""Curves over tokens and the map of looseness: points, groups, known ratios."""

from __future__ import annotations

import itertools

import pytest

from nvfp4_moe.analysis.savings_curves import SAME, looseness_map, rows_by_tokens, token_axis
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import shard
from nvfp4_moe.reference.padding import FORMULAS


def test_token_axis() -> None:
    axis = token_axis()
    assert (axis[0], axis[-1]) == (1, 65_536)
    assert {1 << power for power in range(17)} <= set(axis)
    assert all(a < b for a, b in itertools.pairwise(axis))
    assert token_axis(100)[-1] == 100


def test_known_rows() -> None:
    curves = rows_by_tokens(shard(ZOO["DeepSeek-R1"]), tokens=[1, 8192])
    found = {name: curve.rows for curve in curves.curves for name in curve.names}
    assert found["proposed"] == (8 + 127 * 256, 98_048)
    assert curves.exact == found["exact_any"] == (1_024, 98_048)
    assert found["vllm_env"] == (1_310_720, 1_310_720)


@pytest.mark.parametrize("name", ["DeepSeek-R1", "Mixtral-8x7B", "Llama-4-Scout", "Qwen1.5-MoE-A2.7B"])
def test_every_formula_lies_within_its_group(name: str) -> None:
    """Each formula is in one group, and nowhere further from the group's rows than is stated."""
    part = shard(ZOO[name])
    curves = rows_by_tokens(part)
    assert sorted(name for curve in curves.curves for name in curve.names) == sorted(FORMULAS)
    for curve in curves.curves:
        apart = [
            abs(FORMULAS[name].rows(part.sizing(tokens)) / rows - 1)
            for name in curve.names
            for tokens, rows in zip(curves.tokens, curve.rows, strict=True)
        ]
        assert max(apart) <= curve.within <= SAME
        assert curve.within < max(apart) * (1 + SAME) + 1e-12


def test_looseness() -> None:
    found = looseness_map(8)
    assert (found.tokens[0], found.tokens[-1], found.experts[-1]) == (1, 65_536, 1024)
    ratio = {
        (e, m): found.ratio[i][j] for i, e in enumerate(found.experts) for j, m in enumerate(found.tokens)
    }
    assert ratio[256, 1] == (8 + 127 * 256) / 1024
    assert ratio[256, 8192] == 1
    assert ratio[1, 16] == (128 + 127) / 128
    assert min(ratio.values()) == 1
