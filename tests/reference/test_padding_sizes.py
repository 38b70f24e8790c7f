"""The registry of sizing formulas: names, capped formulas, figures of real models, and sizes at the door."""

from __future__ import annotations

import pytest

from nvfp4_moe.reference.padding import (
    FORMULAS,
    PLACEMENTS,
    SIZED_FOR,
    Sizing,
    exact_any_rows,
    local_experts,
)

CAPPED = {"vllm_env": 163_840, "sglang": 65_536}


@pytest.mark.parametrize(("name", "tokens"), [("vllm_env", 147_712), ("sglang", 49_408)])
def test_capped_formulas_are_overrun_near_their_guard(name: str, tokens: int) -> None:
    """Top-1, 128 experts: the first batch that its own guard lets through and whose worst routing does not fit."""
    formula = FORMULAS[name]

    def overrun(batch: int) -> bool:
        sizing = Sizing(tokens=batch, topk=1, num_experts=128, num_global_experts=128)
        assert batch <= formula.guard_routed_rows(sizing)
        return exact_any_rows(batch, 128) > formula.rows(sizing)

    assert overrun(tokens)
    assert not overrun(tokens - 1)


def test_capped_formulas_do_not_depend_on_the_batch() -> None:
    for name, cap in CAPPED.items():
        for tokens in (0, 1, 10**6):
            sizing = Sizing(tokens=tokens, topk=6, num_experts=64, num_global_experts=64)
            assert FORMULAS[name].rows(sizing) == FORMULAS[name].guard_routed_rows(sizing) == 6 * cap


def test_the_registry_has_the_names_that_commands_and_policies_use() -> None:
    assert list(FORMULAS) == [
        "proposed",
        "exact_any",
        "exact_distinct",
        "loose",
        "vllm_env",
        "sglang",
        "flashinfer_trtllm",
        "trtllm_cutedsl",
        "flashinfer_cutlass",
        "trtllm_old",
        "torchao",
        "quack",
    ]
    for name, formula in FORMULAS.items():
        assert formula.name == name
        assert formula.ids in ("any", "distinct")
        assert formula.placement in PLACEMENTS
        assert formula.sized_for in SIZED_FOR
        assert formula.rule
        assert formula.source
    assert {name for name, formula in FORMULAS.items() if formula.capped} == set(CAPPED)
    by_batch = [name for name, formula in FORMULAS.items() if formula.sized_for == "max_num_batched_tokens"]
    assert by_batch == ["proposed"]


# --- figures of real models ---------------------------------------------------------------------------------------------


def deepseek_r1(tokens: int) -> Sizing:
    return Sizing(tokens=tokens, topk=8, num_experts=256, num_global_experts=256)


@pytest.mark.parametrize(
    ("tokens", "name", "rows"),
    [
        (8192, "proposed", 98_048),
        (8192, "exact_any", 98_048),  # (65,536 - 256) is a multiple of 128
        (8192, "exact_distinct", 98_048),
        (8192, "loose", 98_048),
        (8192, "vllm_env", 1_310_720),
        (8192, "sglang", 524_288),
        (8192, "torchao", 98_304),
        (1, "proposed", 32_520),
        (1, "exact_any", 1_024),
        (1, "loose", 1_024),
        (0, "exact_any", 0),
        (0, "proposed", 32_512),
    ],
)
def test_figures_for_deepseek_r1(tokens: int, name: str, rows: int) -> None:
    assert FORMULAS[name].rows(deepseek_r1(tokens)) == rows


def test_one_routed_row_needs_one_tile_where_the_proposed_formula_holds_254() -> None:
    sizing = Sizing(tokens=1, topk=1, num_experts=256, num_global_experts=256)
    assert FORMULAS["proposed"].rows(sizing) == 32_513
    assert FORMULAS["exact_any"].rows(sizing) == 128


def test_expert_parallel_figures() -> None:
    """32 of 256 experts on a rank: 8 of a token's 8 ids may all be local, so only E shrinks."""
    sizing = Sizing(tokens=8192, topk=8, num_experts=32, num_global_experts=256)
    assert FORMULAS["exact_distinct"].rows(sizing) == 69_504
    assert FORMULAS["trtllm_cutedsl"].rows(sizing) == FORMULAS["exact_any"].rows(sizing)
    assert FORMULAS["flashinfer_trtllm"].rows(sizing) == 98_048


# --- sizes at the door --------------------------------------------------------------------------------------------------


LEGAL = {"tokens": 4, "topk": 2, "num_experts": 3, "num_global_experts": 3, "tile": 128}


@pytest.mark.parametrize("name", LEGAL)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1, ValueError),
        (10**18 + 1, ValueError),
        (10**30, ValueError),
        (2.0, TypeError),
        ("8", TypeError),
        (True, TypeError),
    ],
)
def test_sizes_out_of_range_or_of_another_type_are_refused_by_name(
    name: str, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=rf"^{name} must be .*{value}"):
        Sizing(**{**LEGAL, name: value})  # type: ignore[arg-type]


def test_the_smallest_and_largest_legal_sizes() -> None:
    assert Sizing(**{**LEGAL, "tokens": 0}).routed_rows == 0
    for name in ("topk", "num_experts", "num_global_experts", "tile"):
        with pytest.raises(ValueError, match=f"{name} must be between 1 and 10"):
            Sizing(**{**LEGAL, name: 0})
    largest = 10**18
    sizing = Sizing(
        tokens=largest, topk=largest, num_experts=largest, num_global_experts=largest, tile=largest
    )
    assert FORMULAS["proposed"].rows(sizing) == largest**2 + (largest - 1) * largest


def test_fewer_global_than_local_experts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"num_global_experts \(2\) is below the local num_experts \(3\)"):
        Sizing(**{**LEGAL, "num_global_experts": 2})


@pytest.mark.parametrize(("experts", "size", "local"), [(8, 1, 8), (8, 8, 1), (7, 2, 4), (257, 8, 33)])
def test_the_fullest_rank(experts: int, size: int, local: int) -> None:
    assert local_experts(experts, size) == local


@pytest.mark.parametrize(("experts", "size"), [(4, 5), (0, 1), (4, 0)])
def test_ranks_without_experts_are_refused(experts: int, size: int) -> None:
    with pytest.raises(ValueError, match="expert"):
        local_experts(experts, size)
