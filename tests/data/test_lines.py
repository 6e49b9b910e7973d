"""Tables of texts and of paths, lists of files, sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.sources import Source, open_source


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def content(source: Source | None) -> list[tuple[str, str | None, str]]:
    assert source is not None
    assert len(source) == len(list(source))
    return [(item.name, item.label, item.read().decode()) for item in source]


def test_a_table_of_texts(tmp_path: Path) -> None:
    text = 'split,text,label\ntrain,"Hello, you", greet \ntest,"two\nlines",\n,  spaces ,bye\n'
    source = open_source(write(tmp_path / "questions.csv", "\ufeff" + text))
    assert source is not None
    assert source.kind == "text"
    assert content(source) == [
        ("Hello, you", "greet", "Hello, you"),
        ("two\nlines", None, "two\nlines"),
        ("spaces", "bye", "  spaces "),
    ]


def test_tabs_and_another_label_column(tmp_path: Path) -> None:
    path = write(tmp_path / "q.tsv", "intent\tsentence\nask\twhat, now?\n")
    found = content(open_source(path, columns=Columns(label="intent")))
    assert found == [("what, now?", "ask", "what, now?")]
    source = open_source(path)
    assert source is not None
    assert not source.labeled
    with pytest.raises(DataError, match=r'no column named "color". Its columns are: intent, sentence\.'):
        open_source(path, columns=Columns(label="color"))
    assert open_source(write(tmp_path / "v.tsv", "a\tb\n1\t2\n")) is None


def test_an_empty_text_is_named_by_its_line(tmp_path: Path) -> None:
    found = content(open_source(write(tmp_path / "q.csv", 'text,label\nhello,a\n" ",b\n')))
    assert found[1] == ("line 3", "b", " ")


@pytest.mark.parametrize("column", ["path", "file", "filename"])
def test_a_table_of_paths(tmp_path: Path, column: str) -> None:
    write(tmp_path / "pictures" / "1.png", "one")
    source = open_source(
        write(tmp_path / "list.csv", f"{column},label\npictures/1.png,cat\nmissing.png,dog\n")
    )
    assert source is not None
    assert source.kind == "image"
    assert not source.labels_are_folders
    first, second = source
    assert (first.name, first.label, first.read()) == ("pictures/1.png", "cat", b"one")
    with pytest.raises(FileNotFoundError):
        second.read()


def test_vectors_stay_vectors(tmp_path: Path) -> None:
    assert open_source(write(tmp_path / "v.csv", "a,b,label\n1,2,x\n")) is None
    assert open_source(write(tmp_path / "v.npz", "whatever")) is None


def test_a_list_of_files(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/2.png", "3.png"):
        write(tmp_path / name, name)
    path = write(tmp_path / "files.txt", f"cat/1.png\n\n{tmp_path / 'dog/2.png'}\n3.png\ncat/missing.png\n")
    source = open_source(path)
    assert source is not None
    assert source.kind == "image"
    assert source.labels_are_folders
    assert [(item.name, item.label) for item in source] == [
        ("cat/1.png", "cat"),
        (str(tmp_path / "dog/2.png"), "dog"),
        ("3.png", None),
        ("cat/missing.png", "cat"),
    ]
    assert [item.read() for item in list(source)[:3]] == [b"cat/1.png", b"dog/2.png", b"3.png"]


def test_sentences(tmp_path: Path) -> None:
    long = "very " * 2000
    write(tmp_path / "hello", "a file that is called as a sentence is")
    source = open_source(write(tmp_path / "s.txt", f"hello\n{long}\nwhat \x00 now\n"))
    assert source is not None
    assert source.kind == "text"
    assert not source.labeled
    assert [item.name for item in source] == ["hello", long.strip(), "what \x00 now"]


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", '{"text": "a", "label": 3, "id": 1}\n\n{"sentence": "b"}\n')
    assert content(open_source(path)) == [("a", "3", "a"), ("b", None, "b")]
    for line in ("[1]", '{"txt": "a"}', '{"text": 3}'):
        with pytest.raises(DataError, match=r"q\.jsonl: line 2 is not of the form"):
            open_source(write(path, '{"text": "a"}\n' + line))
    with pytest.raises(DataError, match="line 2 is not JSON"):
        open_source(write(tmp_path / "deep.jsonl", '{"text": "a"}\n{"text": ' + "[" * 100_000 + "\n"))
    with pytest.raises(DataError, match="line 1 is not JSON"):
        open_source(write(path, "text"))


def test_only_line_ends_end_a_line(tmp_path: Path) -> None:
    """Others, such as U+2028, may stand in a JSON string as they are."""
    text = "one\u2028two\x85three\x0cfour"
    lines = (json.dumps({"text": f"{text} {i}"}, ensure_ascii=False) for i in range(3))
    found = open_source(write(tmp_path / "q.jsonl", "\r\n".join(lines)))
    assert [item.name for item in found] == [f"{text} {i}" for i in range(3)]
    found = open_source(write(tmp_path / "q.txt", f"{text}\r{text}\n"))
    assert [item.name for item in found] == [text, text]


def test_what_cannot_be_used(tmp_path: Path) -> None:
    for name, text, words in [
        ("e.csv", "text,label\n", "the file is empty"),
        ("e.txt", "\n\n", "the file is empty"),
        ("e.jsonl", "", "the file is empty"),
        ("short.csv", "label,text\na,b\nc\n", "line 3 has 1 values, the header 2"),
        ("nul.csv", "text,label\n" + "x" * 140_000 + ",a\n", "line 2: field larger"),
    ]:
        with pytest.raises(DataError, match=words):
            open_source(write(tmp_path / name, text))


def grouped(source: Source | None) -> list[str | None]:
    assert source is not None
    assert source.grouped == any(item.group is not None for item in source)
    return [item.group for item in source]


def test_groups(tmp_path: Path) -> None:
    by = Columns(group="template")
    table = write(tmp_path / "q.csv", "text,label,template\nbuy tea,a,1\nbuy milk,a,1\nhello,b,\n")
    assert grouped(open_source(table, columns=by)) == ["1", "1", None]
    assert grouped(open_source(table, columns=Columns(text="text"))) == [None, None, None]
    records = [{"text": "buy tea", "template": 1}, {"text": "buy milk", "template": "1"}, {"text": "hello"}]
    lines = write(tmp_path / "q.jsonl", "\n".join(map(json.dumps, records)))
    assert grouped(open_source(lines, columns=by)) == ["1", "1", None]
    paths = write(tmp_path / "p.csv", "path,label,burst\n1.png,a,x\n2.png,b,y\n")
    assert grouped(open_source(paths, columns=Columns(group="burst"))) == ["x", "y"]


def test_groups_that_are_not_there(tmp_path: Path) -> None:
    table = write(tmp_path / "q.csv", "text,label,template\nbuy tea,a,1\n")
    lines = write(tmp_path / "q.jsonl", '{"text": "buy tea", "template": 1}\n')
    for path in (table, lines):
        with pytest.raises(DataError, match=r"Did you mean --group-column template\?"):
            open_source(path, columns=Columns(group="templat"))
    sentences = write(tmp_path / "q.txt", "buy tea\nhello\n")
    with pytest.raises(DataError, match=r'q\.txt: a \.txt file has no columns, .* and a column "template"'):
        open_source(sentences, columns=Columns(group="template"))


def test_a_group_of_numbers_makes_no_table_of_numbers(tmp_path: Path) -> None:
    table = write(tmp_path / "q.csv", "text,label,template\nbuy tea,a,1\n")
    assert open_source(table, columns=Columns(group="template")) is not None
    with pytest.raises(DataError, match="columns of numbers"):
        open_source(table)
