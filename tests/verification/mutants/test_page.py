"""The page: everything of the catalogue is on it, and the stored one is current as far as the catalogue decides it."""

from __future__ import annotations

from pathlib import Path

from nvfp4_moe.verification.mutants.catalogue import catalogue, public_faults, right_subjects
from nvfp4_moe.verification.mutants.mutant import FAULT_CLASSES
from nvfp4_moe.verification.mutants.page import COMMAND, page, refreshed, static_lines

ROOT = Path(__file__).resolve().parents[3]
STORED = ROOT / "docs" / "faults.md"
MUTANT = catalogue()[0]
DOCUMENT = {
    "version": "0.1",
    "device": "cpu",
    "seed": 0,
    "mutants": [
        {
            "id": MUTANT.id,
            "verdict": "REFUTED",
            "check": "quant.coverage",
            "witness": {"kind": "index", "values": {"row": 5}},
        }
    ],
    "right_subjects": [{"id": right_subjects()[0].id, "verdict": "HELD", "cases": 1234}],
    "harness_variants": [
        {"id": "one", "change": "nothing is filled", "tried": 9, "escaped": [MUTANT.id]},
        {"id": "two", "change": "nothing is done", "tried": 9, "escaped": []},
    ],
}


def test_every_class_fault_variant_and_right_subject_is_on_it() -> None:
    text = page({})
    assert all(f"## {letter}. " in text for letter in FAULT_CLASSES)
    assert all(link in text for fault in public_faults().values() for link in fault.links)
    assert all(f"| `{mutant.id}` | {mutant.change} | " in text for mutant in catalogue())
    assert all(f"| `{right.id}` | " in text for right in right_subjects())


def test_what_a_run_found_is_on_it() -> None:
    text = page(DOCUMENT)
    (line,) = [line for line in text.splitlines() if line.startswith(f"| `{MUTANT.id}` ")]
    assert line.endswith("| `quant.coverage` | row 5 |")
    assert f"| `{right_subjects()[0].id}` | " in text
    assert "| passes | 1,234 |" in text
    assert "| nothing is filled | 1 | 1 | 1 |" in text
    assert "No class needs these, other checks see the same variants: nothing is done." in text
    assert f"- {MUTANT.fault_class}: nothing is filled" in text
    assert f"- nothing is filled: `{MUTANT.id}`" in text


def test_the_static_part_does_not_depend_on_a_run_and_sees_the_catalogue() -> None:
    static = static_lines(page({}))
    assert static_lines(page(DOCUMENT)) == static
    assert static_lines(page(DOCUMENT).replace(MUTANT.change, "another change")) != static


def test_a_refreshed_page_keeps_what_was_found_and_follows_the_catalogue() -> None:
    text = page(DOCUMENT)
    assert refreshed(text) == text
    assert refreshed(text.replace(MUTANT.change, "another change")) == text
    assert refreshed("") == page({})


def test_the_stored_page_is_current() -> None:
    stored = STORED.read_text(encoding="utf-8")
    assert static_lines(stored) == static_lines(page({})), f"run: python tools/fault_page.py, or {COMMAND}"
