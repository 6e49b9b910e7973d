import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from openworld.index import ExactIndex

DTYPES = [np.float32, np.float64]
RTOL = {np.float32: 2e-6, np.float64: 1e-13}


def brute_force(samples, means):
    return cdist(samples.astype(np.float64), means)


def random_case(seed, n_samples, n_means, n_dimensions, dtype, offset=0.0):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_means, n_dimensions)) + offset
    samples = (rng.normal(size=(n_samples, n_dimensions)) + offset).astype(dtype)
    return samples, means


def check_against_brute_force(samples, means, n):
    dtype = samples.dtype.type
    expected = brute_force(samples, means)
    distances, positions = ExactIndex(means).nearest(samples, n)
    n_found = min(n, len(means))
    assert distances.shape == positions.shape == (len(samples), n_found)
    assert distances.dtype == dtype
    tolerance = {"rtol": RTOL[dtype], "atol": 4 * np.finfo(dtype).eps}
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :n_found], **tolerance)
    np.testing.assert_allclose(distances, np.take_along_axis(expected, positions, axis=1), **tolerance)
    assert all(len(set(row)) == n_found for row in positions.tolist())
    assert np.all(np.diff(distances, axis=1) >= 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 29, 30, 31])
@pytest.mark.parametrize("n_dimensions", [1, 3, 64])
def test_nearest_against_brute_force(n, n_dimensions, dtype):
    check_against_brute_force(*random_case(n, 50, 30, n_dimensions, dtype), n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3])
def test_a_single_mean(n, dtype):
    samples, means = random_case(0, 7, 1, 4, dtype)
    check_against_brute_force(samples, means, n)
    np.testing.assert_array_equal(ExactIndex(means).nearest(samples, n)[1], np.zeros((7, 1)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_dimensions", [1, 3, 64])
def test_squared_distances_against_brute_force(n_dimensions, dtype):
    samples, means = random_case(1, 50, 30, n_dimensions, dtype)
    squared = ExactIndex(means).squared_distances(samples)
    assert squared.dtype == dtype
    np.testing.assert_allclose(
        squared, brute_force(samples, means) ** 2, rtol=0, atol=100 * np.finfo(dtype).eps * n_dimensions
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_squared_distances_are_never_negative(dtype):
    means = np.random.default_rng(2).normal(size=(200, 20))
    squared = ExactIndex(means).squared_distances(means.astype(dtype))
    assert squared.min() >= 0
    assert np.diagonal(squared).max() < 1e-4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [100.0, 1e4, 1e6])
def test_a_large_offset_costs_no_accuracy(offset, dtype):
    samples, means = random_case(3, 200, 40, 16, dtype, offset)
    means = means.astype(dtype).astype(np.float64)  # what the samples' own rounding takes is not at issue
    check_against_brute_force(samples, means, 1)
    check_against_brute_force(samples, means, 5)
    expected = brute_force(samples, means)
    np.testing.assert_array_equal(ExactIndex(means).nearest(samples)[1][:, 0], expected.argmin(axis=1))
    squared = ExactIndex(means).squared_distances(samples)
    np.testing.assert_allclose(squared, expected**2, rtol=0, atol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("far", [1e6, -1e6])
def test_a_mean_far_away_does_not_blur_the_others(far, dtype):
    samples, means = random_case(10, 100, 6, 5, dtype)
    for near in (means, means[:1]):
        with_far = np.vstack([near, np.full((1, 5), far)])
        check_against_brute_force(samples, with_far, 1)
        check_against_brute_force(samples, with_far, 3)
    squared = ExactIndex(np.vstack([means, np.full((1, 5), far)])).squared_distances(samples)
    expected = brute_force(samples, means) ** 2
    np.testing.assert_allclose(squared[:, :6], expected, rtol=0, atol=1e3 * np.finfo(dtype).eps)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_means=st.integers(1, 40),
    n=st.integers(1, 6),
    n_dimensions=st.integers(1, 40),
    offset=st.sampled_from([0, 0, 50, 1000]),
    dtype=st.sampled_from(DTYPES),
)
def test_equal_distances_go_to_the_mean_that_stands_first(seed, n_means, n, n_dimensions, offset, dtype):
    """On a grid of whole numbers distances are exact, and there are many ties and duplicates."""
    rng = np.random.default_rng(seed)
    means = rng.integers(0, 2, size=(n_means, n_dimensions)).astype(float) + offset
    samples = rng.integers(-1, 3, size=(11, n_dimensions)).astype(dtype) + dtype(offset)
    squared = ((samples[:, np.newaxis].astype(float) - means) ** 2).sum(axis=2)
    expected = np.argsort(squared, axis=1, kind="stable")[:, : min(n, n_means)]
    distances, positions = ExactIndex(means).nearest(samples, n)
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(
        distances, np.sqrt(np.take_along_axis(squared, expected, axis=1)).astype(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_of_duplicates_the_first_is_nearest(n, dtype):
    rng = np.random.default_rng(4)
    for _ in range(40):
        n_distinct, copies = rng.integers(1, 9), rng.integers(2, 5)
        distinct = rng.normal(size=(n_distinct, rng.integers(1, 70)))
        samples = rng.normal(size=(rng.integers(1, 30), distinct.shape[1])).astype(dtype)
        _, positions = ExactIndex(np.tile(distinct, (copies, 1))).nearest(samples, n)
        nearest = brute_force(samples, distinct).argmin(axis=1)
        expected = nearest[:, np.newaxis] + n_distinct * np.arange(min(n, copies))
        np.testing.assert_array_equal(positions[:, :copies], expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3])
def test_a_sample_is_answered_alike_alone_and_in_any_batch(n, dtype):
    rng = np.random.default_rng(5)
    for n_dimensions in (1, 2, 5, 17, 33, 64):
        means = rng.normal(size=(23, n_dimensions))
        means = np.concatenate([means, means[::-1], (means[:5] + means[5:10]) / 2])
        between = (means[rng.integers(0, 23, 60)] + means[rng.integers(0, 23, 60)]) / 2  # near-ties
        samples = np.concatenate([between, rng.normal(size=(9, n_dimensions)), means]).astype(dtype)
        index = ExactIndex(means)
        distances, positions = index.nearest(samples, n)
        order = rng.permutation(len(samples))
        for pieces in ([[i] for i in range(len(samples))], np.array_split(order, 7), [order]):
            for piece in pieces:
                piece_distances, piece_positions = index.nearest(samples[piece], n)
                np.testing.assert_array_equal(piece_positions, positions[piece])
                np.testing.assert_array_equal(piece_distances, distances[piece])
                np.testing.assert_allclose(
                    index.squared_distances(samples[piece]),
                    brute_force(samples[piece], means) ** 2,
                    rtol=0,
                    atol=1e3 * np.finfo(dtype).eps * n_dimensions,
                )


@pytest.mark.parametrize("dtype", DTYPES)
def test_far_samples_are_far_without_a_warning(dtype):
    means = np.random.default_rng(6).normal(size=(6, 3))
    index = ExactIndex(means)
    for size in (np.sqrt(np.finfo(dtype).max), np.finfo(dtype).max / 2):
        samples = np.vstack([np.eye(3), -np.eye(3), np.ones((1, 3))]).astype(dtype) * dtype(size)
        for n in (1, 4, 6):
            assert index.nearest(samples, n)[0].min() > 1e18
        assert index.squared_distances(samples).min() >= 1e36  # NaN is not
    endless = np.array([[np.inf, 0, 0], [-np.inf, 1, np.inf]], dtype=dtype)
    np.testing.assert_array_equal(index.nearest(endless)[0], np.full((2, 1), np.inf))
    np.testing.assert_array_equal(index.nearest(endless, 3)[0], np.full((2, 3), np.inf))
    np.testing.assert_array_equal(index.squared_distances(endless), np.full((2, 6), np.inf))
    same = ExactIndex(np.zeros((3, 3)))
    np.testing.assert_array_equal(same.nearest(samples)[1], np.zeros((7, 1)))


def test_samples_need_not_be_contiguous_nor_floats():
    samples, means = random_case(7, 20, 9, 6, np.float64)
    for view, m in (
        (np.asfortranarray(samples), means),
        (samples[::-1][::-1], means),
        (samples[:, ::2], means[:, ::2]),
    ):
        distances, _ = ExactIndex(m).nearest(view)
        np.testing.assert_allclose(distances[:, 0], brute_force(view, m).min(axis=1), rtol=1e-13)
    whole = np.arange(12).reshape(2, 6)
    np.testing.assert_allclose(
        ExactIndex(means).nearest(whole)[0][:, 0], brute_force(whole, means).min(axis=1)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_given_is_changed_and_nothing_returned_is_shared(dtype):
    samples, means = random_case(8, 10, 5, 4, dtype)
    before = samples.copy(), means.copy()
    index = ExactIndex(means)
    first = index.nearest(samples, 2), index.nearest(samples), index.squared_distances(samples)
    kept = [np.copy(part) for part in (*first[0], *first[1], first[2])]
    for part in (*first[0], *first[1], first[2]):
        part[:] = 0
    np.testing.assert_array_equal(samples, before[0])
    np.testing.assert_array_equal(means, before[1])
    again = [*index.nearest(samples, 2), *index.nearest(samples), index.squared_distances(samples)]
    for part, expected in zip(again, kept, strict=True):
        np.testing.assert_array_equal(part, expected)


def test_one_index_serves_both_types():
    samples, means = random_case(9, 10, 5, 4, np.float64)
    index = ExactIndex(means)
    for dtype in (np.float64, np.float32, np.float64):
        distances, _ = index.nearest(samples.astype(dtype))
        assert distances.dtype == dtype
        np.testing.assert_allclose(distances[:, 0], brute_force(samples, means).min(axis=1), rtol=RTOL[dtype])


def test_no_samples():
    index = ExactIndex(np.eye(3))
    assert [part.shape for part in index.nearest(np.empty((0, 3)), 2)] == [(0, 2), (0, 2)]
    assert index.nearest(np.empty((0, 3)))[1].shape == (0, 1)
    assert index.squared_distances(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("n", [0, -1])
def test_at_least_one_mean_must_be_asked_for(n):
    with pytest.raises(ValueError, match="at least 1"):
        ExactIndex(np.eye(3)).nearest(np.eye(3), n)


def test_length():
    assert len(ExactIndex(np.eye(3))) == 3
