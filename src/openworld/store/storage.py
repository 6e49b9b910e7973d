"""Storage errors explained for users, and the file of an SQLite database."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO, Any

from sqlalchemy.exc import DBAPIError

with suppress(ImportError):  # on Windows the file is not locked
    import fcntl

_CHECK_SECONDS = 5.0
_CHECK_STEPS = 10_000  # instructions of SQLite's virtual machine between two looks at the clock

_FULL = "The disk of the database is full: nothing can be stored until there is space."
_READ_ONLY = "The database cannot be written: the file, its folder or the disk is read-only."
_DAMAGED = (
    "The database is damaged: stop the service, and restore a backup, or save what can be read: "
    "openworld export log events.ndjson"
)
_DISK = "The disk of the database fails: see the system's log."
_BY_SQLITE_NAME = {
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_IOERR": _DISK,
}
_BY_SQLSTATE = {"53100": _FULL, "25006": _READ_ONLY, "XX001": _DAMAGED, "XX002": _DAMAGED, "58030": _DISK}


class StorageError(Exception):
    """The database cannot be used and a retry does not help; the message says why."""


class DamagedError(StorageError):
    """The database is damaged."""


def explain(error: DBAPIError | sqlite3.Error) -> StorageError | None:
    """Return the StorageError behind a driver's error, or None if the storage is not the cause."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    name, state = getattr(cause, "sqlite_errorname", None) or "", getattr(cause, "sqlstate", None) or ""
    known = next((message for start, message in _BY_SQLITE_NAME.items() if name.startswith(start)), None)
    message = known or _BY_SQLSTATE.get(state)
    kind = DamagedError if message is _DAMAGED else StorageError
    return None if message is None else kind(message)


class SqliteFile:
    """The file of an SQLite database: checks it for damage, locks it, and notices if it is replaced."""

    def __init__(self, path: str) -> None:
        self._path, self._lock_path = Path(path), Path(f"{path}.lock")
        self._identity: list[tuple[int, int] | None] = []
        self._lock: IO[str] | None = None
        self._is_new = False
        try:  # private, as it holds personal data and a secret
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            self._is_new = True
        except FileExistsError:
            pass
        except OSError as error:
            missing = f"the folder {self._path.parent} does not exist; create it first"
            reason = error.strerror if self._path.parent.is_dir() else missing
            raise StorageError(f"The database {path} cannot be created: {reason}.") from error

    def check_sound(self, connection: Any) -> None:
        """Raise DamagedError if a check of a few seconds finds damage in the file."""
        end = monotonic() + _CHECK_SECONDS
        connection.set_progress_handler(lambda: monotonic() > end, _CHECK_STEPS)
        try:
            (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "") != "SQLITE_INTERRUPT":
                raise
            return
        except sqlite3.DatabaseError as error:
            answer = str(error)
        finally:
            connection.set_progress_handler(None, 0)
        if answer != "ok":
            raise DamagedError(
                f"{self._path} is damaged ({answer.splitlines()[-1]}). Restore a backup, or save what can be "
                f"read: openworld export log events.ndjson --database sqlite:///{self._path}"
            )

    def lock(self) -> None:
        """Lock the file for this process; raise StorageError if another process has it."""
        if "fcntl" not in globals() or self._lock is not None:
            return
        opened = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        file = os.fdopen(opened, "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = file.read().strip() or "unknown"
            file.close()
            raise StorageError(
                f"{self._path} is in use by another openworld process (id {holder}): an SQLite database "
                "has one server. Stop that one, or use PostgreSQL for several."
            ) from None
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        self._lock = file

    def remember(self) -> None:
        """Store the identity of the file and of its write-ahead log for `check_present`."""
        self._identity = self._current_identity()

    def check_present(self) -> None:
        """Raise StorageError if the file or its write-ahead log was removed or replaced by another."""
        if self._current_identity() != self._identity:
            raise StorageError(
                f"{self._path}, or {self._path.name}-wal beside it, was removed or replaced while it was in "
                "use: what was done last may be lost. Put the file back, or a backup of it, and start the "
                "service again."
            )

    def _current_identity(self) -> list[tuple[int, int] | None]:
        """Return device and inode of both files, None for one that does not exist."""
        return [_identity(path) for path in (self._path, f"{self._path}-wal")]

    def remove_if_new(self) -> None:
        """Remove the file if this process has created it and no other can have opened it since."""
        if self._is_new and self._lock is not None:
            for path in (self._path, f"{self._path}-wal", f"{self._path}-shm", self._lock_path):
                Path(path).unlink(missing_ok=True)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
