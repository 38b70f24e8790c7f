"""The file of a campaign: an SQLite database that survives `kill -9` and serves several processes.

It holds the seed, version and plan of the campaign, the batches that are finished (with their counts) or in somebody's hand,
and the counterexamples. Every change is one transaction with SQLite's rollback journal and full synchronisation: after
a kill or a power cut the next process to open the file sees all of a change or nothing of it. No write-ahead log, so
that the file alone is the campaign (it can be copied) and network file systems serve as far as their locks do.

A batch in hand belongs to a process. It is free again once that process is dead (seen at once on the same machine) or
its lease has run out (`LEASE_SECONDS`). Should two processes finish one batch nevertheless, it counts once.

`application_id` and `user_version` in the header of the file tell a campaign from other databases; no other file is
ever changed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from nvfp4_moe.verification.bad_input import BadInput
from nvfp4_moe.verification.batch_owner import holds, this_process
from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.result import Witness

APPLICATION_ID = 0x4E764634  # "NvF4"
STORE_VERSION = 1
"""Version of the tables; a store of another version is refused."""
LEASE_SECONDS = 600.0
"""A batch takes seconds; after this time a process on another machine may take it over."""
BUSY_SECONDS = 30.0
"""How long to wait for another process's transaction, which takes milliseconds."""

_SQLITE_MAGIC = b"SQLite format 3\0"
_TABLES = {
    "campaign": """CREATE TABLE campaign (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        seed INTEGER NOT NULL, version TEXT NOT NULL, plan TEXT NOT NULL,
        created TEXT NOT NULL, opened TEXT NOT NULL)""",
    "batches": """CREATE TABLE batches (
        key TEXT PRIMARY KEY, state TEXT NOT NULL CHECK (state IN ('in hand', 'finished')),
        owner TEXT, expires REAL, cases INTEGER, seconds REAL, finished TEXT) WITHOUT ROWID""",
    "counts": """CREATE TABLE counts (
        batch TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,
        PRIMARY KEY (batch, name)) WITHOUT ROWID""",
    "counterexamples": """CREATE TABLE counterexamples (
        number INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE,
        claim TEXT NOT NULL, batch TEXT NOT NULL, witness TEXT NOT NULL, found TEXT NOT NULL)""",
}


class CampaignError(BadInput):
    """A store that cannot be used: names the file, what is wrong, and what is legal."""


class Store:
    """An open store. Use `Store.open`, from one thread; close it after use.

    Methods raise `CampaignError` where the file fails them.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self.owner = this_process()

    @classmethod
    def open(cls, path: Path, *, seed: int, version: str, plan: str = "") -> Store:
        """Open the store at `path`, or make one where there is no file.

        Args:
            path: the file; its folder must exist.
            seed: seed of the cases, below 2^63.
            version: version of the package that makes the cases.
            plan: what is checked, in words; batches of two plans are not added up.

        Raises:
            CampaignError: no campaign's file, damaged, not writable, of a newer program, or of another seed, version
                or plan.
        """
        _check_file(path)
        with _readable_errors(path):
            connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        store = cls(path, connection)
        try:
            store._prepare(seed, version, plan)
        except BaseException:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Close the file. Batches in this process's hand stay so until the process ends."""
        self._connection.close()

    def _prepare(self, seed: int, version: str, plan: str) -> None:
        with _readable_errors(self.path):
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.execute("PRAGMA synchronous = FULL")
            with self._transaction() as sql:
                if not _is_new(self.path, sql):
                    _check_kind(self.path, sql)
                else:
                    _create(sql, seed, version, plan)
                _check_same(self.path, sql, seed, version, plan)
                _check_rows(self.path, sql)
                self.counts()  # foreign rows show now, not after hours of work
                self.counterexamples()
                sql.execute(
                    "UPDATE campaign SET opened = ?", (_now(),)
                )  # shows now whether the file can be written

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _readable_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    # --- batches -------------------------------------------------------------------------------------------

    def finished_keys(self) -> set[str]:
        """Return the keys of all finished batches."""
        with _readable_errors(self.path):
            rows = self._connection.execute("SELECT key FROM batches WHERE state = 'finished'")
            return {key for (key,) in rows}

    def take(self, key: str) -> bool:
        """Take a batch in hand; False where it is finished or in the hand of another living process."""
        with self._transaction() as sql:
            row = sql.execute("SELECT state, owner, expires FROM batches WHERE key = ?", (key,)).fetchone()
            if row is not None:
                state, owner, expires = row
                if state == "finished" or (owner != self.owner and holds(owner, expires)):
                    return False
            sql.execute(
                "INSERT OR REPLACE INTO batches (key, state, owner, expires) VALUES (?, 'in hand', ?, ?)",
                (key, self.owner, time.time() + LEASE_SECONDS),
            )
        return True

    def give_back(self, key: str) -> None:
        """Give up a batch that is in this process's hand."""
        with self._transaction() as sql:
            sql.execute(
                "DELETE FROM batches WHERE key = ? AND state = 'in hand' AND owner = ?", (key, self.owner)
            )

    def finish(
        self,
        key: str,
        *,
        cases: int,
        seconds: float,
        counts: Mapping[str, int],
        counterexamples: Sequence[tuple[str, Witness]],
    ) -> bool:
        """Record a finished batch and its counterexamples, all or nothing; False where it was finished before."""
        with self._transaction() as sql:
            sql.execute("INSERT OR IGNORE INTO batches (key, state) VALUES (?, 'in hand')", (key,))
            changed = sql.execute(
                "UPDATE batches SET state = 'finished', owner = NULL, expires = NULL, cases = ?, seconds = ?, finished = ?"
                " WHERE key = ? AND state != 'finished'",
                (cases, seconds, _now(), key),
            ).rowcount
            if changed:
                rows = [(key, name, value) for name, value in counts.items()]
                sql.executemany("INSERT INTO counts (batch, name, value) VALUES (?, ?, ?)", rows)
            for claim, witness in counterexamples:
                _add_counterexample(sql, key, claim, witness)
        return bool(changed)

    def add_counterexample(self, key: str, claim: str, witness: Witness) -> None:
        """Record a counterexample at once, before its batch is finished. The same one is kept once."""
        with self._transaction() as sql:
            _add_counterexample(sql, key, claim, witness)

    # --- reading -------------------------------------------------------------------------------------------

    def totals(self) -> tuple[int, int, float, int]:
        """Return finished batches, their cases, their seconds, and the batches in hand."""
        with _readable_errors(self.path):
            row = self._connection.execute(
                "SELECT COALESCE(SUM(state = 'finished'), 0), COALESCE(SUM(cases), 0),"
                " COALESCE(SUM(seconds), 0.0), COALESCE(SUM(state = 'in hand'), 0) FROM batches"
            ).fetchone()
        return int(row[0]), int(row[1]), float(row[2]), int(row[3])

    def counts(self) -> dict[str, int]:
        """Return the counts of all finished batches, added up by name."""
        with _readable_errors(self.path):
            rows = self._connection.execute("SELECT name, SUM(value) FROM counts GROUP BY name ORDER BY name")
            return {str(name): int(value) for name, value in rows}

    def counterexamples(self) -> list[tuple[str, Witness]]:
        """Return (claim id, witness) of every counterexample, in the order of their finding."""
        with _readable_errors(self.path):
            rows = self._connection.execute(
                "SELECT claim, witness FROM counterexamples ORDER BY number"
            ).fetchall()
        return [(_claim(self.path, claim), _witness(self.path, witness)) for claim, witness in rows]


def _add_counterexample(sql: sqlite3.Connection, key: str, claim: str, witness: Witness) -> None:
    text = json.dumps(dict(witness), allow_nan=False)
    same = json.dumps([claim, dict(witness)], sort_keys=True, allow_nan=False)
    digest = hashlib.sha256(same.encode()).hexdigest()
    sql.execute(
        "INSERT OR IGNORE INTO counterexamples (digest, claim, batch, witness, found) VALUES (?, ?, ?, ?, ?)",
        (digest, claim, key, text, _now()),
    )


def _claim(path: Path, claim: Any) -> str:
    if not isinstance(claim, str) or claim not in CLAIMS:
        raise CampaignError(
            f"{path}: is damaged: a counterexample is of claim {claim!r:.60}, which does not exist"
        )
    return claim


def _witness(path: Path, text: Any) -> Witness:
    try:
        witness = json.loads(text, parse_constant=_no_constant)
    except (ValueError, TypeError, RecursionError) as error:
        raise CampaignError(f"{path}: is damaged: a counterexample is no JSON ({error})") from error
    if not isinstance(witness, dict) or not isinstance(witness.get("kind"), str):
        raise CampaignError(f"{path}: is damaged: a counterexample is no object with a 'kind': {text!r:.60}")
    return witness


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# --- opening -----------------------------------------------------------------------------------------------


def _check_file(path: Path) -> None:
    """Refuse what is no SQLite file before SQLite touches it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CampaignError(f"{path}: is no regular file; a campaign's store is an SQLite file")
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_MAGIC))
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise CampaignError(f"{path}: cannot be made: there is no folder {path.parent}") from None
        return
    except OSError as error:
        raise CampaignError(f"{path}: cannot be read: {error.strerror or error}") from error
    if head and head != _SQLITE_MAGIC:
        raise CampaignError(f"{path}: is no SQLite database, so no campaign's store; it was left as it is")


def _is_new(path: Path, sql: sqlite3.Connection) -> bool:
    """Return whether the file is empty; a file of another program with no table counts as foreign, not as new."""
    header = [sql.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    tables = sql.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    return header == [0, 0] and tables == 0 and path.stat().st_size == 0


def _check_kind(path: Path, sql: sqlite3.Connection) -> None:
    application = sql.execute("PRAGMA application_id").fetchone()[0]
    version = sql.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise CampaignError(
            f"{path}: is the database of another program, no campaign's store; it was left as it is"
        )
    if version != STORE_VERSION:
        age = "a newer" if version > STORE_VERSION else "an unknown"
        raise CampaignError(
            f"{path}: is {age} store (version {version}); this program reads version {STORE_VERSION}"
        )
    problem = sql.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise CampaignError(f"{path}: is damaged: {' '.join(problem.split())}")
    _check_schema(path, sql)


def _check_schema(path: Path, sql: sqlite3.Connection) -> None:
    """Refuse a table that is missing or another, and anything that is not ours: a trigger would change our rows."""
    told = sql.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    tables = {name: text for kind, name, text in told if kind == "table"}
    for name, text in _TABLES.items():
        if name not in tables:
            raise CampaignError(f"{path}: is damaged: it has no table {name}")
        if tables[name] != text:
            raise CampaignError(f"{path}: is damaged: its table {name} is not as a campaign makes it")
    for kind, name, text in told:
        own_index = kind == "index" and text is None  # of a key: SQLite makes it
        if not own_index and (kind != "table" or name not in _TABLES):
            raise CampaignError(f"{path}: holds the {kind} {name!r:.60}, which is none of a campaign's")


_FOREIGN_ROWS = {
    "batches": "typeof(key) != 'text' OR state = 'finished' AND (typeof(cases) != 'integer' OR cases < 0"
    " OR typeof(seconds) NOT IN ('real', 'integer') OR NOT (seconds >= 0 AND seconds < 1e15))"
    " OR state = 'in hand' AND (typeof(owner) NOT IN ('text', 'null') OR typeof(expires) NOT IN ('real', 'null'))",
    "counts": "typeof(batch) != 'text' OR typeof(name) != 'text' OR typeof(value) != 'integer' OR value < 0",
}
"""Rows that no campaign writes: columns of SQLite take values of any type."""


def _check_rows(path: Path, sql: sqlite3.Connection) -> None:
    for table, foreign in _FOREIGN_ROWS.items():
        if sql.execute(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {foreign})").fetchone()[0]:
            raise CampaignError(f"{path}: is damaged: a row of table {table} is not as a campaign writes it")
    sql.execute("SELECT SUM(cases), SUM(seconds) FROM batches").fetchone()  # an overflow raises


def _create(sql: sqlite3.Connection, seed: int, version: str, plan: str) -> None:
    for table in _TABLES.values():
        sql.execute(table)
    sql.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    sql.execute(f"PRAGMA user_version = {STORE_VERSION}")
    sql.execute("INSERT INTO campaign VALUES (1, ?, ?, ?, ?, ?)", (seed, version, plan, _now(), _now()))


def _check_same(path: Path, sql: sqlite3.Connection, seed: int, version: str, plan: str) -> None:
    """Refuse to add up cases of two seeds, two versions or two plans."""
    row = sql.execute("SELECT seed, version, plan FROM campaign").fetchone()
    if row is None:
        raise CampaignError(f"{path}: is damaged: it does not say its seed")
    if row[0] != seed:
        raise CampaignError(
            f"{path}: holds the campaign of seed {row[0]}, got seed {seed}; use that seed or another file"
        )
    if row[1] != version:
        raise CampaignError(
            f"{path}: was made by version {row[1]}, this is {version}, whose cases may differ; use another file"
        )
    if row[2] != plan:
        raise CampaignError(f"{path}: holds the campaign of {row[2]!r}, got {plan!r}; use another file")


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into `CampaignError` that says which file and what it means."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # closed, or another thread: the caller's mistake, not the file's
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            text = f"another process has held it for more than {BUSY_SECONDS:.0f} seconds"
        elif "readonly" in text or "unable to open" in text:
            text = f"cannot be written ({error})"
        raise CampaignError(f"{path}: {text}") from error
    except sqlite3.DatabaseError as error:
        raise CampaignError(f"{path}: is damaged: {error}") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
