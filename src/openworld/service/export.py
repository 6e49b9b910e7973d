"""Export: labeled samples, the event log and the model as files; also from a damaged database."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile, TemporaryDirectory, TemporaryFile
from typing import Any
from zipfile import ZipFile

import numpy as np

from openworld.data import label_studio
from openworld.model_file import loads
from openworld.service.inputs import media_type
from openworld.service.validation import NotFound, Refused
from openworld.service.world import World
from openworld.service.world_event import groups_of
from openworld.store.records import Sample
from openworld.store.tables import LARGEST_ID

_ROWS_AT_ONCE = 500
_IN_MEMORY = 1 << 24
_PIECE = 1 << 18
_COLUMNS = ("id", "label", "text", "source", "who", "labeled_at")
# These have a meaning in folder names on some system; % is replaced so that two labels never become one.
_UNSAFE = re.compile(r'[%/\\:*?"<>|\x00-\x1f]|^\.|[. ]$')
Row = dict[str, Any]

_LABELED = ("labeled", "labelled")  # the second before 0.2.0


def as_lines(world: World) -> Iterator[bytes]:
    """Yield every labeled sample with its feature as a line of JSON."""
    for sample, feature in world.pool.labeled():
        yield json_line({**dataclasses.asdict(sample), "feature": feature.tolist()})


def as_arrays(world: World) -> Iterator[bytes]:
    """Yield the labeled samples as a .npz file with X, y and ids, and groups if there are any."""
    found = list(world.pool.labeled())
    file = io.BytesIO()
    np.savez(
        file,
        X=np.array([feature for _, feature in found]).reshape(len(found), world.model.n_features),
        y=np.array([sample.label for sample, _ in found], dtype=str),
        ids=np.array([sample.id for sample, _ in found], dtype=np.int64),
        **_group_array(sample.group for sample, _ in found),
    )
    yield file.getvalue()


def as_csv(world: World) -> Iterator[bytes]:
    """Yield a table: of texts, of numbers, or of where pictures came from."""
    of_vectors = world.model.extractor is None
    names = [f"f{i}" for i in range(world.model.n_features)] if of_vectors else []
    columns = [*(("id", "label") if of_vectors else _COLUMNS), *(["group"] if _has_groups(world) else [])]
    yield _csv_line([*columns, *names])
    for sample, feature in world.pool.labeled():
        values = feature.tolist() if of_vectors else []
        yield _csv_line([*(_plain(getattr(sample, name)) for name in columns), *values])


def _csv_line(values: Iterable[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow("" if value is None else value for value in values)
    return line.getvalue().encode()


def as_parquet(world: World) -> Iterator[bytes]:
    """Return a table with the text or the picture, and the feature, of each sample."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise Refused("Writing .parquet needs pyarrow: pip install openworld[evaluate]") from error
    kinds = _kinds(world)
    fields = [("id", pa.int64()), ("label", pa.string()), ("features", pa.list_(pa.float64()))]
    if kinds & {"image", "text"}:  # a table of vectors is read again only if it has nothing but numbers
        fields += [("source", pa.string()), ("who", pa.string()), ("labeled_at", pa.timestamp("us", "UTC"))]
    fields += [("group", pa.string())] if _has_groups(world) else []
    fields += [("text", pa.string())] if "text" in kinds else []
    fields += [("image", pa.binary())] if kinds == {"image"} else []
    schema = pa.schema(fields)

    def row(sample: Sample, feature: Any) -> dict[str, Any]:
        values = {**dataclasses.asdict(sample), "features": feature.tolist()}
        values["image"] = _picture(world, sample) if "image" in schema.names else None
        return {name: values[name] for name in schema.names}

    def parts() -> Iterator[bytes]:
        with SpooledTemporaryFile(_IN_MEMORY) as file:
            with pq.ParquetWriter(file, schema) as writer:
                rows: list[dict[str, Any]] = []
                for sample, feature in world.pool.labeled():
                    rows.append(row(sample, feature))
                    if len(rows) == _ROWS_AT_ONCE:
                        writer.write_table(pa.Table.from_pylist(rows, schema))
                        rows = []
                writer.write_table(pa.Table.from_pylist(rows, schema))
            yield from _pieces(file)

    return parts()


def as_folders(world: World) -> Iterator[bytes]:
    """Return a .zip with a folder for each class: pictures as they are stored, texts as .txt files.

    A group is a folder inside that of the class, if there are several classes: what is in a single folder of
    folders would be read without it.
    """
    _require_items(world, "Folders")
    several = len({sample.label for sample, _ in world.pool.labeled()}) > 1

    def parts() -> Iterator[bytes]:
        with SpooledTemporaryFile(_IN_MEMORY) as file:
            with zipfile.ZipFile(file, "w") as archive:
                for sample, _ in world.pool.labeled():
                    picture = _picture(world, sample)
                    content = sample.text.encode() if sample.text else picture
                    if content is not None:
                        ending = "txt" if sample.text else media_type(content).rpartition("/")[2]
                        name = f"{sample.id}.{ending.replace('jpeg', 'jpg')}"
                        label, group = sample.label or "", sample.group if several else None
                        folders = [label, group.removeprefix(f"{label}/")] if group else [label]
                        archive.writestr("/".join([*map(folder_name, folders), name]), content)
            yield from _pieces(file)

    return parts()


def as_tasks(world: World) -> Iterator[bytes]:
    """Return tasks of Label Studio with their choices; pictures are in them, as data URLs."""
    _require_items(world, "Tasks of Label Studio")

    def parts() -> Iterator[bytes]:
        before = b"["
        for sample, _ in world.pool.labeled():
            picture = None if sample.text else _picture(world, sample)
            if sample.text:
                data = {label_studio.TEXT: sample.text}
            elif picture is not None:
                data = {label_studio.IMAGE: label_studio.data_url(picture, media_type(picture))}
            else:
                continue
            if sample.group is not None:
                data["group"] = sample.group
            task = label_studio.task(sample.id, data, sample.label or "")
            yield before + json.dumps(task, ensure_ascii=False).encode()
            before = b",\n"
        yield b"[]" if before == b"[" else b"]"

    return parts()


def folder_name(label: str) -> str:
    """Return a label as the name of a folder that every system takes, different for different labels."""
    return _UNSAFE.sub(lambda found: f"%{ord(found.group()):02X}", label)


def json_line(record: dict[str, Any]) -> bytes:
    """Return a record as a line of JSON."""
    return json.dumps(record, default=_plain, ensure_ascii=False).encode() + b"\n"


def _kinds(world: World) -> set[str]:
    return {sample.kind for sample, _ in world.pool.labeled()}


def _has_groups(world: World) -> bool:
    return any(sample.group is not None for sample, _ in world.pool.labeled())


def _group_array(groups: Iterable[str | None]) -> dict[str, Any]:
    """Return groups as an array to write, none where no sample has one."""
    names = groups_of(groups)
    return {"groups": np.array(names)} if names else {}


def _require_items(world: World, what: str) -> None:
    if world.model.extractor is None and not _kinds(world) & {"image", "text"}:
        raise Refused(f"{what} contain pictures or texts, but these samples are vectors: use csv or parquet.")


def _picture(world: World, sample: Sample) -> bytes | None:
    try:
        return world.pool.preview(sample.id) if sample.has_thumbnail else None
    except NotFound:  # it has been erased meanwhile
        return None


def _pieces(file: Any) -> Iterator[bytes]:
    file.seek(0)
    read: Callable[[], bytes] = lambda: file.read(_PIECE)  # noqa: E731
    yield from iter(read, b"")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} cannot be exported.")


LABELED_FORMS: dict[str, Callable[[World], Iterator[bytes]]] = {
    "ndjson": as_lines,
    "npz": as_arrays,
    "csv": as_csv,
    "parquet": as_parquet,
    "zip": as_folders,
    "label-studio": as_tasks,
}


def log_lines(world: World) -> Iterator[bytes]:
    """Yield every event as a line of JSON, oldest first."""
    for event in world.history.export():
        yield json_line(dataclasses.asdict(event))


def model_file(world: World) -> Iterator[bytes]:
    """Yield the model in use as a file that `openworld.load` reads."""
    yield world.model.to_bytes()


FORMS: dict[tuple[str, str], Callable[[World], Iterator[bytes]]] = {
    ("model", ".ow"): model_file,
    ("labeled", ".json"): LABELED_FORMS["label-studio"],
    ("labeled", ""): LABELED_FORMS["zip"],  # unpacked into a folder
    **{("labeled", f".{name}"): form for name, form in LABELED_FORMS.items() if name != "label-studio"},
    ("log", ".ndjson"): log_lines,
}


def write_file(world: World, what: str, path: Path) -> None:
    """Write one of `FORMS` to a file; without an ending, to a folder."""
    parts = FORMS[what, path.suffix](world)
    if path.suffix:
        with path.open("wb") as file:
            file.writelines(parts)
        return
    with TemporaryFile() as packed:
        packed.writelines(parts)
        ZipFile(packed).extractall(path)


# -- from a damaged SQLite file -------------------------------------------------------------------


def export_readable(database: Path, what: str, output: Path) -> int:
    """Write the readable part of a damaged database to a file; return the number of events or samples.

    A model is that of the newest snapshot that can be read: the events after it are in the log.
    """
    if (what, output.suffix) not in _WRITERS:
        forms = ", ".join(f"{one} to {ending}" for one, ending in _WRITERS)
        raise ValueError(f"The database is damaged. Its readable part can be written as {forms}.")
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


def _readable_log(database: Path, output: Path) -> int:
    rows = list(readable_rows(database, "events"))
    for row in rows:
        row["payload"] = json.loads(row["payload"])
    return _write_lines(rows, output, ("row_number", "digest"))


def _readable_labeled(database: Path) -> list[Row]:
    features = {row["sample_id"]: row for row in readable_rows(database, "features")}
    rows = [row for row in readable_rows(database, "samples") if row["state"] in _LABELED]
    found = [row for row in rows if row["id"] in features]
    for row in found:
        row["group"] = row.pop("group_name", None)  # there is none in databases before 0.2.0
        row["feature"] = np.frombuffer(features[row["id"]]["data"], features[row["id"]]["dtype"]).tolist()
    return found


def _labeled_lines(database: Path, output: Path) -> int:
    return _write_lines(_readable_labeled(database), output, ("row_number", "content_hash"))


def _labeled_arrays(database: Path, output: Path) -> int:
    rows = _readable_labeled(database)
    ids = np.array([row["id"] for row in rows], dtype=np.int64)
    X, y = np.array([row["feature"] for row in rows]), np.array([row["label"] for row in rows])
    np.savez(output, X=X, y=y, ids=ids, **_group_array(row["group"] for row in rows))
    return len(rows)


def _readable_model(database: Path, output: Path) -> int:
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
    ("log", ".ndjson"): _readable_log,
    ("labeled", ".ndjson"): _labeled_lines,
    ("labeled", ".npz"): _labeled_arrays,
    ("model", ".ow"): _readable_model,
}
