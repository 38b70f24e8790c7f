"""What every test may rely on: the project's own pytest plugin, which skips device tests where the device is missing."""

from __future__ import annotations

pytest_plugins = ["nvfp4_moe.pytest_plugin"]
