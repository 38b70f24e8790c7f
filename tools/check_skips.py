"""Hold the skipped tests of a run to a list, so that a check cannot vanish unnoticed.

Usage: python tools/check_skips.py JUNIT_XML ALLOWED_SKIPS

ALLOWED_SKIPS has one line for each reason that may skip tests: how many at most, a space, and the beginning of
the reason; `#` starts a comment. Exit code 1 when a test was skipped for another reason, when more were skipped
for one than it allows, or when no test ran at all; the counts are printed either way.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Allowance(NamedTuple):
    """A reason for which tests may be skipped."""

    most: int
    reason: str


class Run(NamedTuple):
    """What a JUnit file says of a run."""

    executed: int
    skips: list[tuple[str, str]]
    """(test, reason) of each skipped test."""


def read_allowances(text: str) -> list[Allowance]:
    """Return the allowances of a list; raises ValueError that names the line which is not `COUNT REASON`."""
    allowances = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        count, _, reason = content.partition(" ")
        if not count.isdigit() or not reason:
            raise ValueError(f"line {number}: expected COUNT REASON, got {content!r}")
        allowances.append(Allowance(int(count), reason.strip()))
    return allowances


def read_run(junit: str) -> Run:
    """Return the executed and the skipped tests of a JUnit document (text)."""
    executed = 0
    skips = []
    for case in ElementTree.fromstring(junit).iter("testcase"):
        skipped = case.find("skipped")
        if skipped is None:
            executed += 1
        elif skipped.get("type") != "pytest.xfail":
            skips.append((f"{case.get('classname')}::{case.get('name')}", skipped.get("message", "")))
    return Run(executed, skips)


def faults(run: Run, allowances: Sequence[Allowance]) -> list[str]:
    """Return one line for each way in which the run's skips exceed the list."""
    found = [] if run.executed else ["no test ran"]
    used: Counter[Allowance] = Counter()
    others: dict[str, list[str]] = {}
    for test, reason in run.skips:
        allowance = next((a for a in allowances if reason.startswith(a.reason)), None)
        if allowance is None:
            others.setdefault(reason, []).append(test)
        else:
            used[allowance] += 1
    for reason, tests in others.items():
        found.append(
            f"{len(tests)} tests skipped for a reason that is not allowed: {reason} (first {tests[0]})"
        )
    for allowance, count in used.items():
        if count > allowance.most:
            found.append(f"{count} tests skipped, {allowance.most} allowed: {allowance.reason}")
    return found


def main(arguments: list[str]) -> int:
    """Check one run; print its counts and what is wrong with them."""
    if len(arguments) != 2:
        print("usage: python tools/check_skips.py JUNIT_XML ALLOWED_SKIPS", file=sys.stderr)
        return 2
    junit, allowed = (Path(name).read_text(encoding="utf-8") for name in arguments)
    run = read_run(junit)
    found = faults(run, read_allowances(allowed))
    print(f"{run.executed} tests executed, {len(run.skips)} skipped")
    for line in found:
        print(f"check_skips: {line}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
