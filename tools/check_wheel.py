"""Hold a wheel to the source tree: it must contain the package, all of it, and nothing else.

Usage: python tools/check_wheel.py WHEEL...

What belongs into the wheel is read off `src/nvfp4_moe` with its links followed, so a header, table or schema that
package-data forgets is named here, and so is a file that nobody meant to ship. Exit code 1 and one line for each
difference; 0 and a count when there is none.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "nvfp4_moe"
NEVER_SHIPPED = ("__pycache__", "tests", "bench_out")
"""Folders that are no part of the package, wherever they stand."""
METADATA = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
"""Files of the .dist-info folder: all of them must be there, and no others."""


def package_files(root: Path = ROOT) -> set[str]:
    """Return the files of the package as names inside a wheel, links followed."""
    start = root / "src" / PACKAGE
    found: set[str] = set()
    for folder, subfolders, names in os.walk(start, followlinks=True):
        subfolders[:] = [name for name in subfolders if name not in NEVER_SHIPPED]
        inside = Path(PACKAGE) / Path(folder).relative_to(start)
        found.update((inside / name).as_posix() for name in names if not name.endswith((".pyc", ".tmp")))
    return found


def differences(shipped: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """Return one line for each name that a wheel lacks or should not have.

    Args:
        shipped: names in the wheel.
        wanted: names that the package consists of.
    """
    names = {name for name in shipped if not name.endswith("/")}
    metadata = {name for name in names if name.split("/", 1)[0].endswith(".dist-info")}
    held = {name.split("/", 1)[1] for name in metadata}
    wanted = set(wanted)
    return [
        *(f"not in the wheel: {name}" for name in sorted(wanted - (names - metadata))),
        *(f"should not be in the wheel: {name}" for name in sorted(names - metadata - wanted)),
        *(f"not in the wheel: .dist-info/{name}" for name in sorted(METADATA - held)),
        *(f"should not be in the wheel: .dist-info/{name}" for name in sorted(held - METADATA)),
    ]


def main(wheels: list[str]) -> int:
    """Check each wheel; print what differs."""
    if not wheels:
        print("usage: python tools/check_wheel.py WHEEL...", file=sys.stderr)
        return 2
    wanted = package_files()
    failed = False
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            found = differences(archive.namelist(), wanted)
        for line in found:
            print(f"{wheel}: {line}")
        failed = failed or bool(found)
        if not found:
            print(f"{wheel}: all {len(wanted)} files of the package, and nothing else")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
