"""Which column holds what: by name, as the user says, and what is said about the rest."""

from __future__ import annotations

import pytest

from openworld.data.columns import Columns, ignored_note, looks_like_id
from openworld.data.errors import DataError

NAMES = ["id", "a", "label", "b"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "id",
        "ID",
        "Unnamed: 0",
        "__index_level_0__",
        "sample_id",
        "customer id",
        "userId",
        "uuid",
        "row_number",
    ],
)
def test_ids_are_known_by_their_names(name: str) -> None:
    assert looks_like_id(name)


@pytest.mark.parametrize("name", ["width", "valid", "acid", "grid", "row", "humidity", "idle", "0", "x1"])
def test_other_names_are_features(name: str) -> None:
    assert not looks_like_id(name)


def test_roles() -> None:
    roles = Columns().roles("t.csv", NAMES)
    assert (roles.features, roles.label, roles.id, roles.ignored) == (["a", "b"], "label", None, ["id"])
    roles = Columns(id="id").roles("t.csv", NAMES)
    assert (roles.features, roles.id, roles.ignored) == (["a", "b"], "id", [])
    roles = Columns(features=("b", "id")).roles("t.csv", NAMES)
    assert (roles.features, roles.ignored) == (["b", "id"], ["a"])
    assert Columns().roles("t.csv", ["id", "index"]).features == ["id", "index"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (Columns(label="lable"), r'no column named "lable"\. .* Did you mean --label-column label\?'),
        (Columns(group="lable"), r"Did you mean --group-column label\?"),
        (Columns(id="key"), r'no column named "key"\. Its columns are: id, a, label, b\.'),
        (Columns(features=("a", "c", "d")), 'no columns named "c", "d"'),
        (Columns(features=tuple(f"x{i}" for i in range(15))), r'"x10", "x11" and 3 more\. Its columns'),
    ],
)
def test_columns_that_are_not_there(columns: Columns, words: str) -> None:
    with pytest.raises(DataError, match=words):
        columns.roles("t.csv", NAMES)


def test_a_column_that_is_wanted_itself_is_not_suggested() -> None:
    wanted = Columns(features=("sepal width", "petal width"), of_model=True)
    with pytest.raises(DataError, match=r'no column named "petal width"') as raised:
        wanted.roles("t.csv", ["sepal width", "label"])
    assert "meant" not in str(raised.value)
    with pytest.raises(DataError, match=r'Is "Petal width" meant\?'):
        wanted.roles("t.csv", ["sepal width", "Petal width"])


def test_what_is_ignored_is_named() -> None:
    assert ignored_note("t.csv", []) == []
    assert ignored_note("t.csv", ["x"]) == ['t.csv: ignored column "x".']
    (note,) = ignored_note("t.csv", ["id", "x"])
    assert "Use --id-column id to have it in the answers" in note


def test_a_group_column_is_never_a_feature() -> None:
    roles = Columns(group="a").roles("t.csv", NAMES)
    assert (roles.features, roles.group, roles.ignored) == (["b"], "a", ["id"])
    roles = Columns(features=("b",), group="a").roles("t.csv", NAMES)
    assert (roles.features, roles.ignored) == (["b"], ["id"])
    assert Columns(id="id", group="id").roles("t.csv", NAMES).features == ["a", "b"]
    with pytest.raises(
        DataError, match='column "a" is a feature in --feature-columns, so it cannot be the group'
    ):
        Columns(features=("a", "b"), group="a").roles("t.csv", NAMES)
    with pytest.raises(DataError, match='column "a" is a feature of the model'):
        Columns(features=("a",), group="a", of_model=True).roles("t.csv", NAMES)
