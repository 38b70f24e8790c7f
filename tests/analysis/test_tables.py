"""Cells of the tables, CSV that reads back, Markdown that text from outside cannot break."""

from __future__ import annotations

import csv
import io

import pytest

from nvfp4_moe.analysis.savings import savings
from nvfp4_moe.analysis.savings_padding import family_padding
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
    assert (
        dict(zip(table.columns, table.rows[2], strict=True))["every routing fits"] == "yes, with distinct ids"
    )


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
        *["0.0%"] * 5,
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
