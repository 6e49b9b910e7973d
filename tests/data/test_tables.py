"""Reading samples from files: every format, and what is said about files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.streams import open_stream


def read_samples(path: Path, label_column: str | None = None) -> SimpleNamespace:
    stream = open_stream(path, columns=Columns(label_column))
    batch = stream.read()
    return SimpleNamespace(
        X=batch.X,
        y=batch.y,
        feature_names=stream.feature_names,
        names=batch.names,
        extractor=stream.extractor,
    )


def csv_file(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def parquet_file(tmp_path: Path, **columns: Any) -> Path:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_every_format_gives_the_same_samples(tmp_path: Path) -> None:
    X, y = np.array([[1.5, 2.0], [3.0, -4.0], [0.1, 1e-30]]), np.array(["b", "a", "b"])
    np.savez(tmp_path / "t.npz", X=X, y=y)
    np.save(tmp_path / "t.npy", X)
    (tmp_path / "t.csv").write_text("p,label,q\n1.5,b,2\n3,a,-4.0\n0.1,b,1e-30\n")
    pq.write_table(pa.table({"label": y, "p": X[:, 0], "q": X[:, 1]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"features": X.tolist(), "label": y}), tmp_path / "lists.PARQUET")
    for name in ("t.npz", "t.npy", "t.csv", "t.parquet", "lists.PARQUET"):
        samples = read_samples(tmp_path / name)
        assert np.array_equal(samples.X, X), name
        if name == "t.npy":
            assert samples.y is None
        else:
            assert samples.y is not None
            assert samples.y.tolist() == ["b", "a", "b"]
        assert samples.feature_names == (["p", "q"] if name in ("t.csv", "t.parquet") else None)


def test_csv_quotes_unicode_byte_order_mark_and_line_ends(tmp_path: Path) -> None:
    text = '\ufeffπ,"name, in full",label\r\n1,2,"Smith, ""Jo"""\r\n\r\n3,4,Ærøskøbing 北京\r\n5,6,# 7\r\n'
    samples = read_samples(csv_file(tmp_path, text))
    assert samples.feature_names == ["π", "name, in full"]
    assert samples.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert samples.y is not None
    assert samples.y.tolist() == ['Smith, "Jo"', "Ærøskøbing 北京", "# 7"]


def test_csv_labels_of_very_different_length_are_whole(tmp_path: Path) -> None:
    long = "a-very-long-label" * 20
    samples = read_samples(csv_file(tmp_path, f"a,label\n1,x\n2,{long}\n"))
    assert samples.y is not None
    assert samples.y.tolist() == ["x", long]


def test_csv_quoted_line_breaks(tmp_path: Path) -> None:
    samples = read_samples(csv_file(tmp_path, '"first\nfeature",label\n1,"two\nlines"\n2,b\n'))
    assert samples.feature_names == ["first\nfeature"]
    assert samples.y is not None
    assert samples.y.tolist() == ["two\nlines", "b"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "20", "-3"], [1, 20, -3]),
        (["007", "8", "9"], ["007", "8", "9"]),
        (["1", "2", "x"], ["1", "2", "x"]),
        (["1.0", "2.0", "3.0"], ["1.0", "2.0", "3.0"]),
        (["+1", "2", "3"], ["+1", "2", "3"]),
        (["True", "False", "True"], ["True", "False", "True"]),
        (["1", "2", "99999999999999999999"], ["1", "2", "99999999999999999999"]),
        (["1_0", "2", "3"], ["1_0", "2", "3"]),
    ],
)
def test_only_whole_numbers_become_integers(tmp_path: Path, labels: list[str], expected: list[Any]) -> None:
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    for path in (
        csv_file(tmp_path, "a,label\n" + rows),
        parquet_file(tmp_path, a=[0.0, 1.0, 2.0], label=labels),
    ):
        y = read_samples(path).y
        assert y is not None
        assert y.tolist() == expected


def test_blanks_around_a_label_are_not_part_of_it(tmp_path: Path) -> None:
    wanted = ["opel", "opel", "great dane"]
    (tmp_path / "t.tsv").write_text("a\tlabel\n1\topel\n2\topel \n3\t great dane\n")
    for path in (
        csv_file(tmp_path, "a, label\n1, opel\n2,opel\n3, great dane\n"),
        tmp_path / "t.tsv",
        parquet_file(tmp_path, a=[1.0, 2.0, 3.0], label=[" opel", "opel", "great dane "]),
        parquet_file(
            tmp_path, a=[1.0, 2.0, 3.0], label=pa.array([*wanted[:2], " great dane"]).dictionary_encode()
        ),
    ):
        assert read_samples(path).y.tolist() == wanted
    assert read_samples(csv_file(tmp_path, "a, label\n1, 3\n2, 4\n")).y.tolist() == [3, 4]


def test_the_label_column_can_be_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(2), kind=["a", "b"], y=[1, 2])
    for path in (
        csv_file(tmp_path, "label,kind\n1,a\n2,b\n"),
        parquet_file(tmp_path, label=[1, 2], kind=["a", "b"]),
        tmp_path / "t.npz",
    ):
        y = read_samples(path, label_column="kind").y
        assert y is not None
        assert y.tolist() == ["a", "b"]
        with pytest.raises(DataError, match=r"named [\"']color"):
            read_samples(path, label_column="color")


@pytest.mark.parametrize(
    ("header", "are_names"),
    [
        ("77, 38, 63, opel", False),
        ("5,3,3,setosa", False),
        ("5.1,a,label", False),
        ("0,1,2,label", True),
        ("1,2,3,label", True),
        ("label,2019,2020,2021", True),
        ("400,410,420,label", True),
        ("7,a,b,label", True),
    ],
)
def test_a_first_line_of_values_is_no_header(tmp_path: Path, header: str, are_names: bool) -> None:
    cells = ["x" if name == "label" else "1" for name in header.split(",")]
    path = csv_file(tmp_path, f"{header}\n{','.join(cells)}\n")
    if are_names:
        names = [name for name in header.split(",") if name != "label"]
        assert read_samples(path).feature_names == names
    else:
        with pytest.raises(DataError, match="the first line has values instead of column names"):
            read_samples(path)


def test_without_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(2))
    for path in (
        csv_file(tmp_path, "a\n1\n2\n"),
        parquet_file(tmp_path, a=[1, 2]),
        tmp_path / "t.npz",
    ):
        assert read_samples(path).y is None
    np.save(tmp_path / "t.npy", np.eye(2))
    with pytest.raises(DataError, match=r"Its labels are in NAME\.labels\.npy"):
        read_samples(tmp_path / "t.npy", label_column="y")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "It is empty."),
        ("label\nx\n", "no feature columns"),
        ("a,label\n", "no samples"),
        ("a,b,label\n1,2,x\n3,4\n", "line 3 has 2 values, the header 3"),
        ("a,b,label\n1,2,x\n3,4,Smith, Jo\n", "line 3 has 4 values, the header 3"),
        ("a,b,label\n1,2,x\n3,four,y\n", "line 3, column \"b\": 'four' is not a number"),
        ("a,label\n1,x\n,y\n", 'line 3, column "a": the value is missing. Use --missing drop'),
        ("a,label\n1,x\n2,\n", 'line 3, column "label": the sample has no label'),
        ("a,b,label\n1,2,x\n3,nan,y\n", 'line 3, column "b": the value is missing'),
        ("a,b,label\n1,2,x\n-inf,3,y\n", 'line 3, column "a": -inf is not a finite number'),
        ("a,a,label\n1,2,x\n", '2 columns are named "a"'),
        ("5.1,3.5,cat\n4.9,3.0,cat\n", "the first line has values instead of column names: 5.1, 3.5, cat"),
        ("a,born,label\n1,2020-01-02,x\n", "'2020-01-02' is a date or time. Its columns are: a, born"),
        ("a,kind\n1,cat\n", 'If "kind" is the label, use --label-column kind. If it is a category, encode'),
        ("a,kind,label\n1,red,x\n", "for example with pandas.get_dummies. If it is an id, use --id-column"),
        (b"\xff\xfea\x00b", "not text in utf-16"),
    ],
)
def test_csv_errors_name_the_file_and_the_place(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(DataError) as raised:
        read_samples(csv_file(tmp_path, text))
    assert words in str(raised.value)
    assert str(tmp_path / "table.csv") in str(raised.value)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"features": np.eye(2)}, "no array named 'X'; the file has features"),
        ({"X": np.eye(2), "y": [1]}, "2 samples but labels of shape (1,)"),
        ({"X": np.eye(2), "y": [[1], [2]]}, "labels of shape (2, 1)"),
        ({"X": np.ones(3)}, "must be a table"),
        ({"X": np.ones((0, 3))}, "no samples"),
        ({"X": np.array([["a"]])}, "must be numbers"),
        ({"X": np.array([[1j]])}, "must be numbers"),
        ({"X": np.array([[0.0, np.nan]])}, "sample 1, feature number 2: the value is missing"),
    ],
)
def test_npz_errors_name_the_file_and_the_place(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(DataError) as raised:
        read_samples(tmp_path / "t.npz")
    assert words in str(raised.value)
    assert str(tmp_path / "t.npz") in str(raised.value)


def test_a_bad_number_far_down_is_found(tmp_path: Path) -> None:
    X = np.zeros((10_000, 3), dtype=np.float32)
    X[9_998, 1] = np.inf
    np.save(tmp_path / "t.npy", X)
    with pytest.raises(DataError, match="sample 9,999, feature number 2: inf"):
        read_samples(tmp_path / "t.npy")


@pytest.mark.parametrize("name", ["t.npz", "t.npy", "t.parquet"])
@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 not an archive", b"\x93NUMPY\x01\x00", b"PAR1 PAR1 PAR1"]
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name}: not a valid"):
        read_samples(tmp_path / name)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="not a valid"):
        read_samples(tmp_path / "t.npz")


def test_endings(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"cannot read a file without extension. Feature vectors can be in \.csv"
    ):
        read_samples(tmp_path / "table")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_samples(tmp_path / "t.csv")


def test_features_know_where_they_come_from(tmp_path: Path) -> None:
    X, extractor = np.eye(2), {"name": "pixels", "version": "1"}
    np.savez(tmp_path / "f.npz", X=X, names=["a.png", "b.png"], extractor=json.dumps(extractor))
    samples = read_samples(tmp_path / "f.npz")
    assert samples.names == ["a.png", "b.png"]
    assert samples.extractor == extractor
    np.savez(tmp_path / "f.npz", X=X, names=["a.png"], extractor=json.dumps(extractor))
    with pytest.raises(DataError, match="2 samples but 1 names"):
        read_samples(tmp_path / "f.npz")
    np.savez(tmp_path / "f.npz", X=X, names=["a.png", "b.png"], extractor="no JSON")
    with pytest.raises(DataError, match=r"not a valid \.npz file"):
        read_samples(tmp_path / "f.npz")
    np.savez(tmp_path / "f.npz", X=X, names=["of classes", "perhaps", "or columns"])
    assert read_samples(tmp_path / "f.npz").names is None


GROUPS = ["m", "", "m", "tue"]


def test_groups_of_every_format(tmp_path: Path) -> None:
    X, y = np.arange(8.0).reshape(4, 2), np.array(list("abab"))
    (tmp_path / "t.csv").write_text("p,video,label,q\n0, m ,a,1\n2,,b,3\n4,m,a,5\n6,tue,b,7\n")
    np.savez(tmp_path / "t.npz", X=X, y=y, video=np.array(GROUPS))
    table = pa.table({"p": X[:, 0], "q": X[:, 1], "label": y, "video": ["m", None, "m", "tue"]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=3)
    for name in ("t.csv", "t.npz", "t.parquet"):
        stream = open_stream(tmp_path / name, columns=Columns(group="video"), part_bytes=1)
        batch = stream.read()
        assert batch.X.tolist() == X.tolist(), name
        assert batch.groups is not None
        assert batch.groups.tolist() == GROUPS, name
        (some,) = [b for part in stream.parts for b in part.select(part.rows == 3) if len(b)]
        assert some.groups is not None
        assert some.groups.tolist() == ["tue"], name
    assert open_stream(tmp_path / "t.npz").read().groups is None


def test_dropped_samples_take_their_groups_along(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("p,video,label\n0,m,a\n,n,b\n4,o,a\n")
    X = np.array([[0.0], [np.nan], [4.0]])
    np.savez(tmp_path / "t.npz", X=X, y=np.arange(3), video=np.array([5, 6, 7]))
    pq.write_table(pa.table({"p": X[:, 0], "label": [1, 2, 3], "video": list("mno")}), tmp_path / "t.parquet")
    for name, groups in (("t.csv", ["m", "o"]), ("t.npz", ["5", "7"]), ("t.parquet", ["m", "o"])):
        batch = open_stream(tmp_path / name, columns=Columns(group="video", missing="drop")).read()
        assert batch.groups is not None
        assert batch.groups.tolist() == groups, name


def test_groups_that_are_not_there(tmp_path: Path) -> None:
    X = np.zeros((3, 2))
    np.savez(tmp_path / "t.npz", X=X, y=np.arange(3), groups=np.zeros((3, 2)))
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "t.csv").write_text("p,video,label\n0,m,a\n")
    for name, column, words in [
        (
            "t.npz",
            "groups",
            r"array 'groups' must have one group for each of 3 samples, but its shape is \(3, 2\)",
        ),
        ("t.npz", "group", "no array named 'group'; the file has X, y, groups"),
        ("x.npy", "groups", r"no named columns\. .* Use --group-column groups"),
        ("t.csv", "vidio", r'no column named "vidio"\. .* Did you mean --group-column video\?'),
    ]:
        with pytest.raises(DataError, match=words):
            open_stream(tmp_path / name, columns=Columns(group=column))
