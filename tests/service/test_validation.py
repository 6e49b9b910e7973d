"""Names: one spelling of each, whatever people can write, in the order people sort."""

from __future__ import annotations

import pytest

from openworld.service.validation import Refused, check_name, natural_key

PERSIAN = "\u0645\u06cc\u200c\u0631\u0648\u0645"  # "I go", with a zero-width non-joiner
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("  two   spaces ", "two spaces"),
        ("no\u00a0break", "no break"),
        ("caf\u0065\u0301", "caf\u00e9"),
        (PERSIAN, PERSIAN),
        (FAMILY, FAMILY),
        (f"{FAMILY} 2", f"{FAMILY} 2"),
        (PERSIAN.replace("\u200c", "\u200c\u200c"), PERSIAN),
        (f"\u200c{PERSIAN}\u200d", PERSIAN),
        ("c\u200dat", "cat"),
        ("..", ".."),
    ],
)
def test_names_that_look_the_same_are_the_same(given: str, stored: str) -> None:
    assert check_name(given) == stored
    assert check_name(stored) == stored


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("\u200d", "empty"),
        ("a\nb", "line breaks"),
        ("a\tb", "line breaks"),
        ("a\u2028b", "line breaks"),
        ("a\ud800", "line breaks"),
        ("a\u202eb", "invisible"),  # writes backwards
        ("a\u200bb", "invisible"),
        ("x" * 201, "200 characters"),
    ],
)
def test_names_that_cannot_be_read_are_refused(name: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_name(name)


def test_names_sort_as_people_sort() -> None:
    names = ["class 10", "Class 9", "class 2", "b", "A", "a", "10", "9", "v1.10", "v1.9"]
    ordered = ["9", "10", "A", "a", "b", "class 2", "Class 9", "class 10", "v1.9", "v1.10"]
    assert sorted(names, key=natural_key) == ordered
