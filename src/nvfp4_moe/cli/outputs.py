"""Files and folders that a command writes: checked at the door and written whole.

A file that somebody names is replaced only where it is a regular file (a link is followed, the link stays), by a rename,
so that readers see all of it or nothing. Pipes and character devices are written to as they are. Whatever the run reads,
or writes otherwise, is never overwritten. Checks leave nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nvfp4_moe.cli.options import InputError
from nvfp4_moe.cli.streams import tell, write_text


class UndeliveredError(InputError):
    """A file that was right at the door cannot be written now: the work is done, its output is not delivered."""


_PREFIX = ".nvfp4-moe-"
"""Begin of temporary names, apart from the file's own name, which may be as long as names can be."""


def check_json_path(path: str | None, *, others: Iterable[Path | str | None] = ()) -> None:
    """Refuse a `--json` that cannot be written or must not be, before any long work.

    Args:
        path: as given; None and "-" are always right.
        others: what else the run reads or writes: files, subjects as FILE.py:ATTR. None is skipped.

    Raises:
        InputError: the text names the path and the fault.
    """
    if path is None or path == "-":
        return
    if not path:
        raise InputError("--json: a file name is needed, got an empty one")
    check_file("--json", path, others=others)


def check_file(option: str, path: str, *, others: Iterable[Path | str | None] = ()) -> None:
    """Refuse a file that cannot be written or must not be; `option` begins the message. See `check_json_path`."""
    try:
        _check_file(path, [name for other in others if other is not None for name in _names(str(other))])
    except OSError as error:
        raise InputError(f"{option}: {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error


def write_json(path: str, text: str) -> None:
    """Write `text` to a file that `check_json_path` has passed, or to standard output when path is "-".

    Raises:
        UndeliveredError: the file cannot be written.
        OutputError: standard output takes no more.
    """
    if path == "-":
        write_text(text)
        return
    try:
        _write_file(path, text)
    except OSError as error:
        raise UndeliveredError(f"{path} cannot be written: {error.strerror or error}") from error


def written(path: str, text: str) -> bool:
    """Write as `write_json` does; a file that cannot be written now is told, so that a verdict is not lost by it."""
    try:
        write_json(path, text)
    except InputError as error:
        tell(f"error: {error}")
        return False
    return True


def _names(given: str) -> list[str]:
    """Return the paths that `given` may mean: itself, and FILE.py of FILE.py:ATTR."""
    file, colon, _ = given.rpartition(":")
    return [given, file] if colon else [given]


def _check_file(path: str, others: list[str]) -> None:
    found = _stat(path)
    if path.endswith(os.sep) or (found is not None and stat.S_ISDIR(found.st_mode)):
        raise ValueError(f"{path} is a folder, a file name is needed")
    for other in others:
        if _same(path, other):
            raise ValueError(f"{path} is the same file as {other}, which this run needs")
    if found is not None and not stat.S_ISREG(found.st_mode):
        if not (stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
            raise ValueError(f"{path} is no regular file, pipe or character device")
    elif found is not None and any(os.path.samestat(found, held) for held in _standard_streams()):
        raise ValueError(f"{path} is what standard output or standard error goes to; give - instead")
    else:
        _check_folder_of(Path(os.path.realpath(path)))
    # root may write to everything, yet what was made read-only is meant to stay
    if found is not None and not (os.access(path, os.W_OK) and stat.S_IMODE(found.st_mode) & 0o222):
        raise ValueError(f"{path} is there and not writable")


def _check_folder_of(target: Path) -> None:
    if not target.parent.is_dir():
        raise ValueError(f"the folder {target.parent} does not exist")
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=_PREFIX, dir=target.parent)
    except OSError as error:
        raise ValueError(f"the folder {target.parent} is not writable: {error.strerror or error}") from error
    os.close(descriptor)
    os.unlink(temporary)


def _same(path: str, other: str) -> bool:
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    with contextlib.suppress(OSError):  # one of them is not there: names were all to compare
        return os.path.samefile(path, other)
    return False


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _standard_streams() -> list[os.stat_result]:
    held = []
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # captured or closed: no descriptor
            held.append(os.fstat(stream.fileno()))
    return held


def _write_file(path: str, text: str) -> None:
    found = _stat(path)
    if found is not None and not stat.S_ISREG(found.st_mode):
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return
    target = os.path.realpath(path)
    descriptor, temporary = tempfile.mkstemp(prefix=_PREFIX, dir=os.path.dirname(target))
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o666 & ~_umask() if found is None else stat.S_IMODE(found.st_mode))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


# --- folders -----------------------------------------------------------------------------------------------


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be made or written; `option` begins the message.

    The missing part of the path is tried under a temporary name, so that runs beside this one never see it.

    Raises:
        InputError: the text names the path and the fault.
    """
    there, missing = folder, []
    while not os.path.lexists(there):
        missing.append(there.name)
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{option}: {there} is not a folder")
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=there) as trial:
            Path(trial, *reversed(missing)).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"the folder {there} is not writable" if not missing else f"{folder} cannot be made"
        raise InputError(f"{option}: {what}: {error.strerror or error}") from error
