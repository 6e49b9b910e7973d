from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from openworld import OpenWorldRecognizer
from openworld.discovery import PoolSpace, find_clusters, split
from openworld.discovery.kernel import class_kernel, fourier_features
from openworld.discovery.space import unit

CORNERS = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [5, 5], [20, 20]])


def in_a_plane(seed: int, size: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Six groups, three of them in one direction from the center of all."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(CORNERS)), size)
    return CORNERS[truth] + random.normal(size=(len(truth), 2)) * 0.7, truth


def clusters_of(vectors: np.ndarray, **options: object) -> np.ndarray:
    found = np.arange(len(vectors)) + len(vectors)  # each in a cluster of its own
    for cluster in find_clusters(vectors, np.arange(len(vectors)), **options).clusters:
        found[cluster.members] = cluster.id
    return found


def test_the_cosine_is_a_gaussian_kernel_of_the_distance():
    whitened = np.random.default_rng(0).normal(size=(40, 6))
    vectors = unit(class_kernel(6)(whitened))
    expected = np.exp(-cdist(whitened, whitened, "sqeuclidean") / (2 * 1.5**2 * 12))
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=0.15)  # 512 random features


def test_the_scale_of_all_features_does_not_matter_and_their_number_hardly():
    few, _ = in_a_plane(0, 200)
    many, _ = in_a_plane(1, 2000)

    def alike(samples: np.ndarray) -> np.ndarray:
        vectors = unit(fourier_features(samples))
        return vectors[:1] @ vectors.T

    np.testing.assert_allclose(alike(few), alike(few * 1e6), atol=1e-3)
    together = unit(fourier_features(np.concatenate([few, many])))[: len(few)]
    np.testing.assert_allclose(alike(few), together[:1] @ together.T, atol=0.25)


@pytest.mark.parametrize("scale", [1, 1000])
def test_groups_of_a_plane_in_one_direction_are_different_clusters(scale):
    """From the center of all, three of the six lie in the same direction."""
    vectors, truth = in_a_plane(0)
    vectors = vectors * [1, scale]
    assert adjusted_rand_score(truth, clusters_of(vectors)) > 0.9
    parts = split(vectors[truth > 3], np.flatnonzero(truth > 3))
    assert [set(truth[part]) for part in parts] == [{4}, {5}]


def test_they_are_with_known_classes_too():
    vectors, truth = in_a_plane(0)
    model = OpenWorldRecognizer().fit(vectors[truth < 3], truth[truth < 3])
    assert model.metric_.representation_.keeps_distances
    space = PoolSpace.of(model)
    pool, kind = in_a_plane(1)
    pool, kind = pool[kind > 2], kind[kind > 2]
    assert adjusted_rand_score(kind, clusters_of(space.transform(pool), known=space.known)) == 1.0
    assert len(space.transform(pool[:0])) == 0


def test_copies_do_not_make_the_kernel_infinitely_narrow():
    vectors, truth = in_a_plane(0)
    copies = np.concatenate([vectors, np.repeat(vectors[:1], 2000, axis=0)])
    assert np.isfinite(fourier_features(copies)).all()
    found = clusters_of(copies)[: len(truth)]
    assert adjusted_rand_score(truth, found) > 0.7
