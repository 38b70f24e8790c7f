"""The smallest input in words, from a witness of each kind that refutes a variant."""

from __future__ import annotations

from typing import Any

import pytest

from nvfp4_moe.verification.conformance.cases import masked_cases, quant_cases, routing_cases
from nvfp4_moe.verification.conformance.laws_check import LawCase
from nvfp4_moe.verification.mutants.smallest import MOST_CHARACTERS, smallest_input

QUANT = next(quant_cases("scaled_fp4_experts_quant", level=1, seed=0)).to_json()
ROUTING = next(routing_cases(level=1, seed=0, id_dtypes=("int32",))).to_json()
MASKED = next(masked_cases("scaled_fp4_masked_quant", seed=0))


def subject(case: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"kind": "subject", "case": case, **rest}


@pytest.mark.parametrize(
    ("witness", "line"),
    [
        (None, ""),
        (
            subject(QUANT | {"unrouted_rows": 1, "offset": 4, "dtype": "f16"}),
            "rows [33, 1], k 80, f16, 1 unrouted rows, offset 4",
        ),
        (
            subject(ROUTING | {"tokens": 3, "topk": 2, "num_experts": 5, "ids": "cyclic"}),
            "tokens 3, topk 2, num_experts 5, ids cyclic, id_dtype int32",
        ),
        (subject(LawCase(law="rows", base=MASKED).to_json()), "law rows: rows [33, 1], k 80, bf16, 5 unrouted rows"),
        (subject({"kind": "refusal", "operation": "x", "wrong": "an id E"}), "wrong an id E"),
        (subject({"kind": "rows", "rows": 2, "columns": 3, "map": "random"}, before=[QUANT]),
         "rows 2, columns 3, after 1 earlier call"),
        (
            {"kind": "bound", "max_num_batched_tokens": 1, "topk": 2, "num_experts": 3, "tokens_per_expert": [2, 0, 0]},
            "max_num_batched_tokens 1, topk 2, num_experts 3, rows [2, 0, 0]",
        ),
        ({"kind": "index", "values": {"row": 1_000, "k": 16}}, "row 1,000, k 16"),
        ({"kind": "golden", "what": "code", "value": "0.25"}, "code, value 0.25"),
        ({"kind": "routing", "topk_ids": [[-1]], "num_experts": 3, "tile": 2}, "topk_ids [[-1]], num_experts 3, tile 2"),
        ({"kind": "other", "a": 1, "b": "x"}, "a 1, b x"),
    ],
)  # fmt: skip
def test_one_line(witness: dict[str, Any] | None, line: str) -> None:
    assert smallest_input(witness) == line


def test_long_witnesses_stay_short() -> None:
    counts = [1, 2, 3] * 40
    assert "120 experts, 120 with rows, 240 rows" in smallest_input(
        subject(QUANT | {"tokens_per_expert": counts})
    )
    assert len(smallest_input({"kind": "other", "a": "x" * 500})) == MOST_CHARACTERS + len("...")
