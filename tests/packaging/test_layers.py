"""The import contracts of pyproject.toml: kept by the tree, complete, and each shown to fail on a planted violation."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("importlinter", reason="needs the package import-linter (extra dev)")

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

SHARED_WITH_CUDA = {
    "__init__",
    "checks",
    "expert_layouts",
    "expert_weights",
    "formats",
    "layouts",
    "padding",
    "tables",
    "topk_ids",
    "worst_routings",
}
"""Modules of `reference` that `cuda` may use: sizes, layouts, formats, measured tables and checks at the door."""

PLANTED = {
    "reference/planted.py": "import nvfp4_moe.verification\n",
    "cuda/planted.py": "from nvfp4_moe.reference.quantize import quantize\n",
    "verification/oracle.py": "import nvfp4_moe.reference.padding\n",
    "analysis/planted.py": "import nvfp4_moe.cuda\n",
    "verification/planted_strategies.py": "import hypothesis\n",
    "verification/planted_prover.py": "import z3\n",
    "analysis/planted_plot.py": "import matplotlib\n",
    "verification/planted_terminal.py": "import rich\n",
    "verification/planted_ffi.py": "import tvm_ffi\n",
    "verification/planted_pytest.py": "import pytest\n",
}
"""A violation for each contract."""


def contracts() -> dict[str, dict[str, Any]]:
    """Return the contracts of pyproject.toml by id."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["id"]: contract for contract in configuration["tool"]["importlinter"]["contracts"]}


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    """Run lint-imports with the repository's contracts over the package in `source`."""
    environment = {**os.environ, "PYTHONPATH": str(source), "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, "-c", LINT, str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


def verdicts(output: str) -> dict[str, str]:
    """Return KEPT or BROKEN for each contract named in the output."""
    names = [contract["name"] for contract in contracts().values()]
    lines = re.findall(r"^(.+) (KEPT|BROKEN)\b", output, re.MULTILINE)
    return {name: verdict for name, verdict in lines if name in names}


def test_the_tree_keeps_the_contracts() -> None:
    done = lint_imports(SRC)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdicts(done.stdout) == {contract["name"]: "KEPT" for contract in contracts().values()}


def test_each_contract_breaks_on_its_planted_violation(tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__", "*.npz", "*.egg-info")
    shutil.copytree(SRC / "nvfp4_moe", tmp_path / "nvfp4_moe", ignore=ignore)
    for name, text in PLANTED.items():
        with (tmp_path / "nvfp4_moe" / name).open("a", encoding="utf-8") as file:
            file.write(text)
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(done.stdout) == {contract["name"]: "BROKEN" for contract in contracts().values()}


def test_every_module_of_reference_is_shared_with_cuda_or_forbidden_to_it() -> None:
    modules = {path.stem for path in (ROOT / "reference").glob("*.py")}
    forbidden = {name.rsplit(".", 1)[1] for name in contracts()["cuda-reference"]["forbidden_modules"]}
    assert forbidden & SHARED_WITH_CUDA == set()
    assert modules <= forbidden | SHARED_WITH_CUDA


def test_every_oracle_module_is_under_its_contract() -> None:
    modules = {f"nvfp4_moe.verification.{path.stem}" for path in (ROOT / "verification").glob("oracle*")}
    assert modules == set(contracts()["oracle"]["source_modules"])


def _imports(path: Path) -> Iterator[str]:
    """Yield the top-level names that a source file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


def third_party(folder: Path) -> set[str]:
    """Return the top-level names that the modules of `folder` import, without the standard library."""
    names = {name for path in folder.rglob("*.py") for name in _imports(path)}
    return names - sys.stdlib_module_names


def test_reference_needs_torch_alone() -> None:
    assert third_party(ROOT / "reference") <= {"torch", "nvfp4_moe"}


def test_a_further_need_of_reference_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(
        "import torch\n\ndef f():\n    from numpy import linalg\n    import os\n"
    )
    assert third_party(tmp_path) == {"torch", "numpy"}
