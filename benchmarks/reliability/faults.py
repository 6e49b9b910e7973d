"""Faults inside a server's process: a disk that is full, slow or failing, and a clock that jumps.

Each function is called in the process of a server before it serves. SQLite's own hook for such tests,
`xSetSystemCall`, replaces the calls of the system that write.
"""

from __future__ import annotations

import ctypes
import errno
import resource
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from random import Random
from time import sleep
from typing import Any

_FULL_AFTER = 100_000  # bytes that may still be written to the database's file
_SLOWEST = 0.05  # seconds for a write of a page
_FAILING = 0.01  # share of writes that fail
_JUMP = 86_400  # seconds, forward or back
_CLOCK_READERS = [f"store.{name}" for name in ("samples", "idempotency", "clusters", "events", "keys")]
_CLOCK_READERS += ["service.recognition", "service.rescoring"]

_PWRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True
)
_kept: list[Any] = []  # SQLite calls these for as long as the process lives


class _VFS(ctypes.Structure):
    """The start of `sqlite3_vfs`, up to the member that is used."""

    _fields_ = [
        *[(name, ctypes.c_int) for name in ("version", "os_file_size", "max_pathname")],
        *[(name, ctypes.c_void_p) for name in ("next", "name", "app_data")],
        *[(f"method_{i}", ctypes.c_void_p) for i in range(13)],
        (
            "set_system_call",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        ),
    ]


def full_disk(size: int) -> None:
    """Let no file grow to more than `size` bytes and some."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + _FULL_AFTER, size + _FULL_AFTER))


def slow_disk(_: int) -> None:
    """Let each write of SQLite take up to 50 ms."""
    chance = Random()
    _replace_writes(lambda: sleep(chance.uniform(0, _SLOWEST)))


def failing_disk(_: int) -> None:
    """Let one of a hundred writes of SQLite fail with an input/output error."""
    chance = Random()

    def fail() -> bool:
        ctypes.set_errno(errno.EIO)
        return chance.random() < _FAILING

    _replace_writes(fail)


def _replace_writes(first: Callable[[], bool | None]) -> None:
    """Call a function before each write; the write fails where it returns True."""
    import _sqlite3

    write = ctypes.CDLL(None, use_errno=True).pwrite64
    write.argtypes, write.restype = _PWRITE._argtypes_, _PWRITE._restype_  # type: ignore[attr-defined]

    def replacement(file: int, data: int, n: int, offset: int) -> int:
        return -1 if first() else int(write(file, data, n, offset))

    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_VFS)
    vfs = library.sqlite3_vfs_find(None)
    _kept.append(_PWRITE(replacement))
    for name in (b"pwrite", b"pwrite64"):
        vfs.contents.set_system_call(vfs, name, ctypes.cast(_kept[-1], ctypes.c_void_p))


def jumping_clock(_: int) -> None:
    """Let the clock be wrong by up to a day, forward or back, and by another amount each time it is read."""
    chance = Random()

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Wrong:
            right = datetime.now(tz) + timedelta(seconds=chance.uniform(-_JUMP, _JUMP))
            return cls.fromtimestamp(right.timestamp(), tz)

    for name in _CLOCK_READERS:
        sys.modules[f"openworld.{name}"].datetime = Wrong  # type: ignore[attr-defined]


IN_PROCESS: dict[str, Callable[[int], None]] = {
    "full-disk": full_disk,
    "slow-disk": slow_disk,
    "failing-disk": failing_disk,
    "clock": jumping_clock,
}
