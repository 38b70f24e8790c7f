"""What every test may rely on: the project's own pytest plugin, which skips device tests where the device is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["nvfp4_moe.pytest_plugin"]


@pytest.fixture
def children_of_this_process() -> Callable[[], set[int]]:
    """Return a function that gives the ids of this process's children; tests before may have left some that stay."""

    def children() -> set[int]:
        threads = Path("/proc/self/task").iterdir()
        return {int(child) for thread in threads for child in (thread / "children").read_text().split()}

    return children
