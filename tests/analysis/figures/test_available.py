"""Whether figures can be drawn at all: the one test here that does not need matplotlib."""

from __future__ import annotations

import pytest

from nvfp4_moe.analysis import figures


def test_available() -> None:
    if not figures.available():
        pytest.skip("needs the package matplotlib (extra plots), as all tests of this folder do")
    from nvfp4_moe.analysis.figures import plan

    assert plan.plan_figures


def test_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    assert not figures.available()
