from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from openworld.discovery.linkage import Dendrogram, average_linkage, few_dimensions, regions


def directions(n: int, d: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@settings(max_examples=30)
@given(st.integers(2, 80), st.integers(2, 10), st.integers(0, 999), st.floats(0.0, 0.9))
def test_is_the_average_linkage_of_scipy(n, d, seed, threshold):
    vectors = directions(n, d, seed)
    ours = average_linkage(vectors, threshold)
    theirs = linkage(vectors.astype(np.float64), "average", metric="cosine")
    heights = np.sort(1 - theirs[:, 2])[::-1]
    expected = heights[heights >= threshold]
    if len(expected) < len(heights) and np.abs(heights - threshold).min() < 1e-4:
        return  # rounding decides
    np.testing.assert_allclose(np.sort(ours.similarities)[::-1], expected, atol=2e-5)
    labels = fcluster(theirs, 1 - threshold, "distance")
    assert adjusted_rand_score(labels, ours.cut(threshold)) == 1.0


def test_a_cut_makes_only_the_merges_above_it():
    vectors = directions(60, 6)
    whole = average_linkage(vectors, -1.0)
    assert len(whole.children) == 59
    assert len(np.unique(whole.cut(-1.0))) == 1
    assert len(np.unique(whole.cut(2.0))) == 60
    for threshold in (0.2, 0.5, 0.8):
        early = average_linkage(vectors, threshold)
        assert adjusted_rand_score(whole.cut(threshold), early.cut(threshold)) == 1.0


def test_weights_stand_for_samples():
    vectors = directions(40, 5)
    first = average_linkage(vectors, 0.7)
    group = first.cut(0.7)
    sizes = np.bincount(group).astype(float)
    means = np.stack([vectors[group == g].mean(axis=0) for g in range(len(sizes))])
    joined = average_linkage(means, 0.3, weights=sizes)
    assert adjusted_rand_score(joined.cut(0.3)[group], average_linkage(vectors, 0.3).cut(0.3)) == 1.0


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 30), st.integers(1, 3)),
        elements=st.sampled_from([-1.0, 0.0, 1.0]),
    )
)
def test_equal_vectors_and_zeros_end(vectors):
    found = average_linkage(vectors, 0.5)
    assert len(found.cut(0.5)) == found.n_samples == len(vectors)
    copies = (vectors[:, np.newaxis] == vectors).all(axis=2) & (np.abs(vectors).sum(axis=1) > 0)
    same = found.cut(0.5)[:, np.newaxis] == found.cut(0.5)
    assert same[copies & (np.arange(len(vectors)) == np.arange(len(vectors)))].all()


def test_progress_adds_up_to_the_samples_and_may_give_up():
    ticks: list[float] = []
    average_linkage(directions(300, 8), 0.3, tick=ticks.append)
    assert sum(ticks) == pytest.approx(300)

    def give_up(progress: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        average_linkage(directions(300, 8), 0.3, tick=give_up)


def test_few_dimensions_keep_the_directions_in_which_classes_differ():
    random = np.random.default_rng(0)
    code = np.repeat(np.arange(30), 20)
    vectors = 3 * random.normal(size=(30, 400))[code] + random.normal(size=(600, 400))
    few = few_dimensions(vectors)
    assert few.shape == (600, 128)
    assert np.corrcoef((few @ few.T).ravel(), (vectors @ vectors.T).ravel())[0, 1] > 0.99
    assert few_dimensions(vectors[:, :50]).shape == (600, 50)


def test_regions_are_small_enough_and_hold_every_sample_once():
    vectors = directions(500, 20)
    found = regions(vectors, 120)
    assert max(map(len, found)) <= 120
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(500))
    assert [rows.tolist() for rows in regions(vectors, 500)] == [list(range(500))]


def test_copies_that_no_center_divides_are_divided_too():
    assert [len(rows) for rows in regions(np.ones((50, 3), dtype=np.float32), 20)] == [17, 17, 16]


def test_a_joined_dendrogram_is_cut_like_its_parts():
    vectors = directions(60, 4)
    parts = [
        (rows, average_linkage(vectors[rows], 0.0)) for rows in (np.arange(1, 60, 2), np.arange(0, 60, 2))
    ]
    joined = Dendrogram.joined(parts).cut(0.5)
    assert not set(joined[1::2]) & set(joined[::2])
    for rows, part in parts:
        assert adjusted_rand_score(part.cut(0.5), joined[rows]) == 1.0
