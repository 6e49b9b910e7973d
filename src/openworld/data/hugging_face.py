"""Hugging Face `datasets` objects as sources; the package itself is not needed."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from openworld.data.columns import TEXT_COLUMNS, Columns, first_of
from openworld.data.errors import DataError
from openworld.data.lines import text_item
from openworld.data.sources import Item, Kind, Source
from openworld.data.values import as_group


def from_hugging_face(dataset: Any, *, columns: Columns | None = None) -> Source:
    """Return the pictures or texts of a Hugging Face data set as a source.

    Parameters
    ----------
    dataset : datasets.Dataset
        One split, not streamed. The pictures are in the first column whose feature is an `Image`. If there is
        none, the texts are in the column `text` or `sentence`, or in the only column of strings.
    columns : Columns, optional
        By default labels are in `label`, if it exists. Numbered classes are replaced by their names.
    """
    features = dataset.features
    if not hasattr(dataset, "__len__"):
        raise DataError("A streamed data set has no length. Load it without streaming=True.")
    if features is None:
        raise DataError("The data set does not describe its columns (features is None).")
    names, wanted = list(features), columns or Columns()
    pictures = [name for name in names if type(features[name]).__name__ == "Image"]
    strings = [name for name in names if getattr(features[name], "dtype", None) in ("string", "large_string")]
    label = wanted.label_of("The data set", names)
    group = wanted.group_of("The data set", names)
    texts = [name for name in strings if name not in (label, group)]
    only = texts[0] if len(texts) == 1 else None
    column = wanted.text or (pictures[0] if pictures else first_of(TEXT_COLUMNS, texts) or only)
    if column is None or column not in names:
        raise DataError(f"The data set has no column of pictures or texts; it has {', '.join(names)}.")
    pictures = [name for name in pictures if name == column]
    if pictures and hasattr(dataset, "cast_column"):
        dataset = dataset.cast_column(column, type(features[column])(decode=False))  # files as they are
    name_of = _label_names(features[label]) if label else None

    def items() -> Iterator[Item]:
        for row, record in enumerate(dataset, 1):
            shown = name_of(record[label]) if name_of else None
            alike = None if group is None else as_group(record[group])
            if pictures:
                yield replace(_picture(record[column], shown, f"row {row}"), group=alike)
            else:
                yield text_item(record[column] or "", shown, f"row {row}", group=alike)

    kind: Kind = "image" if pictures else "text"
    labeled, grouped = label is not None, group is not None
    return Source("the data set", kind, len(dataset), items, labeled, grouped=grouped)


def _label_names(feature: Any) -> Callable[[Any], str | None]:
    """Return a function that turns a label into text: class numbers into names, and -1 into None."""
    names = getattr(feature, "names", None)
    if names is None:
        return lambda value: None if value is None else str(value).strip() or None
    return lambda value: None if value is None or value < 0 else str(names[value])


def _picture(value: Any, label: str | None, place: str) -> Item:
    """Return the item of a picture that is a dict with bytes or a path, or a PIL image."""
    if value is not None and not isinstance(value, dict):
        return Item(place, label, partial(_encoded, value))
    value = value or {}
    if value.get("path"):
        place = f"{place} ({value['path']})"
    return Item(place, label, partial(_content, value))


def _content(value: dict[str, Any]) -> bytes:
    if value.get("bytes") is not None:
        return bytes(value["bytes"])
    if value.get("path") is None:
        raise DataError("there is neither a picture nor a path in this row.")
    with open(value["path"], "rb") as file:
        return file.read()


def _encoded(picture: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, "TIFF")  # which keeps every mode as it is
    return file.getvalue()
