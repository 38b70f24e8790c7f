"""The count of skipped tests: what it lets through, what it stops, and how it reads its list."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_skips", ROOT / "tools" / "check_skips.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_skips = _load()

PASSED = '<testcase classname="tests.a" name="test_x"/>'


def junit(*cases: str) -> str:
    """Return a JUnit document of these cases."""
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


def skipped(reason: str, *, kind: str = "pytest.skip") -> str:
    """Return a skipped case."""
    return f'<testcase classname="a" name="test_s"><skipped type="{kind}" message="{reason}"/></testcase>'


def faults(document: str, allowances: str) -> list[str]:
    """Return what is wrong with a run."""
    found: list[str] = check_skips.faults(
        check_skips.read_run(document), check_skips.read_allowances(allowances)
    )
    return found


def test_a_run_without_skips_passes() -> None:
    assert faults(junit(PASSED), "") == []


def test_an_allowed_skip_passes() -> None:
    assert faults(junit(PASSED, skipped("needs a CUDA device")), "2 needs a CUDA device  # why") == []


def test_another_reason_is_stopped() -> None:
    (line,) = faults(junit(PASSED, *[skipped("no compiler")] * 2), "2 needs a CUDA device")
    assert line == "2 tests skipped for a reason that is not allowed: no compiler (first a::test_s)"


def test_one_skip_too_many_is_stopped() -> None:
    (line,) = faults(junit(PASSED, *[skipped("needs a GPU")] * 3), "2 needs a")
    assert line == "3 tests skipped, 2 allowed: needs a"


def test_an_expected_failure_is_no_skip() -> None:
    assert check_skips.read_run(junit(PASSED, skipped("known", kind="pytest.xfail"))).skips == []


def test_a_run_of_skips_alone_is_stopped() -> None:
    assert "no test ran" in faults(junit(skipped("needs a GPU")), "1 needs a GPU")


@pytest.mark.parametrize("line", ["needs a GPU", "3", "-1 needs a GPU"])
def test_a_line_that_is_no_allowance_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: expected COUNT REASON"):
        check_skips.read_allowances(f"# comment\n{line}\n")


def test_the_list_of_this_repository_can_be_read() -> None:
    check_skips.read_allowances((ROOT / "tests" / "allowed-skips.txt").read_text(encoding="utf-8"))


def test_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, allowed = tmp_path / "junit.xml", tmp_path / "allowed.txt"
    report.write_text(junit(PASSED, skipped("no compiler")))
    allowed.write_text("")
    assert check_skips.main([str(report), str(allowed)]) == 1
    allowed.write_text("1 no compiler")
    assert check_skips.main([str(report), str(allowed)]) == 0
    assert "1 tests executed, 1 skipped" in capsys.readouterr().out
