"""Integer arrays in `.npy` and `.npz` files, read in blocks of rows. Never pickle.

The size that a header claims is held against the size of the file before anything is allocated, and members of an
archive are decompressed piece by piece, so neither a large file nor a zip bomb needs memory. Arrays in Fortran order
cannot be read in blocks of rows; they are loaded whole up to `MAX_FORTRAN_BYTES`.

Every failure is a `TraceError` that names the file and the array.
"""

from __future__ import annotations

import io
import lzma
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from nvfp4_moe.verification.trace_model import TraceError

MAX_FORTRAN_BYTES = 1 << 26
MAX_TEXT = 200
"""Most characters of a text."""
ZIP_MAGIC = b"PK"
NPY_MAGIC: bytes = npy_format.MAGIC_PREFIX
_HEADER_BYTES = 1 << 14  # a header has at most 10,000 characters, the limit of numpy.lib.format
_READ_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted member
    NotImplementedError,  # a compression that this Python lacks
    ValueError,  # a member's name or offset
)
_HEADER_ERRORS = (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)
# All but the first come from the parser that numpy.lib.format runs over the header's text.


@dataclass(frozen=True, slots=True)
class StoredArray:
    """Header of an array in a file."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int
    """Bytes of the header."""

    @property
    def row_items(self) -> int:
        """Return the items of one row."""
        return math.prod(self.shape[1:])


class ArrayFile:
    """The arrays of one file, by name; a `.npy` file has one, called topk_ids."""

    def __init__(self, path: Path, archive: zipfile.ZipFile | None) -> None:
        self.path = path
        self._archive = archive
        names = [name.removesuffix(".npy") for name in archive.namelist()] if archive else ["topk_ids"]
        self.names = frozenset(names)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[ArrayFile]:
        """Open a `.npy` or `.npz` file, told apart by its first bytes."""
        with ExitStack() as stack:
            archive = None
            if not _is_npy(path):
                try:
                    archive = stack.enter_context(zipfile.ZipFile(path))
                except _READ_ERRORS as error:
                    raise TraceError(path, f"is no readable .npz archive: {error}") from error
            yield cls(path, archive)

    @property
    def form(self) -> str:
        """Return "npz" or "npy"."""
        return "npz" if self._archive else "npy"

    @contextmanager
    def _stream(self, name: str) -> Iterator[IO[bytes]]:
        """Open the bytes of an array, header included; failures of the file become `TraceError`."""
        try:
            if self._archive is None:
                with self.path.open("rb") as file:
                    yield file
            else:
                with self._archive.open(self._member(name)) as member:
                    yield member
        except TraceError:
            raise
        except _READ_ERRORS as error:
            raise TraceError(self.path, f"cannot be read: {error}", place=name) from error

    def _member(self, name: str) -> zipfile.ZipInfo:
        assert self._archive is not None
        return self._archive.getinfo(name if name in self._archive.namelist() else name + ".npy")

    def _bytes_of(self, name: str) -> int:
        return self.path.stat().st_size if self._archive is None else self._member(name).file_size

    def array(self, name: str, *, kinds: str = "iu") -> StoredArray:
        """Return the header of an array, checked against the bytes that are there."""
        with self._stream(name) as file:
            head = io.BytesIO(file.read(_HEADER_BYTES))
        try:
            shape, fortran_order, dtype = npy_header(head)
        except ValueError as error:
            raise TraceError(self.path, f"has no readable .npy header: {error}", place=name) from error
        found = StoredArray(name, shape, dtype, fortran_order, head.tell())
        self._check(found, kinds)
        return found

    def _check(self, array: StoredArray, kinds: str) -> None:
        if array.dtype.kind not in kinds:
            pickled = " (objects need pickle, which is never loaded)" if array.dtype.hasobject else ""
            legal = "text" if kinds == "U" else "an integer type"
            self.fail(array.name, f"dtype must be {legal}, got {array.dtype}{pickled}")
        if any(n < 0 for n in array.shape):
            self.fail(array.name, f"has a negative size in its shape {array.shape}")
        needed = array.offset + math.prod(array.shape) * array.dtype.itemsize
        there = self._bytes_of(array.name)
        if needed > there:
            self.fail(
                array.name, f"shape {array.shape} {array.dtype} needs {needed} bytes, the file has {there}"
            )

    def rows(self, array: StoredArray, rows_at_once: int) -> Iterator[NDArray[Any]]:
        """Yield the array in blocks of whole rows, (<= rows_at_once, ...), in order."""
        with self._stream(array.name) as file:
            _skip(file, array.offset)
            if array.fortran_order and len(array.shape) > 1:
                yield from self._fortran(file, array, rows_at_once)
                return
            for first in range(0, array.shape[0], rows_at_once):
                rows = min(rows_at_once, array.shape[0] - first)
                data = self._read(file, array, rows * array.row_items * array.dtype.itemsize, first)
                yield np.frombuffer(data, dtype=array.dtype).reshape(rows, *array.shape[1:])

    def _fortran(self, file: IO[bytes], array: StoredArray, rows_at_once: int) -> Iterator[NDArray[Any]]:
        size = math.prod(array.shape) * array.dtype.itemsize
        if size > MAX_FORTRAN_BYTES:
            self.fail(
                array.name,
                f"is {size} bytes in Fortran order, at most {MAX_FORTRAN_BYTES} are legal; save it in C order",
            )
        whole = np.frombuffer(self._read(file, array, size, 0), dtype=array.dtype).reshape(
            array.shape, order="F"
        )
        for first in range(0, array.shape[0], rows_at_once):
            yield whole[first : first + rows_at_once]

    def _read(self, file: IO[bytes], array: StoredArray, size: int, first: int) -> bytes:
        data = bytearray()
        while len(data) < size and (piece := file.read(size - len(data))):
            data += piece
        if len(data) < size:
            self.fail(array.name, f"ends inside the rows from {first} on: truncated?")
        return bytes(data)

    def scalar(self, name: str, low: int, high: int) -> int:
        """Return an integer that stands alone in an array, in [low, high]."""
        array = self.array(name)
        if math.prod(array.shape) != 1:
            self.fail(name, f"must be a single integer, got shape {array.shape}")
        with self._stream(name) as file:
            _skip(file, array.offset)
            value = int(np.frombuffer(self._read(file, array, array.dtype.itemsize, 0), dtype=array.dtype)[0])
        if not low <= value <= high:
            self.fail(name, f"must be in [{low}, {high}], got {value}")
        return value

    def text(self, name: str) -> str:
        """Return a text that stands alone in an array."""
        array = self.array(name, kinds="U")
        if math.prod(array.shape) != 1 or array.dtype.itemsize > 4 * MAX_TEXT:
            self.fail(
                name,
                f"must be a single text of at most {MAX_TEXT} characters, got {array.shape} {array.dtype}",
            )
        with self._stream(name) as file:
            _skip(file, array.offset)
            return str(np.frombuffer(self._read(file, array, array.dtype.itemsize, 0), dtype=array.dtype)[0])

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise `TraceError` about the array `name`."""
        raise TraceError(self.path, problem, place=name)


def npy_header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether the order is Fortran's, and dtype of a `.npy` file, and leave `file` at the data.

    Raises:
        ValueError: no readable header, or of a version that only structured arrays need.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of headers that Python 2 wrote; they read the same
            version = npy_format.read_magic(file)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"format version {version[0]}.{version[1]} holds structured arrays")
            reader = {1: npy_format.read_array_header_1_0, 2: npy_format.read_array_header_2_0}[version[0]]
            shape, fortran_order, dtype = reader(file)
    except _HEADER_ERRORS as error:
        raise ValueError(str(error)) from error
    return tuple(int(n) for n in shape), bool(fortran_order), dtype


def _is_npy(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(NPY_MAGIC)) == NPY_MAGIC


def _skip(file: IO[bytes], size: int) -> None:
    file.read(size)  # a header: at most `_HEADER_BYTES`, which one read returns
