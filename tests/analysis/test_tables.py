"""Cells of the tables, CSV that reads back, Markdown that text from outside cannot break."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from pathlib import Path

import pytest

from nvfp4_moe.analysis.savings import savings
from nvfp4_moe.analysis.savings_padding import QUANTILES, family_padding, trace_padding
from nvfp4_moe.analysis.tables import (
    Table,
    formula_table,
    mebibytes,
    padding_table,
    summary_table,
    to_csv,
    to_markdown,
)
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import shard
from nvfp4_moe.verification.traces import open_trace

FOUND = savings(
    [ZOO["DeepSeek-R1"], ZOO["gpt-oss-20b"]], max_num_batched_tokens=[8192], tensor_parallel_size=8
)


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0.0"), (1 << 20, "1.0"), (1 << 30, "1,024.0"), (1 << 10, "0.001"), (-(3 << 19), "-1.5")],
)
def test_mebibytes(size: int, said: str) -> None:
    assert mebibytes(size) == said


def test_formula_table() -> None:
    table = formula_table(FOUND, "DeepSeek-R1", 8192)
    assert table.title == (
        "DeepSeek-R1 at 8,192 batched tokens: 256 experts, topk 8, hidden 7,168, intermediate 256 (on a rank, 2,048 in all)"
    )
    assert table.rows[0] == ("proposed", "98,048", "41.9", "1.5", "41.9", "518.1", "1.000", "yes")
    assert dict(zip(table.columns, table.rows[2], strict=True))["fits"] == "distinct"
    assert any(note.startswith("saved: peak of vllm_env less this one") for note in table.notes)


def test_summary_names_what_was_left_out() -> None:
    table = summary_table(FOUND)
    assert table.rows == (("DeepSeek-R1", "8,192", "98,048", "560.0", "224.0", "41.9", "41.9", "518.1"),)
    assert any(note.startswith("left out: gpt-oss-20b") for note in table.notes)


def test_padding_table() -> None:
    uses = family_padding(shard(ZOO["Mixtral-8x7B"]), max_num_batched_tokens=8, cases=4)
    rows = {row[0]: row for row in padding_table(uses).rows}
    assert rows["remainder_zero"][1:] == (
        "8",
        "2",
        "8 tokens",
        "4",
        *["0.0%"] * 3,
        rows["remainder_zero"][-1],
    )
    assert all(len(row) == len(padding_table(uses).columns) for row in rows.values())


def test_csv_reads_back() -> None:
    lines = [line.to_json() for line in FOUND.lines]
    text = to_csv([lines[0] | {"model": 'a,"b"\nc', "safe": None}, *lines[1:]])
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    assert read[0] == {key: str(value) for key, value in lines[0].items()} | {"model": 'a,"b"\nc', "safe": ""}
    assert [line["rows"] for line in read] == [str(line["rows"]) for line in lines]
    assert read[1]["safe"] == "true"


def test_csv_of_nothing_and_of_other_keys() -> None:
    with pytest.raises(ValueError, match="at least one line"):
        to_csv([])
    with pytest.raises(ValueError, match="not in fieldnames"):
        to_csv([{"a": 1}, {"b": 2}])


def test_markdown() -> None:
    table = Table(
        title="A | b",
        columns=("name", "rows"),
        rows=(("a|b<script>", "1"), ("two\nlines", "2")),
        notes=("*n*",),
    )
    assert to_markdown(table).splitlines() == [
        "**A \\| b**",
        "",
        "| name | rows |",
        "| --- | ---: |",
        "| a\\|b\\<script> | 1 |",
        "| two lines | 2 |",
        "",
        "\\*n\\*",
    ]


# --- the ledger ----------------------------------------------------------------------------------------------

LEDGER = (Path(__file__).resolve().parents[2] / "paper_notes.md").read_text(encoding="utf-8")


def ledger_rows(first_cells: Collection[str]) -> list[list[str]]:
    """Return the cells of the ledger's table rows that begin with one of the given cells."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in LEDGER.splitlines() if "|" in line
    ]
    return [row for row in rows if row[0] in first_cells]


def test_the_ledger_has_the_zoo_as_coded() -> None:
    found = savings(list(ZOO.values()), max_num_batched_tokens=[8192])
    wanted = []
    for model in ZOO.values():
        lines = {line.formula.name: line for line in found.of(model.name, 8192)}
        wanted.append(
            [
                model.name,
                f"{model.hidden_size:,}",
                f"{model.intermediate_size:,}",
                str(model.num_experts),
                str(model.topk),
                f"{lines['proposed'].rows:,}",
                mebibytes(lines["proposed"].peak_bytes),
                mebibytes(lines["vllm_env"].peak_bytes),
            ]
        )
    assert ledger_rows(ZOO) == wanted


def test_the_ledger_has_the_padding_of_the_recorded_traces() -> None:
    traces = Path(__file__).resolve().parents[2] / "examples" / "router_traces"
    wanted = []
    for layer in ("layer0", "layer12"):
        trace = open_trace(traces / f"qwen1.5-moe-a2.7b.{layer}.npz")
        for tokens in (None, 256):
            use = trace_padding(trace, name=layer, max_num_batched_tokens=tokens)
            shares = (use.shares[0], use.quantiles[QUANTILES.index(0.5)], use.shares[-1], use.typical_worst)
            wanted.append([layer, use.batching, str(len(use.shares)), *(f"{share:.1%}" for share in shares)])
    assert ledger_rows(("layer0", "layer12")) == wanted
