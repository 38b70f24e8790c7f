"""Variants are weak: on what usual tests look at - aligned, one expert, random - they give the right bytes.

So it is the cases that refute them, not the size of the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nvfp4_moe.verification.conformance.plan import Plan, aspect_of, elements_of
from nvfp4_moe.verification.conformance.worker import answer, arena_for
from nvfp4_moe.verification.mutants.catalogue import entry_of
from nvfp4_moe.verification.mutants.judge import subject_of

CASES_EACH = 4

USUAL: dict[str, Callable[[Any], bool]] = {
    "sf_layout.start_unpadded": lambda case: case.k % 64 == 0,
    "sf_layout.tile_unpadded": lambda case: max(case.tokens_per_expert) <= 128,
    "sf_layout.swizzled_as_one": lambda case: len(case.tokens_per_expert) == 1,
    "sf_layout.few_rows_in_8x4": lambda case: min(case.tokens_per_expert) > 8,
    "sf_layout.one_row_not_swizzled": lambda case: case.k <= 64,
    "sf_layout.weights_start_unpadded": lambda case: case.n % 128 == 0 and case.k % 64 == 0,
    "sf_layout.rows_start_unpadded": lambda case: case.k % 64 == 0,
    "zero_token.first_of_equal_offsets": lambda case: 0 not in case.tokens_per_expert,
    "zero_token.behind_a_long_run": lambda case: len(case.tokens_per_expert) <= 32,
    "scale_wiring.rank_among_filled": lambda case: 0 not in case.tokens_per_expert,
    "scale_wiring.multiplier_without_scale": lambda case: case.global_scales == "one",
    "scale_wiring.whole_vectors": lambda case: len(case.tokens_per_expert) <= 4,
    "code_table.negative_zero_lost": lambda case: (
        (case.values, case.global_scales) == ("windowed", "distinct")
    ),
    "code_table.sign_of_nan": lambda case: case.values == "windowed",
    "recipe.tie_away_at_5": lambda case: case.values == "windowed" and case.global_scales == "distinct",
    "recipe.quotient": lambda case: case.values == "windowed" and case.global_scales == "distinct",
    "recipe.scale_ties_up": lambda case: case.values == "windowed" and case.global_scales == "distinct",
    "pack_order.last_byte_high_first": lambda case: case.k % 32 == 0,
    "pack_order.float16_high_first": lambda case: case.dtype == "bf16",
    "dtype.id_in_a_byte": lambda case: case.num_experts <= 256,
    "dtype.low_words": lambda case: case.id_dtype == "int32",
    "dtype.unsigned_id": lambda case: "negative" not in case.ids,
    "perm_collision.rank_of_chunk": lambda case: case.tokens * case.topk <= 1024,
    "perm_collision.behind_a_tile": lambda case: case.tokens * case.topk <= 128,
    "perm_collision.any_match": lambda case: case.topk == 1,
    "stride.slice_of_columns": lambda case: case.row_gap == 0 and not case.view,
    "stride.gathered_slice": lambda case: case.row_gap == 0,
}
"""What a variant gets right: by id, cases that do not tell it from the right code."""


@pytest.mark.parametrize("name", USUAL)
def test_usual_cases_do_not_tell(name: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        subject = subject_of(entry_of(name), "cpu")
        cases = [case for case in Plan.of(subject, level=1, seed=0).cases if aspect_of(case) == "bytes"]
        usual = sorted((case for case in cases if elements_of(case) and USUAL[name](case)), key=elements_of)
        assert usual
        arena = arena_for("cpu")
        for case in usual[:: -(-len(usual) // CASES_EACH)]:
            told = answer(subject, case, arena)
            assert not told.get("faults"), (case, told)
            assert "raised" not in told
    finally:
        torch.set_num_threads(threads)
