from __future__ import annotations

import numpy as np
import pytest

from openworld.data.dataset import Dataset
from openworld.discovery import PoolSpace
from openworld.evaluation.discovery import (
    DiscoveryExperiment,
    Pool,
    clusterings,
    measure_order,
    measures,
)


def pool(truth: list[int], known: int | None = None) -> Pool:
    codes = np.array(truth)
    return Pool(np.zeros((len(codes), 2)), codes, codes != known)


def test_a_perfect_clustering_has_perfect_measures():
    truth = [0] * 10 + [1] * 12
    found = measures(np.array(truth), pool(truth))
    assert found["purity"] == found["NMI"] == found["ARI"] == found["own cluster"] == 1.0
    assert (found["clusters"], found["share clustered"]) == (2, 1.0)
    assert found["largest share"] == pytest.approx(12 / 22)


def test_one_cluster_of_everything_is_reported_by_every_measure():
    truth = [0] * 10 + [1] * 10
    found = measures(np.zeros(20, dtype=np.intp), pool(truth))
    assert (found["purity"], found["ARI"], found["own cluster"], found["largest share"]) == (
        0.5,
        0.0,
        0.0,
        1.0,
    )


def test_samples_left_out_count_as_clusters_of_their_own_in_ari_alone():
    truth = [0] * 10 + [1] * 10
    labels = np.array([0] * 10 + [-1] * 10)
    found = measures(labels, pool(truth))
    assert found["purity"] == 1.0
    assert found["share clustered"] == 0.5
    assert found["own cluster"] == 0.5
    assert 0 < found["ARI"] < 1


def test_groups_of_fewer_than_five_are_no_clusters_and_known_classes_need_none():
    truth = [0] * 10 + [1] * 10 + [2] * 4
    labels = np.array([0] * 10 + [1] * 10 + [2] * 4)
    found = measures(labels, pool(truth, known=1))
    assert found["clusters"] == 2
    assert found["own cluster"] == 1.0
    nothing = measures(np.full(24, -1), pool(truth))
    assert (nothing["clusters"], nothing["share clustered"], nothing["own cluster"]) == (0, 0, 0)


def test_a_class_order_is_measured_with_all_methods_and_depends_on_the_seed_alone():
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(24), 20)
    X = (3 * random.normal(size=(24, 12))[y] + random.normal(size=(480, 12))).astype(np.float32)
    experiment = DiscoveryExperiment(n_known=8, unknown=(5, 0, 99))
    rows = list(measure_order(experiment, Dataset("toy", X, y), 0))
    assert {row["method"] for row in rows} == {"openworld", "k-means, true k", "HDBSCAN", "DBSCAN"}
    assert {(row["K"], row["U"]) for row in rows} == {(8, 5), (8, 16)}
    assert rows == list(measure_order(experiment, Dataset("toy", X, y), 0))
    ours = {row["measure"]: row["value"] for row in rows if (row["U"], row["method"]) == (16, "openworld")}
    assert ours["purity"] > 0.85
    assert ours["largest share"] < 0.3


def test_k_means_compares_directions_as_openworld_does():
    random = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 30)
    vectors = np.eye(4)[truth] + 0.05 * random.normal(size=(120, 4))
    lengths = np.where(
        np.arange(120) % 30 < 3, 100.0, 1.0
    )  # without unit length, the longest make the clusters
    long = Pool(vectors * lengths[:, np.newaxis], truth, np.ones(120, dtype=bool))
    labels = dict(clusterings(long, PoolSpace.of(None)))["k-means, true k"]
    assert measures(labels, long)["ARI"] == 1.0
