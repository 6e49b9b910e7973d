"""Files that people send: pictures, a zip of them, tables, lines of text, tasks of Label Studio.

The content of a file is read; a path or an address in it never is: it would be one of the server.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath

from openworld.data import label_studio, picture_files
from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.lines import text_item
from openworld.data.sources import Item, Source, listed_items, open_source
from openworld.data.stream import Stream
from openworld.data.streams import open_stream

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
VECTORS = (".npy",)  # not .npz, which may be packed a thousandfold
OTHERS = (".zip", ".txt", ".json")
ENDINGS = (*sorted(picture_files.ENDINGS), *TABLES, *VECTORS, *OTHERS)


def ending(name: str) -> str | None:
    """Return the ending by which a file is read, or None for a kind that cannot be."""
    found = PurePath(name).suffix.lower()
    return found if found in ENDINGS else None


def open_upload(path: Path, name: str, *, takes_items: bool) -> Source | Stream:
    """Open a file that somebody sent.

    Parameters
    ----------
    path : path
        Where it lies, under a name of our own with the ending of `name`.
    name : str
        Its name, for messages.
    takes_items : bool
        Whether the model takes pictures or texts; of a table with texts and numbers the texts are read then.

    Raises
    ------
    DataError
        If it cannot be used.
    """
    try:
        return replace(_open(path, name, Columns(text_wins=takes_items)), name=name)
    except DataError as error:
        raise DataError(str(error).replace(str(path), name)) from error


def _open(path: Path, name: str, columns: Columns) -> Source | Stream:
    kind = path.suffix
    if kind in picture_files.ENDINGS:
        return listed_items(name, "image", [Item(name, None, path.read_bytes)])
    if kind == ".txt":  # each line a text: `open_source` would look for files of that name
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        texts = [text_item(line, None, f"line {n}") for n, line in enumerate(lines, 1) if line.strip()]
        return listed_items(str(path), "text", texts)
    if kind == ".json":
        return label_studio.open_tasks(path)
    source = None if kind in VECTORS else open_source(path, columns=columns)
    if source is None:
        return open_stream(path, columns=columns)
    if source.kind == "image" and kind in (".csv", ".tsv"):
        raise DataError(f"{path} lists paths of pictures, which are not here: send the pictures themselves.")
    return source
