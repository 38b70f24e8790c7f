"""Building: the cache goes by content, a failed build shows the compiler's lines, two processes may build at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nvfp4_moe.cuda import build

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
#include <tvm/ffi/function.h>
int64_t answer() { return %d; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(answer, answer);
"""
PROGRAM = """
import sys
from pathlib import Path
from nvfp4_moe.cuda import build
print(build.load(build.Recipe(name="answer", sources=[Path(sys.argv[1])])).answer())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NVFP4_MOE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def recipe(folder: Path, text: str) -> build.Recipe:
    source = folder / "answer.cpp"
    source.write_text(text)
    return build.Recipe(name="answer", sources=[source])


def test_changed_content_is_built_anew_and_same_content_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = recipe(folder, SOURCE % 1)
    path = build.build(first)
    assert build.load(first).answer() == 1
    second = recipe(folder, SOURCE % 2)
    assert build.build(second) != path
    assert build.load(second).answer() == 2
    recipe(folder, SOURCE % 1)
    monkeypatch.setattr("tvm_ffi.cpp.build", lambda *_, **__: pytest.fail("built again"))
    assert build.build(first) == path


def test_build_that_was_cut_short_is_begun_again(folder: Path) -> None:
    cut = recipe(folder, SOURCE % 3)
    path = build.build(cut)
    path.write_bytes(b"not a library")
    (path.parent / "complete").unlink()
    os.utime(path, (0, 0))
    path.unlink()
    assert build.load(cut).answer() == 3


def test_failed_build_shows_the_compilers_lines(folder: Path) -> None:
    wrong = recipe(folder, "int answer() { return missing_name; }")
    with pytest.raises(build.BuildError, match=r"answer\.cpp:1:\d+: error: .*missing_name"):
        build.build(wrong)


def test_two_processes_may_build_at_once(folder: Path) -> None:
    source = recipe(folder, SOURCE % 4).sources[0]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", PROGRAM, str(source)]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate(timeout=120)[0].strip() for process in started] == ["4", "4"]


def test_environment_is_restored_after_a_build(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_FFI_CUDA_ARCH_LIST", "8.0")
    simple = recipe(folder, SOURCE % 5)
    build.build(
        build.Recipe(
            name="answer",
            sources=simple.sources,
            environment={"TVM_FFI_CUDA_ARCH_LIST": "9.0a", "NEWLY_SET": "1"},
        )
    )
    assert os.environ["TVM_FFI_CUDA_ARCH_LIST"] == "8.0"
    assert "NEWLY_SET" not in os.environ


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.missing("host") == "no-such-compiler was not found on PATH"


def test_unknown_library_is_refused() -> None:
    with pytest.raises(ValueError, match="got 'metal'"):
        build.missing("metal")


@pytest.mark.parametrize(
    ("chosen", "base", "root"),
    [("/a/b", "/c", "/a/b"), ("", "/c", "/c/nvfp4-moe"), ("", "", "~/.cache/nvfp4-moe")],
)
def test_cache_folder(monkeypatch: pytest.MonkeyPatch, chosen: str, base: str, root: str) -> None:
    monkeypatch.setenv("NVFP4_MOE_CACHE_DIR", chosen)
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert build.cache_root() == Path(root).expanduser()
