"""The ledger's verdicts are what the code finds today: every bound of its table is searched again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nvfp4_moe.analysis import engines
from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification.bounds import find_counterexample
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.proofs.judging import skipped

LEDGER = Path(__file__).resolve().parents[2] / "paper_notes.md"
ROWS = re.findall(
    r"^\| `([^`]+)` \| (HELD|REFUTED) \| (.+) \|$", LEDGER.read_text(encoding="utf-8"), re.MULTILINE
)

ENGINES = re.findall(
    r"^\| `(\w+)` \| (safe|unsafe) \| (\w+) \| ([\d,]+ of [\d,]+) \| ([\d,.]+) \| ([\d,.]+) \| ([\d,.]+) \|$",
    LEDGER.read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_every_formula_of_the_registry_has_a_verdict() -> None:
    assert set(FORMULAS) <= {bound for bound, _, _ in ROWS}


def test_known_wrong_bounds_are_listed_as_refuted() -> None:
    assert [verdict for bound, verdict, _ in ROWS if bound not in FORMULAS] == ["REFUTED"] * 5


@pytest.mark.parametrize(("bound", "verdict", "found"), ROWS)
def test_verdict_and_witness_are_found_again(bound: str, verdict: str, found: str) -> None:
    outcome = find_counterexample(parse_bound(bound))
    assert (outcome.verdict, outcome.detail) == (verdict, found)


def test_engines_of_the_ledger_are_those_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured again; the verdicts are those of the search above, and the proofs have tests of their own."""
    nothing = skipped(["z3-solver"])
    monkeypatch.setattr(engines, "prove_formula", lambda name, tile: nothing)
    monkeypatch.setattr(engines, "find_counterexample", lambda *given, **more: nothing)
    found = {
        line.formula.name: [
            f"{line.attained:,} of {line.configurations:,}",
            f"{line.worst.ratio:,.2f}",
            f"{line.typical:.3f}",
            f"{line.decode:.2f}",
        ]
        for line in engines.engine_lines()
    }
    assert {name: figures for name, _, _, *figures in ENGINES} == found
    searched = {bound: {"HELD": "safe", "REFUTED": "unsafe"}[verdict] for bound, verdict, _ in ROWS}
    assert {name: verdict for name, verdict, *_ in ENGINES} == {name: searched[name] for name in FORMULAS}
    assert {proof for _, verdict, proof, *_ in ENGINES if verdict == "safe"} == {"PROVED"}
