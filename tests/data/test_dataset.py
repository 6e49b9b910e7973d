"""Data sets by name or path, and what identifies them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openworld.data.dataset import LETTERS, Dataset, load_dataset
from openworld.data.errors import DataError

X = np.arange(12.0).reshape(6, 2)
y = np.array(["a", "a", "b", "b", "c", "c"])


def npz(tmp_path: Path, **arrays: Any) -> Path:
    np.savez(tmp_path / "data.npz", **arrays)
    return tmp_path / "data.npz"


def test_npz(tmp_path: Path) -> None:
    dataset = load_dataset(npz(tmp_path, X=X, y=y))
    assert dataset.name == "data"
    assert np.array_equal(dataset.X, X)
    assert dataset.y.tolist() == y.tolist()
    assert dataset.groups is None
    assert dataset.is_test is None
    assert dataset.classes.tolist() == ["a", "b", "c"]


def test_npz_with_groups(tmp_path: Path) -> None:
    groups = np.array([0, 1, 0, 1, 0, 1])
    dataset = load_dataset(npz(tmp_path, X=X, y=y, groups=groups))
    assert dataset.groups is not None
    assert dataset.groups.tolist() == groups.tolist()
    assert dataset.y.tolist() == y.tolist()


def test_npz_with_a_test_part(tmp_path: Path) -> None:
    path = npz(tmp_path, X_train=X[:4], y_train=y[:4], X_test=X[4:], y_test=y[4:])
    dataset = load_dataset(path)
    assert np.array_equal(dataset.X, X)
    assert dataset.y.tolist() == y.tolist()
    assert dataset.is_test is not None
    assert dataset.is_test.tolist() == [False] * 4 + [True] * 2
    assert load_dataset(path.rename(tmp_path / "DATA.NPZ")).is_test is not None


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X}, "needs arrays X and y; it has X"),
        ({"y": y}, "needs arrays X and y; it has y"),
        ({"X": X, "y": y[:4]}, "6 samples but labels of shape (4,)"),
        ({"X": X, "y": y[:, None]}, "labels of shape (6, 1)"),
        ({"X": X, "y": y, "groups": y[:4]}, "groups has 4 values"),
        ({"X": X * [1, np.nan], "y": y}, "sample 1, feature number 2: the value is missing"),
        ({"X": X.reshape(6, 2, 1), "y": y}, "must be a table"),
        ({"X": X.astype(str), "y": y}, "must be numbers"),
        ({"X_train": X, "y_train": y, "X_test": X}, "needs arrays X and y; it has X_train, y_train, X_test"),
        # As many labels as samples in all, but not in the parts.
        ({"X_train": X, "y_train": y[:5], "X_test": X[:3], "y_test": y[:4]}, "6 samples but labels"),
        (
            {"X_train": X, "y_train": y, "X_test": X[:, :1], "y_test": y},
            "2 features for training, 1 for test",
        ),
        ({"X_train": X, "y_train": y, "X_test": X + np.inf, "y_test": y}, "not a finite number"),
    ],
)
def test_npz_that_cannot_be_used(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError) as raised:
        load_dataset(npz(tmp_path, **arrays))
    assert words in str(raised.value)
    assert "data" in str(raised.value)


def test_damaged_npz(tmp_path: Path) -> None:
    path = npz(tmp_path, X=X, y=y)
    whole = path.read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2], whole[:60] + b"????" + whole[64:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"data\.npz: not a valid \.npz file"):
            load_dataset(path)


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,label\n1,2,007\n3,4,8\n")
    pq.write_table(pa.table({"a": [1.0, 3.0], "b": [2, 4], "label": ["007", "8"]}), tmp_path / "t.parquet")
    for ending in ("csv", "parquet"):
        dataset = load_dataset(str(tmp_path / f"t.{ending}"))
        assert dataset.name == "t"
        assert dataset.X.tolist() == [[1, 2], [3, 4]]
        assert dataset.y.tolist() == ["007", "8"]
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"Its columns are: a, b\. An experiment needs a column named label"):
        load_dataset(tmp_path / "t.csv")


def test_labels_in_a_column_or_array_of_another_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,kind\n1,x\n3,y\n")
    assert load_dataset(tmp_path / "t.csv", "kind").y.tolist() == ["x", "y"]
    assert load_dataset(npz(tmp_path, X=X, kind=y), "kind").y.tolist() == y.tolist()
    with pytest.raises(DataError, match="needs arrays X and kind; it has X, y"):
        load_dataset(npz(tmp_path, X=X, y=y), "kind")


def test_names_that_are_nothing(tmp_path: Path) -> None:
    for name in ("leters", str(tmp_path / "missing.npz"), str(tmp_path / "missing.csv")):
        with pytest.raises(FileNotFoundError, match=r"no built-in data set of this name \(letters"):
            load_dataset(name)


def test_the_built_in_letters() -> None:
    """Both feature sets are of the same pictures, and every typeface is one group."""
    sets = [load_dataset(name) for name in LETTERS]
    first = sets[0]
    assert len({dataset.fingerprint() for dataset in sets}) == len(LETTERS)
    assert len(first.classes) > 700, "the paper's experiment needs 200 known and 500 unknown classes"
    assert first.groups is not None
    assert len(np.unique(first.groups)) == 16
    for dataset in sets:
        assert dataset.X.shape[0] == len(first.y)
        assert np.isfinite(dataset.X).all()
        assert np.array_equal(dataset.y, first.y)


def test_the_fingerprint_changes_with_anything() -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((5000, 3))
    y, groups, is_test = np.arange(5000) % 7, np.arange(5000) % 3, np.arange(5000) % 2 == 0
    dataset = Dataset("d", X, y, groups, is_test)
    same = Dataset("other name", X.copy(), y.copy(), groups.copy(), is_test.copy())
    assert dataset.fingerprint() == same.fingerprint()

    def changed(array: Any, place: Any) -> Any:
        copy = array.copy()
        copy[place] = not copy[place] if copy.dtype == bool else copy[place] + 1
        return copy

    others = [Dataset("d", changed(X, (row, 1)), y, groups, is_test) for row in (0, 1, 2, 3, 4998, 4999)]
    others += [
        Dataset("d", X, changed(y, 4999), groups, is_test),
        Dataset("d", X, y, changed(groups, 1), is_test),
        Dataset("d", X, y, groups, changed(is_test, 1)),
        Dataset("d", X, y, groups, None),
        Dataset("d", X, y, None, is_test),
        Dataset("d", X[:-1], y[:-1], groups[:-1], is_test[:-1]),
        Dataset("d", X.astype(np.float32), y, groups, is_test),
        Dataset("d", X.reshape(5000, 3)[:, [1, 0, 2]], y, groups, is_test),
    ]
    assert len({dataset.fingerprint(), *(other.fingerprint() for other in others)}) == 1 + len(others)


def test_the_fingerprint_does_not_depend_on_the_memory_layout() -> None:
    X = np.random.default_rng(0).standard_normal((9000, 4))
    y = np.zeros(9000)
    assert Dataset("d", X, y).fingerprint() == Dataset("d", np.asfortranarray(X), y).fingerprint()


@pytest.mark.parametrize("part", ["y", "groups", "is_test"])
def test_parts_of_another_length_are_refused(part: str) -> None:
    parts: dict[str, Any] = {"y": y, part: np.zeros(5, dtype=bool)}
    with pytest.raises(DataError, match=f"d: 6 samples, but {part} has 5 values"):
        Dataset("d", X, **parts)


def test_samples_without_a_group_are_not_one_group(tmp_path: Path) -> None:
    groups = np.array(["m", "", "m", "", "n", "n"])
    np.savez(tmp_path / "d.npz", X=X, y=y, groups=groups)
    found = load_dataset(tmp_path / "d.npz").groups
    assert found is not None
    assert len(np.unique(found)) == 4
    assert found[0] == found[2]
    assert found[4] == found[5]
    np.savez(tmp_path / "e.npz", X=X, y=y, groups=np.arange(6) // 2)
    assert np.array_equal(load_dataset(tmp_path / "e.npz").groups, np.arange(6) // 2)
