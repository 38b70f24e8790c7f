"""What an import loads: the golden model needs torch alone, and no layer loads an extra that it was not asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

EXTRAS = (
    "hypothesis",
    "z3",
    "cvc5",
    "matplotlib",
    "tvm_ffi",
    "ml_dtypes",
    "gfloat",
    "mpmath",
    "jsonschema",
    "safetensors",
)
TERMINAL = ("click", "rich")

PROMISES = {
    "nvfp4_moe": (*EXTRAS, *TERMINAL, "torch", "numpy"),
    "nvfp4_moe.reference": (*EXTRAS, *TERMINAL, "nvfp4_moe.verification", "nvfp4_moe.cuda", "nvfp4_moe.cli"),
    "nvfp4_moe.verification": (*EXTRAS, *TERMINAL, "nvfp4_moe.cuda", "nvfp4_moe.analysis", "nvfp4_moe.cli"),
    "nvfp4_moe.analysis.savings_padding": (*EXTRAS, *TERMINAL, "nvfp4_moe.cuda", "nvfp4_moe.cli"),
    "nvfp4_moe.analysis.report": (*EXTRAS, *TERMINAL, "nvfp4_moe.cuda", "nvfp4_moe.cli"),
    "nvfp4_moe.analysis.tables": (*EXTRAS, *TERMINAL, "nvfp4_moe.cuda", "nvfp4_moe.cli"),
    "nvfp4_moe.cli.main": (*EXTRAS, "torch", "numpy"),
    "nvfp4_moe.pytest_plugin": (*EXTRAS, *TERMINAL, "torch", "numpy", "nvfp4_moe.verification"),
}
"""What importing each module must not load. The command line is quick to answer `--help`, so it loads no torch."""

PROGRAM = """
import importlib, sys
before = set(sys.modules)
for name in sys.argv[1].split():
    importlib.import_module(name)
print(*sorted(set(sys.modules) - before), sep="\\n")
"""


def loaded_by(*modules: str) -> set[str]:
    """Return what a fresh interpreter has loaded after importing `modules`."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, " ".join(modules)],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SRC), "PATH": ""},
    )
    return set(done.stdout.split())


def broken_promises(loaded: Collection[str], forbidden: Collection[str]) -> set[str]:
    """Return the members of `forbidden` that are among the `loaded` modules."""
    return set(forbidden) & set(loaded)


@pytest.mark.parametrize(("module", "forbidden"), PROMISES.items())
def test_import_loads_nothing_else(module: str, forbidden: tuple[str, ...]) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert broken_promises(loaded, forbidden) == set()


def test_an_extra_is_noticed() -> None:
    """The check above can fail: an import of an extra beside the module is seen."""
    loaded = loaded_by("nvfp4_moe.reference", "hypothesis", "click")
    assert broken_promises(loaded, PROMISES["nvfp4_moe.reference"]) == {"hypothesis", "click"}
