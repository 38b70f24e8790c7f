"""Known findings: what fails a run with them, what does not, and files that are refused at the door."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nvfp4_moe.verification import schema
from nvfp4_moe.verification.expect import (
    BOUND_CLAIMS,
    LARGEST_FILE,
    Expectation,
    apply_expectations,
    load_expectations,
)
from nvfp4_moe.verification.result import ClaimResult, Finding, Method, Result, Verdict

ENTRY = {"id": "quant.coverage", "subject": "mine", "reason": "row padding is unwritten"}
KNOWN = Expectation(id="quant.coverage", subject="mine", reason="row padding is unwritten")


def claim(verdict: Verdict, **changes: Any) -> ClaimResult:
    given: dict[str, Any] = {
        "id": "quant.coverage",
        "statement": "every promised byte is written",
        "method": Method.CONFORMANCE,
        "required": True,
        "cases": 3,
        "seconds": 0.1,
        "subject": "mine",
    }
    return ClaimResult(verdict=verdict, **given | changes)


def result(*claims: ClaimResult, known: tuple[Expectation, ...] = (KNOWN,)) -> Result:
    found = apply_expectations(claims, known)
    return Result(version="0.1", seed=0, device="cpu", git=None, claims=found)


@pytest.mark.parametrize(
    ("verdict", "without", "with_entry"),
    [
        (Verdict.REFUTED, 1, 0),
        (Verdict.HELD, 0, 1),
        (Verdict.EXHAUSTED, 0, 1),
        (Verdict.UNDECIDED, 3, 3),
        (Verdict.SKIPPED, 3, 3),
    ],
)
def test_exit_codes(verdict: Verdict, without: int, with_entry: int) -> None:
    assert result(claim(verdict), known=()).exit_code == without
    assert result(claim(verdict)).exit_code == with_entry


def test_another_refuted_claim_still_fails() -> None:
    other = claim(Verdict.REFUTED, id="quant.golden")
    assert result(claim(Verdict.REFUTED), other).exit_code == 1
    assert result(claim(Verdict.REFUTED), claim(Verdict.REFUTED, subject="other")).exit_code == 1


def test_a_worse_finding_than_the_known_one_still_fails_and_says_so() -> None:
    entry = Expectation(id="quant.coverage", subject="mine", reason="padding", finding=Finding.CONTRACT)
    for finding, code in ((Finding.BYTES, 1), (Finding.CONTRACT, 0), (Finding.ADVISORY, 0)):
        found = result(claim(Verdict.REFUTED, finding=finding), known=(entry,))
        assert found.exit_code == code
        assert ("worse than the known finding (contract: padding)" in found.claims[0].detail) is (code == 1)


def test_memory_and_bytes_are_excused_only_by_name() -> None:
    for finding, code in ((Finding.MEMORY, 1), (Finding.BYTES, 1), (Finding.CONTRACT, 0)):
        found = result(claim(Verdict.REFUTED, finding=finding))
        assert found.exit_code == code
        named = replace(KNOWN, finding=finding)
        assert result(claim(Verdict.REFUTED, finding=finding), known=(named,)).exit_code == 0


@pytest.mark.parametrize(
    ("named", "run", "code"),
    [
        (None, "proposed", 0),
        (None, "upstream", 3),
        ("upstream", "upstream", 0),
        ("upstream", "proposed", 3),
        ("topk*tile", " topk * tile", 0),
    ],
)
@pytest.mark.parametrize("claim_id", BOUND_CLAIMS)
def test_an_entry_about_one_bound_excuses_no_other(
    claim_id: str, named: str | None, run: str, code: int
) -> None:
    entry = Expectation(id=claim_id, reason="too small", bound=named)
    refuted = claim(Verdict.REFUTED, id=claim_id, subject=None)
    found = apply_expectations([refuted], (entry,), bound=run)
    assert [c.expected for c in found] == (["too small"] if code == 0 else [None, None])
    if code:
        assert found[0].fails
        assert found[1].detail.startswith(
            f"a known finding of bound {named or 'proposed'} that this run did not"
        )


def test_a_claim_that_informs_may_be_listed_and_its_pass_is_noticed() -> None:
    assert result(claim(Verdict.REFUTED, required=False)).exit_code == 0
    assert result(claim(Verdict.HELD, required=False)).exit_code == 1


class TestMethods:
    """One entry without a method speaks of every method; a pass of one is none while another still refutes."""

    SEARCH, FUZZ = (
        {"id": "padding.bound", "subject": None, "method": method} for method in (Method.SEARCH, Method.FUZZ)
    )
    ENTRY = Expectation(id="padding.bound", reason="too small by design")

    @pytest.mark.parametrize(
        ("search", "fuzz", "code"),
        [
            (Verdict.REFUTED, Verdict.REFUTED, 0),
            (Verdict.REFUTED, Verdict.HELD, 0),
            (Verdict.HELD, Verdict.UNDECIDED, 3),
            (Verdict.HELD, Verdict.HELD, 1),
        ],
    )
    def test_without_one(self, search: Verdict, fuzz: Verdict, code: int) -> None:
        claims = claim(search, **self.SEARCH), claim(fuzz, **self.FUZZ)
        assert result(*claims, known=(self.ENTRY,)).exit_code == code

    def test_with_one_it_speaks_of_that_alone(self) -> None:
        entry = Expectation(id="padding.bound", reason="so", method=Method.SEARCH)
        claims = claim(Verdict.REFUTED, **self.SEARCH), claim(Verdict.REFUTED, **self.FUZZ)
        assert result(*claims, known=(entry,)).exit_code == 1
        assert [c.expected for c in result(*claims, known=(entry,)).claims] == ["so", None]


def test_an_entry_that_nothing_answers_is_listed_as_skipped() -> None:
    found = result(claim(Verdict.HELD, subject="other"))
    assert found.exit_code == 3
    last = found.claims[-1]
    assert (last.id, last.subject, last.verdict) == ("quant.coverage", "mine", Verdict.SKIPPED)
    assert "did not check: row padding is unwritten" in last.detail


def test_json_says_why_and_fits_the_schema() -> None:
    document = result(claim(Verdict.REFUTED)).to_json()
    jsonschema.validate(document, schema.load("verify"))
    assert document["claims"][0]["expected"] == "row padding is unwritten"
    assert "expected" not in result(claim(Verdict.HELD), known=()).to_json()["claims"][0]


class TestFile:
    def test_entries_are_read(self, tmp_path: Path) -> None:
        full = ENTRY | {"id": "quant.golden", "method": "conformance", "finding": "bytes"}
        file = tmp_path / "known.json"
        file.write_text(json.dumps([ENTRY, full]))
        first, second = load_expectations(file)
        assert first == KNOWN
        assert (second.method, second.finding) == (Method.CONFORMANCE, Finding.BYTES)

    @pytest.mark.parametrize(
        ("document", "message"),
        [
            ({"id": "quant.golden"}, "must be a JSON list of objects, got dict"),
            (["quant.golden"], "entry 0: must be an object"),
            ([{"reason": "so"}], "entry 0: 'id' is missing"),
            ([{"id": "quant.golden"}], "entry 0: 'reason' is missing"),
            ([ENTRY | {"id": "quant.gold"}], "'id' must be a claim's id"),
            ([ENTRY | {"reason": " "}], "'reason' must be text"),
            ([ENTRY | {"subject": None}], "'subject' must be text"),
            ([ENTRY | {"method": "guess"}], "'method' must be one of proof"),
            ([ENTRY | {"finding": "bad"}], "'finding' must be one of memory"),
            ([ENTRY | {"bound": "proposed"}], "'bound' is for padding.bound"),
            ([ENTRY | {"until": "2027"}], "unknown key 'until'; known are id, reason, subject"),
            ([ENTRY, ENTRY | {"reason": "other"}], r"entry 1: quant.coverage \(mine\) is listed twice"),
        ],
    )
    def test_what_is_wrong_is_named(self, document: Any, message: str, tmp_path: Path) -> None:
        file = tmp_path / "known.json"
        file.write_text(json.dumps(document))
        with pytest.raises((ValueError, TypeError), match=f"known.json: .*{message}"):
            load_expectations(file)

    @pytest.mark.parametrize("text", ["", "[", "\xff", "[" * 100_000])
    def test_what_is_no_json_is_refused(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "known.json"
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match="not JSON"):
            load_expectations(file)

    def test_a_large_file_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "known.json"
        file.write_text(" " * (LARGEST_FILE + 1))
        with pytest.raises(ValueError, match="more than 1 MiB"):
            load_expectations(file)
