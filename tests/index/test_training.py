import numpy as np
import pytest
from scipy.spatial.distance import cdist

from openworld.index import ApproximateIndex, ExactIndex
from openworld.index.inverted_lists import members_of
from openworld.index.training import train

pytest.importorskip("faiss")


def grouped(n_vectors, n_groups, n_dimensions=32, seed=0):
    rng = np.random.default_rng(seed)
    groups = 4 * rng.normal(size=(n_groups, n_dimensions))
    vectors = groups[rng.integers(n_groups, size=n_vectors)] + rng.normal(size=(n_vectors, n_dimensions))
    return vectors.astype(np.float32)


@pytest.mark.parametrize("n_vectors", [1, 63, 64, 3_000])
def test_every_vector_is_in_the_list_of_its_nearest_centroid(n_vectors):
    vectors = grouped(n_vectors, 40)
    centroids, lists = train(vectors.__getitem__, n_vectors)
    distances = cdist(vectors, centroids)
    np.testing.assert_allclose(distances[np.arange(n_vectors), lists], distances.min(axis=1), rtol=1e-5)
    assert len(centroids) == 1 if n_vectors < 64 else len(centroids) > np.sqrt(n_vectors)


def test_no_list_is_long_where_there_are_more_groups_than_the_first_lists():
    """64 lists for 400 groups: without splitting, some hold tens of groups."""
    vectors = grouped(4_096, 400)
    _, lists = train(vectors.__getitem__, 4_096)
    assert np.bincount(lists).max() <= 4 * np.sqrt(4_096) / 4


def test_equal_vectors_cannot_be_split_and_are_found():
    means = np.repeat([[1.0, 2.0], [3.0, 5.0]], [900, 1], axis=0)
    index = ApproximateIndex(means)
    distances, positions = index.nearest(np.array([[3.0, 4.0], [1.0, 2.0]]), 2)
    np.testing.assert_allclose(distances, [[1.0, np.sqrt(8)], [0.0, 0.0]])
    assert positions[0, 0] == 900
    assert positions[1].tolist() == [0, 1]


def test_members_of_lists():
    members = members_of(np.array([2, 0, 2, 2], dtype=np.int32), 4)
    assert [part.tolist() for part in members] == [[1], [], [0, 2, 3], []]


def test_lists_that_grew_long_are_searched_slowly_but_right():
    """1,000 means become 20,000, of groups not there before: answers stay, and a new index is shorter."""
    start, later = grouped(1_000, 10), grouped(19_000, 200, seed=1)
    index = ApproximateIndex(start.astype(np.float64))
    n_lists = len(index.training.centroids)
    for piece in np.array_split(later.astype(np.float64), 50):
        index.add(piece)
    noise = np.random.default_rng(2).normal(size=(3_000, 32))
    samples = (np.vstack([start, later])[::7][:3_000] + 0.4 * noise[: 20_000 // 7 + 1]).astype(np.float32)
    expected = ExactIndex(index.means).nearest(samples, 1)
    tau = float(np.quantile(expected[0], 0.9))
    again = ApproximateIndex(index.means)
    assert len(index.training.centroids) == n_lists
    assert len(again.training.centroids) > 3 * n_lists
    answers = np.where(expected[0] < tau, expected[1], -1)
    for one in (index, again):
        distances, positions = one.nearest(samples, 1, tau)
        assert np.mean(np.where(distances < tau, positions, -1) == answers) >= 0.999
    longest, shortest = (np.bincount(one.training.lists).max() for one in (index, again))
    assert longest > 4 * shortest
