"""Whether figures can be drawn at all: the one test here that does not need matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nvfp4_moe.analysis import figures


def test_available() -> None:
    if not figures.available():
        pytest.skip("needs the package matplotlib (extra plots), as all tests of this folder do")
    from nvfp4_moe.analysis.figures import plan

    assert plan.plan_figures


def test_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not figures.available()
    assert "matplotlib" in (figures.unavailable() or "")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ImportError('built for another NumPy\\nand more')", "built for another NumPy"),
        ("raise ValueError", "ValueError"),
    ],
)
def test_installed_but_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    (tmp_path / "matplotlib.py").write_text(source)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    assert figures.unavailable() == reason
