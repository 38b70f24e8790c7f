"""The wheel: built here from the source archive, held to the tree, and the check itself shown to fail."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_wheel = _load_tool("check_wheel")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel built from a source archive built from this tree."""
    if importlib.util.find_spec("build") is None or importlib.util.find_spec("setuptools") is None:
        pytest.skip("needs the packages build and setuptools (extra dev)")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_wheel_is_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert check_wheel.differences(archive.namelist(), check_wheel.package_files()) == []


def test_wheel_has_one_top_level_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/", 1)[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"nvfp4_moe"}


@pytest.mark.parametrize(
    "name",
    [
        "nvfp4_moe/py.typed",
        "nvfp4_moe/reference/padding.py",
        "nvfp4_moe/verification/result.py",
        "nvfp4_moe/verification/schema/verify.schema.json",
        "nvfp4_moe/cli/main.py",
    ],
)
def test_wheel_has_what_users_rely_on(wheel: Path, name: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert name in archive.namelist()


class TestCheckItself:
    """The check names what is missing and what is stray."""

    def test_of_a_right_wheel(self) -> None:
        metadata = {f"x-1.dist-info/{name}" for name in check_wheel.METADATA}
        assert check_wheel.differences({"nvfp4_moe/a.py", *metadata}, {"nvfp4_moe/a.py"}) == []

    def test_of_a_missing_file(self) -> None:
        metadata = {f"x-1.dist-info/{name}" for name in check_wheel.METADATA}
        assert check_wheel.differences(metadata, {"nvfp4_moe/a.h"}) == ["not in the wheel: nvfp4_moe/a.h"]

    def test_of_a_missing_licence(self) -> None:
        metadata = {f"x-1.dist-info/{name}" for name in check_wheel.METADATA - {"licenses/LICENSE"}}
        assert check_wheel.differences(metadata, set()) == ["not in the wheel: .dist-info/licenses/LICENSE"]

    @pytest.mark.parametrize("stray", ["tests/test_a.py", "nvfp4_moe/notes.txt", "cuda/x.py"])
    def test_of_a_stray_file(self, stray: str) -> None:
        metadata = {f"x-1.dist-info/{name}" for name in check_wheel.METADATA}
        assert check_wheel.differences({stray, *metadata}, set()) == [f"should not be in the wheel: {stray}"]

    def test_walk_follows_the_links(self) -> None:
        assert {"nvfp4_moe/reference/padding.py", "nvfp4_moe/py.typed"} <= check_wheel.package_files()

    def test_exit_code_of_a_bad_wheel(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        bad = tmp_path / "x-1-py3-none-any.whl"
        with zipfile.ZipFile(bad, "w") as archive:
            archive.writestr("stray.py", "")
        assert check_wheel.main([str(bad)]) == 1
        assert "should not be in the wheel: stray.py" in capsys.readouterr().out
