"""Hold measured ratios to stored ones: a kernel that became slower than its noise allows fails.

Usage: python tools/check_bench.py MEASURED BASELINE

A ratio is a time of a yardstick that ran beside the kernel over the kernel's time (1 is the yardstick's speed, more is
faster), so that clocks and machines cancel. MEASURED is JSON with `ratios`: {name: ratio}. BASELINE is JSON with `ratios`:
{name: {"ratio": r, "noise": n}}, n the share of r that repeated runs differ by. Exit code 1 when a ratio is below
r * (1 - n), or when one of the baseline was not measured. A ratio above r * (1 + n) is told: the baseline is due for
renewal. One that the baseline lacks is told too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def compare(
    measured: Mapping[str, float], baseline: Mapping[str, Mapping[str, float]]
) -> tuple[list[str], list[str]]:
    """Return (what fails, what is only told), one line each."""
    slower, told = [], []
    for name, stored in baseline.items():
        ratio, noise = stored["ratio"], stored["noise"]
        now = measured.get(name)
        if now is None:
            slower.append(f"{name}: not measured, stored {ratio:.3f}")
        elif not now >= ratio * (1 - noise):  # a NaN fails
            slower.append(f"{name}: {now:.3f}, stored {ratio:.3f} with a noise of {noise:.1%}")
        elif now > ratio * (1 + noise):
            told.append(f"{name}: faster, {now:.3f}, stored {ratio:.3f}")
    told += [f"{name}: {measured[name]:.3f}, not stored" for name in measured if name not in baseline]
    return slower, told


def read_ratios(path: Path) -> dict[str, Any]:
    """Return the ratios of a file; raises ValueError where it has none, or other than positive numbers."""
    document = json.loads(path.read_text(encoding="utf-8"))
    ratios = document.get("ratios") if isinstance(document, dict) else None
    if not isinstance(ratios, dict) or not ratios:
        raise ValueError(f"{path}: no ratios")
    return ratios


def main(arguments: list[str]) -> int:
    """Compare two files; print what differs."""
    if len(arguments) != 2:
        print("usage: python tools/check_bench.py MEASURED BASELINE", file=sys.stderr)
        return 2
    measured, baseline = (read_ratios(Path(name)) for name in arguments)
    slower, told = compare(measured, baseline)
    print(f"{len(baseline)} stored ratios, {len(measured)} measured, {len(slower)} slower or missing")
    for line in told:
        print(f"  {line}")
    for line in slower:
        print(f"check_bench: {line}", file=sys.stderr)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
