"""Tables measured on a chip: a plain file format, a loader, and a search by what was measured and where.

What an approximate instruction returns is a fact of the chip, not of documented arithmetic, so it is measured once
and stored. A table is known by three strings: `kind` (what it maps), `chip` (the device's own name, for example
"NVIDIA H200") and `sequence` (the instructions measured, for example "rcp.approx.ftz.f32").

Kinds:

- "reciprocal": int8 (2^23,). Entry m is ``bits(measured 1/x) - bits(correctly rounded 1/x)`` for the float32 x with
  mantissa field m; the binade does not matter as long as x and 1/x are normal.
- "silu_bf16", "silu_f16": int32 (2^16,). Entry i holds the bits of the measured float32 SiLU of the input whose
  16 bits are i (NaN inputs too).

File format (`*.table`), nothing in it is executed on reading:

    line 1   nvfp4-moe table 1
    line 2   one JSON object: kind, chip, sequence, sha256 (of the raw values), and under "provenance" anything that
             tells how it was measured (driver, CUDA version, date, program)
    rest     the raw little-endian values, compressed with zlib
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import torch

MAGIC = b"nvfp4-moe table 1\n"
SUFFIX = ".table"
DATA = Path(__file__).parent / "data"
"""Tables that ship with the package."""

FOLDER_VARIABLE = "NVFP4_MOE_TABLES"
"""Environment variable that names the folder of tables measured on this machine."""


def measured_folder() -> Path:
    """Return the folder of tables measured on this machine, whether it exists or not.

    It is what `FOLDER_VARIABLE` names, else `nvfp4-moe/tables` in the user's cache folder.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "nvfp4-moe" / "tables"


KINDS: Mapping[str, tuple[torch.dtype, int]] = {
    "reciprocal": (torch.int8, 2**23),
    "silu_bf16": (torch.int32, 2**16),
    "silu_f16": (torch.int32, 2**16),
}
"""Dtype and number of entries of each kind."""


class MissingTableError(LookupError):
    """No table of the wanted kind and chip is known."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """What one instruction sequence returns on one chip.

    Raises (on construction):
        ValueError: unknown kind, or values of the wrong dtype or shape.
    """

    kind: str
    chip: str
    sequence: str
    values: torch.Tensor
    """On the CPU; dtype and length as `KINDS` says."""
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        dtype, length = KINDS[self.kind]
        if self.values.dtype != dtype or self.values.shape != (length,):
            raise ValueError(
                f"a {self.kind} table holds {dtype} ({length},), got {self.values.dtype} {tuple(self.values.shape)}"
            )

    @cached_property
    def name(self) -> str:
        """One line that identifies the table: kind, chip, sequence and the start of its hash."""
        return f"{self.kind} on {self.chip} ({self.sequence}), sha256 {self.sha256[:12]}"

    @cached_property
    def sha256(self) -> str:
        """Hash of the raw little-endian values."""
        return hashlib.sha256(_raw(self.values)).hexdigest()


def save_table(table: Table, path: Path) -> None:
    """Write `table` to `path` in the format above; a reader never sees a half-written file."""
    header = {
        "kind": table.kind,
        "chip": table.chip,
        "sequence": table.sequence,
        "sha256": table.sha256,
        "provenance": dict(table.provenance),
    }
    body = zlib.compress(_raw(table.values), level=9)
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + body)
    temporary.replace(path)


def load_table(path: Path) -> Table:
    """Read a table.

    Raises:
        OSError: unreadable.
        ValueError: another format, truncated, or values that do not match the stored hash; the text names the file.
    """
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        raise ValueError(f"{path}: not a table file (its first line must be {MAGIC.decode().strip()!r})")
    header_line, _, body = content[len(MAGIC) :].partition(b"\n")
    try:
        header = json.loads(header_line)
        dtype, _ = KINDS[header["kind"]]
        raw = bytearray(zlib.decompress(body))
        table = Table(
            kind=header["kind"],
            chip=header["chip"],
            sequence=header["sequence"],
            values=torch.frombuffer(raw, dtype=dtype),
            provenance=header.get("provenance", {}),
        )
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"{path}: damaged table file ({error!r})") from error
    if table.sha256 != header.get("sha256"):
        raise ValueError(f"{path}: the values do not match the stored sha256")
    return table


_registered: list[Table] = []


def register_table(table: Table) -> None:
    """Make a table measured in this process known to `find_table`, before those that ship."""
    _registered.insert(0, table)


def find_table(kind: str, *, chip: str | None = None) -> Table:
    """Return the table of `kind` for `chip`, or the first one known if no chip is given.

    Raises:
        MissingTableError: there is none; the text says what was looked for, where, and what there is.
    """
    found = [table for table in _known() if table.kind == kind]
    for table in found:
        if chip is None or table.chip == chip:
            return table
    there = "; ".join(table.name for table in found) or "none"
    wanted = f" for chip {chip!r}" if chip is not None else ""
    raise MissingTableError(
        f"arithmetic 'hardware' needs a {kind} table{wanted}; known {kind} tables: {there} (searched {DATA} and {measured_folder()})"
    )


def _known() -> Iterator[Table]:
    yield from _registered
    for folder in (DATA, measured_folder()):
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            yield _load_once(path)


@lru_cache(maxsize=16)
def _load_once(path: Path) -> Table:
    return load_table(path)


def _raw(values: torch.Tensor) -> bytes:
    if sys.byteorder != "little":
        raise NotImplementedError("tables are little-endian, and so must be the machine")
    values = values.contiguous()
    return ctypes.string_at(values.data_ptr(), values.numel() * values.element_size())
