import numpy as np
import pytest

from openworld.evaluation.measures import Decisions


def test_of_sorts_samples_into_known_and_unknown():
    # classes sorted: cat = 0, dog = 1; "eel" and "unknown" are no classes, so those samples are unknown
    decisions = Decisions.of(
        ["dog", "eel", "cat", "unknown", "dog"],
        ["dog", "cat", "unknown", "unknown", "cat"],
        classes=["dog", "cat"],
        unknown_label="unknown",
    )
    assert decisions.known_true.tolist() == [1, 0, 1]
    assert decisions.known_pred.tolist() == [1, -1, 0]
    assert decisions.unknown_pred.tolist() == [0, -1]
    assert decisions.n_classes == 2
    assert decisions.known_correct.tolist() == [True, False, False]
    assert decisions.known_rejected.tolist() == [False, True, False]
    assert decisions.unknown_rejected.tolist() == [False, True]


@pytest.mark.parametrize(
    ("y_true", "y_pred", "classes", "unknown_label"),
    [
        ([5, 9, 0, 5], [5, 0, -1, -1], [0, 5], -1),
        ([5, 9, 7, 5], [5, 7, 0, 0], [7, 5], 0),  # the paper's 0 for unknown
        ([5.0, 9.0, 0.0, 5.0], [5, 0, -1, -1], [5, 0], np.int64(-1)),
        (["b", "long name", "a", "b"], ["b", "a", "?", "?"], ["a", "b"], "?"),
        (np.array(["b", "c", "a", "b"], dtype=object), ["b", "a", "none", "none"], ["a", "b"], "none"),
    ],
)
def test_labels_of_every_type_give_the_same_decisions(y_true, y_pred, classes, unknown_label):
    decisions = Decisions.of(y_true, y_pred, classes, unknown_label)
    assert decisions.known_correct.tolist() == [True, False, False]
    assert decisions.known_rejected.tolist() == [False, True, True]
    assert decisions.unknown_rejected.tolist() == [False]


def test_of_leaves_its_input_alone():
    classes = np.array([3, 1, 2])
    Decisions.of([1, 2], [1, 2], classes, -1)
    assert classes.tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("y_true", "y_pred", "classes", "unknown_label", "message"),
    [
        ([1, 2], [1], [1, 2], -1, "y_true has 2 samples, y_pred has 1"),
        ([], [], [1, 2], -1, "y_true must be one-dimensional and not empty"),
        ([1], [1], [], -1, "classes must be one-dimensional and not empty"),
        ([[1]], [1], [1], -1, "y_true must be one-dimensional"),
        ([1], [1], [1, 1], -1, "twice"),
        ([1], [1], [0, 1], 0, "unknown_label 0 must not be one of classes"),
        ([1], [7], [0, 1], -1, "y_pred holds 7, which is neither"),
        (["1"], [1], [0, 1], -1, "all numbers or all text"),
        ([1, 2], [1, "unknown"], [1], "unknown", "all numbers or all text"),
        ([np.nan], [1.0], [0, 1], -1, "y_true must not hold NaN"),
        ([None], [1], [0, 1], -1, "y_true must be numbers or text"),
    ],
)
def test_of_refuses_misuse(y_true, y_pred, classes, unknown_label, message):
    with pytest.raises(ValueError, match=message):
        Decisions.of(y_true, y_pred, classes, unknown_label)


def test_swapped_arguments_are_refused():
    y_true, y_pred = [0, 1, 7], [0, 1, -1]
    with pytest.raises(ValueError, match="y_pred holds 7"):
        Decisions.of(y_pred, y_true, [0, 1], -1)
