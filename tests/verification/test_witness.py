"""Counterexamples on disk: atomic saving, reading without trust, replay, and the stand-alone script."""

from __future__ import annotations

import importlib
import json
import runpy
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.reference.padding import PLACEMENTS, Sizing
from nvfp4_moe.verification import witness as witness_module
from nvfp4_moe.verification.bound_witness import RELATIONS, BoundWitness, runs
from nvfp4_moe.verification.bounds import GRID, check_attained, find_counterexample
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.result import ClaimResult, Method, Result, Verdict
from nvfp4_moe.verification.witness import (
    as_script,
    load_counterexamples,
    replay,
    save_counterexample,
    write_atomically,
)

WRONG = "max_num_batched_tokens*topk + 126*num_experts"


@lru_cache
def _refuted(bound: str, sizes: tuple[tuple[str, int], ...]) -> str:
    return json.dumps(find_counterexample(parse_bound(bound), GRID.with_sizes(**dict(sizes))).witness)


def wrong_witness(bound: str = WRONG, **sizes: int) -> dict[str, Any]:
    """Return a fresh copy of the smallest witness against a bound."""
    witness: dict[str, Any] = json.loads(_refuted(bound, tuple(sizes.items())))
    return witness


def claim(**changes: Any) -> ClaimResult:
    fields: dict[str, Any] = {
        "id": "padding.bound",
        "statement": "no routing needs more rows than the bound",
        "method": Method.SEARCH,
        "verdict": Verdict.REFUTED,
        "required": True,
        "cases": 1,
        "seconds": 0.1,
        "witness": wrong_witness(),
    }
    return ClaimResult(**fields | changes)


def run_of(*claims: ClaimResult) -> str:
    return Result(version="0.1.0", seed=0, device="cpu", git=None, claims=claims).dumps()


# --- saving -------------------------------------------------------------------------------------------------


def test_saved_file_is_the_witness_and_loads_again(tmp_path: Path) -> None:
    path = save_counterexample(tmp_path / "new" / "folder", claim(subject="mine"))
    document = json.loads(path.read_text())
    found_by = {"claim": "padding.bound", "method": "search", "required": True, "subject": "mine"}
    assert document == wrong_witness() | {"found_by": found_by}
    (found,) = load_counterexamples(path)
    assert (found.claim, found.required, found.subject) == ("padding.bound", True, "mine")
    assert found.witness is not None
    assert replay(found.witness).reproduces


def test_same_witness_same_name_another_another(tmp_path: Path) -> None:
    first = save_counterexample(tmp_path, claim())
    assert save_counterexample(tmp_path, claim()) == first
    assert save_counterexample(tmp_path, claim(witness=wrong_witness("65536*topk"))) != first
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"witness": None}, "has no witness"), ({"id": "../../escape"}, "dotted name, got '../../escape'")],
)
def test_what_cannot_be_saved(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        save_counterexample(tmp_path, claim(**changes))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, "old")

    def fails(*unused: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(witness_module.os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# --- reading files ------------------------------------------------------------------------------------------


def test_a_run_gives_its_refuted_claims(tmp_path: Path) -> None:
    path = tmp_path / "verify.json"
    path.write_text(
        run_of(
            claim(),
            claim(id="padding.attained", required=False),
            claim(id="padding.disjoint", verdict=Verdict.PROVED, witness=None),
            claim(id="quant.golden", witness=None, subject="kernel"),
        )
    )
    found = load_counterexamples(path)
    assert [(e.claim, e.required, e.witness is None, e.subject) for e in found] == [
        ("padding.bound", True, False, None),
        ("padding.attained", False, False, None),
        ("quant.golden", True, True, "kernel"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"kind": "bound", "rows": NaN}', "NaN is not JSON"),
        ('{"rows": ' + "9" * 5000 + "}", "not JSON"),
        ("[1, 2]", "must be a JSON object, got list"),
        ("{}", "neither a saved counterexample"),
        ('{"claims": []}', "'schema' of a verify run must be 1, got None"),
        ('{"schema": 1, "claims": {}}', "'claims' must be a list of objects"),
        ('{"schema": 1, "claims": [1]}', "'claims' must be a list of objects"),
        ('{"schema": 1, "claims": [{"verdict": "WRONG"}]}', r"claims\[0\]: 'verdict' must be one of PROVED"),
        (
            '{"schema": 1, "claims": [{"verdict": "REFUTED", "witness": 3}]}',
            "'witness' must be an object, got 3",
        ),
        (
            '{"schema": 1, "claims": [{"verdict": "REFUTED", "required": 1}]}',
            "'required' must be true or false",
        ),
        ('{"kind": "bound", "found_by": []}', "'found_by' must be an object"),
        ('{"kind": "bound", "found_by": {"claim": 7}}', "'claim' must be text, got 7"),
    ],
)
def test_foreign_files_are_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.json"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=said) as caught:
        load_counterexamples(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not JSON"):
        load_counterexamples(path)


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness_module, "LARGEST_FILE", 1 << 20)
    path = tmp_path / "large.json"
    path.write_text(" " * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="more than 1 MiB"):
        load_counterexamples(path)


# --- the witness of a bound ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topk": None}, "topk must be an integer, got None"),
        ({"topk": True}, "topk must be an integer, got True"),
        ({"tile": 0}, "tile must be between 1 and 10.18, got 0"),
        ({"max_num_batched_tokens": 10**30}, "max_num_batched_tokens must be between 1 and 10.18"),
        ({"num_experts": 10**9}, "num_experts must be at most 1,048,576, got 1000000000"),
        ({"num_experts": 2}, r"list of num_experts \(2\) counts, got 1 entries"),
        ({"num_global_experts": 0}, "num_global_experts must be between 1"),
        ({"tokens_per_expert": "many"}, "counts, got 'many'"),
        ({"tokens_per_expert": [-1]}, r"tokens_per_expert\[0\] must be between 0 and"),
        ({"tokens_per_expert": [1.0]}, r"tokens_per_expert\[0\] must be an integer, got 1.0"),
        ({"tokens_per_expert": [2]}, r"tokens \(1\) must be at least 2 to route"),
        ({"tokens": 2}, r"tokens \(2\) must be .* at most max_num_batched_tokens \(1\)"),
        ({"tokens": -1}, "tokens must be between 0"),
        ({"bound": "127"}, "bound must be an integer, got '127'"),
        ({"expression": 126}, "expression must be text, got 126"),
        ({"expression": "126/2"}, "column 4: '/' is not legal"),
        ({"formula": "proposed"}, "a formula or an expression, not both"),
        ({"expression": None, "formula": "mine"}, "formula must be one of proposed, .*, got 'mine'"),
        ({"ids": "all"}, "ids must be one of any, distinct, got 'all'"),
        ({"placement": ["packed"]}, "placement must be one of packed, align_up, align_down, tile_index"),
        ({"relation": "equal"}, "relation must be one of overrun, attained, slack, got 'equal'"),
        ({"topk_ids": [0]}, "topk_ids must be a list of 1 lists of 1 ids"),
        ({"topk_ids": [[0, 0]]}, "topk_ids must be a list of 1 lists of 1 ids"),
        ({"topk_ids": [[1]]}, r"topk_ids\[0\] must hold ids from -1 to 0, got 1"),
        ({"topk_ids": [[False]]}, r"topk_ids\[0\] must hold ids from -1 to 0, got False"),
        ({"topk_ids": [[-1]]}, "topk_ids and tokens_per_expert do not agree"),
    ],
)
def test_no_value_of_a_witness_is_trusted(changes: dict[str, Any], said: str) -> None:
    document = {
        key: value for key, value in (wrong_witness() | changes).items() if value is not None or key == "topk"
    }
    with pytest.raises((ValueError, TypeError), match=said):
        replay(document)


@pytest.mark.parametrize(
    "name", ["max_num_batched_tokens", "topk", "num_experts", "tile", "tokens_per_expert", "bound"]
)
def test_missing_keys_are_named(name: str) -> None:
    document = wrong_witness()
    del document[name]
    with pytest.raises(ValueError, match=f"needs '{name}'"):
        replay(document)


def test_distinct_ids_are_checked() -> None:
    document = wrong_witness(max_num_batched_tokens=1, topk=2, experts=2)
    assert document["tokens_per_expert"] == [1, 1]
    twice = document | {"tokens_per_expert": [2, 0], "topk_ids": [[0, 0]]}
    assert not replay(twice).reproduces  # 128 rows needed, 254 given
    with pytest.raises(ValueError, match=r"tokens \(1\) must be at least 2"):
        replay(twice | {"ids": "distinct"})
    named_twice = document | {
        "max_num_batched_tokens": 2,
        "tokens": 2,
        "tokens_per_expert": [2, 2],
        "ids": "distinct",
    }
    with pytest.raises(ValueError, match=r"topk_ids\[0\] names an expert twice"):
        replay(named_twice | {"topk_ids": [[0, 0], [1, 1]]})


@pytest.mark.parametrize("kind", [None, "trace_of_mine", 3, ["bound"]])
def test_unknown_kinds_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="kind of a counterexample must be one of bound"):
        replay({"kind": kind})


def test_every_kind_has_its_module() -> None:
    assert all(callable(importlib.import_module(module).replay) for module in witness_module.KINDS.values())
    assert all(
        callable(importlib.import_module(module).as_script) for module in witness_module.SCRIPTS.values()
    )


def test_contract_keys_alone_are_enough() -> None:
    """A witness of another tool has the keys of the public contract and no more; its recorded rows stand."""
    keys = (
        "kind",
        "max_num_batched_tokens",
        "topk",
        "num_experts",
        "tile",
        "tokens_per_expert",
        "rows",
        "bound",
    )
    document = {key: wrong_witness()[key] for key in keys}
    assert replay(document).reproduces
    assert not replay(document | {"bound": 128}).reproduces


def test_recorded_rows_and_bound_are_computed_again() -> None:
    """A witness cannot claim an overrun that is none, and a corrected bound no longer reproduces."""
    lied = wrong_witness() | {"expression": "max_num_batched_tokens*topk + 127*num_experts", "rows": 10**6}
    done = replay(lied)
    assert not done.reproduces
    assert "the bound gives 128 (recorded: 127)" in done.lines[-2]


def test_a_guard_that_now_refuses_the_call_ends_the_counterexample() -> None:
    document = wrong_witness("65536*topk")
    assert replay(document).reproduces
    done = replay(document | {"expression": "512*topk"})
    assert not done.reproduces
    assert "guard refuses" in done.lines[-1]


@pytest.mark.parametrize(("bound", "corrected"), [("torchao", "exact_any"), ("proposed", "torchao")])
def test_slack_and_attained_replay(bound: str, corrected: str) -> None:
    outcome = check_attained(parse_bound(bound))
    assert outcome.witness is not None
    assert replay(outcome.witness).reproduces
    assert not replay(dict(outcome.witness) | {"formula": corrected}).reproduces


def test_long_counts_are_summed_up_for_people() -> None:
    counts = [3, 0, 1, 0] * 64
    document = wrong_witness(max_num_batched_tokens=256, topk=1, experts=256)
    document |= {"tokens": 256, "tokens_per_expert": counts}
    del document["topk_ids"]
    assert "128 of 256 experts hold rows, the fullest 3" in replay(document).lines[2]
    assert "tokens_per_expert [1]" in replay(wrong_witness()).lines[2]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_json_round_trip(placement: str, relation: str) -> None:
    witness = BoundWitness(
        bound=parse_bound("2*tile"),
        relation=relation,
        ids="distinct",
        placement=placement,
        sizing=Sizing(tokens=9, topk=3, num_experts=4, num_global_experts=8, tile=4),
        tokens=7,
        tokens_per_expert=[7, 0, 5, 1],
        bound_rows=8,
    )
    document = json.loads(json.dumps(witness.to_json()))
    again = BoundWitness.from_json(document)
    assert again.to_json() == document
    assert (again.sizing, again.tokens, list(again.tokens_per_expert)) == (witness.sizing, 7, [7, 0, 5, 1])


@pytest.mark.parametrize(
    ("counts", "text"),
    [([1], "[1]"), ([5] + [1] * 4 + [0] * 3, "[5] + [1] * 4 + [0] * 3"), ([3, 1, 4, 1], "[3, 1, 4, 1]")],
)
def test_runs(counts: list[int], text: str) -> None:
    assert runs(counts) == text


# --- the script ---------------------------------------------------------------------------------------------


def run_script(text: str, folder: Path) -> None:
    path = folder / "script.py"
    path.write_text(text)
    runpy.run_path(str(path))


@pytest.mark.parametrize(
    ("bound", "options", "said"),
    [
        (WRONG, {}, "1 routed rows on 1 experts: needs 128 rows, the bound gives 127"),
        ("65536*topk", {}, "513 routed rows on 1024 experts: needs 65664 rows, the bound gives 65536"),
        ("vllm_env", {}, "1281 routed rows on 2048 experts: needs 163968 rows, the bound gives 163840"),
        (
            "round_up(min(topk, 3), tile)",
            {},
            "2 routed rows on 2 experts: needs 256 rows, the bound gives 128",
        ),
        ("-1*max_num_batched_tokens", {}, "0 routed rows on 1 experts: needs 0 rows, the bound gives -1"),
        ("flashinfer_cutlass", {"ids": "any"}, "rows, the bound gives"),
    ],
)
def test_script_fails_while_the_counterexample_holds(
    bound: str, options: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = find_counterexample(parse_bound(bound), **options)
    assert outcome.witness is not None
    text = as_script(outcome.witness)
    assert "nvfp4" not in text.replace("NVFP4", "").lower()
    assert len(text.splitlines()) <= 30
    assert [line for line in text.splitlines() if "import" in line] == ["import torch"]
    with pytest.raises(AssertionError, match="reads past the buffer"):
        run_script(text, tmp_path)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("counts", [[7, 0, 5, 1], [0, 0, 0, 9], [4, 4, 4, 0]])
def test_script_counts_the_rows_of_every_placement(
    placement: str, counts: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    witness = BoundWitness(
        bound=None,
        relation="overrun",
        ids="any",
        placement=placement,
        sizing=Sizing(tokens=9, topk=3, num_experts=4, num_global_experts=4, tile=4),
        tokens=9,
        tokens_per_expert=counts,
        bound_rows=10**6,
    )
    run_script(as_script(witness.to_json()), tmp_path)
    assert f"{sum(counts)} routed rows on 4 experts: needs {witness.rows} rows" in capsys.readouterr().out


@pytest.mark.parametrize(("tight", "bound"), [(False, "proposed"), (True, "torchao")])
def test_script_of_tightness(tight: bool, bound: str, tmp_path: Path) -> None:
    outcome = check_attained(parse_bound(bound), tight=tight)
    assert outcome.witness is not None
    with pytest.raises(
        AssertionError, match="rows that no routing uses" if tight else "every row of the buffer"
    ):
        run_script(as_script(outcome.witness), tmp_path)


def test_script_refusals() -> None:
    with pytest.raises(ValueError, match="becomes a script must be one of bound, subject, got 'other'"):
        as_script({"kind": "other"})
    large = find_counterexample(parse_bound("1000000000*topk")).witness
    assert large is not None
    with pytest.raises(ValueError, match="tokens x topk must be at most 16,777,216 for a script"):
        as_script(large)
