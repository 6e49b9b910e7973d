from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from openworld.discovery import Canceled, Cluster, Clustering, KnownSamples, find_clusters, look_first, split
from openworld.discovery import clusters as module
from openworld.discovery.space import unit


def blobs(
    sizes: list[int], n_features: int = 100, noise: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around random directions."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    vectors = random.normal(size=(len(sizes), n_features))[truth]
    vectors += noise * random.normal(size=vectors.shape)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), truth


def families(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """40 kinds of things in 20 families."""
    random = np.random.default_rng(seed)
    family = random.normal(size=(20, 200))
    kind = 1.2 * random.normal(size=(40, 200))
    code = np.repeat(np.arange(40), 12)
    vectors = family[code // 2] + kind[code] + 0.3 * random.normal(size=(len(code), 200))
    return vectors.astype(np.float32), code


def no_samples(n_features: int) -> KnownSamples:
    """Known classes without samples: they say where the origin is, and no more."""
    return KnownSamples(np.empty((0, n_features), dtype=np.float32), np.empty(0, dtype=np.intp))


def labels_of(clustering: Clustering, n: int) -> np.ndarray:
    labels = np.full(n, -1)
    for cluster in clustering.clusters:
        labels[cluster.members] = cluster.id
    return labels


def singletons(labels: np.ndarray) -> np.ndarray:
    """Make a cluster of its own of every sample in none: leaving samples out earns nothing."""
    return np.where(labels < 0, -1 - np.arange(len(labels)), labels)


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
    found = find_clusters(vectors, np.arange(len(vectors)), known=no_samples(100))
    assert len(found.clusters) == len(sizes)
    assert adjusted_rand_score(truth, labels_of(found, len(truth))) == 1.0
    assert len(found.singles) == 0


@pytest.mark.parametrize("n_classes", [10, 90])
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_many_classes_never_become_one_cluster_even_far_from_the_origin(n_classes, offset):
    vectors, truth = blobs([20] * n_classes, noise=1.0)
    found = find_clusters(vectors + offset, np.arange(len(vectors)))
    assert max(map(len, found.clusters), default=0) < 60
    assert adjusted_rand_score(truth, singletons(labels_of(found, len(truth)))) > 0.5


@pytest.mark.parametrize("n_features", [100, 400])
def test_noise_is_one_cluster_or_none(n_features):
    noise = np.random.default_rng(0).normal(size=(400, n_features))
    known, codes = blobs([8] * 20, n_features=n_features, noise=1.0)
    for held_out in (None, KnownSamples(known, codes)):
        assert len(find_clusters(noise, np.arange(400), known=held_out).clusters) <= 1


@settings(max_examples=20)
@given(st.integers(2, 60), st.integers(5, 20), st.floats(0.1, 3.0), st.integers(0, 99), st.integers(-3, 3))
def test_no_cluster_takes_most_of_a_pool_of_many_classes(n_classes, size, noise, seed, finer):
    vectors, truth = blobs([size] * n_classes, noise=noise, seed=seed)
    known, codes = blobs([6] * 5, noise=noise, seed=seed + 100)
    found = find_clusters(vectors, np.arange(len(vectors)), known=KnownSamples(known, codes), finer=finer)
    assert max(map(len, found.clusters), default=0) <= max(3 * size, 0.5 * len(truth))


def test_known_classes_say_how_large_a_class_is():
    """Kinds in families: where the known classes are families, clusters are families too."""
    vectors, code = families(0)
    samples, kinds = families(1)
    ids = np.arange(len(vectors))
    coarse = find_clusters(vectors, ids, known=KnownSamples(samples, kinds // 2))
    fine = find_clusters(vectors, ids, known=KnownSamples(samples, kinds))
    assert adjusted_rand_score(code // 2, labels_of(coarse, len(ids))) > 0.8
    assert adjusted_rand_score(code, labels_of(fine, len(ids))) > 0.95
    assert coarse.granularity.threshold < fine.granularity.threshold


def test_finer_and_coarser_change_the_granularity():
    vectors, code = families(0)
    ids = np.arange(len(vectors))
    found = {step: find_clusters(vectors, ids, finer=step) for step in (-2, -1, 0)}
    assert adjusted_rand_score(code // 2, labels_of(found[-2], len(ids))) > 0.95
    assert adjusted_rand_score(code, labels_of(found[0], len(ids))) > 0.95
    thresholds = [clustering.granularity.threshold for clustering in found.values()]
    assert thresholds == sorted(set(thresholds))


def test_a_pool_larger_than_can_be_linked_at_once_gives_about_the_same_clusters(monkeypatch):
    vectors, _ = blobs([30, 40, 20, 25, 35, 50], noise=0.6)
    ids = np.arange(len(vectors))
    whole = labels_of(find_clusters(vectors, ids), len(ids))
    monkeypatch.setattr(module, "_MOST_AT_ONCE", 70)
    seen: list[tuple[int, int]] = []
    parts = find_clusters(vectors, ids, progress=lambda done, total: seen.append((done, total)))
    assert adjusted_rand_score(whole, labels_of(parts, len(ids))) > 0.95
    assert seen[-1] == (2 * len(ids), 2 * len(ids))


def test_the_regions_of_a_large_pool_keep_small_classes_together(monkeypatch):
    vectors, truth = blobs([8] * 60, noise=0.4)
    monkeypatch.setattr(module, "_MOST_AT_ONCE", 150)
    found = labels_of(find_clusters(vectors, np.arange(480)), 480)
    assert adjusted_rand_score(truth, found) > 0.9


def test_a_tight_cluster_is_purer_than_a_loose_one():
    vectors, _ = blobs([40] * 3, noise=0.3)
    loose, _ = blobs([40] * 3, noise=1.1, seed=5)
    found = find_clusters(np.vstack([vectors, loose]), np.arange(240), known=no_samples(100))
    purity = {int(cluster.medoid) < 120: cluster.purity for cluster in found.clusters}
    assert purity[True] > purity[False]
    assert all(0 < cluster.purity < 1 for cluster in found.clusters)
    assert not any(cluster.loose for cluster in found.clusters if cluster.medoid < 120)


def test_a_cluster_that_takes_in_known_samples_is_less_pure():
    vectors, truth = blobs([20, 20, 20, 20], noise=0.6)
    near = blobs([20, 20, 20, 20], noise=0.6, seed=0)[0][truth == 1]
    alone = find_clusters(vectors, np.arange(80), known=no_samples(100))
    mixed = find_clusters(vectors, np.arange(80), known=KnownSamples(near, np.zeros(20, dtype=np.intp)))
    before, after = (
        {int(truth[cluster.medoid]): cluster.purity for cluster in found.clusters} for found in (alone, mixed)
    )
    assert after[1] < 0.6 * before[1]
    assert min(after[label] for label in (0, 2, 3)) > 0.9 * min(before.values())


def test_novelty_is_the_distance_to_the_most_similar_known_class():
    vectors, truth = blobs([20, 20, 20], noise=0.3)
    known = KnownSamples(vectors[truth == 1], np.zeros(20, dtype=np.intp))
    found = find_clusters(vectors, np.arange(60), known=known)
    novelty = {int(truth[cluster.medoid]): cluster.novelty for cluster in found.clusters}
    assert novelty[1] < 0.05
    assert min(novelty[0], novelty[2]) > 0.5
    assert {cluster.novelty for cluster in find_clusters(vectors, np.arange(60)).clusters} == {1.0}


def test_examples_are_members_that_differ_with_the_medoid_first():
    vectors, _ = blobs([50, 8], noise=0.6)
    vectors[1:25] = vectors[0]  # copies teach nothing
    found = find_clusters(vectors, np.arange(58), known=no_samples(100))
    for cluster in found.clusters:
        assert cluster.examples[0] == cluster.medoid
        assert len(set(cluster.examples)) == len(cluster.examples) == min(12, round(0.8 * len(cluster)))
        assert set(cluster.examples) <= set(cluster.members)
    large = max(found.clusters, key=len)
    assert (large.examples < 25).sum() == 1


def test_split_parts_the_classes_of_a_cluster():
    vectors, truth = blobs([20, 12], noise=0.5)
    vectors = np.vstack([vectors, 0.5 * vectors[0] + 0.5 * vectors[1]])
    parts = split(vectors, np.arange(33))
    assert [len(part) for part in parts] == [21, 12]
    assert set(truth[parts[1]]) == {1}


@given(
    vectors=arrays(
        np.float64, st.tuples(st.integers(1, 25), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)
    )
)
def test_split_puts_every_member_in_one_part(vectors):
    parts = split(vectors, np.arange(len(vectors)))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(vectors)))
    assert all(len(part) for part in parts)
    assert len(parts) > 1 or len(vectors) < 2


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
    assert found.clusters[0].radius == 0.0


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


def test_three_orders_to_look_at_clusters():
    def cluster(name: int, size: int, purity: float, novelty: float) -> Cluster:
        members = np.arange(size) + 1000 * name
        return Cluster(name, members, np.zeros(size), members[:1], purity, novelty)

    clusters = [cluster(1, 100, 0.2, 0.5), cluster(2, 30, 0.9, 0.1), cluster(3, 10, 0.95, 0.9)]
    names = {
        order: [c.id for c in look_first(clusters, order)] for order in ("gain", "uncertain", "different")
    }
    assert names == {"gain": [2, 1, 3], "uncertain": [1, 2, 3], "different": [3, 1, 2]}
    assert [c.id for c in look_first(clusters)] == names["gain"]


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
def test_work_can_be_canceled_between_steps(steps):
    vectors, _ = blobs([30, 30])
    asked: list[bool] = []

    def canceled() -> bool:
        asked.append(True)
        return len(asked) > steps

    with pytest.raises(Canceled):
        find_clusters(vectors, np.arange(60), canceled=canceled)
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


def test_classes_two_thirds_alike_stay_apart_where_nothing_is_known():
    random = np.random.default_rng(0)
    families = random.normal(size=(20, 100)).repeat(3, axis=0)
    means = families + 0.72 * random.normal(size=families.shape)
    truth = np.arange(60).repeat(20)
    vectors = unit(means)[truth] + 0.03 * random.normal(size=(1_200, 100))
    found = find_clusters(vectors, np.arange(1_200)).clusters
    assert len(found) == 60
    assert all(len(np.unique(truth[cluster.members])) == 1 for cluster in found)


def test_the_unit_of_a_feature_does_not_matter_without_known_classes():
    """A column in grams instead of kilograms, and one that is always the same, change nothing."""
    samples, truth = blobs([20, 30, 25, 40], n_features=10, noise=0.2)
    grams = samples * np.array([1] * 9 + [1000])
    for vectors in (grams, np.column_stack([grams, np.full(len(grams), 0.1)])):
        found = labels_of(find_clusters(vectors, np.arange(len(vectors))), len(vectors))
        assert adjusted_rand_score(truth, singletons(found)) > 0.9
