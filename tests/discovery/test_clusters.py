from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score

from openworld.discovery import Cancelled, Cluster, Clustering, find_clusters, look_first
from openworld.discovery.clusters import _by_distance_to_medoid


def blobs(
    sizes: list[int], n_features: int = 100, noise: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around random directions."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    vectors = random.normal(size=(len(sizes), n_features))[truth]
    vectors += noise * random.normal(size=vectors.shape)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), truth


def labels_of(clustering: Clustering, n: int) -> np.ndarray:
    labels = np.full(n, -1)
    for cluster in clustering.clusters:
        labels[cluster.members] = cluster.id
    return labels


def same(first: Clustering, second: Clustering) -> bool:
    return (
        first.members == second.members
        and first.singles.tolist() == second.singles.tolist()
        and first.next_id == second.next_id
        and all(
            np.array_equal(one.distances, other.distances)
            for one, other in zip(first.clusters, second.clusters, strict=True)
        )
    )


@pytest.mark.parametrize("sizes", [[12], [300], [6, 6], [40, 25, 60, 7], [20] * 30])
def test_blobs_are_found(sizes):
    vectors, truth = blobs(sizes)
    found = find_clusters(vectors, np.arange(len(vectors)))
    assert len(found.clusters) == len(sizes)
    assert adjusted_rand_score(truth, labels_of(found, len(truth))) == 1.0
    assert len(found.singles) == 0


def test_agrees_with_hdbscan_on_the_full_distances():
    vectors, truth = blobs([30, 50, 80, 20, 120], n_features=40, noise=1.0)
    ours = labels_of(find_clusters(vectors, np.arange(len(vectors))), len(vectors))
    theirs = HDBSCAN(min_cluster_size=5, min_samples=3, copy=True).fit(vectors).labels_
    both = (ours >= 0) & (theirs >= 0)
    assert both.mean() > 0.9
    assert adjusted_rand_score(ours[both], theirs[both]) > 0.98
    assert adjusted_rand_score(truth, ours) > 0.95


def test_what_is_far_from_everything_is_single_and_the_loneliest_is_last():
    vectors, _ = blobs([20, 20], n_features=10, noise=0.05)
    outliers = np.array([[8.0] + [0.0] * 9, [0.0, 30.0] + [0.0] * 8])
    found = find_clusters(np.vstack([vectors, outliers[::-1]]), np.arange(42))
    assert found.singles.tolist() == [41, 40]
    assert sorted(map(len, found.clusters)) == [20, 20]


def test_copies_of_a_sample_do_not_break_its_cluster():
    vectors, truth = blobs([30, 30], noise=0.7)
    vectors[1:7] = vectors[0]
    vectors[31:50] = vectors[30]
    found = find_clusters(vectors, np.arange(60))
    assert adjusted_rand_score(truth, labels_of(found, 60)) == 1.0


@pytest.mark.parametrize("n", [5, 40, 200])
def test_samples_that_are_all_equal_are_one_cluster(n):
    found = find_clusters(np.ones((n, 3)), np.arange(n))
    assert [len(cluster) for cluster in found.clusters] == [n]
    assert found.clusters[0].radius == found.clusters[0].spread == 0.0


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_pool_too_small_for_a_cluster_is_all_singles(n):
    found = find_clusters(np.eye(5)[:n], np.arange(n), {3: [0, 1]}, next_id=2)
    assert found.clusters == ()
    assert found.singles.tolist() == list(range(n))
    assert found.next_id == 4


def test_members_stand_by_distance_to_the_brute_force_medoid():
    vectors, _ = blobs([40, 25, 60], noise=0.6)
    found = find_clusters(vectors, np.arange(len(vectors)))
    assert len(found.clusters) == 3
    for cluster in found.clusters:
        among = cdist(vectors[cluster.members], vectors[cluster.members])
        assert among[0].sum() == pytest.approx(among.sum(axis=1).min())
        assert cluster.medoid == cluster.members[0]
        np.testing.assert_allclose(cluster.distances, among[0], atol=1e-5)
        assert (np.diff(cluster.distances) >= 0).all()
        assert cluster.radius == pytest.approx(among[0].max(), abs=1e-5)
        assert cluster.spread == pytest.approx(np.median(among[0, 1:]), abs=1e-5)


def test_the_medoid_of_a_very_large_cluster_is_as_good_as_the_exact_one():
    members = np.random.default_rng(0).normal(size=(1_500, 8))
    order, distances = _by_distance_to_medoid(members)
    sums = cdist(members, members).sum(axis=1)
    assert order[0] == np.argmin(sums)
    np.testing.assert_allclose(distances, np.sort(cdist(members[order[:1]], members)[0]), atol=1e-6)


@settings(max_examples=40)
@given(
    vectors=arrays(
        np.float64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)
    ),
    min_size=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_every_sample_is_in_one_place_whatever_the_order_of_the_input(vectors, min_size, seed):
    n = len(vectors)
    found = find_clusters(vectors, np.arange(n), min_size=min_size)
    everywhere = [member for group in found.members.values() for member in group] + found.singles.tolist()
    assert sorted(everywhere) == list(range(n))
    assert all(len(cluster) >= min_size for cluster in found.clusters)
    order = np.random.default_rng(seed).permutation(n)
    assert same(found, find_clusters(vectors[order], order, min_size=min_size))


def test_ids_stay_in_a_second_run_and_when_samples_come_and_go():
    vectors, truth = blobs([30, 40, 20, 25, 35])
    ids = np.arange(len(vectors))
    few = truth < 4
    first = find_clusters(vectors[few], ids[few])
    assert sorted(first.members) == [1, 2, 3, 4]
    assert first.next_id == 5
    again = find_clusters(vectors[few], ids[few], first.members, next_id=first.next_id)
    assert same(first, again)

    more = find_clusters(vectors, ids, first.members, next_id=first.next_id)
    assert {name: set(group) for name, group in more.members.items() if name < 5} == {
        name: set(group) for name, group in first.members.items()
    }
    assert more.next_id == 6

    gone = labels_of(more, len(ids)) == 2
    left = find_clusters(vectors[~gone], ids[~gone], more.members, next_id=more.next_id)
    assert sorted(left.members) == [1, 3, 4, 5]
    back = find_clusters(vectors, ids, left.members, next_id=left.next_id)
    assert sorted(back.members) == [1, 3, 4, 5, 6]


def test_ids_may_be_text():
    vectors, _ = blobs([10, 8])
    ids = np.array([f"sample-{i}" for i in range(18)])
    found = find_clusters(vectors, ids)
    assert sorted(map(sorted, found.members.values())) == sorted([sorted(ids[:10]), sorted(ids[10:])])


def test_big_and_tight_clusters_come_first():
    def cluster(name: int, size: int, spread: float) -> Cluster:
        return Cluster(name, np.arange(size) + 1000 * name, np.r_[0.0, np.full(size - 1, spread)])

    big_tight, small_tight, big_loose, small_loose = (
        cluster(1, 100, 0.2),
        cluster(2, 10, 0.2),
        cluster(3, 100, 0.9),
        cluster(4, 10, 0.9),
    )
    copies = cluster(5, 7, 0.0)
    order = look_first([small_loose, big_loose, copies, small_tight, big_tight])
    assert order == [copies, big_tight, small_tight, big_loose, small_loose]


def test_progress_ends_at_the_total_and_never_goes_back():
    vectors, _ = blobs([30, 30])
    seen: list[tuple[int, int]] = []
    find_clusters(vectors, np.arange(60), progress=lambda done, total: seen.append((done, total)))
    done = [step for step, _ in seen]
    assert done == sorted(done)
    assert seen[0] == (0, 120)
    assert seen[-1] == (120, 120)
    assert len(seen) > 3


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_work_can_be_cancelled_between_steps(steps):
    vectors, _ = blobs([30, 30])
    asked: list[bool] = []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > steps

    with pytest.raises(Cancelled):
        find_clusters(vectors, np.arange(60), cancelled=cancelled)
    assert len(asked) == steps + 1


@pytest.mark.parametrize(
    ("ids", "min_size", "message"),
    [
        ([1, 2, 2, 3, 4, 5], 5, "2.* more than once"),
        ([1, 2, 3], 5, "one entry for each of the 6 vectors"),
        ([1, 2, 3, 4, 5, 6], 1, "min_size must be at least 2"),
    ],
)
def test_bad_input_is_refused(ids, min_size, message):
    with pytest.raises(ValueError, match=message):
        find_clusters(np.eye(6), ids, min_size=min_size)


def test_vectors_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        find_clusters(np.full((6, 2), np.nan), np.arange(6))
