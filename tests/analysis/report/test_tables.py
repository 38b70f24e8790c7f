"""Serving set-ups and engines as tables: the verdicts of capacity, in words."""

from __future__ import annotations

import pytest

from nvfp4_moe.analysis.report import Report
from nvfp4_moe.analysis.report.tables import engines_table, saved_in_words, served, serving_table
from nvfp4_moe.analysis.savings import savings
from nvfp4_moe.analysis.zoo import ZOO


def cells(model: str, tokens: int) -> dict[str, dict[str, str]]:
    """Return the cells of the serving table by set-up and column."""
    table = serving_table(served(ZOO[model], max_num_batched_tokens=tokens), max_num_batched_tokens=tokens)
    return {row[0]: dict(zip(table.columns[1:], row[1:], strict=True)) for row in table.rows}


def test_data_parallelism_without_expert_parallelism_breaks_the_proposed_formula() -> None:
    """8 ranks x 8,192 tokens are gathered: 65,536 reach a guard of 8,192."""
    found = cells("DeepSeek-R1", 8192)
    assert found["one GPU"]["proposed"] == found["--tensor-parallel-size 8"]["proposed"] == "safe"
    assert found["--data-parallel-size 8"] == {
        "most tokens": "65,536",
        "rows needed": f"{65_536 * 8 + 127 * 256:,}",
        "proposed": "NO: guard fires from 8,193 tokens",
        "vllm_env": "safe",
        "loose": "safe",
        "exact_any": "safe",
    }
    assert found["--data-parallel-size 8 --enable-expert-parallel"]["proposed"] == "not applicable"


def test_an_overrun_of_the_variable_is_said() -> None:
    """163,840 rows: 147,584 tokens and 127 * 128 rows of padding fill them, one token more opens another tile."""
    found = cells("Llama-4-Maverick", 160_000)["one GPU"]
    assert found["proposed"] == "safe"
    assert found["vllm_env"].startswith("NO: OVERRUN from ")
    tokens = int(found["vllm_env"].split()[-2].replace(",", ""))
    assert tokens == 163_840 - 127 * 128 + 128  # the next whole tile of rows, as `bound` finds it


def test_what_engines_refuse_is_refused_with_its_reason() -> None:
    """1,408 columns over 8 ranks are 176, eleven blocks; 2,880 over 8 are 360, no multiple of 16."""
    lines = served(ZOO["gpt-oss-20b"], max_num_batched_tokens=64)
    refused = {line.setup: line for line in lines if line.answer is None}
    assert "--tensor-parallel-size 8" in refused
    assert "360" in refused["--tensor-parallel-size 8"].reason
    table = serving_table(lines, max_num_batched_tokens=64)
    row = next(row for row in table.rows if row[0] == "--tensor-parallel-size 8")
    assert row[3:] == ("refused",) * 4
    assert any("360" in note for note in table.notes)


@pytest.mark.parametrize("tokens", [1, 8192, 163_840])
def test_a_loss_is_no_saving(tokens: int) -> None:
    found = savings([ZOO["DeepSeek-R1"]], max_num_batched_tokens=[tokens])
    line = next(x for x in found.lines if x.formula.name == "proposed")
    said = saved_in_words(found, "DeepSeek-R1")
    assert f"{line.rows:,} rows" in said
    assert ("MiB more on every GPU" in said) is (line.saved_bytes < 0)
    assert (tokens == 163_840) is (line.saved_bytes < 0)


def test_engines(report: Report) -> None:
    table = engines_table(report.engines)
    verdicts = {row[0]: row[2] for row in table.rows}
    assert {name for name, verdict in verdicts.items() if verdict == "UNSAFE"} == {"vllm_env", "sglang"}
    assert {row[3] for row in table.rows} == {"SKIPPED"}
    assert [note.split(":")[0] for note in table.notes[-2:]] == ["vllm_env", "sglang"]
    assert all(line.domain in [row[8] for row in table.rows] for line in report.engines)
