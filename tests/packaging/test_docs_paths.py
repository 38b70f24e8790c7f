"""The documents name only what exists: files, names inside files, make targets and commands."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from nvfp4_moe.cli.commands import COMMANDS
from nvfp4_moe.reference.padding import FORMULAS
from nvfp4_moe.verification.claims import CLAIMS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "paper_notes.md", "docs/vllm.md")

GENERATED = ("nvfp4-moe-out", ".venv", "dist", "build")
"""Folders that the project's commands make: named in the documents, absent from a clone."""

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
PATH = re.compile(r"^[\w.\-*]+(/[\w.\-*]+)+/?$|^[\w.\-]+\.(md|toml|txt|yaml)$|^Makefile$")
IN_FILE = re.compile(r"^(?P<path>[\w.\-/]+\.\w+)::?(?P<name>[A-Za-z_][\w.]*)$")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON_FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def top_level_names() -> set[str]:
    """Return what stands at the repository's top."""
    return {path.name for path in ROOT.iterdir()}


def _is_ours(path: str) -> bool:
    return path.split("/", 1)[0] not in GENERATED


def named_paths(text: str) -> set[str]:
    """Return the repository paths that a document names: in backticks, in links, in blocks of code.

    In backticks everything that looks like a path counts, so a wrong first folder is noticed; sources outside this
    repository are therefore written without backticks. In a block of code only words below a folder that exists
    count, since the rest are other people's files.
    """
    prose = FENCE.sub("", text)
    found = {word for code in CODE.findall(prose) for word in code.split() if PATH.match(word)}
    found |= {match["path"] for code in CODE.findall(prose) if (match := IN_FILE.match(code))}
    found |= {link.split("#", 1)[0] for link in LINK.findall(prose)}
    top = top_level_names()
    for block in FENCE.findall(text):
        found |= {word for word in block.split() if PATH.match(word) and word.split("/", 1)[0] in top}
    return {path for path in found if _is_ours(path)}


def named_symbols(text: str) -> set[tuple[str, str]]:
    """Return the (path, name) pairs of every `path:name` or `path::name` in backticks."""
    matches = (IN_FILE.match(code) for code in CODE.findall(FENCE.sub("", text)))
    return {(match["path"], match["name"]) for match in matches if match}


def absent_paths(paths: set[str]) -> set[str]:
    """Return the paths (patterns allowed) that match nothing in the repository."""
    return {path for path in paths if not any(ROOT.glob(path.rstrip("/")))}


def absent_symbols(symbols: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the pairs whose file does not contain the name as a word."""
    absent = set()
    for path, name in symbols:
        file = ROOT / path
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        if not all(re.search(rf"\b{re.escape(part)}\b", text) for part in name.split(".")):
            absent.add((path, name))
    return absent


def read(document: str) -> str:
    """Return the text of a document at the top of the repository."""
    return (ROOT / document).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document: str) -> None:
    assert absent_paths(named_paths(read(document))) == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_are_in_their_files(document: str) -> None:
    assert absent_symbols(named_symbols(read(document))) == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^|\$ )make ([a-z-]+)", read(document), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_exist(document: str) -> None:
    """Every `nvfp4-moe COMMAND` is one that works, or stands in a line that says it is planned."""
    lines = [line for line in read(document).splitlines() if "planned" not in line.lower()]
    named = {name for line in lines for name in re.findall(r"nvfp4-moe ([a-z][a-z-]+)\b(?! and )", line)}
    assert named <= set(COMMANDS)


def test_readme_lists_every_command() -> None:
    rows = set(re.findall(r"^\| `nvfp4-moe ([a-z-]+)", read("README.md"), re.MULTILINE))
    assert rows == set(COMMANDS)


@pytest.mark.parametrize("name", FORMULAS)
def test_ledger_states_each_formula_as_coded(name: str) -> None:
    """The ledger's table of formulas is the registry's: same name, same rule."""
    assert f"| `{name}` | `{FORMULAS[name].rule}` |" in read("paper_notes.md")


def test_ledger_names_every_claim() -> None:
    ledger = read("paper_notes.md")
    assert {claim_id for claim_id in CLAIMS if f"`{claim_id}`" not in ledger} == set()


@pytest.mark.parametrize("block", PYTHON_FENCE.findall(read("README.md")))
def test_python_examples_import_what_exists(block: str) -> None:
    """Each block parses, its import statements work, and what it calls can be called; nothing long is run."""
    tree = ast.parse(block)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names: dict[str, object] = {}
    exec(compile(ast.Module(imports, type_ignores=[]), "README.md", "exec"), names)
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & set(names)
    assert {name for name in called & set(names) if not callable(names[name])} == set()


class TestCheckItself:
    """What the checks above look for is found, and what is wrong is noticed."""

    def test_paths_are_found_where_they_are_named(self) -> None:
        text = "`reference/padding.py` [x](Makefile#y) `nvfp4-moe-out/a.json` `f16/bf16`\n```\ncat src/nvfp4_moe\n```\n"
        assert named_paths(text) == {"reference/padding.py", "Makefile", "f16/bf16", "src/nvfp4_moe"}

    def test_an_absent_path_is_noticed(self) -> None:
        assert absent_paths({"reference/padding.py", "reference/paddings.py"}) == {"reference/paddings.py"}

    def test_an_absent_name_is_noticed(self) -> None:
        right = ("reference/padding.py", "exact_any_rows")
        wrong = ("reference/padding.py", "exact_any_row")
        assert named_symbols("`reference/padding.py:exact_any_rows`") == {right}
        assert absent_symbols({right, wrong}) == {wrong}
