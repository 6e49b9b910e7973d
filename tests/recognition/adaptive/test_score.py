"""The score of a class, against the formulas by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openworld.recognition.adaptive.held_out import Products
from openworld.recognition.adaptive.score import PSEUDO_SAMPLES, ScoreCalibration, two_largest

ANGULAR = ScoreCalibration(by_distance=False, weight=0.5, runner_up=0.0, noise=6.0, typical=0.4)
DISTANCE = replace(ANGULAR, by_distance=True, typical=-1.0)


@pytest.mark.parametrize("counts", [np.array([3.0, 3.0, 3.0, 3.0]), np.array([1.0, 5.0, 40.0, 2.0])])
def test_similarities_by_hand(counts):
    random = np.random.default_rng(0)
    samples, means = random.normal(size=(9, 5)), random.normal(size=(4, 5))
    squares = (means**2).sum(axis=1)
    products = Products(samples @ means.T, (samples**2).sum(axis=1)[:, np.newaxis], squares, counts)
    cosines = samples @ means.T / np.outer(np.linalg.norm(samples, axis=1), np.sqrt(squares))
    undone = 1 / 2  # of the attenuation, where the noise is 6 times the length
    np.testing.assert_allclose(ANGULAR.similarities(products, 5), cosines * (1 + 6 / counts) ** (undone / 2))
    distances = np.linalg.norm(samples[:, np.newaxis] - means, axis=2)
    expected = -distances * np.sqrt(counts / (counts + 1) / 5)
    np.testing.assert_allclose(DISTANCE.similarities(products, 5), expected)


@given(noise=st.floats(0, 1000))
def test_the_fewer_samples_the_more_of_the_attenuation_is_undone(noise):
    counts = np.arange(1.0, 100.0)
    factors = replace(ANGULAR, noise=noise).factors(counts, 5)
    assert np.all(np.diff(factors) <= 0)
    assert np.all((factors >= 1) & (factors <= np.sqrt(1 + noise / counts)))


def test_half_of_it_is_undone_when_a_class_is_named_and_the_rest_when_it_is_accepted():
    form = replace(ANGULAR, runner_up=0.25, strictness=2.0)
    cosine, second, penalties, counts = 0.3, 0.1, np.array([0.05, 0.05]), np.array([1.0, 5.0])
    once, whole = form.factors(counts, 5), ANGULAR.factors(counts, 5)
    np.testing.assert_allclose(once**2, whole)
    found = form.compared(cosine * once - penalties, np.full(2, second), penalties, once)
    np.testing.assert_allclose(found, cosine * whole - 0.25 * second - 3 * penalties)


def test_few_samples_do_not_make_a_class_that_is_far_away_less_acceptable():
    """Otherwise the class with the largest score might not be the one with the largest decision."""
    form, scores = replace(ANGULAR, runner_up=0.25), np.array([-0.2, -0.2])
    few, many = form.compared(scores, scores, np.full(2, 0.05), form.factors(np.array([1.0, 1e9]), 5))
    assert few == pytest.approx(many)


@given(n=st.integers(1, 1000))
def test_classes_of_equal_counts_rank_as_by_cosine(n):
    random = np.random.default_rng(n)
    mixed, counts = random.normal(size=(20, 7)), np.full(7, float(n))
    products = Products(mixed, np.ones((20, 1)), np.ones(7), counts)
    found = ANGULAR.similarities(products, 3)
    np.testing.assert_array_equal(found.argsort(axis=1), mixed.argsort(axis=1))


def test_a_distance_is_about_one_however_few_samples_a_class_has():
    random = np.random.default_rng(0)
    for n in (1, 2, 10, 1000):
        means = random.normal(size=(300, 50)) / np.sqrt(n)
        samples = random.normal(size=(300, 50))
        squares = ((samples - means) ** 2).sum(axis=1)[:, np.newaxis]
        zero = np.zeros((300, 1))
        similarities = DISTANCE.similarities(Products(zero, squares, zero, np.full((300, 1), float(n))), 50)
        assert np.mean(similarities**2) == pytest.approx(1, rel=0.05)


def test_the_tightness_of_few_samples_is_nearly_typical():
    own, codes = np.array([0.9, 0.7, 0.1]), np.array([0, 0, 2])
    found = ANGULAR.penalties(own, codes, 4)
    typical = PSEUDO_SAMPLES * 0.4
    expected = [(1.6 + typical) / (2 + PSEUDO_SAMPLES), 0.4, (0.1 + typical) / (1 + PSEUDO_SAMPLES), 0.4]
    np.testing.assert_allclose(found, 0.5 * np.array(expected))


@given(st.integers(1, 6), st.integers(0, 99))
def test_two_largest(n_classes, seed):
    scores = np.random.default_rng(seed).integers(0, 4, size=(8, n_classes)).astype(float)
    before = scores.copy()
    best, first, second = two_largest(scores)
    np.testing.assert_array_equal(scores, before)
    np.testing.assert_array_equal(best, scores.argmax(axis=1))
    ordered = np.sort(scores, axis=1)[:, ::-1]
    np.testing.assert_array_equal(first, ordered[:, 0])
    np.testing.assert_array_equal(second, ordered[:, 1] if n_classes > 1 else np.full(8, -np.inf))
