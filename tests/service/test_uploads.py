"""Files that people send: what is in them is read, never a path or an address in them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openworld.data.errors import DataError
from openworld.data.sources import Source
from openworld.data.stream import Stream
from openworld.service.uploads import ending, open_upload


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def items(path: Path, **options: Any) -> list[tuple[str, str | None, bytes]]:
    source = open_upload(path, "sent", **{"takes_items": True, **options})
    assert isinstance(source, Source)
    return [(item.name, item.label, item.read()) for item in source]


def test_the_ending_says_what_a_file_is() -> None:
    assert [ending(name) for name in ("A.JPG", "b.csv", "c.zip", "d.exe", "e.csv.gz", "../f.txt", "")] == [
        ".jpg",
        ".csv",
        ".zip",
        None,
        None,
        ".txt",
        None,
    ]


def test_each_line_of_a_text_is_a_text_even_if_a_file_has_that_name(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret", "hidden")
    lines = f"{secret}\n\n  hello  \n{secret}\n"
    found = items(written(tmp_path, "0.txt", lines))
    assert [(name, label) for name, label, _ in found] == [
        (str(secret), None),
        ("hello", None),
        (str(secret), None),
    ]
    assert all(b"hidden" not in content for _, _, content in found)


def test_paths_in_a_table_are_refused(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret.png", "hidden")
    table = written(tmp_path, "0.csv", f"path,label\n{secret},a\n")
    with pytest.raises(DataError, match=r"^sent lists paths of pictures.*send the pictures"):
        open_upload(table, "sent", takes_items=True)


def test_a_table_of_texts_and_one_of_numbers(tmp_path: Path) -> None:
    texts = written(tmp_path, "0.csv", "text,label,score\nhello,hi,1\nbye,,2\n")
    assert items(texts) == [("hello", "hi", b"hello"), ("bye", None, b"bye")]
    numbers = open_upload(written(tmp_path, "1.csv", "a,b,label\n1,2,x\n3,4,y\n"), "n.csv", takes_items=False)
    assert isinstance(numbers, Stream)
    assert (numbers.n_features, len(numbers)) == (2, 2)
    np.save(tmp_path / "2.npy", np.eye(3, dtype=np.float32))
    assert len(open_upload(tmp_path / "2.npy", "v.npy", takes_items=False)) == 3


def test_a_zip_of_folders_and_a_damaged_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "0.zip", "w") as archive:
        archive.writestr("cat/../../1.png", b"left out")
        archive.writestr("cat/2.png", b"two")
        archive.writestr("notes.txt", b"left out")
    assert items(tmp_path / "0.zip") == [("cat/2.png", "cat", b"two")]
    with pytest.raises(DataError, match=r"^sent: not a sound \.zip"):
        open_upload(written(tmp_path, "1.zip", b"PK nothing"), "sent", takes_items=True)


def test_tasks_of_label_studio(tmp_path: Path) -> None:
    tasks = [{"data": {"text": "hello"}, "annotations": [{"result": [{"value": {"choices": ["hi"]}}]}]}]
    assert items(written(tmp_path, "0.json", json.dumps(tasks))) == [("hello", "hi", b"hello")]
    with pytest.raises(DataError, match=r"^sent: not JSON"):
        open_upload(written(tmp_path, "1.json", "{"), "sent", takes_items=True)
