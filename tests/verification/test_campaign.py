"""Campaigns: what is recorded stays, kill -9, several processes, stores that are none."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.verification import batch_owner, campaign_store
from nvfp4_moe.verification.bad_input import BadInput
from nvfp4_moe.verification.campaign import BatchResult, Campaign, CampaignError, Found, Report
from nvfp4_moe.verification.campaign_store import Store

SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Batch:
    number: int

    @property
    def key(self) -> str:
        return f"b{self.number}"


def batches(count: int) -> list[Batch]:
    return [Batch(number) for number in range(count)]


def counting(batch: Batch, report: Report) -> BatchResult:
    return BatchResult(cases=10 + batch.number, counts={"all": 1, f"odd {batch.number % 2}": batch.number})


def finding(batch: Batch, report: Report) -> BatchResult:
    return BatchResult(
        cases=1, counterexamples=(Found(claim="padding.bound", witness={"kind": "x", "rows": 7}),)
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "campaign.sqlite"


def opened(path: Path, *, seed: int = 1, version: str = "0.1.0", plan: str = "") -> Campaign:
    return Campaign.open(path, seed=seed, version=version, plan=plan)


# --- one process ----------------------------------------------------------------------------------------------


def test_a_run_adds_up_and_a_resumed_one_goes_on(path: Path) -> None:
    with opened(path) as campaign:
        summary = campaign.run(batches(3), counting)
        assert (summary.batches, summary.cases, summary.in_hand) == (3, 33, 0)
        assert summary.counts == {"all": 3, "odd 0": 2, "odd 1": 1}
    run: list[int] = []

    def noting(batch: Batch, report: Report) -> BatchResult:
        run.append(batch.number)
        return counting(batch, report)

    with opened(path) as campaign:
        summary = campaign.run(batches(5), noting)
    assert run == [3, 4]
    assert (summary.batches, summary.cases) == (5, 60)
    assert summary.counts == {"all": 5, "odd 0": 6, "odd 1": 4}
    assert json.loads(json.dumps(summary.to_json()))["seed"] == 1


def test_no_file_but_the_store_is_left(path: Path) -> None:
    with opened(path) as campaign:
        campaign.run(batches(2), finding)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_same_counterexample_is_kept_once(path: Path) -> None:
    with opened(path) as campaign:
        assert campaign.run(batches(3), finding).counterexamples == 1
        assert campaign.counterexamples() == [Found(claim="padding.bound", witness={"kind": "x", "rows": 7})]
        other = Found(claim="padding.disjoint", witness={"rows": 7, "kind": "x"})
        campaign.run([Batch(9)], lambda batch, report: BatchResult(cases=1, counterexamples=(other,)))
        assert campaign.counterexamples()[1] == other


def test_a_reported_counterexample_outlives_its_batch(path: Path) -> None:
    def failing(batch: Batch, report: Report) -> BatchResult:
        report(Found(claim="padding.bound", witness={"kind": "x", "batch": batch.key}))
        raise KeyboardInterrupt

    with opened(path) as campaign:
        with pytest.raises(KeyboardInterrupt):
            campaign.run(batches(3), failing)
        summary = campaign.summary()
        assert (summary.batches, summary.in_hand, summary.counterexamples) == (0, 0, 1)
        assert campaign.run(batches(3), counting).batches == 3


def test_budget_stop_and_progress(path: Path) -> None:
    seen: list[int] = []
    with opened(path) as campaign:
        assert campaign.run(batches(3), counting, budget_s=0).batches == 0
        assert (
            campaign.run(batches(3), counting, should_stop=lambda: bool(seen), progress=seen.append).batches
            == 1
        )
        assert seen == [10]
        assert campaign.run(batches(3), counting, budget_s=float("inf")).batches == 3

    def endless() -> Iterator[Batch]:
        number = 0
        while True:
            yield Batch(number)
            number += 1

    with opened(path) as campaign:
        assert campaign.run(endless(), counting, budget_s=0.2).batches > 3


def test_next_batch_takes_each_once(path: Path) -> None:
    with opened(path) as first, opened(path) as second:
        second._store.owner = "elsewhere|1|1"
        queue = iter(batches(2))
        assert first.next_batch(iter(batches(2))) == Batch(0)
        assert second.next_batch(queue) == Batch(1)
        assert second.next_batch(queue) is None
        assert first.summary().in_hand == 2


@pytest.mark.parametrize("seed", [-1, 10**30, True, 1.5])
def test_seeds_are_refused(path: Path, seed: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="seed must be"):
        opened(path, seed=seed)
    assert not path.exists()


# --- leases ---------------------------------------------------------------------------------------------------


def held_by(path: Path, owner: str) -> Store:
    store = Store.open(path, seed=1, version="0.1.0")
    store.owner = owner
    return store


def test_a_batch_of_another_machine_is_free_after_its_lease(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = held_by(path, "here|1|1"), held_by(path, "elsewhere|1|1")
    assert other.take("a")
    assert not mine.take("a")
    monkeypatch.setattr(campaign_store, "LEASE_SECONDS", -1.0)
    assert other.take("a")
    assert mine.take("a")


def test_a_batch_of_a_dead_process_is_free_at_once(path: Path) -> None:
    machine = batch_owner.machine_name()
    mine = held_by(path, f"{machine}|{os.getpid()}|{batch_owner.start_time(os.getpid()) or ''}")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = batch_owner.start_time(child.pid) or ""
        held_by(path, f"{machine}|{child.pid}|{started}").take("a")
        held_by(path, f"{machine}|{os.getpid()}|another start").take("b")  # the id was used again
        assert not mine.take("a")
        assert mine.take("b") == Path("/proc/self/stat").exists()
        child.kill()
    assert mine.take("a")


def test_a_batch_that_two_finish_counts_once(path: Path) -> None:
    found = ("padding.bound", {"kind": "x"})
    late = ("padding.bound", {"kind": "y"})
    stores = [held_by(path, "one|1|1"), held_by(path, "two|1|1")]
    results = [
        store.finish("a", cases=5, seconds=1.0, counts={"n": 5}, counterexamples=[example])
        for store, example in zip(stores, (found, late), strict=True)
    ]
    assert results == [True, False]
    assert stores[0].totals() == (1, 5, 1.0, 0)
    assert stores[1].counts() == {"n": 5}
    assert stores[0].counterexamples() == [found, late]
    stores[0].give_back("a")
    assert stores[0].finished_keys() == {"a"}


# --- kill -9, and several processes ---------------------------------------------------------------------------

_CHILD = """
import itertools, os, sys, time
from pathlib import Path
from nvfp4_moe.verification.campaign import BatchResult, Campaign, Found

class Batch:
    def __init__(self, number):
        self.key = f"b{number}"

def run_batch(batch, report):
    report(Found(claim="padding.bound", witness={"kind": "x", "batch": batch.key}))
    print("found", batch.key, flush=True)
    folder = Path(sys.argv[1]).parent
    (folder / f"{os.getpid()}.started").touch()
    while len(list(folder.glob("*.started"))) < int(sys.argv[3]):
        time.sleep(0.005)  # so that each process has a part of the work
    return BatchResult(cases=10, counts={"all": 10})

limit = int(sys.argv[2])
count = itertools.count() if limit == 0 else range(limit)
print("ready", "", flush=True)
sys.stdin.readline()
with Campaign.open(sys.argv[1], seed=1, version="0.1.0") as campaign:
    def finished(cases):
        print("finished", key, flush=True)
    def noting(batch, report):
        global key
        key = batch.key
        return run_batch(batch, report)
    campaign.run((Batch(n) for n in count), noting, progress=finished)
"""


@contextmanager
def child(path: Path, limit: int, *, processes: int = 1) -> Iterator[subprocess.Popen[str]]:
    """Start one of `processes` processes that run `limit` batches (0: without end) once they are sent a line."""
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(path), str(limit), str(processes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline().split() == ["ready"]
    process.stdin.write("\n")
    process.stdin.flush()


def lines(process: subprocess.Popen[str]) -> list[tuple[str, str]]:
    assert process.stdout is not None
    return [(words[0], words[1]) for words in (line.split() for line in process.stdout) if len(words) == 2]


def keys(said: list[tuple[str, str]], word: str) -> list[str]:
    return [key for what, key in said if what == word]


def test_kill_9_loses_at_most_the_batch_in_hand(path: Path) -> None:
    said: list[tuple[str, str]] = []
    for stop_after in (3, 6):  # an odd number ends inside a batch, an even one between two
        with child(path, 0) as process:
            go(process)
            assert process.stdout is not None
            for _ in range(stop_after):
                what, key = process.stdout.readline().split()
                said.append((what, key))
            os.kill(process.pid, signal.SIGKILL)
            said += lines(process)
            assert process.wait() == -signal.SIGKILL
        with opened(path) as campaign:
            summary = campaign.summary()
            stored = {found.witness["batch"] for found in campaign.counterexamples()}
            finished = campaign._store.finished_keys()
        assert set(keys(said, "found")) <= stored
        assert set(keys(said, "finished")) <= finished <= stored
        assert summary.cases == 10 * summary.batches == summary.counts.get("all", 0)
        assert summary.in_hand <= 1
    with opened(path) as campaign:
        last = max(int(key[1:]) for key in stored)
        resumed = campaign.run(
            batches(last + 1), lambda batch, report: BatchResult(cases=10, counts={"all": 10})
        )
    assert (resumed.batches, resumed.cases, resumed.in_hand) == (last + 1, 10 * (last + 1), 0)
    assert resumed.counts == {"all": 10 * (last + 1)}
    assert resumed.counterexamples == len(stored)


def test_two_processes_share_a_store(path: Path) -> None:
    count = 12
    with child(path, count, processes=2) as first, child(path, count, processes=2) as second:
        go(first)
        go(second)  # both have loaded their modules by now
        said = [lines(process) for process in (first, second)]
        assert [process.wait() for process in (first, second)] == [0, 0]
    run = [keys(part, "finished") for part in said]
    assert sorted(run[0] + run[1]) == sorted(batch.key for batch in batches(count))
    assert all(run)
    with opened(path) as campaign:
        summary = campaign.summary()
    assert (summary.batches, summary.cases, summary.counts) == (count, 10 * count, {"all": 10 * count})
    assert (summary.counterexamples, summary.in_hand) == (count, 0)


def test_a_process_that_waits_too_long_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_store, "BUSY_SECONDS", 0.05)
    with opened(path) as campaign:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CampaignError, match="another process has held it for more than"):
            campaign.run(batches(1), counting)
        other.execute("ROLLBACK")
        assert campaign.run(batches(1), counting).batches == 1
        other.close()


# --- stores that are none -------------------------------------------------------------------------------------


def made(path: Path) -> None:
    with opened(path) as campaign:
        campaign.run(batches(2), finding)
        campaign.run(batches(4), counting)


def sql(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def _overwrite(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(bytes(content))


BAD: list[tuple[str, Callable[[Path], object], str]] = [
    (
        "text",
        lambda p: p.write_text("hello, this is a text"),
        "is no SQLite database, so no campaign's store",
    ),
    ("short", lambda p: p.write_bytes(b"SQ"), "is no SQLite database"),
    ("foreign", lambda p: sql(p, "CREATE TABLE t (x)"), "is the database of another program"),
    (
        "foreign without a table",
        lambda p: sql(p, "PRAGMA user_version = 7"),
        "is the database of another program",
    ),
    (
        "foreign with our names",
        lambda p: sql(
            p, "CREATE TABLE campaign (one, seed, version, created, opened)", "PRAGMA user_version = 1"
        ),
        "is the database of another program",
    ),
    (
        "newer",
        lambda p: (made(p), sql(p, "PRAGMA user_version = 2")),
        r"is a newer store \(version 2\); .* version 1",
    ),
    ("unknown", lambda p: (made(p), sql(p, "PRAGMA user_version = 0")), r"is an unknown store \(version 0\)"),
    ("no seed", lambda p: (made(p), sql(p, "DELETE FROM campaign")), "is damaged: it does not say its seed"),
    ("no table", lambda p: (made(p), sql(p, "DROP TABLE batches")), "is damaged: it has no table batches"),
    ("cut", lambda p: (made(p), p.write_bytes(p.read_bytes()[:5000])), "is damaged: "),
    ("holes", lambda p: (made(p), _overwrite(p, 4096, b"\xff" * 8192)), "is damaged: "),
    ("header only", lambda p: (made(p), p.write_bytes(p.read_bytes()[:16])), "is damaged: "),
    ("folder", lambda p: p.mkdir(), "is no regular file; a campaign's store is an SQLite file"),
    ("other seed", lambda p: opened(p, seed=2).close(), "holds the campaign of seed 2, got seed 1"),
    (
        "other version",
        lambda p: opened(p, version="0.0.9").close(),
        r"was made by version 0\.0\.9, this is 0\.1\.0",
    ),
    ("other plan", lambda p: opened(p, plan="bound x").close(), "holds the campaign of 'bound x', got ''"),
]


@pytest.mark.parametrize(("make", "message"), [pytest.param(*b[1:], id=b[0]) for b in BAD])
def test_what_is_no_store_is_refused_and_left_alone(
    path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(CampaignError, match=message) as error:
        opened(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()  # what a kill leaves that comes between making the file and its tables
    with opened(path) as campaign:
        assert campaign.summary().batches == 0


FOREIGN_ROWS = [
    ("UPDATE counterexamples SET witness = '{'", "a counterexample is no JSON"),
    ("UPDATE counterexamples SET witness = x'ff'", "a counterexample is no JSON"),
    ("""UPDATE counterexamples SET witness = '{"kind": "x", "rows": NaN}'""", "NaN is not JSON"),
    ("UPDATE counterexamples SET witness = '[]'", "is no object with a 'kind'"),
    ("UPDATE counterexamples SET witness = '5'", "is no object with a 'kind'"),
    ("""UPDATE counterexamples SET witness = '"x"'""", "is no object with a 'kind'"),
    ("UPDATE counterexamples SET witness = '{}'", "is no object with a 'kind'"),
    ("UPDATE counterexamples SET claim = 'zzz'", "of claim 'zzz', which does not exist"),
    ("UPDATE counts SET value = 'many'", "a row of table counts"),
    ("UPDATE counts SET value = -1", "a row of table counts"),
    ("UPDATE counts SET value = 9223372036854775807", "overflow"),
    ("UPDATE batches SET cases = 9223372036854775807", "overflow"),
    ("UPDATE batches SET cases = 'x'", "a row of table batches"),
    ("UPDATE batches SET cases = NULL", "a row of table batches"),
    ("UPDATE batches SET seconds = 'x'", "a row of table batches"),
    ("UPDATE batches SET seconds = 9e999", "a row of table batches"),
]


@pytest.mark.parametrize(("statement", "message"), FOREIGN_ROWS)
def test_foreign_rows_are_refused_at_the_door(path: Path, statement: str, message: str) -> None:
    made(path)
    sql(path, statement)
    with pytest.raises(CampaignError, match=message) as error:
        opened(path)
    assert isinstance(error.value, BadInput)
    assert str(error.value).startswith(f"{path}: ")


def test_a_counterexample_that_another_program_changes_meanwhile_is_named(path: Path) -> None:
    made(path)
    with opened(path) as campaign:
        sql(path, "UPDATE counterexamples SET witness = '5'")
        with pytest.raises(CampaignError, match="is no object with a 'kind'"):
            campaign.counterexamples()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE TRIGGER t AFTER UPDATE ON batches BEGIN DELETE FROM counterexamples; END",
            "holds the trigger 't'",
        ),
        ("CREATE VIEW v AS SELECT 1", "holds the view 'v'"),
        ("CREATE INDEX i ON batches (state)", "holds the index 'i'"),
        ("CREATE TABLE other (x)", "holds the table 'other'"),
        ("ALTER TABLE batches ADD COLUMN x", "its table batches is not as a campaign makes it"),
        ("ALTER TABLE counterexamples DROP COLUMN found", "its table counterexamples is not as"),
    ],
)
def test_a_foreign_schema_is_refused(path: Path, statement: str, message: str) -> None:
    made(path)
    sql(path, statement)
    with pytest.raises(CampaignError, match=message):
        opened(path)


def test_a_store_that_is_closed_is_the_callers_mistake(path: Path) -> None:
    campaign = opened(path)
    campaign.close()
    with pytest.raises(sqlite3.ProgrammingError):
        campaign.summary()


@contextmanager
def without_privileges() -> Iterator[None]:
    """Run as a user whom file permissions bind, also where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        Path(folder).chmod(0o755)


@pytest.mark.parametrize("exists", [False, True])
def test_a_read_only_folder_is_refused(open_folder: Path, exists: bool) -> None:
    path = open_folder / "campaign.sqlite"
    if exists:
        made(path)
        path.chmod(0o444)
    open_folder.chmod(0o555)
    with without_privileges(), pytest.raises(CampaignError, match=r"campaign\.sqlite: cannot be written"):
        opened(path)
    assert path.exists() == exists


def test_an_unreadable_file_and_a_missing_folder(open_folder: Path) -> None:
    path = open_folder / "campaign.sqlite"
    made(path)
    path.chmod(0o000)
    with without_privileges(), pytest.raises(CampaignError, match="cannot be read: Permission denied"):
        opened(path)
    with pytest.raises(CampaignError, match="cannot be made: there is no folder"):
        opened(open_folder / "none" / "campaign.sqlite")
