"""Scores of samples and the largest of each sample, however they are computed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openworld import AdaptiveMetric, OpenWorldRecognizer
from openworld.recognition.adaptive.metric import unit
from openworld.recognition.adaptive.scoring import _largest

DIGITS, DIGIT = load_digits(return_X_y=True)


@pytest.mark.parametrize("n_classes", [3, 63, 64, 200])
@pytest.mark.parametrize("n", [1, 2, 5, 16, 17])
def test_the_largest_scores_come_first_and_of_equals_the_first_class(n, n_classes):
    scores = np.random.default_rng(n).integers(0, 9, (50, n_classes)).astype(np.float32)
    before, n = scores.copy(), min(n, n_classes)
    found, largest = _largest(scores, n)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    chosen = np.take_along_axis(scores, expected, axis=1)
    np.testing.assert_array_equal(largest, chosen)
    np.testing.assert_array_equal(np.take_along_axis(scores, found, axis=1), chosen)
    assert all(len(set(row)) == n for row in found.tolist())
    if n <= 16 and n_classes >= 64:
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scores, before)


@pytest.fixture(scope="module")
def model():
    """A model of which a class was forgotten, so that its rows are not those of the sorted classes."""
    recognizer = OpenWorldRecognizer(metric=AdaptiveMetric(), refresh_growth=9.0).fit(DIGITS, DIGIT + 10)
    recognizer.partial_fit(DIGITS[:20] + 1, np.full(20, 1))
    recognizer.forget_class(13)
    return recognizer


def test_scores_are_cosines_less_penalties(model):
    scoring, representation = model._current(), model.metric_.representation_
    represented = representation(DIGITS[:50])
    cosines = unit(scoring.whitening(represented)) @ scoring.vectors.rows[scoring.rows].T
    np.testing.assert_allclose(scoring.scores(represented), cosines - scoring.penalties, atol=1e-6)
    assert scoring.rows.tolist() != sorted(scoring.rows.tolist())


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_the_memberships_of_the_nearest_classes_are_those_among_all(model, n):
    assert model.calibration_.runner_up
    judged = model.judge(DIGITS[:50], n)
    positions = np.searchsorted(model.classes_, judged.nearest)
    expected = np.take_along_axis(model.membership(DIGITS[:50]), positions, axis=1)
    np.testing.assert_allclose(judged.memberships, expected, atol=1e-6)
