"""Files with one sample on each line: tables of texts or of paths, lists of files, sentences."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from openworld.data.sources import Item, Source, in_memory, read_file
from openworld.data.tables import DataError

PATH_COLUMNS = ("path", "file", "filename")
TEXT_COLUMNS = ("text", "sentence")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LOOKED_AT = 100  # lines that decide whether a .txt file is a list of files


def open_lines(path: Path, label_column: str | None) -> Source | None:
    """Return the texts, or the pictures that are named, in a file; None if it holds feature vectors."""
    ending = path.suffix.lower()
    try:
        if ending in _DELIMITERS:
            return _table(path, _DELIMITERS[ending], label_column)
        if ending == ".jsonl":
            return _json_lines(path, label_column)
        if ending == ".txt":
            return _plain(path)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not text in UTF-8 ({error}).") from error
    return None


def text_item(text: str, label: str | None, place: str) -> Item:
    """Return a text as an item; an empty one is named by its place."""
    return Item(text.strip() or place, label, text.encode)


def _table(path: Path, delimiter: str, label_column: str | None) -> Source | None:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file, delimiter=delimiter)
        try:
            columns = list(rows.fieldnames or [])
            chosen = choose_column(columns, (*TEXT_COLUMNS, *PATH_COLUMNS))
            if chosen is None:
                if delimiter == "\t":
                    raise DataError(
                        f"{path}: a .tsv file needs a column {' or '.join(TEXT_COLUMNS)}, or path."
                    )
                return None
            label = choose_label(path, columns, label_column)
            table = [(rows.line_num, row[chosen], row[label] if label else None) for row in rows]
        except csv.Error as error:
            raise DataError(f"{path}: line {rows.line_num + 1}: {error}.") from error
    for line, value, _ in table:
        if value is None:
            raise DataError(f"{path}: line {line} has fewer values than the header.")
    if chosen in PATH_COLUMNS:
        return in_memory(str(path), "image", [_file(path, value, _clean(y)) for _, value, y in table])
    return in_memory(
        str(path), "text", [text_item(value, _clean(y), f"line {line}") for line, value, y in table]
    )


def _json_lines(path: Path, label_column: str | None) -> Source:
    items = []
    for line, text in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:  # RecursionError: nested thousands of times
            raise DataError(f"{path}: line {line} is not JSON ({error}).") from error
        chosen = choose_column(record, TEXT_COLUMNS) if isinstance(record, dict) else None
        if chosen is None or not isinstance(record[chosen], str):
            raise DataError(f'{path}: line {line} is not of the form {{"text": "...", "label": "..."}}.')
        label = record.get(label_column or "label")
        items.append(text_item(record[chosen], None if label is None else _clean(str(label)), f"line {line}"))
    return in_memory(str(path), "text", items)


def _plain(path: Path) -> Source:
    """Return the pictures a list names if most of its first lines are files, else a sentence per line."""
    numbered = [
        (number, line.strip())
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1)
        if line.strip()
    ]
    looked_at = numbered[:_LOOKED_AT]
    if sum(_is_file(path.parent / line) for _, line in looked_at) * 2 > len(looked_at):
        items = [_file(path, line, Path(line).parent.name or None) for _, line in numbered]
        return in_memory(str(path), "image", items, labels_are_folders=True)
    return in_memory(
        str(path), "text", [text_item(line, None, f"line {number}") for number, line in numbered]
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a sentence may be too long for a path, or hold a NUL
        return False


def _file(listed_in: Path, name: str, label: str | None) -> Item:
    return Item(name, label, partial(read_file, listed_in.parent / name))


def choose_column(columns: Iterable[str], wanted: tuple[str, ...]) -> str | None:
    """Return the first wanted column that is there."""
    there = set(columns)
    return next((name for name in wanted if name in there), None)


def choose_label(path: object, columns: list[str], label_column: str | None) -> str | None:
    """Return the column with the labels; one that was asked for must be there."""
    if label_column is not None and label_column not in columns:
        raise DataError(
            f"{path}: no column named {label_column!r}; the columns are {', '.join(columns[:10])}."
        )
    return label_column or choose_column(columns, ("label",))


def _clean(label: str | None) -> str | None:
    return (label or "").strip() or None
