from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openworld.discovery import near_duplicate_names, similar
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_similar_is_what_brute_force_finds(dtype, monkeypatch):
    monkeypatch.setattr("openworld.discovery.suggestions._ROWS_AT_ONCE", 7)
    random = np.random.default_rng(0)
    vectors, query = random.normal(size=(50, 6)).astype(dtype), random.normal(size=6).astype(dtype)
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    positions, angles = similar(vectors, query, 8)
    assert positions.tolist() == np.argsort(-cosines)[:8].tolist()
    np.testing.assert_allclose(np.cos(angles), np.sort(cosines)[::-1][:8], atol=1e-5)


def test_similar_by_hand():
    vectors = np.array([[0.0, 2.0], [5.0, 0.0], [0.0, 0.0], [-1.0, 0.0], [3.0, 3.0]])
    positions, angles = similar(vectors, np.array([0.5, 0.0]))
    assert positions.tolist() == [1, 4, 0, 2, 3]
    np.testing.assert_allclose(angles, np.pi * np.array([0, 0.25, 0.5, 0.5, 1]))


def test_similar_refuses_a_query_of_another_size_and_no_answer():
    with pytest.raises(ValueError, match=r"query must have shape \(3,\)"):
        similar(np.eye(3), np.ones(2))
    with pytest.raises(ValueError, match="n must be at least 1"):
        similar(np.eye(3), np.ones(3), 0)
