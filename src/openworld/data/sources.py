"""Sources: pictures and texts that have not been read yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from openworld.data.columns import Columns
from openworld.data.errors import DataError

Kind = Literal["image", "text"]


@dataclass(frozen=True, slots=True)
class Item:
    """A picture or a text that has not been read yet.

    Attributes
    ----------
    name : str
        Where the picture lies, relative to its source; of a text, the text itself.
    label : str or None
    read : callable
        Returns the bytes: a picture file as it is, or text in UTF-8. Raises if it cannot be read.
    id : str or None
        The value of the id column.
    """

    name: str
    label: str | None
    read: Callable[[], bytes]
    id: str | None = None


@dataclass(frozen=True)
class Source:
    """Items in a fixed order, to be gone through as often as wanted.

    Attributes
    ----------
    name : str
        For messages.
    kind : {"image", "text"}
    n_items : int
    items : callable
        Returns a new iterator over the items.
    labeled : bool
        Whether any item has a label.
    labels_are_folders : bool
        Whether the labels are names of folders, which may mean nothing.
    is_test : callable or None
        Tells by its name whether an item is of a test part, where the source has one.
    notes : list of str
        What a user should know about how the source is read.
    """

    name: str
    kind: Kind
    n_items: int
    items: Callable[[], Iterator[Item]]
    labeled: bool
    labels_are_folders: bool = False
    is_test: Callable[[str], bool] | None = None
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return self.n_items

    def __iter__(self) -> Iterator[Item]:
        return self.items()


def open_source(path: str | os.PathLike[str], *, columns: Columns | None = None) -> Source | None:
    """Return the pictures or texts at a path; None if the file holds feature vectors.

    Parameters
    ----------
    path : path
        Pictures: a folder (a sub-folder is a class), a `.zip` of such a folder, one picture, a `.txt` with a
        path on each line, a `.csv` or `.tsv` with a column `path`, `file` or `filename`, a `.parquet` with a
        column of picture bytes. Texts: a `.txt` with a sentence on each line, a `.csv`, `.tsv`, `.jsonl` or
        `.parquet` with a column `text` or `sentence`. Either: tasks of Label Studio (`.json`). An ILSVRC
        folder (`train/n01440764/...`) is known too. Text files may be compressed (`.gz`).
    columns : Columns, optional
        Which columns hold what; by default labels are in `label`, which may be missing.

    Raises
    ------
    DataError
        If the path holds nothing of the kind.
    FileNotFoundError
        If there is no such path.
    """
    from openworld.data import ilsvrc_pictures, label_studio, lines, parquet_items, picture_files

    path, columns = Path(path), columns or Columns()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder.")
    if path.is_dir():
        if ilsvrc_pictures.is_layout(path):
            return ilsvrc_pictures.open_pictures(path)
        return picture_files.folder(path)
    ending = path.suffix.lower()
    if ending in picture_files.ENDINGS:
        return picture_files.one(path)
    if ending == ".zip":
        return picture_files.zipped(path)
    if ending == ".json":
        return label_studio.open_tasks(path)
    if ending == ".parquet":
        return parquet_items.open_table(path, columns)
    return lines.open_lines(path, columns)


def as_source(data: Any, *, columns: Columns | None = None) -> Source | None:
    """Return the source behind a path, a source or a Hugging Face data set; None for feature vectors."""
    if isinstance(data, Source):
        return data
    if isinstance(data, Mapping):  # a Hugging Face DatasetDict
        raise DataError(f"The data have several parts ({', '.join(map(str, data))}): give one of them.")
    if hasattr(data, "features"):
        from openworld.data.hugging_face import from_hugging_face

        return from_hugging_face(data, columns=columns)
    return open_source(data, columns=columns)


def read_file(path: Path) -> bytes:
    """Return the content of a regular file; reading a pipe, a socket or a device could block forever."""
    if path.exists() and not path.is_file():
        raise DataError("it is not a regular file, but a pipe, a socket, a device or a folder.")
    return path.read_bytes()


def listed_items(
    name: str,
    kind: Kind,
    items: list[Item],
    *,
    labels_are_folders: bool = False,
    notes: Iterable[str] = (),
) -> Source:
    """Return a source of items that are listed already.

    Raises
    ------
    DataError
        If there are none.
    """
    if not items:
        raise DataError(f"{name}: the file is empty.")
    labeled = any(item.label is not None for item in items)
    return Source(name, kind, len(items), lambda: iter(items), labeled, labels_are_folders, notes=list(notes))
