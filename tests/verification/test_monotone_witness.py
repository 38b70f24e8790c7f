"""Sizes at which a worst case falls: counted again, both kinds of ids, one more row and one more expert."""

from __future__ import annotations

from typing import Any

import pytest

from nvfp4_moe.verification import exhaustive, fuzz, monotone_witness
from nvfp4_moe.verification.result import Verdict
from nvfp4_moe.verification.witness import replay

SIZES = {"kind": "monotone", "routed_rows": 5, "num_experts": 2, "tile": 4}


def test_no_fall_of_the_real_rules() -> None:
    done = replay(SIZES)
    assert not done.reproduces
    assert done.lines == ("T 5, E 2, tile 4", "no worst case falls")


def falls_at_six(rows: int, experts: int, *, tile: int) -> int:
    return 8 if rows == 6 else exhaustive.exact_any_rows(rows, experts, tile=tile)


def test_a_fall_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monotone_witness, "exact_any_rows", falls_at_six)
    done = replay({**SIZES, "num_experts": 5})
    assert done.reproduces
    assert done.lines[1] == "any ids: 20 rows, 8 with one more row"


def test_what_the_fuzz_saves_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "exact_any_rows", lambda rows, experts, *, tile: -rows)
    outcome = fuzz.fuzz_monotone(0, cases=10)
    assert outcome.verdict is Verdict.REFUTED
    assert not replay(outcome.witness or {}).reproduces
    monkeypatch.setattr(monotone_witness, "exact_any_rows", lambda rows, experts, *, tile: -rows)
    assert replay(outcome.witness or {}).reproduces


@pytest.mark.parametrize(
    "change", [{"routed_rows": -1}, {"num_experts": 0}, {"tile": None}, {"tile": 1.5}, {"routed_rows": True}]
)
def test_sizes_that_are_not_legal(change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(change))):
        replay({**SIZES, **change})
