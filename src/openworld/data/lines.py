"""Files with one sample per line: tables of texts or paths, lists of files, sentences."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from openworld.data.columns import (
    PATH_COLUMNS,
    TEXT_COLUMNS,
    Columns,
    first_of,
    ignored_note,
    looks_like_id,
    require,
)
from openworld.data.delimited import ENDINGS, DelimitedFile, encoding_of, ending_of, open_delimited, open_text
from openworld.data.errors import DataError
from openworld.data.sources import Item, Kind, Source, listed_items, read_file
from openworld.data.values import NotANumber, as_group, as_numbers

_LOOKED_AT = 100  # number of lines used to detect whether a .txt file lists files, or a column is numeric


def open_lines(path: Path, columns: Columns) -> Source | None:
    """Return the texts or the listed pictures of a file; None if it holds feature vectors."""
    ending = ending_of(path)
    if ending in ENDINGS:
        return _table(path, columns)
    if ending in (".jsonl", ".ndjson"):
        return _json_lines(path, columns)
    if ending == ".txt":
        return _plain(path, columns)
    return None


def text_item(
    text: str, label: str | None, place: str, id: str | None = None, group: str | None = None
) -> Item:
    """Return a text as an item; an empty text gets its location as name."""
    return Item(text.strip() or place, label, text.encode, id, group)


def text_column(
    path: object,
    names: Sequence[str],
    columns: Columns,
    holds_numbers: Callable[[str], bool],
    candidates: Sequence[str] | None = None,
) -> str | None:
    """Return the text column, or None if the table is not one of texts.

    Raises
    ------
    DataError
        If the table has texts and numbers and the user did not choose.
    """
    if columns.text is not None:
        require(path, names, [columns.text], "--text-column")
        return columns.text
    found = first_of(TEXT_COLUMNS, names if candidates is None else candidates)
    if found is None or columns.features is not None or columns.text_wins:
        return found if columns.features is None else None
    taken = {found, columns.label_of(path, names), columns.id, columns.group_of(path, names)}
    numbers = [
        name for name in names if name not in taken and not looks_like_id(name) and holds_numbers(name)
    ]
    if numbers:
        raise DataError(
            f'{path} has a column of texts ("{found}") and columns of numbers ({", ".join(numbers[:10])}). '
            f"Use --text-column {found} to learn from the texts alone, or --feature-columns "
            f"{','.join(numbers[:10])} to learn from the numbers alone."
        )
    return found


def _table(path: Path, columns: Columns) -> Source | None:
    file = open_delimited(path)
    chosen = text_column(path, file.columns, columns, lambda name: _holds_numbers(file, name))
    if chosen is None and columns.features is None:
        chosen = first_of(PATH_COLUMNS, file.columns)
    if chosen is None:
        return None
    label, id = columns.label_of(path, file.columns), columns.id_of(path, file.columns)
    group = columns.group_of(path, file.columns)
    place = {name: i for i, name in enumerate(file.columns)}

    def items() -> Iterator[Item]:
        for line, row in file.rows():
            of_row = None if label is None else row[place[label]].strip() or None
            value, identity = row[place[chosen]], None if id is None else row[place[id]]
            alike = None if group is None else as_group(row[place[group]])
            if chosen in PATH_COLUMNS and columns.text is None:
                yield _file(path, value, of_row, identity, alike)
            else:
                yield text_item(value, of_row, f"line {line}", identity, alike)

    ignored = [name for name in file.columns if name not in (chosen, label, id, group)]
    notes = [*file.notes, *ignored_note(path, ignored)]
    kind: Kind = "image" if chosen in PATH_COLUMNS and columns.text is None else "text"
    return replace(listed_items(str(path), kind, list(items()), notes=notes), unused_columns=ignored)


def _holds_numbers(file: DelimitedFile, name: str) -> bool:
    """Return whether a column holds numbers, judging by its first rows."""
    i = file.columns.index(name)
    cells = [row[i] for _, row in itertools.islice(file.rows(), _LOOKED_AT)]
    try:
        return bool(np.isfinite(as_numbers(cells)).any())
    except NotANumber:
        return False


def _json_lines(path: Path, columns: Columns) -> Source:
    items = []
    names: dict[str, None] = {}
    for line, text in _numbered(path):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:  # RecursionError: nested thousands of times
            raise DataError(f"{path}: line {line} is not JSON ({error}).") from error
        wanted = TEXT_COLUMNS if columns.text is None else (columns.text,)
        chosen = first_of(wanted, record) if isinstance(record, dict) else None
        if chosen is None or not isinstance(record[chosen], str):
            raise DataError(
                f'{path}: line {line} is not of the form {{"{wanted[0]}": "...", "label": "..."}}.'
            )
        label = record.get(columns.label or "label")
        id = record.get(columns.id) if columns.id else None
        names.update(dict.fromkeys(record))
        items.append(
            text_item(
                record[chosen],
                None if label is None else str(label).strip() or None,
                f"line {line}",
                None if id is None else str(id),
                as_group(record.get(columns.group)),
            )
        )
    columns.group_of(path, list(names))
    return listed_items(str(path), "text", items)


def refuse_groups(path: Path, columns: Columns) -> None:
    """Raise DataError if the user named a group column: a .txt file has no columns."""
    if columns.group is not None:
        raise DataError(
            f"{path}: a .txt file has no columns, so its lines have no groups. Use a .csv file with a column "
            f'text or path, and a column "{columns.group}".'
        )


def _plain(path: Path, columns: Columns) -> Source:
    """Return the listed pictures if most of the first lines are files, else one sentence per line."""
    refuse_groups(path, columns)
    numbered = [(number, line.strip()) for number, line in _numbered(path)]
    looked_at = numbered[:_LOOKED_AT]
    if sum(_is_file(path.parent / line) for _, line in looked_at) * 2 > len(looked_at):
        items = [_file(path, line, Path(line).parent.name or None) for _, line in numbered]
        return listed_items(str(path), "image", items, labels_are_folders=True)
    texts = [text_item(line, None, f"line {number}") for number, line in numbered]
    return listed_items(str(path), "text", texts)


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, each with its number."""
    with open_text(path, encoding_of(path)) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a sentence may be too long for a path, or hold a NUL
        return False


def _file(
    listed_in: Path, name: str, label: str | None, id: str | None = None, group: str | None = None
) -> Item:
    return Item(name, label, partial(read_file, listed_in.parent / name), id, group)
