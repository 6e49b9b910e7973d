"""Storage that fails: each fault by its name, nothing acknowledged that is lost, one server for a file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL, insert, select

from openworld.store import Database, StorageError
from openworld.store.tables import descriptions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "world.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{path}")
    yield found
    found.close()


def describe(database: Database, label: str, text: str = "") -> None:
    with database.write() as connection:
        connection.execute(insert(descriptions), {"label": label, "text": text})


def test_a_file_has_one_server(path: Path, database: Database) -> None:
    database.lock()
    database.lock()
    second = Database(f"sqlite:///{path}")  # to make a key, as a command does beside the server
    describe(second, "cat")
    with pytest.raises(StorageError, match=rf"in use by another openworld process \(id {os.getpid()}\)"):
        second.lock()
    database.close()
    second.lock()
    second.close()


def test_a_server_that_was_killed_has_let_go(path: Path, database: Database) -> None:
    program = "import sys; from openworld.store import Database; held = Database(sys.argv[1]); held.lock()"
    program += "; print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, f"sqlite:///{path}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        with pytest.raises(StorageError, match=rf"id {other.pid}\)"):
            database.lock()
        other.kill()
    database.lock()


def test_a_file_that_was_removed(path: Path, database: Database) -> None:
    database.check()
    path.unlink()
    with pytest.raises(StorageError, match="was removed or replaced"):
        describe(database, "cat")
    with pytest.raises(StorageError, match="was removed or replaced"):
        database.check()


def test_a_log_that_was_removed(path: Path, database: Database) -> None:
    """The last events would be lost with it at the next start."""
    describe(database, "cat")
    path.with_name(f"{path.name}-wal").unlink()
    for attempt in (lambda: describe(database, "dog"), database.check):
        with pytest.raises(StorageError, match="-wal beside it, was removed or replaced"):
            attempt()


def test_the_log_stays_while_other_connections_come_and_go(path: Path, database: Database) -> None:
    database.engine.dispose()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO descriptions VALUES ('cat', '')")
        connection.commit()
    describe(database, "dog")
    database.check()


@pytest.mark.parametrize("other", [True, False])
def test_a_file_that_is_put_back_has_lost_nothing(path: Path, database: Database, other: bool) -> None:
    """The last events are in the write-ahead log, which SQLite deletes where it finds another file."""
    describe(database, "cat")
    away = path.with_name("away.db")
    path.rename(away)
    if other:
        path.touch()
    with database.read(), pytest.raises(StorageError, match="was removed or replaced"), database.read():
        pass  # the second one needs a new connection
    assert path.exists() is other
    away.replace(path)
    describe(database, "dog")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT label FROM descriptions ORDER BY 1").fetchall() == [
            ("cat",),
            ("dog",),
        ]


def test_a_name_with_special_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b%20?#é.db"
    database = Database(URL.create("sqlite", database=str(path)).render_as_string())
    describe(database, "cat")
    database.close()
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".db"] == [path.name]


def test_a_file_that_was_replaced(path: Path, database: Database) -> None:
    other = path.with_name("backup.db")
    Database(f"sqlite:///{other}").close()
    other.replace(path)
    with pytest.raises(StorageError, match="was removed or replaced"):
        database.check()


def test_a_full_disk_and_space_again(database: Database) -> None:
    with database.write() as connection:
        (pages,) = connection.exec_driver_sql("PRAGMA page_count").one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")  # of the one connection in the pool
    with pytest.raises(StorageError, match="disk of the database is full"):
        describe(database, "cat", "x" * 1_000_000)
    with database.read() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="read-only"):  # it is not ready before it can write again
        database.check()
    with database.read() as connection:
        connection.exec_driver_sql("PRAGMA query_only = OFF")
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    database.check()
    describe(database, "cat", "x" * 1_000_000)


def test_a_damaged_file_is_found_at_the_start(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    for i in range(200):
        describe(database, f"label {i}", "text" * 500)
    database.close()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096 * 3] = b"\xaa" * 4096 * 3
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"is damaged \(.*openworld export log"):
        Database(f"sqlite:///{path}")
    Database(f"sqlite:///{path}", check=False).close()


def test_what_is_no_database_at_all(path: Path) -> None:
    path.write_bytes(b"hello, this is a text" * 500)
    with pytest.raises(StorageError, match="damaged"):
        Database(f"sqlite:///{path}")


def test_checking_a_large_file_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(f"sqlite:///{path}").close()
    monkeypatch.setattr("openworld.store.storage._CHECK_SECONDS", -1.0)
    monkeypatch.setattr("openworld.store.storage._CHECK_STEPS", 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(lambda: 1, 1)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):  # what the check meets
            connection.execute("PRAGMA quick_check(1)").fetchone()
    with closing(Database(f"sqlite:///{path}")) as database:  # interrupted, and no error
        describe(database, "cat")
        with database.read() as connection:
            assert connection.execute(select(descriptions.c.label)).scalars().all() == ["cat"]
