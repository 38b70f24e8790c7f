"""Processes of children: how they end, what they printed last, and whether they run programs of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvfp4_moe.verification import child_process, task_child
from nvfp4_moe.verification.child_process import ending, last_printed, runs_programs
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.conformance.supervisor import Limits, run_cases
from nvfp4_moe.verification.task_child import ChildEnded, TaskChild

HANGS = "import time\ntime.sleep(3600)\n"
BUILDS = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(3)'])\n"
WORKS = "def shuffle_rows(input, map): return input[map.long()]\n"


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_user_waits_a_minute_for_an_import_that_hangs() -> None:
    assert task_child.LOAD_SECONDS == Limits().load_seconds == 60


def test_an_import_that_hangs_is_given_up(file: Callable[[str], str]) -> None:
    with TaskChild(file(HANGS), "outputs") as child, pytest.raises(ChildEnded, match=r"no answer for 0\.2 s"):
        child.card(seconds=0.2)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux tells of a process's children")
def test_an_import_that_builds_is_waited_for(
    file: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading torch alone takes longer than this limit, so it begins behind it."""
    spec = file(WORKS + BUILDS)
    with TaskChild(spec, "outputs") as child:
        deadline = time.monotonic() + 60
        while not runs_programs(child._process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert child.card(seconds=0.5).name == "mine"
    monkeypatch.setattr(task_child, "BUILD_SECONDS", 0.1)
    with TaskChild(spec, "outputs") as child, pytest.raises(ChildEnded):
        child.card(seconds=0.5)


def test_the_supervisor_gives_up_what_neither_answers_nor_builds(file: Callable[[str], str]) -> None:
    limits = Limits(load_seconds=0.2, build_seconds=60)
    with pytest.raises(SubjectUnavailable, match=r"no answer for 0\.2 s"):
        list(run_cases(file(HANGS), [0], level=1, seed=0, limits=limits))


def test_only_a_process_with_children_runs_programs() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        assert not runs_programs(idle.pid)
        idle.kill()
    assert not runs_programs(2**22 + 1)


def test_a_fork_ends_with_its_own_code_and_words() -> None:
    def say() -> None:
        print("the last words")

    with tempfile.TemporaryFile() as printed:
        process = child_process.fork(
            Subject("any", "cpu", swizzle=lambda linear: linear), say, parents=[], printed=printed
        )
        assert child_process.end(process, patience=30) == 0
        assert process.poll() == 0
        assert last_printed(printed) == ["the last words"]


def test_one_that_does_not_end_is_killed() -> None:
    with tempfile.TemporaryFile() as printed:
        subject = Subject("any", "cpu", swizzle=lambda linear: linear)
        process = child_process.fork(subject, lambda: time.sleep(3600), parents=[], printed=printed)
        assert child_process.end(process, patience=0.05) is None
        assert process.poll() == -9


@pytest.mark.parametrize(
    ("code", "lines", "told"),
    [(None, ["a", "b"], "killed: a | b"), (-11, [], "SIGSEGV"), (3, ["x"], "exit code 3: x")],
)
def test_endings(code: int | None, lines: list[str], told: str) -> None:
    assert ending(code, lines) == told
