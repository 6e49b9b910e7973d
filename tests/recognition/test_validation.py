import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from openworld import NearestClassMean
from openworld.recognition.validation import (
    all_finite,
    answers,
    as_array,
    as_key,
    check_labels,
    check_samples,
    check_unknown_label,
    default_unknown_label,
    label_kind,
    rank_in_class,
)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([1, 2], "integer"),
        ((1, 2), "integer"),
        ([np.int64(1), 2, np.uint8(3)], "integer"),
        (np.array([1, 2], dtype=np.uint8), "integer"),
        (np.array([1, 2], dtype=object), "integer"),
        ([True, False], "boolean"),
        (np.array([True]), "boolean"),
        ([1.0, 2.0], "float"),
        ([1, 2.0], "float"),
        (["a", "b"], "string"),
        ([np.str_("a"), "b"], "string"),
        (np.array(["a"]), "string"),
        (np.array(["a"], dtype=object), "string"),
        ([b"a"], "bytes"),
        (pd.Series(["a", "b"]), "string"),
        (pd.Series(["a", "b"], dtype="category"), "string"),
        (pd.Series([1, 2], dtype="category"), "integer"),
    ],
)
def test_label_kind(labels, kind):
    assert label_kind(labels) == kind


@pytest.mark.parametrize(
    "labels", [["a", 1], [True, 1], [True, 1.0], ["a", b"a"], ["a", None], ["a", np.nan], ["a", True]]
)
@pytest.mark.parametrize("as_type", [list, tuple, lambda values: np.array(values, dtype=object)])
def test_mixed_kinds_are_refused(labels, as_type):
    with pytest.raises(TypeError, match="mixed kinds"):
        label_kind(as_type(labels))
    with pytest.raises(TypeError, match="mixed kinds"):
        check_labels(as_type(labels))
    with pytest.raises(TypeError, match="mixed kinds"):
        check_labels(as_type(labels[::-1]))


@pytest.mark.parametrize("label", [None, 1j, np.datetime64("2020-01-01"), {}, object()])
def test_what_cannot_name_a_class_is_refused(label):
    with pytest.raises(TypeError, match="Unknown label type"):
        label_kind([label])


@pytest.mark.parametrize(
    ("labels", "expected", "dtype_kind"),
    [
        ([3, 1, 3], [3, 1, 3], "i"),
        ((3, 1, 3), [3, 1, 3], "i"),
        (range(3), [0, 1, 2], "i"),
        (np.array([3, 1], dtype=np.uint8), [3, 1], "u"),
        (np.array([3, 1], dtype=object), [3, 1], "i"),
        (np.array([True, False], dtype=object), [True, False], "b"),
        ([True, False], [True, False], "b"),
        ([1.0, 2.0], [1.0, 2.0], "f"),
        (["a", "long name"], ["a", "long name"], "U"),
        (np.array(["a", "long name"], dtype=object), ["a", "long name"], "O"),
        (np.array(["a", "long name"], dtype=np.dtypes.StringDType()), ["a", "long name"], "O"),
        (pd.Series([3, 1]), [3, 1], "i"),
        (pd.Series([3, 1], index=[7, 7]), [3, 1], "i"),
        (pd.Series([3, 1], dtype="category"), [3, 1], "i"),
        (pd.Series([3, 1], dtype="Int64"), [3, 1], "i"),
        (pd.Series([True, False], dtype="boolean"), [True, False], "b"),
        (pd.Series(["b", "a"]), ["b", "a"], "O"),
        (pd.Series(["b", "a"], dtype="category"), ["b", "a"], "O"),
        (pd.Series(["b", "a"], dtype="string"), ["b", "a"], "O"),
        (pd.Series(["b", "a"], dtype=object), ["b", "a"], "O"),
        (pd.Index(["b", "a"]), ["b", "a"], "O"),
        (pd.Categorical(["b", "a"]), ["b", "a"], "O"),
    ],
)
def test_labels_of_one_kind_come_back_unchanged(labels, expected, dtype_kind):
    checked = check_labels(labels)
    assert isinstance(checked, np.ndarray)
    assert checked.dtype.kind == dtype_kind
    assert checked.tolist() == expected
    assert [type(label) for label in checked.tolist()] == [type(label) for label in expected]


@pytest.mark.parametrize(
    "labels",
    [
        [1.0, np.nan],
        [1, np.nan],
        [1.0, np.inf],
        np.array([1, np.nan], dtype=object),
        pd.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="category"),
    ],
)
def test_missing_numbers_are_refused(labels):
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        check_labels(labels)


@pytest.mark.parametrize("dtype", [None, object, "string", "category"])
@pytest.mark.parametrize("values", [["a", None], [None, "a"]])
def test_missing_strings_are_refused(values, dtype):
    with pytest.raises(TypeError, match="Unknown label type"):
        check_labels(pd.Series(values, dtype=dtype))


@pytest.mark.parametrize(
    "labels", [None, 3, "abc", {1, 2}, [[1, 2], [3, 4]], np.ones((2, 2, 1)), [[1], [2, 3]]]
)
def test_other_shapes_than_one_dimension_are_refused(labels):
    with pytest.raises(ValueError):
        check_labels(labels)


@pytest.mark.parametrize("labels", [[0.5, 1.5], np.array([0.1, 1.0], dtype=np.float32)])
def test_continuous_targets_are_refused(labels):
    with pytest.raises(ValueError, match="continuous"):
        check_labels(labels)


@pytest.mark.parametrize(
    "labels",
    [[2**63, 1], [2**63 + 1, 2**63 + 2], [2**63, -1], [2**70], np.array([2**63 + 1], dtype=np.uint64)],
)
def test_integers_that_would_become_floats_are_refused(labels):
    # numpy makes [2**63 + 1, 1] two floats, in which 2**63 + 1 and 2**63 + 2 are one class.
    with pytest.raises(ValueError, match="64-bit"):
        check_labels(labels)


def test_the_largest_integers_stay_apart():
    labels = [2**63 - 1, 2**63 - 2, -(2**63)]
    assert check_labels(labels).tolist() == labels
    assert check_labels(np.array([2**63 - 1], dtype=np.uint64)).tolist() == [2**63 - 1]


@pytest.mark.parametrize(
    ("label", "key"),
    [
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.str_("a"), "a"),
        (np.bool_(True), True),
        (np.float64(2), 2.0),
        ("a", "a"),
    ],
)
def test_keys_are_plain_python_values(label, key):
    assert as_key(label) == key
    assert type(as_key(label)) is type(key)


def test_stored_labels_as_an_array():
    assert as_array(["a", "long name"]).tolist() == ["a", "long name"]
    assert as_array(["a", "long name"]).dtype.kind == "U"
    assert as_array([True, False]).dtype == bool
    assert as_array([3, 1]).dtype == np.int64
    assert as_array([]).shape == (0,)


@pytest.mark.parametrize(
    ("labels", "unknown"),
    [([1], -1), ([True], -1), ([1.0], -1.0), (["a"], "unknown"), (np.array(["a"], dtype=object), "unknown")],
)
def test_default_unknown_label(labels, unknown):
    assert default_unknown_label(labels) == unknown
    assert type(default_unknown_label(labels)) is type(unknown)


@pytest.mark.parametrize(
    ("unknown", "classes"),
    [
        (-1, [0, 1]),
        (0, [1, 2]),
        (np.int64(0), [1, 2]),
        (-1, [True, False]),
        (-1.0, [0, 1]),
        (-1, [0.0, 1.0]),
        ("unknown", ["a", "b"]),
        ("A", ["a", "b"]),
        ("", ["a", "b"]),
    ],
)
def test_an_unknown_label_beside_the_classes_is_taken(unknown, classes):
    check_unknown_label(unknown, np.array(classes))
    check_unknown_label(unknown, np.array(classes, dtype=object))


@pytest.mark.parametrize(
    ("unknown", "classes"),
    [
        (0, [0, 1]),
        (np.int64(0), [0, 1]),
        (1.0, [0, 1]),
        (0, [True, False]),
        (True, [0, 1]),
        ("unknown", ["unknown", "a"]),
        (np.str_("a"), ["a", "long name"]),
    ],
)
def test_an_unknown_label_that_is_a_class_is_refused(unknown, classes):
    with pytest.raises(ValueError, match="means unknown"):
        check_unknown_label(unknown, np.array(classes))
    with pytest.raises(ValueError, match="means unknown"):
        check_unknown_label(unknown, np.array(classes, dtype=object))


@pytest.mark.parametrize(
    ("unknown", "classes"),
    [
        ("unknown", [0, 1]),
        (0, ["a"]),
        (-1.0, ["a"]),
        (True, ["a"]),
        (b"unknown", ["unknown"]),
        ("0", [True, False]),
    ],
)
def test_an_unknown_label_of_another_kind_is_refused(unknown, classes):
    with pytest.raises(TypeError, match="cannot be combined with"):
        check_unknown_label(unknown, np.array(classes))


@pytest.mark.parametrize("unknown", [None, [0], (0, 1), {}, np.array([0]), np.datetime64("2020-01-01")])
def test_an_unknown_label_must_be_one_plain_label(unknown):
    with pytest.raises(TypeError):
        check_unknown_label(unknown, np.array([1, 2]))


@pytest.mark.parametrize("unknown", [np.nan, np.float32("nan")])
def test_nan_cannot_mean_unknown(unknown):
    with pytest.raises(ValueError, match="NaN"):
        check_unknown_label(unknown, np.array([1, 2]))


@pytest.mark.parametrize(
    ("classes", "unknown", "expected"),
    [
        (np.array(["a", "b"]), "unknown", ["b", "unknown", "a"]),
        (np.array(["a", "b"], dtype=object), "unknown", ["b", "unknown", "a"]),
        (np.array(["a", "a longer name"]), "?", ["a longer name", "?", "a"]),
        (np.array([False, True]), -1, [True, -1, False]),
        (np.array([3, 200], dtype=np.uint8), -1, [200, -1, 3]),
        (np.array([3, 4]), 0, [4, 0, 3]),
        (np.array([3, 2**62 + 1]), -1, [2**62 + 1, -1, 3]),
        (np.array([3.0, 4.0]), -1.0, [4.0, -1.0, 3.0]),
    ],
)
def test_answers(classes, unknown, expected):
    before = classes.copy()
    given = answers(classes, np.array([1, -1, 0]), unknown)
    assert given.tolist() == expected
    assert [type(label) for label in given.tolist()] == [type(label) for label in expected]
    np.testing.assert_array_equal(classes, before)
    # The type of an answer does not depend on whether any sample is unknown, or on there being any.
    assert answers(classes, np.array([1]), unknown).dtype == given.dtype
    assert answers(classes, np.array([], dtype=np.intp), unknown).dtype == given.dtype
    given[0] = given[1]
    np.testing.assert_array_equal(classes, before)


def test_rank_in_class_counts_the_samples_of_the_class_that_come_before():
    codes = np.array([0, 1, 0, 1, 1])
    assert rank_in_class(codes, np.arange(5)).tolist() == [0, 0, 1, 1, 2]
    assert rank_in_class(codes, np.array([4, 2, 3, 0, 1])).tolist() == [1, 2, 0, 1, 0]


# -- samples to recognize -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_floats_are_taken_as_they_are(dtype):
    X = np.full((2, 3), np.finfo(dtype).max, dtype)  # its sum is infinite
    model = SimpleNamespace(n_features_in_=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_samples(model, X) is X


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_found(value):
    X = np.ones((2, 3), np.float32)
    X[1, 1] = value
    assert not all_finite(X)
    model = NearestClassMean().fit(np.eye(3), ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        check_samples(model, X)


@pytest.mark.parametrize("X", [np.ones((2, 4)), np.ones(3), np.ones((0, 3)), [["a", "b", "c"]]])
def test_samples_that_do_not_fit_are_refused(X):
    model = NearestClassMean().fit(np.eye(3), ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"features|2D array|minimum of 1|numeric|convert string"):
        check_samples(model, X)
