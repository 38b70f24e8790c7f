"""The report of a trace as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification.trace_check import check_trace
from nvfp4_moe.verification.trace_model import TraceMeta
from nvfp4_moe.verification.trace_report import (
    FORMULA_COLUMNS,
    FormulaUse,
    Group,
    Place,
    TraceReport,
    Use,
    formula_table,
    report_lines,
    summary_lines,
)
from nvfp4_moe.verification.traces import open_trace

EXAMPLES = Path(__file__).parents[2] / "examples" / "router_traces"
SAMPLE = EXAMPLES / "qwen1.5-moe-a2.7b.layer12.sample.jsonl.gz"
PLACE = Place(layer=3, index=7, first_token=100, tokens=5)


def report_of(**changes: object) -> TraceReport:
    meta = TraceMeta(path=Path("t.npz"), form="npz", num_experts=8, topk=2)
    report = TraceReport(
        meta=meta, tile=128, expert_parallel_size=1, rebatched=False, max_num_batched_tokens=5
    )
    for name, value in changes.items():
        setattr(report, name, value)
    return report


def use(**changes: object) -> FormulaUse:
    highest = Use(needed=96, rows=128, place=PLACE)
    found = FormulaUse(
        name="proposed",
        judged=9,
        repeated=0,
        refused=0,
        overruns=0,
        own=highest,
        fixed=replace(highest, rows=1280),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_json_form_is_json_and_keeps_real_and_profiling_apart() -> None:
    report, _ = check_trace(open_trace(SAMPLE))
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert document["file"] == str(SAMPLE)
    assert (document["real"]["passes"], document["profiling"]["passes"]) == (23, 1)
    assert set(document["real"]["formulas"]) == set(document["profiling"]["formulas"]) == set(FORMULAS)
    own = document["real"]["formulas"]["proposed"]["own"]
    assert own["needed"] <= own["rows"]
    assert (
        document["real"]["padding_rows"] == document["real"]["padded_rows"] - document["real"]["routed_rows"]
    )


def test_lines_of_the_sample() -> None:
    report, _ = check_trace(open_trace(SAMPLE))
    lines = report_lines(report)
    assert lines[0] == f"{SAMPLE}: Qwen/Qwen1.5-MoE-A2.7B-Chat, 60 experts, topk 4, layer 12"
    assert lines[1] == "passes as recorded, the largest of 1,406 tokens"
    assert lines[2].startswith(
        "real passes: 23 with 1,996 tokens, 7,984 routed rows, 106,960 padding rows (93.1%"
    )
    assert lines[3].startswith("profiling passes (every token takes the same experts): 1 with 256 tokens")
    assert lines[4] == "ids are distinct inside every token"
    assert lines[-len(FORMULAS) :] == [line for line in lines if line.split()[0] in FORMULAS]
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rebatched": True}, "re-batched to max_num_batched_tokens 5"),
        ({"expert_parallel_size": 4}, "each on 4 expert-parallel ranks"),
        ({"layers": [0, 5]}, "layers 0, 5"),
        ({"layers": list(range(40))}, "40 layers from 0 to 39"),
        ({"layers": []}, "no layer"),
        ({"irregular": 3}, "3 passes skip token numbers"),
        (
            {"repeated_tokens": 1200, "first_repeat": PLACE},
            "1,200 tokens name an expert twice, first in layer 3, pass 7",
        ),
        ({"broken": {"routing.counts": 2}}, "BROKEN in 2 passes: routing.counts"),
        ({"stopped": True}, "stopped before the end of the trace"),
        ({"real": Group(passes=1, tokens=1, routed_rows=1, padded_rows=128, dropped=1)}, ", 1 ids -1"),
    ],
)
def test_summary_says_what_is_special(changes: dict[str, object], text: str) -> None:
    assert any(text in line for line in summary_lines(report_of(**changes)))
    assert not any(text in line for line in summary_lines(report_of(layers=[1])))


def test_a_trace_without_boundaries_says_how_it_was_cut() -> None:
    meta = TraceMeta(path=Path("t.npy"), form="npy", num_experts=8, topk=2, has_passes=False)
    report = report_of(meta=meta, max_num_batched_tokens=8192)
    assert "no pass boundaries recorded: cut into passes of 8,192 tokens" in summary_lines(report)


def test_table_has_a_row_for_every_formula() -> None:
    left_out = use(own=None, fixed=None, judged=0, repeated=7, refused=2)
    rows = formula_table(Group(passes=9, formulas=[use(), left_out]))
    assert rows == [
        ("proposed", "128", "75.00%", "1,280", "7.50%", ""),
        ("proposed", "-", "-", "-", "-", "7 ids repeat, 2 refused by its guard"),
    ]
    assert {len(row) for row in rows} == {len(FORMULA_COLUMNS)}


def test_a_formula_that_gives_nothing_is_used_beyond_measure() -> None:
    assert Use(needed=1, rows=0, place=PLACE).share == float("inf")
    json.dumps(Use(needed=1, rows=0, place=PLACE).to_json(), allow_nan=False)


def test_an_empty_group_divides_by_nothing() -> None:
    assert Group().padding_share == 0.0
    assert report_lines(report_of())[2] == "real passes: none"
