"""What every test may rely on: tests marked `gpu` or `sm100` are skipped, by name, where the device is missing."""

from __future__ import annotations

import pytest

GPU_REASON = "needs a CUDA device"
SM100_REASON = "needs a Blackwell device (compute capability 10.0 or newer)"
BLACKWELL = (10, 0)


def _missing_device(item: pytest.Item) -> str | None:
    """Return why `item` cannot run on this machine, or None."""
    import torch  # a run without device tests need not load it

    if not torch.cuda.is_available():
        return GPU_REASON
    if item.get_closest_marker("sm100") and torch.cuda.get_device_capability() < BLACKWELL:
        return SM100_REASON
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the device tests that this machine cannot run."""
    for item in items:
        if item.get_closest_marker("gpu") or item.get_closest_marker("sm100"):
            reason = _missing_device(item)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
