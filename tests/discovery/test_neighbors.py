from __future__ import annotations

import numpy as np
import pytest

from openworld.discovery import neighbors
from openworld.discovery.neighbors import N_NEIGHBORS, ONE_SIDED, smooth
from openworld.discovery.space import unit


def directions(n_classes: int, size: int, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_classes), size)
    return unit(
        random.normal(size=(n_classes, 30))[codes] + noise * random.normal(size=(len(codes), 30))
    ), codes


def test_is_the_sum_over_neighbors_that_count_less_where_they_are_not_mutual(monkeypatch):
    vectors, _ = directions(6, 9)
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -np.inf)
    ranks = np.argsort(np.argsort(-similarity, axis=1), axis=1)
    near = ranks < N_NEIGHBORS
    weights = np.where(near, np.where(near.T, 1, ONE_SIDED) * np.maximum(similarity, 0), 0)
    monkeypatch.setattr(neighbors, "_PAIRS_AT_ONCE", 500)  # several blocks
    smoothed, nearest = smooth(vectors)
    np.testing.assert_allclose(smoothed, unit(vectors + weights @ vectors), atol=1e-5)
    np.testing.assert_allclose(nearest, np.sort(similarity, axis=1)[:, -4], atol=1e-5)


def test_samples_of_a_class_become_more_alike_than_those_of_two():
    vectors, codes = directions(8, 15, noise=1.0)
    smoothed, _ = smooth(vectors)
    same = codes[:, np.newaxis] == codes

    def margin(v: np.ndarray) -> float:
        return float((v @ v.T)[same].mean() - (v @ v.T)[~same].mean())

    assert margin(smoothed) > margin(vectors) + 0.1


def test_a_sample_far_from_everything_stays_where_it_is():
    vectors, _ = directions(3, 20)
    opposite = -unit(vectors.mean(axis=0, keepdims=True))
    smoothed, _ = smooth(np.vstack([vectors, opposite]))
    np.testing.assert_allclose(smoothed[-1], opposite[0], atol=1e-6)


def test_copies_count_once():
    vectors, _ = directions(3, 20)
    once, nearest = smooth(vectors)
    many = np.vstack([vectors, np.repeat(vectors[:1], 30, axis=0)])
    smoothed, nearest_of_many = smooth(many)
    np.testing.assert_allclose(smoothed, np.vstack([once, np.repeat(once[:1], 30, axis=0)]), atol=1e-4)
    np.testing.assert_allclose(nearest_of_many[:60], nearest, atol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_few_samples(n):
    vectors = directions(1, 5)[0][:n]
    smoothed, nearest = smooth(vectors)
    assert smoothed.shape == vectors.shape
    assert len(nearest) == n


def test_progress_adds_up_and_may_give_up():
    ticks: list[float] = []
    smooth(directions(10, 9)[0], ticks.append)
    assert sum(ticks) == pytest.approx(90)

    def give_up(progress: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        smooth(directions(2, 9)[0], give_up)
