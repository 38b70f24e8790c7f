"""The JSON schemas (draft 2020-12) of what the commands write, as shipped in the package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

NAMES = ("verify", "bound", "capacity", "engines", "savings", "mutants")


def load(name: str) -> dict[str, Any]:
    """Return the schema of `nvfp4-moe NAME --json`.

    Raises:
        ValueError: no schema of that name.
    """
    if name not in NAMES:
        raise ValueError(f"schema must be one of {', '.join(NAMES)}, got {name!r}")
    text = (
        resources.files("nvfp4_moe.verification").joinpath("schema", f"{name}.schema.json").read_text("utf-8")
    )
    schema: dict[str, Any] = json.loads(text)
    return schema
