from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score
from sklearn.neighbors import KNeighborsClassifier

from openworld.discovery import Clustering, find_clusters, map_2d
from openworld.discovery.projection import _turned_back


def blobs(n_classes: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), size)
    vectors = random.normal(size=(n_classes, 80))[truth] + 0.6 * random.normal(size=(len(truth), 80))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), truth


def test_clusters_stand_apart_where_principal_components_mix_them():
    vectors, truth = blobs(40, 12)
    ids = np.arange(len(vectors))
    ours = map_2d(vectors, ids, find_clusters(vectors, ids)).positions
    plain = PCA(2, random_state=0).fit_transform(vectors)
    assert silhouette_score(ours, truth) > 0.5 > 0.1 > silhouette_score(plain, truth)
    assert KNeighborsClassifier(3).fit(ours, truth).score(ours, truth) > 0.98


def test_the_medoid_is_in_the_middle_and_the_doubtful_are_at_the_rim():
    vectors, _ = blobs(6, 20)
    found = find_clusters(vectors, np.arange(120))
    assert len(found.clusters) == 6
    drawn = map_2d(vectors, np.arange(120), found)
    for cluster in found.clusters:
        from_middle = np.linalg.norm(
            drawn.positions[cluster.members] - drawn.positions[cluster.medoid], axis=1
        )
        assert (np.diff(from_middle) > 0).all()


def test_discs_do_not_touch():
    vectors, truth = blobs(25, 15)
    found = find_clusters(vectors, np.arange(len(truth)))
    drawn = map_2d(vectors, np.arange(len(truth)), found).positions
    middles = np.array([drawn[cluster.medoid] for cluster in found.clusters])
    radii = np.array(
        [np.linalg.norm(drawn[c.members] - drawn[c.medoid], axis=1).max() for c in found.clusters]
    )
    gaps = np.linalg.norm(middles[:, None] - middles, axis=2) + np.diag(np.full(len(middles), np.inf))
    assert (gaps > radii[:, None] + radii).all()


def test_a_single_stands_between_the_clusters_it_is_nearest_to():
    vectors, _ = blobs(3, 20)
    middle = vectors[:20].mean(axis=0) + vectors[20:40].mean(axis=0)
    everything = np.vstack([vectors, middle])
    found = find_clusters(vectors, np.arange(60))
    drawn = map_2d(everything, np.arange(61), replace(found, singles=np.array([60]))).positions
    to_blobs = [np.linalg.norm(drawn[60] - drawn[20 * i : 20 * i + 20].mean(axis=0)) for i in range(3)]
    assert max(to_blobs[:2]) < to_blobs[2]


def test_the_map_does_not_depend_on_the_order_of_the_input():
    vectors, _ = blobs(8, 10)
    order = np.random.default_rng(1).permutation(80)
    found = find_clusters(vectors, np.arange(80))
    first, second = map_2d(vectors, np.arange(80), found), map_2d(vectors[order], order, found)
    np.testing.assert_array_equal(first.ids, second.ids)
    np.testing.assert_array_equal(first.positions, second.positions)


def test_what_stays_in_the_pool_stays_about_where_it_was():
    random = np.random.default_rng(0)
    truth = np.repeat(np.arange(40), 14)
    likeness = random.normal(size=(40, 4)) @ random.normal(size=(4, 80))
    vectors = likeness[truth] + 0.2 * random.normal(size=(len(truth), 80))
    ids = np.arange(len(vectors))
    few = (truth < 38) & (random.random(len(ids)) < 0.9)  # the rest comes later
    stays = (truth != 5) & (random.random(len(ids)) < 0.9)
    before = map_2d(vectors[few], ids[few], find_clusters(vectors[few], ids[few], finer=4))
    later = find_clusters(vectors[stays], ids[stays], finer=4)
    after = map_2d(vectors[stays], ids[stays], later, before)
    old, known = before.find(after.ids)
    assert known.sum() == (few & stays).sum()
    fresh = _turned_back(map_2d(vectors[stays], ids[stays], later).positions, old, known)
    moved, moved_anew = (
        np.median(np.linalg.norm(positions - old, axis=1)[known]) for positions in (after.positions, fresh)
    )
    assert moved < 0.05 * np.linalg.norm(np.ptp(old[known], axis=0))
    assert moved < moved_anew


@pytest.mark.parametrize("sizes", [(2, 12), (3, 8), (1, 30)])
def test_a_small_map_is_turned_back_to_the_one_before(sizes):
    vectors, _ = blobs(*sizes)
    ids = np.arange(len(vectors))
    found = find_clusters(vectors, ids)
    before = map_2d(vectors, ids, found)
    turned = type(before)(before.ids, before.positions @ np.array([[0.0, 1.0], [1.0, 0.0]]) + 3.0)
    after = map_2d(vectors, ids, found, turned)
    where = [cluster.medoid for cluster in found.clusters]
    np.testing.assert_allclose(after.positions[where], turned.positions[where], atol=1e-6)


@given(arrays(np.float64, (6, 2), elements=st.floats(-10, 10, width=16)), st.floats(0, 6.3), st.booleans())
def test_turning_back_undoes_a_turn_a_mirror_a_scale_and_a_move(positions, angle, mirrored):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    if mirrored:
        turn = turn * [1.0, -1.0]
    moved = 3.0 * positions @ turn + [5.0, -2.0]
    np.testing.assert_allclose(_turned_back(moved, positions, np.full(6, True)), positions, atol=1e-6)


@settings(max_examples=30)
@given(
    arrays(
        np.float64, st.tuples(st.integers(0, 40), st.integers(1, 4)), elements=st.integers(-2, 2).map(float)
    )
)
def test_any_pool_has_a_finite_map(vectors):
    ids = np.arange(len(vectors))
    found = find_clusters(vectors, ids, min_size=2)
    drawn = map_2d(vectors, ids, found)
    assert drawn.positions.shape == (len(vectors), 2)
    assert np.isfinite(drawn.positions).all()


def test_a_pool_without_clusters_is_drawn_by_principal_components():
    vectors = np.random.default_rng(0).normal(size=(9, 5))
    drawn = map_2d(vectors, np.arange(9), Clustering((), np.arange(9), 1)).positions
    expected = PCA(2, svd_solver="full").fit_transform(vectors)
    np.testing.assert_allclose(drawn, expected, atol=1e-5)


def test_a_clustering_of_other_samples_is_refused():
    vectors, _ = blobs(2, 10)
    found = find_clusters(vectors, np.arange(20))
    with pytest.raises(ValueError, match="not among the ids"):
        map_2d(vectors, np.arange(1, 21), found)
