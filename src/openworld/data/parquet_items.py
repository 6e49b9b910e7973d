"""Parquet tables with a column of picture bytes or of texts, read in batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from openworld.data.columns import Columns, first_of, ignored_note
from openworld.data.errors import DataError
from openworld.data.lines import text_column, text_item
from openworld.data.sources import Item, Source
from openworld.data.values import as_group

PICTURE_COLUMNS = ("image", "img", "picture", "photo", "bytes")


def unpacked_bytes(path: Path) -> int:
    """Return the size of a table without its compression, as its metadata says."""
    metadata = _open(path)[1].metadata
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def open_table(path: Path, columns: Columns, rows_at_once: int = 64) -> Source | None:
    """Return the pictures or texts of a table; None if it holds feature vectors.

    Pictures are bytes, or a struct of `bytes` and `path` as Hugging Face writes them. At most `rows_at_once`
    rows are in memory.
    """
    pq, file = _open(path)
    schema = file.schema_arrow
    picture, column = _content_column(path, schema, columns)
    if column is None:
        return None
    label, id = columns.label_of(path, schema.names), columns.id_of(path, schema.names)
    group = columns.group_of(path, schema.names)
    name_of = _label_names(schema, label)
    wanted = list(dict.fromkeys(name for name in (column, label, id, group) if name is not None))

    def items() -> Iterator[Item]:
        row = 0
        for batch in pq.ParquetFile(path).iter_batches(rows_at_once, columns=wanted):
            for record in batch.to_pylist():
                row += 1
                shown = name_of(record[label]) if label else None
                identity = None if id is None else str(record[id])
                alike = None if group is None else as_group(record[group])
                yield _item(record[column], shown, row, identity, alike)

    n_rows = file.metadata.num_rows
    if not n_rows:
        raise DataError(f"{path}: the file is empty.")
    ignored = [name for name in schema.names if name not in wanted]
    notes = ignored_note(path, ignored)
    kind: Any = "image" if picture else "text"
    labeled, grouped = label is not None, group is not None
    return Source(
        str(path), kind, n_rows, items, labeled, notes=notes, unused_columns=ignored, grouped=grouped
    )


def _open(path: Path) -> tuple[Any, Any]:
    """Return pyarrow's Parquet module and the opened file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Reading .parquet needs pyarrow: pip install openworld[evaluate]") from error
    try:
        return pq, pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a valid .parquet file ({error}).") from error


def _content_column(path: Path, schema: Any, columns: Columns) -> tuple[str | None, str | None]:
    """Return the column of pictures (or None) and the column of the content, pictures or texts (or None)."""
    import pyarrow.types as types

    if columns.features is not None:
        return None, None
    pictures = [field.name for field in schema if _holds_bytes(field.type)]
    picture = first_of(PICTURE_COLUMNS, pictures) or next(iter(pictures), None)
    if picture is not None and columns.text is None:
        return picture, picture
    strings = [one.name for one in schema if types.is_string(one.type) or types.is_large_string(one.type)]
    numbers = [one.name for one in schema if types.is_integer(one.type) or types.is_floating(one.type)]
    return None, text_column(path, schema.names, columns, lambda name: name in numbers, strings)


def _holds_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_struct(kind):
        return any(field.name == "bytes" and _holds_bytes(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _item(value: Any, label: str | None, row: int, id: str | None, group: str | None) -> Item:
    place = f"row {row}"
    if isinstance(value, str):
        return text_item(value, label, place, id, group)
    if isinstance(value, dict):
        place = f"{place} ({value['path']})" if value.get("path") else place
        value = value["bytes"]
    return Item(place, label, lambda: value or b"", id, group)


def _label_names(schema: Any, label: str | None) -> Callable[[Any], str | None]:
    """Return a function that turns labels into text; Hugging Face stores class names in the file's header."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        names = list(map(str, features[label]["names"]))
    except (TypeError, KeyError, ValueError):
        return lambda value: None if value is None else str(value).strip() or None
    return lambda value: None if value is None or value < 0 else names[value]  # -1: not labeled
