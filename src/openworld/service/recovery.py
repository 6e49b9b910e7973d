"""Export from a damaged SQLite file: the rows that can still be read.

SQLite stops at the first damaged page. Here reading goes on behind it, in a copy: the file stays as it is for
other tools.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from openworld.model_file import loads
from openworld.store.tables import LARGEST_ID

Row = dict[str, Any]

_LABELED = ("labeled", "labelled")  # the second before 0.2.0


def export_readable(database: Path, what: str, output: Path) -> int:
    """Write what can be read of a damaged database to a file; return the number of events or samples.

    A model is that of the newest snapshot that can be read: the events after it are in the log.
    """
    if (what, output.suffix) not in _WRITERS:
        forms = ", ".join(f"{one} to {ending}" for one, ending in _WRITERS)
        raise ValueError(f"The database is damaged. What can be read of it is written as {forms}.")
    with TemporaryDirectory(dir=output.parent) as folder:
        copy = Path(folder) / "copy.db"
        for end in ("", "-wal"):
            if Path(f"{database}{end}").exists():
                shutil.copyfile(f"{database}{end}", f"{copy}{end}")
        return _WRITERS[what, output.suffix](copy, output)


def readable_rows(database: Path, table: str) -> Iterator[Row]:
    """Yield the rows of a table, by their row ids, without those that cannot be read."""
    last, step = 0, 1
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        query = f'SELECT rowid AS row_number, * FROM "{table}" WHERE rowid > ? ORDER BY rowid'
        while last < LARGEST_ID:
            try:
                for row in connection.execute(query, (last,)):
                    yield dict(row)
                    last, step = row["row_number"], 1
                return
            except sqlite3.DatabaseError:  # skip ever more rows until one can be read again
                last, step = last + step, 2 * step


def _log(database: Path, output: Path) -> int:
    rows = list(readable_rows(database, "events"))
    for row in rows:
        row["payload"] = json.loads(row["payload"])
    return _write_lines(rows, output, ("row_number", "digest"))


def _labeled(database: Path) -> list[Row]:
    features = {row["sample_id"]: row for row in readable_rows(database, "features")}
    rows = [row for row in readable_rows(database, "samples") if row["state"] in _LABELED]
    found = [row for row in rows if row["id"] in features]
    for row in found:
        row["feature"] = np.frombuffer(features[row["id"]]["data"], features[row["id"]]["dtype"]).tolist()
    return found


def _labeled_lines(database: Path, output: Path) -> int:
    return _write_lines(_labeled(database), output, ("row_number", "content_hash"))


def _labeled_arrays(database: Path, output: Path) -> int:
    rows = _labeled(database)
    ids = np.array([row["id"] for row in rows], dtype=np.int64)
    np.savez(output, X=np.array([row["feature"] for row in rows]), y=[row["label"] for row in rows], ids=ids)
    return len(rows)


def _model(database: Path, output: Path) -> int:
    for row in reversed(list(readable_rows(database, "snapshots"))):
        try:
            loads(row["data"])  # checks its digest
        except ValueError:
            continue
        output.write_bytes(row["data"])
        return 1
    return 0


def _write_lines(rows: list[Row], output: Path, left_out: tuple[str, ...]) -> int:
    with output.open("w", encoding="utf-8") as file:
        for row in rows:
            kept = {name: value for name, value in row.items() if name not in left_out}
            file.write(json.dumps(kept, ensure_ascii=False) + "\n")
    return len(rows)


_WRITERS: dict[tuple[str, str], Callable[[Path, Path], int]] = {
    ("log", ".ndjson"): _log,
    ("labeled", ".ndjson"): _labeled_lines,
    ("labeled", ".npz"): _labeled_arrays,
    ("model", ".ow"): _model,
}
