"""Files of torch.save that nobody vouches for: read with `weights_only=True`, after a look at what they hold.

`torch.load(weights_only=True)` runs no code of the file, yet a file can still ask it for memory: compressed
members that unfold, a tensor that claims more than is stored. So before it is called

- every member of the archive must be stored uncompressed, and all of them together be no larger than the
  file;
- the pickle may name nothing but tensors of the types in `STORAGE_BYTES`, and be at most `MOST_PICKLE_BYTES`
  long (lists of numbers take some ten times the memory of their pickle);
- every storage must have the bytes that the pickle counts for it: torch would read those of its neighbours
  instead.

Storages are then mapped, not read. What it returns are plain containers and CPU tensors, whose sizes
`checked_tensor` holds against what is stored. The form that torch wrote before version 1.6 is refused.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nvfp4_moe.verification.trace_model import MAX_OPEN_IDS, TraceError

MOST_PICKLE_BYTES = 1 << 24
INTEGER_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

STORAGE_BYTES = {
    "ByteStorage": 1,
    "CharStorage": 1,
    "BoolStorage": 1,
    "ShortStorage": 2,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "IntStorage": 4,
    "FloatStorage": 4,
    "LongStorage": 8,
    "DoubleStorage": 8,
}
"""Bytes of an entry, by the class that torch names in a pickle."""

GLOBALS = frozenset(
    {
        "torch._utils _rebuild_tensor_v2",
        "collections OrderedDict",
        *(f"torch {storage}" for storage in STORAGE_BYTES),
    }
)
"""What the pickle of a file may name: plain tensors."""

_PICKLE = "data.pkl"
_QUOTED = 200  # characters of another library's error that ours shows


def is_torch_archive(path: Path) -> bool:
    """Return whether a zip archive is one that torch.save wrote: a pickle beside its tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(_is_pickle(name) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def load_torch_file(path: Path) -> Any:
    """Return what a file of torch.save holds.

    Raises:
        TraceError: no such archive, one that is compressed or lies about its size, anything but containers and
            plain tensors, or damaged.
        OSError: the file cannot be read.
    """
    _check_archive(path)
    try:
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # whatever its parsers raise over damaged bytes
        raise TraceError(path, f"torch.load refuses it: {_reason(error)}") from error


def checked_tensor(path: Path, place: str, value: Any, *, dimensions: int) -> torch.Tensor:
    """Return `value` if it is a plain integer tensor of so many dimensions and no larger than what is stored.

    Raises:
        TraceError: anything else; the text names the place.
    """
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.device.type != "cpu":
        raise TraceError(path, f"must be a tensor, got {type(value).__name__}", place=place)
    if value.dtype not in INTEGER_TYPES or value.ndim != dimensions:
        raise TraceError(
            path,
            f"must be an integer tensor of {dimensions} dimensions, got {tuple(value.shape)} {value.dtype}",
            place=place,
        )
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise TraceError(path, f"has shape {tuple(value.shape)}, more than is stored", place=place)
    if value.numel() > MAX_OPEN_IDS:
        raise TraceError(path, f"has {value.numel()} entries, at most {MAX_OPEN_IDS} are legal", place=place)
    return value


def _reason(error: Exception) -> str:
    """Return the first line of what an error says, or its kind: some of the parsers' errors say nothing."""
    return next((line for line in str(error).splitlines() if line), type(error).__name__)[:_QUOTED]


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise TraceError(path, "has compressed members, which torch.save never writes")
            if sum(member.file_size for member in members) > path.stat().st_size:
                raise TraceError(path, "claims more bytes than it has")
            pickles = [member for member in members if _is_pickle(member.filename)]
            if len(pickles) != 1:
                raise TraceError(path, f"must hold one {_PICKLE}, got {len(pickles)}")
            if pickles[0].file_size > MOST_PICKLE_BYTES:
                raise TraceError(
                    path,
                    f"its {_PICKLE} has {pickles[0].file_size} bytes, at most {MOST_PICKLE_BYTES} are read",
                )
            data = archive.read(pickles[0])
            sizes = {member.filename: member.file_size for member in members}
            folder = pickles[0].filename.removesuffix(_PICKLE)
    except TraceError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise TraceError(path, f"is no readable archive: {error}") from error
    try:
        problem = _problem(data, {key.removeprefix(f"{folder}data/"): size for key, size in sizes.items()})
    except Exception as error:  # pickletools raises whatever its readers meet in damaged bytes
        raise TraceError(path, f"its {_PICKLE} is damaged: {_reason(error)}") from error
    if problem:
        raise TraceError(path, problem)


# --- what a pickle asks for, without running it ----------------------------------------------------------------

_ATOMS = frozenset(
    (
        "GLOBAL",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "UNICODE",
        "BININT",
        "BININT1",
        "BININT2",
        "INT",
        "LONG",
        "LONG1",
        "LONG4",
    )
)
"""Opcodes that push a text, a number or a name."""
_GETS, _PUTS = frozenset(("BINGET", "LONG_BINGET", "GET")), frozenset(("BINPUT", "LONG_BINPUT", "PUT"))
_STORAGE_ID = 5
"""Entries of the tuple by which a pickle asks for a storage: "storage", its class, its key, its device, its entries."""


def _problem(data: bytes, sizes: Mapping[str, int]) -> str | None:
    """Return what is wrong with a pickle: a name that is not legal, or a storage of another size than it counts.

    A storage must be asked for by a tuple that is written out right before (torch writes no other), so that
    what stands there is what torch will use.
    """
    memo: dict[Any, Any] = {}
    recent: list[tuple[str, Any]] = []  # the last opcodes but those that only remember
    for opcode, argument, _ in pickletools.genops(data):
        name, value = opcode.name, argument
        if name in _PUTS:
            memo[argument] = recent[-1][1] if recent and recent[-1][0] == "atom" else None
            continue
        if name in ("INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4", "MEMOIZE", "PERSID"):
            return f"holds the pickle opcode {name}; only containers and plain tensors are read"
        if name == "GLOBAL" and value not in GLOBALS:
            return f"holds {str(value).replace(' ', '.')}; only containers and plain tensors are read"
        if name == "BINPERSID":
            problem = _storage_problem(recent, sizes)
            if problem:
                return problem
        if name in _GETS:
            value = memo.get(argument)
        recent.append(("atom", value) if name in _ATOMS or name in _GETS else (name, None))
        del recent[: -(_STORAGE_ID + 2)]
    return None


def _storage_problem(recent: list[tuple[str, Any]], sizes: Mapping[str, int]) -> str | None:
    kinds = [kind for kind, _ in recent]
    if kinds != ["MARK", *["atom"] * _STORAGE_ID, "TUPLE"]:
        return "asks for a storage as torch.save never does"
    tag, storage, key, _, entries = (value for _, value in recent[1:-1])
    width = STORAGE_BYTES.get(str(storage).removeprefix("torch "))
    if tag != "storage" or width is None or not isinstance(key, str) or not isinstance(entries, int):
        return "asks for a storage as torch.save never does"
    there = sizes.get(key)
    if there != entries * width:
        return f"counts {entries * width} bytes for storage {key[:20]!r}, {there or 'none'} are there"
    return None


def _is_pickle(name: str) -> bool:
    return name.count("/") == 1 and name.endswith(f"/{_PICKLE}")
