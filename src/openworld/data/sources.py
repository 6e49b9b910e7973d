"""Sources: lists of pictures or texts that are read on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from openworld.data.columns import Columns
from openworld.data.errors import DataError, no_such_file

Kind = Literal["image", "text"]


@dataclass(frozen=True, slots=True)
class Item:
    """A picture or a text that is read on demand.

    Attributes
    ----------
    name : str
        The path of a picture relative to its source, or the text itself.
    label : str or None
    read : callable
        Returns the bytes of the picture file, or the text in UTF-8. Raises if it cannot be read.
    id : str or None
        The value of the id column.
    group : str or None
        Items of one group are near copies of each other; None for an item that is a group of its own.
    """

    name: str
    label: str | None
    read: Callable[[], bytes]
    id: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Source:
    """Items in a fixed order that can be iterated any number of times.

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
        Whether the labels are names of folders, which may not be meant as classes.
    is_test : callable or None
        Returns, given an item's name, whether it is in the test part; None if there is no test part.
    notes : list of str
        Notes for the user about how the source is read.
    unused_columns : list of str
        Columns of a table that have no role: the labels may be in one of them.
    grouped : bool
        Whether items may have a group.
    """

    name: str
    kind: Kind
    n_items: int
    items: Callable[[], Iterator[Item]]
    labeled: bool
    labels_are_folders: bool = False
    is_test: Callable[[str], bool] | None = None
    notes: list[str] = field(default_factory=list)
    unused_columns: list[str] = field(default_factory=list)
    grouped: bool = False

    def __len__(self) -> int:
        return self.n_items

    def __iter__(self) -> Iterator[Item]:
        return self.items()


def open_source(path: str | os.PathLike[str], *, columns: Columns | None = None) -> Source | None:
    """Return the pictures or texts at a path; None if the file holds feature vectors.

    Parameters
    ----------
    path : path
        Pictures: a folder (a sub-folder is a class), a `.zip` of such a folder, one picture, a `.txt` with
        one path per line, a `.csv` or `.tsv` with a column `path`, `file` or `filename`, a `.parquet` with a
        column of picture bytes, an ILSVRC folder (`train/n01440764/...`). Texts: a `.txt` with one sentence
        per line, a `.csv`, `.tsv`, `.jsonl` or `.parquet` with a column `text` or `sentence`. Either: tasks
        of Label Studio (`.json`). Text files may be compressed (`.gz`).
    columns : Columns, optional
        The roles of columns; by default labels are in `label`, if it exists.

    Raises
    ------
    DataError
        If the path holds no such data.
    FileNotFoundError
        If there is no such path.
    """
    from openworld.data import ilsvrc_pictures, label_studio, lines, parquet_items, picture_files

    path, columns = Path(path), columns or Columns()
    if not path.exists():
        raise no_such_file(path)
    if path.is_dir():
        if ilsvrc_pictures.is_layout(path):
            return ilsvrc_pictures.open_pictures(path, columns)
        return picture_files.folder(path, columns)
    ending = path.suffix.lower()
    if ending in picture_files.ENDINGS:
        return picture_files.one(path, columns)
    if ending == ".zip":
        return picture_files.zipped(path, columns)
    if ending == ".json":
        return label_studio.open_tasks(path, columns)
    if ending == ".parquet":
        return parquet_items.open_table(path, columns)
    return lines.open_lines(path, columns)


def as_source(data: Any, *, columns: Columns | None = None) -> Source | None:
    """Return the source behind a path, a source or a Hugging Face data set; None for feature vectors."""
    if isinstance(data, Source):
        return data
    if isinstance(data, Mapping):  # a Hugging Face DatasetDict
        raise DataError(f"The data set has several splits ({', '.join(map(str, data))}). Give one of them.")
    if hasattr(data, "features"):
        from openworld.data.hugging_face import from_hugging_face

        return from_hugging_face(data, columns=columns)
    return open_source(data, columns=columns)


def read_file(path: Path) -> bytes:
    """Return the content of a regular file. Other files are errors, as reading a pipe could block forever."""
    if path.exists() and not path.is_file():
        raise DataError("it is not a regular file.")
    return path.read_bytes()


def listed_items(
    name: str,
    kind: Kind,
    items: list[Item],
    *,
    labels_are_folders: bool = False,
    notes: Iterable[str] = (),
) -> Source:
    """Return a source of the given items.

    Raises
    ------
    DataError
        If there are no items.
    """
    if not items:
        raise DataError(f"{name}: the file is empty.")
    labeled = any(item.label is not None for item in items)
    grouped = any(item.group is not None for item in items)
    return Source(
        name,
        kind,
        len(items),
        lambda: iter(items),
        labeled,
        labels_are_folders,
        notes=list(notes),
        grouped=grouped,
    )
