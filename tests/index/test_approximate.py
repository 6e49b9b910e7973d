import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from openworld.index import ApproximateIndex, ExactIndex, Training

pytest.importorskip("faiss")


def clustered(n_means, n_groups, n_dimensions=32, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_groups, n_dimensions))
    return centers[rng.integers(n_groups, size=n_means)] + 0.5 * rng.normal(size=(n_means, n_dimensions))


def few_lists(means, **given):
    """An index with four lists, of which there are too few to leave one out: its answers are exact."""
    centroids = np.array(means[np.linspace(0, len(means) - 1, 4).astype(int)], dtype=np.float32)
    lists = cdist(means, centroids).argmin(axis=1).astype(np.int32)
    return ApproximateIndex(means, np.zeros(means.shape[1]), training=Training(centroids, lists), **given)


def assert_nearest(index, samples, n):
    expected = cdist(samples.astype(np.float64), index.means)
    distances, positions = index.nearest(samples, n)
    n_found = min(n, len(index))
    rtol = 2e-6 if samples.dtype == np.float32 else 1e-12
    assert distances.dtype == samples.dtype
    assert positions.shape == (len(samples), n_found)
    assert all(len(set(row)) == n_found for row in positions.tolist())
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :n_found], rtol=rtol, atol=1e-7)
    np.testing.assert_allclose(distances, np.take_along_axis(expected, positions, 1), rtol=rtol, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 40, 41, 99])
def test_what_is_found_in_all_lists_is_exact(n, dtype):
    means = np.random.default_rng(1).normal(size=(40, 5))
    samples = np.random.default_rng(2).normal(size=(30, 5)).astype(dtype)
    assert_nearest(few_lists(means), samples, n)


changes = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "replace"]), st.integers(0, 10**6), st.integers(1, 4)),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), steps=changes, exact=st.booleans())
def test_any_sequence_of_changes(seed, steps, exact):
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(20, 3))
    index, model = (ExactIndex(start) if exact else few_lists(start)), list(start)
    samples = rng.normal(size=(6, 3)).astype(np.float32 if seed % 2 else np.float64)
    index.nearest(samples)
    for action, at, many in steps:
        fresh = rng.normal(size=(many, 3))
        if action == "add":
            index.add(fresh)
            model.extend(fresh)
        elif action == "replace" and len(model) >= many:
            positions = rng.choice(len(model), many, replace=False)
            index.replace(positions, fresh)
            for position, row in zip(positions, fresh, strict=True):
                model[position] = row
        elif action == "remove" and len(model) > 1:
            position = at % len(model)
            index.remove(position)
            last = model.pop()
            if position < len(model):
                model[position] = last
        np.testing.assert_array_equal(index.means, model)
    assert len(index) == len(model)
    for n in (1, 3):
        assert_nearest(index, samples, n)


def test_what_is_removed_is_never_found_again():
    means = clustered(500, 10)
    index = ApproximateIndex(means)
    np.testing.assert_array_equal(index.nearest(means[:100])[1][:, 0], np.arange(100))
    for position in reversed(range(100)):
        index.remove(position)
    distances, positions = index.nearest(means[:100], 5)
    assert len(index) == 400
    assert positions.max() < 400
    assert distances.min() > 0.5
    left = index.means
    np.testing.assert_allclose(
        distances, np.take_along_axis(cdist(means[:100], left), positions, axis=1), rtol=1e-12
    )


def test_an_index_emptied_and_filled_again():
    index = ApproximateIndex(np.empty((0, 3)))
    index.add(np.eye(3))
    for _ in range(3):
        index.remove(0)
    assert len(index) == 0
    index.add(5 * np.eye(3))
    distances, positions = index.nearest(np.eye(3), 2)
    np.testing.assert_array_equal(positions[:, 0], [0, 1, 2])
    np.testing.assert_allclose(distances[:, 0], 4.0)


@pytest.mark.parametrize("boundary", [None, 1e-3, 1e3, 1e300])
def test_something_is_found_where_most_lists_are_empty(boundary):
    means = clustered(3_000, 30)
    index = ApproximateIndex(means)
    assert len(index.training.centroids) > 100
    for _ in range(2_997):
        index.remove(0)
    distances, positions = index.nearest(means[:200], 2, boundary)
    expected = cdist(means[:200], index.means)
    np.testing.assert_array_equal(positions, np.argsort(expected, axis=1)[:, :2])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :2])


def test_decisions_agree_with_exact_search_on_clustered_data():
    """Of about 550 lists 4 to 32 are searched."""
    means, rng = clustered(16_000, 160, 64), np.random.default_rng(1)
    known = means[:6_000] + 0.35 * rng.normal(size=(6_000, 64))
    others = clustered(1_000, 160, 64, seed=5) + 0.35 * rng.normal(size=(1_000, 64))
    samples = np.vstack([known, others, rng.normal(size=(1_000, 64))]).astype(np.float32)
    exact, approximate = ExactIndex(means), ApproximateIndex(means)
    assert len(approximate.training.centroids) >= 512
    tau = float(np.quantile(exact.nearest(samples[:6_000])[0], 0.95))

    def decide(index):
        distances, positions = index.nearest(samples, 1, tau)
        return np.where(distances[:, 0] < tau, positions[:, 0], -1)

    answers = decide(exact)
    assert 5_000 < np.sum(answers >= 0) < 6_500
    assert np.mean(decide(approximate) == answers) >= 0.999


def test_a_sample_is_answered_alike_alone_and_in_any_batch():
    means = clustered(2_000, 20)
    samples = (means[:60] + 0.4 * np.random.default_rng(3).normal(size=(60, 32))).astype(np.float32)
    index = ApproximateIndex(means)
    for n, boundary in ((1, None), (1, 2.3), (4, None)):
        distances, positions = index.nearest(samples, n, boundary)
        for pieces in ([[i] for i in range(60)], np.array_split(np.random.default_rng(4).permutation(60), 3)):
            for piece in pieces:
                found = index.nearest(samples[piece], n, boundary)
                np.testing.assert_array_equal(found[0], distances[piece])
                np.testing.assert_array_equal(found[1], positions[piece])


@pytest.mark.parametrize("kind", [ExactIndex, ApproximateIndex])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_of_equally_near_means_the_smallest_name_comes_first(kind, n):
    rng = np.random.default_rng(6)
    means = np.repeat(rng.normal(size=(8, 4)), 30, axis=0)  # more of a kind than candidates are asked for
    names = [f"{i:03}" for i in rng.permutation(240)]
    index = kind(means, names=names)
    _, positions = index.nearest(rng.normal(size=(20, 4)), n)
    for row in positions:
        alike = np.flatnonzero((means == means[row[0]]).all(axis=1))
        expected = sorted(alike.tolist(), key=names.__getitem__)[:n]
        assert row.tolist() == expected


def test_names_are_read_when_they_are_needed():
    names = ["b", "c"]
    index = ExactIndex(np.zeros((2, 2)), names=names)
    assert index.nearest(np.ones((1, 2)))[1].tolist() == [[0]]
    names.append("a")
    index.add(np.zeros((1, 2)))
    assert index.nearest(np.ones((1, 2)), 3)[1].tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("copy", [deepcopy, lambda index: pickle.loads(pickle.dumps(index))])  # noqa: S301
def test_a_copy_is_the_same_and_independent(copy):
    means = clustered(1_000, 10)
    index = ApproximateIndex(means)
    other = copy(index)
    before = index.nearest(means[:50] + 0.1, 3)
    for found, expected in zip(other.nearest(means[:50] + 0.1, 3), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    other.remove(0)
    other.add(np.zeros((2, 32)))
    assert (len(index), len(other)) == (1_000, 1_001)
    np.testing.assert_array_equal(index.nearest(means[:50] + 0.1, 3)[1], before[1])


def test_far_samples_are_far_without_a_warning():
    index = ApproximateIndex(clustered(300, 3))
    for dtype in (np.float32, np.float64):
        samples = np.full((2, 32), np.finfo(dtype).max / 2, dtype=dtype)
        assert index.nearest(samples)[0].min() > 1e18
        endless = np.full((1, 32), np.inf, dtype=dtype)
        assert index.nearest(endless, 2)[0].tolist() == [[np.inf, np.inf]]


def test_no_samples_and_no_means_asked_for():
    index = ApproximateIndex(np.eye(3))
    assert [part.shape for part in index.nearest(np.empty((0, 3)), 2)] == [(0, 2), (0, 2)]
    with pytest.raises(ValueError, match="at least 1"):
        index.nearest(np.eye(3), 0)


def test_squared_distances_after_changes():
    index = ApproximateIndex(clustered(300, 3))
    samples = clustered(5, 3, seed=8)
    index.squared_distances(samples)
    index.remove(7)
    index.add(clustered(2, 3, seed=9))
    np.testing.assert_allclose(index.squared_distances(samples), cdist(samples, index.means) ** 2, rtol=1e-10)
