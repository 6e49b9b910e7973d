from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from openworld.discovery import granularity
from openworld.discovery.granularity import (
    LEAST_THRESHOLD,
    USUAL,
    Granularity,
    calibrate,
    cohesions,
    separations,
    silhouette,
)
from openworld.discovery.linkage import average_linkage
from openworld.discovery.neighbors import smooth
from openworld.discovery.space import unit


def classes(n_classes: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_classes), 10)
    vectors = random.normal(size=(n_classes, 60))[codes] + noise * random.normal(size=(len(codes), 60))
    return unit(vectors), codes


def calibrated(vectors: np.ndarray, codes: np.ndarray) -> Granularity:
    return calibrate(average_linkage(smooth(vectors)[0], 0.05), vectors, codes)


def test_cohesion_is_the_mean_similarity_of_pairs():
    vectors, codes = classes(4, 0.7)
    codes = np.r_[codes, 4]
    vectors = np.vstack([vectors, vectors[:1]])
    for code, value in enumerate(cohesions(vectors, codes)):
        members = vectors[codes == code]
        pairs = (members @ members.T)[np.triu_indices(len(members), 1)]
        assert value == pytest.approx(pairs.mean() if len(pairs) else 1.0, abs=1e-5)


def test_separation_is_the_similarity_within_less_that_to_the_nearest_other_cluster():
    vectors, codes = classes(4, 0.7)
    alone = np.r_[codes, 4]  # a single sample is no cluster, however near it is
    found = separations(np.vstack([vectors, vectors[:1]]), alone, np.array([0, 2]))
    between = vectors @ vectors.T
    for value, code in zip(found, (0, 2), strict=True):
        others = max(between[codes == code][:, codes == other].mean() for other in {0, 1, 2, 3} - {code})
        assert value == pytest.approx(cohesions(vectors, codes)[code] - max(others, 0), abs=1e-5)
    only = separations(vectors[:10], codes[:10], np.array([0]))
    assert only == pytest.approx(cohesions(vectors[:10], codes[:10]))


def test_too_few_known_classes_leave_what_is_usual():
    vectors, codes = classes(1, 0.5)
    for known in (codes, np.full(len(codes), -1)):
        assert calibrated(vectors, known) == USUAL


def test_the_more_known_classes_the_more_they_count():
    vectors, codes = classes(200, 0.2)
    found = [calibrated(vectors, np.where(codes < n_classes, codes, -1)) for n_classes in (0, 3, 200)]
    thresholds = [granularity.threshold for granularity in found]
    assert abs(thresholds[1] - thresholds[0]) < abs(thresholds[2] - thresholds[0])
    assert [granularity.n_classes for granularity in found] == [0, 3, 200]


def test_classes_that_hardly_hold_together_do_not_lower_the_threshold_without_limit():
    vectors, codes = classes(300, 3.0)
    assert calibrated(vectors, codes).threshold >= LEAST_THRESHOLD


def test_a_pool_close_to_the_known_classes_raises_the_threshold():
    random = np.random.default_rng(0)
    centers = unit(random.normal(size=(60, 60)))
    near = unit(centers + 0.8 * unit(random.normal(size=(60, 60))))
    codes = np.repeat(np.arange(60), 10)
    known, pool = (
        unit(means[codes] + 0.5 * unit(random.normal(size=(600, 60)))) for means in (centers, near)
    )
    alone = calibrated(known, codes)
    both = np.vstack([known, pool, pool])
    codes = np.r_[codes, np.full(1_200, -1)]
    assert calibrated(both, codes).threshold > alone.threshold + 0.2


def test_purity_rises_with_separation_falls_with_known_samples_and_stays_a_share():
    vectors, codes = classes(30, 1.0)
    granularity = calibrated(vectors, codes)
    purity = granularity.purity(np.linspace(-1, 1, 9), np.zeros(9))
    assert (np.diff(purity) >= 0).all()
    assert ((purity > 0) & (purity < 1)).all()
    mixed = granularity.purity(np.zeros(9), np.linspace(0, 0.9, 9))
    assert (np.diff(mixed) < 0).all()
    assert mixed[0] == granularity.purity(np.zeros(1), np.zeros(1))[0]


def test_small_known_classes_do_not_make_clusters_too_fine_for_large_unknown_ones():
    """Classes of four kinds: a known class has few samples, so that its kinds are found one by one."""
    random = np.random.default_rng(0)
    means = random.normal(size=(60, 60))
    kinds = means[:, np.newaxis] + random.normal(size=(60, 4, 60))
    known = kinds[:50].repeat(3, axis=1).reshape(-1, 60)
    pool = kinds[50:].repeat(30, axis=1).reshape(-1, 60)
    vectors = unit(np.concatenate([pool, known]) + 0.3 * random.normal(size=(len(pool) + len(known), 60)))
    codes = np.r_[np.full(len(pool), -1), np.arange(50).repeat(12)]
    dendrogram = average_linkage(smooth(vectors)[0], 0.05)
    found = dendrogram.cut(calibrate(dendrogram, vectors, codes).threshold)[: len(pool)]
    assert adjusted_rand_score(np.arange(10).repeat(120), found) > 0.9


def test_steps_to_finer_and_back():
    assert USUAL.finer(2).threshold > USUAL.finer(1).threshold > USUAL.threshold > USUAL.finer(-1).threshold
    assert USUAL.finer(1).finer(-1).threshold == pytest.approx(USUAL.threshold)
    assert USUAL.finer(1).finer(-1).found == USUAL.threshold
    fine = replace(USUAL, threshold=0.85)
    assert fine.finer(2).threshold > fine.finer(1).threshold > fine.threshold
    assert USUAL.finer(100).threshold < 1
    assert USUAL.finer(-100).threshold > 0


def known_beside_unknown() -> tuple[np.ndarray, np.ndarray]:
    """Known classes that fall into parts of 3 samples, each class beside an unknown one of 40."""
    random = np.random.default_rng(0)
    families = random.normal(size=(30, 60))
    parts = (
        (families[:, np.newaxis] + 0.8 * random.normal(size=(30, 4, 60))).repeat(3, axis=1).reshape(-1, 60)
    )
    strangers = (families + 0.8 * random.normal(size=families.shape)).repeat(40, axis=0)
    vectors = np.concatenate([strangers, parts])
    codes = np.r_[np.full(len(strangers), -1), np.arange(30).repeat(12)]
    return unit(vectors + 0.2 * random.normal(size=vectors.shape)), codes


def test_purity_comes_before_completeness(monkeypatch):
    """Whole known classes would take unknown ones with them: the cut stays above, where parts are pure."""
    vectors, codes = known_beside_unknown()
    pure = calibrated(vectors, codes).threshold
    monkeypatch.setattr(granularity, "PROMISED", 0.01)
    complete = calibrated(vectors, codes).threshold
    assert pure > complete


def test_where_no_cut_is_pure_enough_the_purest_is_taken(monkeypatch):
    vectors, codes = known_beside_unknown()
    promised = calibrated(vectors, codes).threshold
    monkeypatch.setattr(granularity, "PROMISED", 1.1)
    assert calibrated(vectors, codes).threshold >= promised


def test_without_known_classes_less_purity_is_expected_of_coarser_cuts():
    separation, known_share = np.array([0.1, 0.5]), np.zeros(2)
    usual = USUAL.purity(separation, known_share)
    np.testing.assert_allclose(USUAL.finer(2).purity(separation, known_share), usual)
    coarse = USUAL.finer(-2)
    expected = usual * np.sqrt(coarse.threshold / USUAL.threshold)
    np.testing.assert_allclose(coarse.purity(separation, known_share), expected)
    np.testing.assert_allclose(coarse.finer(2).purity(separation, known_share), usual)


@pytest.mark.parametrize("finer", [-3, -2, 0, 1])
def test_purity_is_estimated_at_the_cut_that_is_used(finer):
    """Classes in families of five, of which a coarse cut finds the families."""
    random = np.random.default_rng(0)
    families = random.normal(size=(16, 60)).repeat(5, axis=0)
    means = random.permutation(families + 0.6 * random.normal(size=(80, 60)))
    truth = np.r_[np.arange(40).repeat(20), np.arange(40, 80).repeat(8)]
    vectors = unit(means[truth] + 0.5 * random.normal(size=(len(truth), 60)))
    codes = np.where(truth < 40, -1, truth - 40)
    dendrogram = average_linkage(smooth(vectors)[0], 0.05)
    found = calibrate(dendrogram, vectors, codes, finer=finer)
    assert found.threshold == calibrate(dendrogram, vectors, codes).finer(finer).threshold
    clusters, sizes = np.unique(cluster_of := dendrogram.cut(found.threshold), return_counts=True)
    large = clusters[sizes >= 5]
    known_share = np.array([np.mean(codes[cluster_of == cluster] >= 0) for cluster in large])
    estimated = found.purity(separations(vectors, cluster_of, large), known_share)
    purest = [
        np.bincount(truth[pool := (cluster_of == cluster) & (codes < 0)]).max(initial=0) / max(pool.sum(), 1)
        for cluster in large
    ]
    of_pool = known_share < 0.5
    assert np.mean(estimated[of_pool]) == pytest.approx(np.mean(np.array(purest)[of_pool]), abs=0.25)


def test_the_silhouette_is_that_of_its_definition():
    """By hand: mean cosine distances to the own cluster and to the next one, without the sample itself."""
    random = np.random.default_rng(0)
    vectors = unit(random.normal(size=(4, 6))[np.repeat(np.arange(4), [7, 6, 5, 3])] + 0.5)
    vectors = unit(vectors + 0.3 * random.normal(size=vectors.shape))
    cluster_of = np.repeat(np.arange(4), [7, 6, 5, 3])
    expected = []
    for i, own in enumerate(cluster_of):
        if own == 3:  # too small for a cluster
            expected.append(0.0)
            continue
        distances = 1 - vectors @ vectors[i]
        inside = distances[(cluster_of == own) & (np.arange(len(vectors)) != i)].mean()
        outside = min(distances[cluster_of == other].mean() for other in range(3) if other != own)
        expected.append((outside - inside) / max(outside, inside))
    assert silhouette(vectors, cluster_of) == pytest.approx(np.mean(expected), abs=1e-5)


@pytest.mark.parametrize(("spread", "alike"), [(1.3, 0.0), (0.25, 2.0)])
def test_without_known_classes_the_cut_follows_the_classes(spread, alike):
    """Classes that are broad, or alike: the usual cut parts the ones and mixes the others."""
    random = np.random.default_rng(0)
    truth = np.arange(12).repeat(40)
    means = random.normal(size=(12, 50)) + alike * random.normal(size=50)
    vectors = unit(means[truth] + spread * random.normal(size=(len(truth), 50)))
    dendrogram = average_linkage(smooth(vectors)[0], 0.05)
    found = calibrate(dendrogram, vectors, np.full(len(truth), -1))
    assert adjusted_rand_score(truth, dendrogram.cut(USUAL.threshold)) < 0.7
    assert adjusted_rand_score(truth, dendrogram.cut(found.threshold)) > 0.8
