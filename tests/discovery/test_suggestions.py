from __future__ import annotations

import unicodedata
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openworld.discovery import near_duplicate_names
from openworld.discovery.suggestions import edit_distance

words = st.text(alphabet="abcß é", max_size=7)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("zebra", "Zebra"),
        ("zebra", "  zebra "),
        ("polar bear", "Polar-Bear"),
        ("polar bear", "polar_bear"),
        ("polar  bear", "polar bear"),
        ("café", "cafe"),
        ("café", unicodedata.normalize("NFD", "café")),
        ("Straße", "STRASSE"),
        ("ｚｅｂｒａ", "zebra"),
        ("cat", "cats"),
        ("berry", "berries"),
        ("fox", "foxes"),
        ("branch", "branches"),
        ("zebra", "zerba"),
        ("giraffe", "girafe"),
        ("hippopotamus", "hipopotamos"),
        ("Ёлка", "елка"),
        ("A", " A"),
    ],
)
def test_near_duplicates(name, other):
    assert near_duplicate_names(name, ["something else", other]) == [other]
    assert near_duplicate_names(other, [name]) == [name]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("cat", "bat"),
        ("type 1", "type 2"),
        ("model 12", "model 21"),
        ("a", "A"),
        ("a", "ä"),
        ("glass", "glas"),
        ("zebra", "giraffe"),
        ("", "x"),
        ("+", "-"),
        ("++", "--"),
    ],
)
def test_different_names(name, other):
    assert near_duplicate_names(name, [other]) == []
    assert near_duplicate_names(other, [name]) == []


def test_the_nearest_name_comes_first():
    existing = ["hipopotamos", "hippopotamos", "lion", "Hippopotamus"]
    assert near_duplicate_names("hippopotamus", existing) == ["Hippopotamus", "hippopotamos", "hipopotamos"]


@given(st.text(max_size=12))
def test_a_name_is_a_near_duplicate_of_itself(name):
    assert near_duplicate_names(name, [name]) == [name]


@given(words, words, st.integers(0, 3))
def test_edit_distance_is_that_of_the_definition(first, second, enough):
    @cache
    def distance(i: int, j: int) -> int:
        if min(i, j) == 0:
            return max(i, j)
        options = [
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (first[i - 1] != second[j - 1]),
        ]
        if min(i, j) > 1 and first[i - 2 : i] == second[j - 2 : j][::-1]:
            options.append(distance(i - 2, j - 2) + 1)
        return min(options)

    expected = distance(len(first), len(second))
    for found in (edit_distance(first, second, enough), edit_distance(second, first, enough)):
        assert found == expected or min(found, expected) > enough
    assert edit_distance(first, second, 99) == expected
