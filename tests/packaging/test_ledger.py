"""The ledger's verdicts are what the code finds today: every bound of its table is searched again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification.bounds import find_counterexample
from nvfp4_moe.verification.expressions import parse_bound

LEDGER = Path(__file__).resolve().parents[2] / "paper_notes.md"
ROWS = re.findall(
    r"^\| `([^`]+)` \| (HELD|REFUTED) \| (.+) \|$", LEDGER.read_text(encoding="utf-8"), re.MULTILINE
)


def test_every_formula_of_the_registry_has_a_verdict() -> None:
    assert set(FORMULAS) <= {bound for bound, _, _ in ROWS}


def test_known_wrong_bounds_are_listed_as_refuted() -> None:
    assert [verdict for bound, verdict, _ in ROWS if bound not in FORMULAS] == ["REFUTED"] * 5


@pytest.mark.parametrize(("bound", "verdict", "found"), ROWS)
def test_verdict_and_witness_are_found_again(bound: str, verdict: str, found: str) -> None:
    outcome = find_counterexample(parse_bound(bound))
    assert (outcome.verdict, outcome.detail) == (verdict, found)
