"""Table files: round trip, damage, search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nvfp4_moe.reference import tables
from nvfp4_moe.reference.tables import (
    DATA,
    KINDS,
    MAGIC,
    MissingTableError,
    Table,
    find_table,
    load_table,
    register_table,
    save_table,
)


@pytest.fixture(autouse=True)
def _registry_restored() -> Iterator[None]:
    before = list(tables._registered)
    yield
    tables._registered[:] = before


def made_up(kind: str = "silu_bf16", chip: str = "chip A") -> Table:
    dtype, length = KINDS[kind]
    values = (torch.arange(length) % 251 - 125).to(dtype)
    return Table(kind=kind, chip=chip, sequence="made up", values=values, provenance={"driver": "1"})


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind: str, tmp_path: Path) -> None:
    table = made_up(kind)
    save_table(table, tmp_path / "a.table")
    assert [path.name for path in tmp_path.iterdir()] == ["a.table"]
    loaded = load_table(tmp_path / "a.table")
    assert torch.equal(loaded.values, table.values)
    assert loaded.values.dtype == table.values.dtype
    assert (loaded.kind, loaded.chip, loaded.sequence) == (kind, "chip A", "made up")
    assert (loaded.provenance, loaded.sha256, loaded.name) == ({"driver": "1"}, table.sha256, table.name)


def test_every_kind_of_damage_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.table"
    save_table(made_up(), path)
    good = path.read_bytes()
    header_end = good.index(b"\n", len(MAGIC)) + 1
    damaged = {
        "foreign": b"PK\x03\x04",
        "empty": b"",
        "no header": MAGIC,
        "no JSON": MAGIC + b"{\n" + good[header_end:],
        "header no object": MAGIC + b"[]\n" + good[header_end:],
        "unknown kind": good.replace(b'"silu_bf16"', b'"silu_bf17"'),
        "other kind": good.replace(b'"silu_bf16"', b'"reciprocal"'),
        "truncated": good[:-10],
        "body gone": good[:header_end],
        "other hash": good.replace(b'"sha256": "', b'"sha256": "0'),
    }
    for what, content in damaged.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.table: ") as caught:
            load_table(path)
        assert caught.value is not None, what
    with pytest.raises(OSError, match=r"b\.table"):
        load_table(tmp_path / "b.table")


def test_search_by_kind_and_chip() -> None:
    register_table(made_up(chip="chip A"))
    register_table(made_up(chip="chip B"))
    assert find_table("silu_bf16").chip == "chip B"
    assert find_table("silu_bf16", chip="chip A").chip == "chip A"
    with pytest.raises(
        MissingTableError, match=r"needs a silu_bf16 table for chip 'C'; known .*chip B"
    ) as caught:
        find_table("silu_bf16", chip="C")
    assert str(DATA) in str(caught.value)


def test_wrong_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="one of reciprocal, silu_bf16, silu_f16, got 'tanh'"):
        Table(kind="tanh", chip="", sequence="", values=torch.zeros(1))
    with pytest.raises(ValueError, match=r"torch\.int8 \(8388608,\), got torch\.int8 \(5,\)"):
        Table(kind="reciprocal", chip="", sequence="", values=torch.zeros(5, dtype=torch.int8))


def test_every_table_that_ships_loads() -> None:
    for path in DATA.glob("*.table"):
        assert load_table(path).chip
