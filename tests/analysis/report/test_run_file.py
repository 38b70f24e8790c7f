"""A JSON of verify read without trust: what the schema refuses is refused, and so is what no run writes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nvfp4_moe.analysis.report import run_file
from nvfp4_moe.analysis.report.run_file import MOST_CLAIMS, read_run, run_from_json
from nvfp4_moe.verification import schema
from nvfp4_moe.verification.result import ClaimResult, Result

VERIFY = Draft202012Validator(schema.load("verify"))
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    "",
    "text",
    [],
    {},
    [1],
    10**30,
    "0.1.0",
    ["a"],
    {"kind": "bound!"},
)


def written(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def accepted(document: Any) -> bool:
    try:
        run_from_json(document)
    except ValueError:
        return False
    return True


def test_a_run_is_read_as_it_was_written(refuted_run: Result, tmp_path: Path) -> None:
    read = read_run(written(tmp_path / "verify.json", refuted_run.dumps()))
    assert read.to_json() == refuted_run.to_json()
    assert read.exit_code == refuted_run.exit_code == 1


def test_a_known_finding_is_read(claim: Callable[..., ClaimResult], run_of: Callable[..., Result]) -> None:
    run = run_of(claim(expected="known since May"), interrupted=True, tables=("h200",))
    assert run_from_json(run.to_json()) == run


def changed(document: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the document with every key left out, every value strange, and keys that nobody knows."""
    found: list[tuple[str, Any]] = [(f"{value!r:.20}", value) for value in STRANGE]
    places: list[tuple[str, list[str | int]]] = [("run", []), ("claim", ["claims", 2])]
    for name, path in places:
        part = document
        for step in path:
            part = part[step]  # type: ignore[index]
        for key in part:
            changes: list[Any] = [*STRANGE, "absent"]
            for change in changes:
                other = copy.deepcopy(document)
                inner = other
                for step in path:
                    inner = inner[step]  # type: ignore[index]
                if change == "absent":
                    del inner[key]
                else:
                    inner[key] = change
                found.append((f"{name}.{key}={change!r:.20}", other))
        other = copy.deepcopy(document)
        inner = other
        for step in path:
            inner = inner[step]  # type: ignore[index]
        inner["surplus"] = 1
        found.append((f"{name} with a surplus key", other))
    return found


def test_it_agrees_with_the_schema(refuted_run: Result) -> None:
    """Every changed document that the schema refuses is refused, and what it accepts is accepted, but for limits."""
    wrong = []
    tried = 0
    for name, document in changed(json.loads(refuted_run.dumps())):
        tried += 1
        by_schema = VERIFY.is_valid(document)
        beyond = "1000000000000000000" in name  # 10^30: no run counts so far
        if accepted(document) != (by_schema and not beyond):
            wrong.append(name)
    assert wrong == []
    assert tried > 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"seed": NaN}', "NaN is not JSON"),
        ("[]", "must be an object, got list"),
        ('{"claims": []}', "'schema' is missing"),
        ('{"report": 1}', "unknown key 'report'"),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_its_name(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"verify.json: .*{said}"):
        read_run(written(tmp_path / "verify.json", text))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "verify.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match="not JSON"):
        read_run(tmp_path / "verify.json")


def test_the_place_of_a_fault_is_named(refuted_run: Result) -> None:
    document = json.loads(refuted_run.dumps())
    document["claims"][3]["verdict"] = "MAYBE"
    with pytest.raises(ValueError, match=r"claims\[3\]: 'verdict' must be one of PROVED.*got 'MAYBE'"):
        run_from_json(document)


def test_infinite_seconds_and_deep_witnesses_are_refused(refuted_run: Result) -> None:
    document = json.loads(refuted_run.dumps())
    assert not accepted(document | {"claims": [document["claims"][0] | {"seconds": float("inf")}]})
    deep: Any = []
    for _ in range(run_file.DEEPEST):
        deep = [deep]
    assert not accepted(
        document | {"claims": [document["claims"][1] | {"witness": {"kind": "x", "deep": deep}}]}
    )


def test_too_many_claims_and_too_large_files_are_refused(
    refuted_run: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = refuted_run.to_json()
    with pytest.raises(ValueError, match="at most 10,000 entries, got 10,001"):
        run_from_json(document | {"claims": [document["claims"][0]] * (MOST_CLAIMS + 1)})
    monkeypatch.setattr(run_file, "LARGEST_FILE", 1 << 20)
    with pytest.raises(ValueError, match="more than 1 MiB"):
        read_run(written(tmp_path / "verify.json", " " * ((1 << 20) + 1)))
