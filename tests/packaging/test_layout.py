"""The shape of the repository: links, names that must not be taken, and the size of files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LINKS = {
    "src/nvfp4_moe/reference": "../../reference",
    "src/nvfp4_moe/verification": "../../verification",
    "src/nvfp4_moe/analysis": "../../analysis",
    "src/nvfp4_moe/cuda": "../../cuda/python",
    "cuda/python/include": "../include",
    "cuda/python/csrc": "../csrc",
}
NVIDIA_NAMES = ("bindings", "core", "pathfinder", "tile")
"""Sub-packages of NVIDIA's `cuda` namespace: a folder of that name under `cuda/` would be found in their place."""

SOURCE_SUFFIXES = {".py", ".h", ".cuh", ".cu", ".cpp", ".sh"}
LONGEST_SOURCE = 400
LONGER_SOURCES = {
    "tests/verification/test_traces.py": "small cases of one reader, form by form",
    "tests/verification/test_campaign.py": "small cases of one store, fault by fault",
    "tests/verification/conformance/test_quant_check.py": "planted faults of one judgement, class by class",
    "tests/verification/test_against.py": "small cases of one comparison, fault by fault",
    "tests/verification/test_witness.py": "one case for each kind of witness",
}
"""Sources above the limit, each with the reason why it is one file."""


def sources(root: Path = ROOT) -> list[Path]:
    """Return the source files of the repository, each once (links not followed)."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [n for n in subfolders if not n.startswith(".") and n not in ("build", "dist")]
        found += [Path(folder) / name for name in names if Path(name).suffix in SOURCE_SUFFIXES]
    return sorted(found)


def too_long(paths: list[Path], limit: int = LONGEST_SOURCE) -> dict[str, int]:
    """Return the line counts of the files above `limit`, by path from the root."""
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    return {
        path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name: count
        for path, count in counts.items()
        if count > limit
    }


@pytest.mark.parametrize(("link", "target"), LINKS.items())
def test_link_is_relative_and_resolves(link: str, target: str) -> None:
    path = ROOT / link
    assert path.is_symlink(), f"{link} must be a symbolic link, not a copy"
    assert os.readlink(path) == target
    assert path.resolve().is_dir()


def test_top_level_cuda_is_no_package() -> None:
    assert not (ROOT / "cuda" / "__init__.py").exists(), "it would shadow NVIDIA's cuda namespace"


@pytest.mark.parametrize("name", NVIDIA_NAMES)
def test_no_folder_takes_a_name_of_nvidias_namespace(name: str) -> None:
    assert not (ROOT / "cuda" / name).exists()
    assert not (ROOT / "cuda" / f"{name}.py").exists()


def test_package_has_no_other_top_level_folders() -> None:
    names = {path.name for path in (ROOT / "src" / "nvfp4_moe").iterdir() if path.is_dir()}
    assert names - {"__pycache__"} == {"reference", "verification", "analysis", "cuda", "cli"}


def test_every_folder_with_sources_is_a_package() -> None:
    lacking = {
        path.parent.relative_to(ROOT).as_posix()
        for top in ("reference", "verification", "analysis", "cuda/python", "src/nvfp4_moe")
        for path in (ROOT / top).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert lacking == set()


def test_no_source_file_is_too_long() -> None:
    assert set(too_long(sources())) - set(LONGER_SOURCES) == set()


def test_exceptions_to_the_length_are_still_needed() -> None:
    assert set(LONGER_SOURCES) <= set(too_long(sources()))


def test_a_long_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("\n" * (LONGEST_SOURCE + 1))
    (tmp_path / "short.py").write_text("\n" * LONGEST_SOURCE)
    assert too_long(sources(tmp_path)) == {"long.py": LONGEST_SOURCE + 1}


def test_nothing_generated_is_tracked() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert listing.stdout == ""
