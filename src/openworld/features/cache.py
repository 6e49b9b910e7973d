"""Feature cache on disk, by content and extractor.

It is one SQLite file in WAL mode: several processes and threads may read and write it at once, and a process
that is killed while it writes does no damage. diskcache looks up one key at a time, and checksums, recovery
from damage and a full disk would still need code here.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sqlite3
import threading
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId
from openworld.files import cache_folder

_FILE = "features-1.sqlite"  # the version of the tables below
_TABLES = """
    CREATE TABLE IF NOT EXISTS uses (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, used INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS uses_used ON uses (used);
    CREATE TABLE IF NOT EXISTS vectors (
        id INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, vector BLOB NOT NULL
    );
"""
_PAGE = 16384  # bytes; a vector of 1,280 values takes a third of a page
_KEYS_AT_ONCE = 500
_HOUR = 3600
_WAIT = 60.0  # seconds, for another process that writes
_FULL_AFTER_CLEANING = 0.9  # of max_bytes
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def content_hash(data: bytes) -> str:
    """Return the hash of a content (BLAKE2b, 32 hexadecimal digits): its key in the cache."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class FeatureCache:
    """Features by the hash of their content and the id of their extractor.

    Parameters
    ----------
    folder : path, optional
        By default OPENWORLD_CACHE, or `openworld` in the user's cache folder.
    max_bytes : int, default=4 GiB
        When the file grows larger, the least recently used features (to the hour) are deleted.

    Notes
    -----
    A damaged file is moved aside with a warning, and a new one is started. If nothing can be stored, because
    a disk is full or read-only, there is a warning, and the work continues without the cache.
    """

    def __init__(self, folder: str | Path | None = None, max_bytes: int = 4 << 30) -> None:
        self._folder = None if folder is None else Path(folder)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._warned = False

    @property
    def file(self) -> Path:
        """The cache file."""
        return (cache_folder() if self._folder is None else self._folder) / _FILE

    def get(self, hashes: Sequence[str], extractor: ExtractorId) -> dict[str, NDArray[np.float32]]:
        """Return the cached features, by hash."""
        keys = dict(zip(_keys(hashes, extractor), hashes, strict=True))
        with self._lock:
            try:
                return self._get(keys)
            except (sqlite3.Error, OSError, RuntimeError) as error:
                self._recover(error)
                return {}

    def put(self, hashes: Sequence[str], extractor: ExtractorId, X: NDArray[np.float32]) -> None:
        """Store features, one row for each hash."""
        if X.ndim != 2 or len(hashes) != len(X):
            raise ValueError(f"There must be one row for each of {len(hashes)} hashes; got shape {X.shape}.")
        vectors = (row.tobytes() for row in np.ascontiguousarray(X, dtype="<f4"))
        rows = dict(zip(_keys(hashes, extractor), vectors, strict=True))
        with self._lock:
            try:
                self._put(rows)
            except (sqlite3.Error, OSError, RuntimeError) as error:
                self._recover(error)

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        with self._lock:
            self._close()

    def __len__(self) -> int:
        with self._lock:
            return int(self._open().execute("SELECT count(*) FROM uses").fetchone()[0])

    def __enter__(self) -> FeatureCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            # check_same_thread: the lock makes sure that one thread at a time uses the connection.
            connection = sqlite3.connect(
                self.file, timeout=_WAIT, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute(f"PRAGMA page_size = {_PAGE}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.executescript(_TABLES)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _get(self, keys: dict[bytes, str]) -> dict[str, NDArray[np.float32]]:
        connection, now = self._open(), int(time.time())
        found, old = {}, []
        for some in _batches(keys):
            marks = ",".join("?" * len(some))
            for key, id, used, checksum, vector in connection.execute(
                "SELECT key, id, used, checksum, vector FROM uses JOIN vectors USING (id) "
                f"WHERE key IN ({marks})",
                some,
            ):
                if zlib.crc32(vector) == checksum:
                    found[keys[key]] = np.frombuffer(vector, "<f4")
                    if used < now - _HOUR:
                        old.append((now, id))
        if old:
            with suppress(sqlite3.OperationalError):  # a file that cannot be written can still be read
                self._write(("UPDATE uses SET used = ? WHERE id = ?", old))
        return found

    def _put(self, rows: dict[bytes, bytes]) -> None:
        now = int(time.time())
        keys = [(key,) for key in rows]
        self._write(
            ("DELETE FROM vectors WHERE id = (SELECT id FROM uses WHERE key = ?)", keys),
            (
                "INSERT INTO uses (key, used) VALUES (?, ?) "
                "ON CONFLICT (key) DO UPDATE SET used = excluded.used",
                [(key, now) for key in rows],
            ),
            (
                "INSERT INTO vectors (id, checksum, vector) SELECT id, ?, ? FROM uses WHERE key = ?",
                [(zlib.crc32(vector), vector, key) for key, vector in rows.items()],
            ),
        )
        self._forget_oldest()

    def _write(self, *statements: tuple[str, Iterable[tuple[object, ...]]]) -> None:
        """Execute the statements in one transaction."""
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for sql, rows in statements:
                connection.executemany(sql, rows)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _forget_oldest(self) -> None:
        connection = self._open()
        size = self._bytes_in_use(connection)
        if size <= self._max_bytes:
            return
        count = connection.execute("SELECT count(*) FROM uses").fetchone()[0]
        surplus = -(-count * (size - int(_FULL_AFTER_CLEANING * self._max_bytes)) // size)
        oldest = connection.execute("SELECT id FROM uses ORDER BY used, id LIMIT ?", (surplus,)).fetchall()
        self._write(("DELETE FROM vectors WHERE id = ?", oldest), ("DELETE FROM uses WHERE id = ?", oldest))

    def _bytes_in_use(self, connection: sqlite3.Connection) -> int:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _recover(self, error: Exception) -> None:
        """Move a damaged file aside, or warn once that nothing is cached."""
        self._close()
        if getattr(error, "sqlite_errorcode", None) in _DAMAGED:
            if _is_damaged(self.file):  # another process may have replaced it already
                aside = self.file.with_name(f"{self.file.name}.damaged-{time.time_ns()}")
                with suppress(FileNotFoundError):
                    os.replace(self.file, aside)
                for ending in ("-wal", "-shm"):
                    self.file.with_name(self.file.name + ending).unlink(missing_ok=True)
                warnings.warn(
                    f"The cache of features was damaged and is replaced by an empty one: {aside}",
                    stacklevel=4,
                )
        elif not self._warned:
            self._warned = True
            warnings.warn(f"Features are not cached: {error}", stacklevel=4)


def _keys(hashes: Sequence[str], extractor: ExtractorId) -> list[bytes]:
    digest = extractor.digest()
    return [bytes.fromhex(content + digest) for content in hashes]


def _batches(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    remaining = iter(keys)
    while some := list(itertools.islice(remaining, _KEYS_AT_ONCE)):
        yield some


def _is_damaged(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(file, timeout=_WAIT)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except sqlite3.DatabaseError as error:
        return error.sqlite_errorcode in _DAMAGED
