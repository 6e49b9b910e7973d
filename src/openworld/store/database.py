"""Database access: connections, the write lock, advisory locks and migrations."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    PoolProxiedConnection,
    Table,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError

from openworld.store.storage import SqliteFile, StorageError, explain

_BUSY_MILLISECONDS = 30_000
# Memory of each SQLite connection. The defaults, 2 MB of pages and 128 statements of about 10 kB, fill up
# slowly on all 16 connections, although every write makes the other connections drop their pages.
_SQLITE_CACHE_KIB = 512
_SQLITE_STATEMENTS = 32
# A machine that loses power or network does not close its connections. With these settings both ends notice
# within half a minute. By default it takes 15 minutes here and two hours in PostgreSQL, which keeps the
# locks until then.
_KEEPALIVE = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_CONNECT_SECONDS = 10
# PostgreSQL releases the locks of a server that hangs with open connections after this time.
IDLE_MILLISECONDS = 60_000


class Database:
    """A connection pool with one writer at a time.

    SQLite allows only one writer. A lock inside the process avoids polling for the lock of the file. SQLite
    runs in WAL mode, so readers never wait, and flushes every commit to disk.

    On PostgreSQL, an advisory lock lets one server write at a time, so rows become visible in the order of
    their ids and transactions never deadlock. Readers do not wait there either.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db`` or ``postgresql://user@host/name``.
    create : bool, default=True
        Whether to create an SQLite file that does not exist. If False, a missing file is an error.
    check : bool, default=True
        Whether to check an SQLite file for damage first, which takes a few seconds at most.

    Attributes
    ----------
    is_shared : bool
        Whether several servers may use it at once.
    upsert : callable
        Returns an insert statement of this database's dialect, for ON CONFLICT.
    """

    def __init__(self, url: str, *, create: bool = True, check: bool = True) -> None:
        self.url = _parsed(url)
        if self.url.drivername in ("postgresql", "postgres"):
            self.url = self.url.set(drivername="postgresql+psycopg")
        self._is_sqlite = self.url.get_backend_name() == "sqlite"
        self.is_shared = not self._is_sqlite
        self.upsert: Callable[[Table], Any] = sqlite.insert if self._is_sqlite else postgresql.insert
        if not self._is_sqlite and self.url.drivername != "postgresql+psycopg":
            raise ValueError(
                f"{self.url.drivername} is not supported: use sqlite:///file.db or postgresql://..."
            )
        if self._is_sqlite and self.url.database in (None, "", ":memory:"):
            raise ValueError("A world needs a database on disk: give a file, as in sqlite:///world.db.")
        if self._is_sqlite and not create and not Path(str(self.url.database)).exists():
            raise FileNotFoundError(
                f"There is no database {self.url.database}. Check its name, or start a new one: openworld "
                f"serve DATA --database {url}, where DATA is a model, a folder of pictures or a table. See "
                "openworld serve --help for a start with nothing."
            )
        self._file = SqliteFile(str(self.url.database)) if self._is_sqlite else None
        self._is_open = self._write_failed = False
        self._kept_connection: PoolProxiedConnection | None = None
        self.engine = create_engine(
            _existing_file(self.url) if self._is_sqlite else self.url,
            pool_size=16,
            max_overflow=48,
            pool_use_lifo=True,
            pool_pre_ping=self.is_shared,
            connect_args=self._timeouts() if self.is_shared else {"cached_statements": _SQLITE_STATEMENTS},
        )
        self._reading_engine = self.engine
        if self._is_sqlite:
            event.listen(self.engine, "do_connect", self._check_file_is_present)
            event.listen(self.engine, "connect", _set_up_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        else:
            event.listen(self.engine, "connect", _set_up_postgresql)
            self._reading_engine = self.engine.execution_options(isolation_level="REPEATABLE READ")
        self._writing_engine: Engine = self.engine.execution_options(writing=True)
        self._writing = threading.Lock()
        try:
            if self._file is not None and check:
                self._check_file_is_sound(self._file)
            self._upgrade()
            if self._file is not None:
                # Always one connection: SQLite deletes the write-ahead log with the last one.
                self._kept_connection = self.engine.raw_connection()
                self._file.remember()
            self._is_open = True
        except BaseException:
            self.close()
            raise

    def _timeouts(self) -> dict[str, int]:
        """Return the connection timeouts that the URL does not set."""
        timeouts = {"connect_timeout": _CONNECT_SECONDS, **_KEEPALIVE}
        return {name: value for name, value in timeouts.items() if name not in self.url.query}

    def _check_file_is_present(self, *_: Any) -> None:
        """Raise StorageError if the file is not the one that was opened first.

        SQLite would take the write-ahead log of the other file for this one's, and delete what is in it.
        """
        if self._file is not None and self._is_open:
            self._file.check_present()

    def _check_file_is_sound(self, file: SqliteFile) -> None:
        with self._explained():
            connection = self.engine.raw_connection()
            try:
                file.check_sound(connection.driver_connection)
            finally:
                connection.close()

    def lock(self) -> None:
        """Lock an SQLite file for this process until `close`; raise StorageError if it is in use."""
        if self._file is not None:
            self._file.lock()

    def check(self) -> None:
        """Raise if the database cannot be read or, after a failed write, cannot be written."""
        with self.read() as connection:
            connection.execute(text("SELECT version_num FROM alembic_version"))
        if self._file is not None:
            self._file.check_present()
        if self._write_failed:
            with self.write() as connection:
                connection.execute(text("UPDATE alembic_version SET version_num = version_num"))

    def _upgrade(self) -> None:
        """Run the migrations: create the tables or upgrade older ones."""
        with self.write() as connection:
            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise ValueError(
                    f"These tables are from a newer version of openworld, or from another program: {error}"
                ) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one snapshot of the database."""
        with self._explained(), self._reading_engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is committed at the end or rolled back on an error."""
        with self._writing:
            try:
                with self._explained(), self._writing_engine.begin() as connection:
                    if self.is_shared:
                        _take_lock(connection, "write")
                    yield connection
            except StorageError:
                self._write_failed = True
                raise
            self._write_failed = False
            if self._file is not None and self._is_open:  # do not acknowledge a write to a removed file
                self._file.check_present()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise StorageError instead of a driver's error if the storage is the cause, not the statement."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            explained = explain(error)
            if explained is None:
                raise
            raise explained from error

    @contextmanager
    def advisory_lock(
        self, name: str, *, wait: bool = True, idle_milliseconds: int = IDLE_MILLISECONDS
    ) -> Iterator[bool]:
        """Hold a named lock that one server at a time can hold; yield whether this server holds it.

        With `wait`, it waits until it does. A crashed server loses the lock when its connection closes, and a
        server that hangs loses it after `idle_milliseconds` (0: never). So a write under the lock must check
        in its own transaction that nobody else has written. A database that is not shared has one server,
        which needs no lock.
        """
        if not self.is_shared:
            yield True
            return
        with self.engine.connect() as connection:
            held = _take_lock(connection, name, wait=wait, idle_milliseconds=idle_milliseconds)
            try:
                yield held
            finally:
                _release_locks(connection)

    def close(self, *, remove_if_new: bool = False) -> None:
        """Close all connections and release the lock of the file, which is removed if it is new and asked."""
        self._is_open = False  # with the last connection SQLite deletes the write-ahead log
        if self._kept_connection is not None:
            self._kept_connection.close()
        self.engine.dispose()
        if self._file is not None:
            if remove_if_new:
                self._file.remove_if_new()
            self._file.release()


def _take_lock(
    connection: Connection, name: str, *, wait: bool = True, idle_milliseconds: int = IDLE_MILLISECONDS
) -> bool:
    """Take an advisory lock until the transaction ends or the connection was idle for too long."""
    take = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
    statement = text(
        "SELECT set_config('idle_in_transaction_session_timeout', :idle, true), "
        f"{take}(hashtextextended('openworld ' || :name, 0))"  # locks have numbers, not names
    )
    _, taken = connection.execute(statement, {"idle": str(idle_milliseconds), "name": name}).one()
    return wait or bool(taken)


def _release_locks(connection: Connection) -> None:
    """End the transaction that holds the locks."""
    try:
        connection.rollback()
    except DBAPIError:  # the connection is lost, and the locks with it
        connection.invalidate()


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        file = f"sqlite:///{url}" if url and ":" not in url else "sqlite:///FILE"  # may hold a password
        raise ValueError(
            f"The database must be a URL: write {file} for a file, or postgresql://USER@HOST/NAME."
        ) from error


def _existing_file(url: URL) -> URL:
    """Return the URL of an SQLite file that opens it only if it exists."""
    path = quote(Path(str(url.database)).absolute().as_posix())
    return url.set(database=f"file:{path}", query={**url.query, "mode": "rw", "uri": "true"})


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # SQLAlchemy begins and ends transactions
    cursor = connection.cursor()
    for setting in (
        "journal_mode = WAL",
        "synchronous = FULL",  # NORMAL could lose the last events when the power fails
        f"busy_timeout = {_BUSY_MILLISECONDS}",
        f"cache_size = -{_SQLITE_CACHE_KIB}",
        "foreign_keys = ON",
    ):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _set_up_postgresql(connection: Any, _: Any) -> None:
    """Let PostgreSQL detect a server that is gone, because others wait for its locks."""
    settings = {f"tcp_{name.removeprefix('tcp_')}": value for name, value in _KEEPALIVE.items()}
    connection.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    # Lock before the first read: a transaction that reads first fails if another process writes in between.
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
