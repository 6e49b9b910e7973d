"""Label Studio's JSON format: tasks with a text or a picture, and the chosen label."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.sources import Item, Source, listed_items
from openworld.data.values import as_group

TEXT, IMAGE = "text", "image"
_DATA_URL = "data:"


def open_tasks(path: Path, columns: Columns | None = None) -> Source:
    """Return the tasks of a file as texts or pictures. The label is the first choice of a task.

    The text is in `data.text`, the picture in `data.image` as a data URL; other URLs are not downloaded. A
    group column is a field of `data`.
    """
    try:
        tasks = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}).") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{path}: not a Label Studio export (a JSON list of tasks).")
    if not tasks:
        raise DataError(f"{path}: the file is empty.")
    data = [task["data"] if isinstance(task.get("data"), dict) else {} for task in tasks]
    key = next((key for key in (TEXT, IMAGE) if all(isinstance(one.get(key), str) for one in data)), None)
    if key is None:
        raise DataError(f'{path}: every task needs a text in "data.text", or a picture in "data.image".')
    group = (columns or Columns()).group_of(path, list(dict.fromkeys(name for one in data for name in one)))
    groups = [None if group is None else as_group(one.get(group)) for one in data]
    items = [
        Item(_name(one[key], number), _label(task), _reader(key, one[key]), group=groups[number - 1])
        for number, (task, one) in enumerate(zip(tasks, data, strict=True), 1)
    ]
    return listed_items(str(path), "text" if key == TEXT else "image", items)


def task(number: int, data: Mapping[str, str], label: str) -> dict[str, Any]:
    """Return a task with one choice in Label Studio's format."""
    choice = {
        "type": "choices",
        "from_name": "label",
        "to_name": next(iter(data)),
        "value": {"choices": [label]},
    }
    return {"id": number, "data": dict(data), "annotations": [{"result": [choice]}]}


def data_url(picture: bytes, media_type: str) -> str:
    """Return a picture as a data URL."""
    return f"{_DATA_URL}{media_type};base64,{base64.b64encode(picture).decode()}"


def _name(value: str, number: int) -> str:
    return f"task {number}" if value.startswith(_DATA_URL) else value.strip() or f"task {number}"


def _label(task: Mapping[str, Any]) -> str | None:
    """Return the first choice of the first annotation that has one."""
    try:
        results = [result for one in task.get("annotations") or [] for result in one["result"]]
        choices = [result["value"]["choices"] for result in results if "choices" in result["value"]]
        return str(choices[0][0]).strip() or None if choices else None
    except (KeyError, TypeError, IndexError):
        return None


def _reader(key: str, value: str) -> Callable[[], bytes]:
    return value.encode if key == TEXT else partial(_picture, value)


def _picture(address: str) -> bytes:
    head, comma, content = address.partition(",")
    if not (comma and head.startswith(_DATA_URL) and head.endswith(";base64")):
        raise DataError("its picture is a URL, which is not downloaded. Export the pictures as data URLs.")
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise DataError(f"its picture is not valid base64 ({error}).") from error
