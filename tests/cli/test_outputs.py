"""Outputs: what may be named by `--json`, `--out` and `--report`, how it is written."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from nvfp4_moe.cli import main, outputs
from nvfp4_moe.cli.options import InputError
from nvfp4_moe.cli.outputs import check_folder, check_json_path, write_json


def refused(path: Path | str, *others: Path | str | None) -> str:
    with pytest.raises(InputError) as caught:
        check_json_path(str(path), others=others)
    return str(caught.value)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("path", [None, "-"])
def test_no_file_needs_no_check(path: str | None) -> None:
    check_json_path(path, others=["-"])


def test_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    check_json_path(str(path))
    assert listing(tmp_path) == []
    write_json(str(path), "{}\n")
    assert path.read_text() == "{}\n"
    assert listing(tmp_path) == ["x.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~outputs._umask()


def test_an_old_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    path.chmod(0o640)
    check_json_path(str(path))
    write_json(str(path), "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(there: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "deep" / "target.json", tmp_path / "link.json"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link.symlink_to(target)
    check_json_path(str(link))
    write_json(str(link), "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_json_path(str(pipe))
        write_json(str(pipe), "{}\n")
        assert os.read(reader, 100) == b"{}\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert listing(tmp_path) == ["pipe"]


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("x" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    check_json_path(str(path))
    write_json(str(path), "{}")
    assert path.read_text() == "{}"


def make_loop(folder: Path) -> Path:
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    return folder / "a"


def make_readonly(folder: Path) -> Path:
    path = folder / "kept.json"
    path.write_text("kept")
    path.chmod(0o400)
    return path


def make_dangling(folder: Path) -> Path:
    (folder / "dangling").symlink_to(folder / "absent" / "x.json")
    return folder / "dangling"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: "", "a file name is needed, got an empty one"),
        (lambda folder: folder, "is a folder"),
        (lambda folder: f"{folder}/new/", "is a folder"),
        (lambda folder: folder / "absent" / "x.json", "does not exist"),
        (lambda folder: folder / ("x" * 5000), "File name too long"),
        (lambda folder: "a\0b", "null byte"),
        (lambda folder: make_readonly(folder) / "x.json", "Not a directory"),
        (lambda folder: "/proc/x.json", "the folder /proc is not writable"),
        (make_loop, "symbolic links"),
        (make_readonly, "not writable"),
        (make_dangling, "does not exist"),
    ],
)
def test_refused_at_the_door(make: object, said: str, tmp_path: Path) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    before = listing(tmp_path)
    text = refused(path)
    assert text.startswith("--json: ")
    assert said in text
    assert listing(tmp_path) == before


def test_what_the_run_needs_is_not_overwritten(tmp_path: Path) -> None:
    needed = tmp_path / "subject.py"
    needed.write_text("kept")
    (tmp_path / "link").symlink_to(needed)
    (tmp_path / "hard").hardlink_to(needed)
    for name in ("subject.py", "link", "hard"):
        for other in (needed, f"{needed}:Subject"):
            assert "which this run needs" in refused(tmp_path / name, None, other)
    absent = tmp_path / "store.db"
    assert "which this run needs" in refused(f"{tmp_path}/../{tmp_path.name}/store.db", absent)
    check_json_path(str(tmp_path / "other.json"), others=[needed, absent, None, "reference"])


def test_the_file_that_standard_output_goes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    with path.open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert "give - instead" in refused(path)


def test_a_file_that_cannot_be_written_late_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.json cannot be written: No such file"):
        write_json(str(tmp_path / "absent" / "x.json"), "{}")


# --- folders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".", "new", "a/b/c", "a/../b"])
def test_a_folder_that_can_be_made_is_not_made_yet(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_folder("--out", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    check_folder("--out", Path(name))
    assert listing(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("file", "file is not a folder"),
        ("file/below", "file is not a folder"),
        ("dangling", "dangling is not a folder"),
        ("x" * 5000, "File name too long"),
        ("/proc/new", "cannot be made"),
        ("/proc", "not writable"),
    ],
)
def test_folders_that_are_refused(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "dangling").symlink_to("absent")
    before = listing(tmp_path)
    with pytest.raises(InputError, match=r"^--out: ") as caught:
        check_folder("--out", tmp_path / name)
    assert said in str(caught.value)
    assert listing(tmp_path) == before


def test_a_folder_without_leave_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*unused: object, **named: object) -> None:  # root, as in containers, may write everywhere
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert "not writable: Permission denied" in refused(tmp_path / "x.json")
    with pytest.raises(InputError, match="not writable: Permission denied"):
        check_folder("--out", tmp_path)


def test_a_json_that_cannot_be_delivered_is_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    """The file was right at the door; what was asked for is undecided to its reader, and not wrong usage."""
    arguments = "bound --experts 8 --topk 2 --max-num-batched-tokens 16 --json /dev/full"
    assert main.run(arguments.split()) == 3
    assert "/dev/full cannot be written: No space left on device" in capsys.readouterr().err
