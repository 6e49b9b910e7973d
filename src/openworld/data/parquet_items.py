"""Parquet tables with a column of picture bytes, or of texts; read batch by batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from openworld.data.lines import TEXT_COLUMNS, choose_column, choose_label, text_item
from openworld.data.sources import Item, Source
from openworld.data.tables import DataError

PICTURE_COLUMNS = ("image", "img", "picture", "photo", "bytes")
_ROWS_AT_ONCE = 64  # bounds memory


def open_table(path: Path, label_column: str | None) -> Source | None:
    """Return the pictures or texts of a table; None if it holds feature vectors.

    Pictures are bytes, or a struct of `bytes` and `path` as Hugging Face writes them.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Reading .parquet needs pyarrow: pip install openworld[evaluate]") from error
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a sound .parquet file ({error}).") from error
    schema = file.schema_arrow
    pictures = [field.name for field in schema if _holds_bytes(field.type)]
    picture = choose_column(pictures, PICTURE_COLUMNS) or next(iter(pictures), None)
    strings = [field.name for field in schema if pa.types.is_string(field.type)]
    column = picture or choose_column(strings, TEXT_COLUMNS)
    if column is None:
        return None
    label = choose_label(path, schema.names, label_column)
    name_of = _label_names(schema, label)
    wanted = [column, *([label] if label else [])]

    def items() -> Iterator[Item]:
        row = 0
        for batch in pq.ParquetFile(path).iter_batches(_ROWS_AT_ONCE, columns=wanted):
            for record in batch.to_pylist():
                row += 1
                yield _item(record[column], name_of(record[label]) if label else None, row)

    n_rows = file.metadata.num_rows
    if not n_rows:
        raise DataError(f"{path}: there is nothing in it.")
    return Source(str(path), "image" if picture else "text", n_rows, items, label is not None)


def _holds_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_struct(kind):
        return any(field.name == "bytes" and _holds_bytes(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _item(value: Any, label: str | None, row: int) -> Item:
    place = f"row {row}"
    if isinstance(value, str):
        return text_item(value, label, place)
    if isinstance(value, dict):
        place = f"{place} ({value['path']})" if value.get("path") else place
        value = value["bytes"]
    return Item(place, label, lambda: value or b"")


def _label_names(schema: Any, label: str | None) -> Callable[[Any], str | None]:
    """Return how a label is shown: Hugging Face keeps the names of numbered classes in the file's header."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        names = list(map(str, features[label]["names"]))
    except (TypeError, KeyError, ValueError):
        return lambda value: None if value is None else str(value)
    return lambda value: None if value is None or value < 0 else names[value]  # -1: not labelled
