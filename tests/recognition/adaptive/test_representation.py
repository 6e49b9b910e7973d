"""Each step of the representation against the same step written out."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openworld.recognition.adaptive.representation import Representation

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 5)) * [1, 10, 0.1, 3, 1] + [0, 5, 0, -2, 100]
EVERY_FORM = pytest.mark.parametrize(
    ("standardize", "n_lifted"), [(standardize, n) for standardize in (False, True) for n in (0, 30)]
)


def signed_root(x):
    return np.array([np.sign(value) * np.sqrt(abs(value)) for value in x])


def by_hand(x, representation):
    """One sample, step by step as the docstring numbers them."""
    if representation.mean is not None:
        x = (x - representation.mean) / representation.scale
    x = signed_root(x)
    if representation.mean is not None:
        x = np.append(x, representation.length)
    if np.any(x):
        x = x / np.sqrt(np.sum(x**2))
    if representation.n_lifted:
        x = np.maximum(0, x @ representation.rows.astype(np.float64))
    return x


@EVERY_FORM
def test_every_step(standardize, n_lifted):
    representation = Representation.of(X, standardize=standardize, n_lifted=n_lifted, seed=3)
    found = representation(X)
    assert found.dtype == np.float32
    assert found.shape == (len(X), representation.n_dimensions)
    assert representation.n_dimensions == (n_lifted or 5 + standardize)
    np.testing.assert_allclose(found, [by_hand(x, representation) for x in X], atol=1e-5)


def test_the_constants_of_standardizing():
    representation = Representation.of(X, standardize=True, n_lifted=0, seed=0)
    np.testing.assert_allclose(representation.mean, X.mean(axis=0))
    np.testing.assert_allclose(representation.scale, X.std(axis=0))
    rooted = [signed_root((x - X.mean(axis=0)) / X.std(axis=0)) for x in X]
    assert representation.length == pytest.approx(np.sqrt(np.mean([x @ x for x in rooted])))


def test_without_standardizing_nothing_is_read_from_the_samples():
    representation = Representation.of(X, standardize=False, n_lifted=4, seed=1)
    other = Representation.of(2 * X[:3] + 1, standardize=False, n_lifted=4, seed=1)
    assert representation == other
    assert representation.mean is None
    assert representation.scale is None


@pytest.mark.parametrize("n_lifted", [0, 30])
@given(scale=st.floats(1e-20, 1e20))
def test_without_standardizing_only_the_direction_counts(n_lifted, scale):
    representation = Representation(5, n_lifted)
    np.testing.assert_allclose(representation(scale * X), representation(X), atol=2e-6)


def test_standardized_the_length_is_kept():
    representation = Representation.of(X, standardize=True, n_lifted=0, seed=0)
    near, far = (representation.mean + t * (X - representation.mean) for t in (0.5, 4.0))
    last = [representation(x)[:, -1] for x in (near, X, far)]
    assert np.all(last[0] > last[1] + 0.01)
    assert np.all(last[1] > last[2] + 0.01)
    # A sample as long as the typical one is half constant, and the mean is nothing but the constant.
    assert np.mean(last[1] ** 2) == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(representation(representation.mean[np.newaxis]), [[0, 0, 0, 0, 0, 1]])


@pytest.mark.parametrize("standardize", [False, True])
def test_directions_are_of_length_one(standardize):
    found = Representation.of(X, standardize=standardize, n_lifted=0, seed=0)(X)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


def test_zero_has_no_direction():
    assert Representation(5)(np.zeros((2, 5))).tolist() == [[0.0] * 5] * 2
    assert np.all(Representation(5, 30)(np.zeros((2, 5))) == 0)
    found = Representation.of(X, standardize=True, n_lifted=30, seed=0)(np.zeros((2, 5)))
    assert np.all(np.isfinite(found))


@EVERY_FORM
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_and_tiny_values_stay_finite(standardize, n_lifted, dtype):
    representation = Representation.of(X, standardize=standardize, n_lifted=n_lifted, seed=0)
    limits = np.finfo(dtype)
    values = np.array([limits.max, limits.max / 3, 1e30, 1e-30, limits.tiny, limits.smallest_subnormal, 0.0])
    samples = np.array([np.full(5, value) for value in values] + [np.eye(5)[0] * value for value in values])
    for signed in (samples, -samples):
        found = representation(signed.astype(dtype))
        assert np.all(np.isfinite(found))
        if not n_lifted:
            assert np.all(np.linalg.norm(found, axis=1) < 1 + 1e-5)


def test_huge_values_of_a_feature_that_hardly_varies():
    samples = np.column_stack([X[:, 0] * 1e-200, X[:, 1]])
    representation = Representation.of(samples, standardize=True, n_lifted=0, seed=0)
    found = representation(np.array([[1e300, 1.0], [-1e300, 1.0]]))
    np.testing.assert_allclose(found, [[1, 0, 0], [-1, 0, 0]], atol=1e-6)


def test_values_too_large_to_standardize_are_refused():
    with pytest.raises(ValueError, match="Check X for wrong values"):
        Representation.of(np.full((3, 2), 1e200) * [[1], [2], [3]], standardize=True, n_lifted=0, seed=0)


def test_huge_values_keep_their_direction():
    direction = np.array([[3.0, -1.0, 0.5, 0.0, 2.0]])
    expected = Representation(5)(direction)
    for scale in (1e300, 1e37, 1e-30):
        np.testing.assert_allclose(Representation(5)(direction * scale), expected, atol=1e-6)
    np.testing.assert_allclose(Representation(5)((direction * 1e38).astype(np.float32)), expected, atol=1e-6)


def test_constant_features_are_not_blown_up():
    samples = np.column_stack([X, np.full(40, 0.1), np.zeros(40), 1e9 + 1e-6 * X[:, 0]])
    representation = Representation.of(samples, standardize=True, n_lifted=0, seed=0)
    assert representation.scale[5:].tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_allclose(representation(samples)[:, 5:8], 0, atol=1e-3)


def test_samples_that_are_all_the_same():
    representation = Representation.of(np.ones((3, 2)), standardize=True, n_lifted=0, seed=0)
    assert representation.length == 1.0
    np.testing.assert_allclose(representation(np.ones((1, 2))), [[0, 0, 1]])


@EVERY_FORM
def test_other_types_agree(standardize, n_lifted):
    counts = RANDOM.integers(0, 255, size=(30, 6)).astype(np.uint8)
    expected = Representation.of(
        counts.astype(np.float64), standardize=standardize, n_lifted=n_lifted, seed=0
    )
    for dtype in (np.uint8, np.float32, np.int16, np.int64, np.longdouble):
        given = counts.astype(dtype)
        found = Representation.of(given, standardize=standardize, n_lifted=n_lifted, seed=0)
        assert found(given).dtype == np.float32
        np.testing.assert_allclose(found(given), expected(counts.astype(np.float64)), atol=1e-5)
    np.testing.assert_array_equal(expected(counts), expected(counts.astype(np.float32)))


@pytest.mark.parametrize("n_features", [5, 6, 1025])
def test_the_lift_is_determined_by_the_seed(n_features):
    rows = Representation(n_features, 50, seed=7).rows
    assert rows.dtype == np.float32
    assert rows.shape == (n_features, 50)
    np.testing.assert_array_equal(rows, Representation(n_features, 50, seed=7).rows)
    assert not np.array_equal(rows, Representation(n_features, 50, seed=8).rows)
    copy = pickle.loads(pickle.dumps(Representation(n_features, 50, seed=7)))  # noqa: S301 -- our own
    np.testing.assert_array_equal(rows, copy.rows)


@pytest.mark.parametrize("n_features", [100, 1100])
def test_the_lift_is_gaussian_and_keeps_angles(n_features):
    representation = Representation(n_features, 20_000)
    rows = representation.rows
    assert abs(rows.mean()) < 0.01
    assert rows.std() == pytest.approx(1, abs=0.01)
    directions = Representation(n_features)(RANDOM.normal(size=(2, n_features)))
    a, b = np.maximum(0, directions.astype(np.float64) @ rows)
    angle = np.arccos(directions[0] @ directions[1])
    # The arc-cosine kernel of degree 1 (Cho, Saul 2009), which the lift approximates.
    expected = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    assert a @ b / 20_000 == pytest.approx(expected, abs=0.02)


def test_the_rows_of_many_features_are_the_same_whatever_numpy_draws():
    """The bits of PCG64, which numpy promises never to change, of which each number counts 16."""
    words = [word >> 16 * i & 0xFFFF for word in np.random.PCG64(7).random_raw(2).tolist() for i in range(4)]
    expected = [(word.bit_count() - 8) / 2 for word in words]
    assert Representation(1025, 3, seed=7).rows.ravel()[:8].tolist() == expected
    assert expected == [-0.5, 1.0, -1.0, -2.0, 0.0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize(
    ("n_features", "seed", "directions", "alike"),
    [
        (1024, 0, True, False),
        (1025, 0, True, True),
        (1025, np.int64(3), True, True),
        (1025, None, True, False),
        (1025, np.random.default_rng(0), True, False),
        (1025, 0, False, False),
    ],
)
def test_the_rows_of_many_features_follow_from_a_seed(n_features, seed, directions, alike):
    ones = np.ones(n_features)
    representation = Representation(n_features, 4, seed, ones, ones, directions=directions)
    assert representation.rows.shape == (n_features + 1, 4)
    assert representation.draws_alike == representation.rows_follow == alike
    other = representation.with_rows(representation.rows + 1)
    assert not other.rows_follow


def test_rows_that_would_take_gigabytes_are_not_drawn_from_a_file():
    assert not Representation(2**20, 2**10).draws_alike


def test_rows_are_longer_along_the_axes():
    axes = RANDOM.normal(size=(1100, 3)).astype(np.float16).astype(np.float32)
    plain = Representation(1100, 20, seed=1)
    found = replace(plain, axes=axes)
    expected = (np.eye(1100) + axes.astype(np.float64) @ axes.T) @ plain.rows
    np.testing.assert_allclose(found.rows, expected, rtol=1e-3)
    assert found.rows_follow
    assert not found.is_same(plain)


def test_given_rows_are_used_and_not_drawn():
    rows = np.ones((5, 3), dtype=np.float32)
    representation = Representation(5, 3, seed=1).with_rows(rows)
    assert representation.rows is rows
    np.testing.assert_array_equal(representation(np.eye(5)), np.ones((5, 3)))
    assert not np.array_equal(Representation(5, 3, seed=1).rows, rows)


@EVERY_FORM
def test_a_sample_does_not_depend_on_the_others(standardize, n_lifted):
    representation = Representation.of(X, standardize=standardize, n_lifted=n_lifted, seed=0)
    together = representation(X)
    for i in range(0, 40, 7):
        np.testing.assert_allclose(representation(X[i : i + 1])[0], together[i], atol=1e-6)


@EVERY_FORM
@given(samples=hnp.arrays(np.float64, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_whatever_is_finite_is_mapped_to_what_is_finite(standardize, n_lifted, samples):
    representation = Representation.of(X[:, :3], standardize=standardize, n_lifted=n_lifted, seed=0)
    before = samples.copy()
    assert np.all(np.isfinite(representation(samples)))
    np.testing.assert_array_equal(samples, before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sample_too_long_to_be_squared_changes_no_other(dtype):
    largest = np.finfo(dtype).max / 2
    samples = np.array([[1, -4, 9], [largest, -largest, 0], [0, 0, 0]], dtype=dtype)
    found = Representation(3)(samples)
    np.testing.assert_allclose(found[0], np.array([1, -2, 3]) / np.sqrt(14), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.sqrt([0.5, 0.5, 0]) * [1, -1, 1], rtol=1e-6)
    np.testing.assert_array_equal(found[:1], Representation(3)(samples[:1]))
    assert not found[2].any()


# --- Random Fourier features ---


def fourier(samples, labels, n_lifted=20_000):
    return Representation.of(samples, labels, standardize=True, n_lifted=n_lifted, seed=0, directions=False)


def test_every_step_of_random_fourier_features():
    representation = fourier(X, None, n_lifted=30)
    standardized = (X - representation.mean) / representation.scale
    rows, phases = representation.rows[:-1].astype(np.float64), representation.rows[-1]
    found = representation(X)
    assert found.shape == (40, 30)
    np.testing.assert_allclose(found, np.cos(standardized @ rows + phases), atol=1e-4)


def test_their_product_is_a_gaussian_kernel_of_the_distance():
    """Whose width is such that two samples of a class differ by a radian in the mean square."""
    labels = np.arange(1000) % 2
    samples = RANDOM.normal(size=(1000, 4)) + 5 * labels[:, np.newaxis]
    within = np.diag([1.0, 1.0, 1.0, 1.0])
    representation = fourier(samples, labels).scaled_to(within)
    some = samples[:8]
    found = 2 / 20_000 * representation(some) @ representation(some).T
    scaled = (some - representation.mean) / representation.scale
    squares = np.sum(
        (scaled[:, np.newaxis] - scaled) ** 2, axis=2
    )  # 2 on average within a dimension of a class
    np.testing.assert_allclose(found, np.exp(-squares / (2 * 8)), atol=0.03)


def test_directions_in_which_a_class_is_broad_say_less():
    representation = fourier(X, None, n_lifted=30)
    values, vectors = np.array([9.0, 4.0, 1.0, 1.0, 0.25]), np.linalg.qr(RANDOM.normal(size=(5, 5)))[0]
    found = representation.scaled_to((vectors * values) @ vectors.T).rows
    drawn = representation.rows
    np.testing.assert_array_equal(found[-1], drawn[-1])  # the phases
    expected = (vectors / values**0.25) @ vectors.T @ drawn[:-1] / np.sqrt(2 * np.sqrt(values).sum())
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-4, atol=1e-5)


def test_features_of_one_unit_have_one_scale():
    labels = np.arange(400) % 2
    random = np.random.default_rng(1)
    alike = random.normal(size=(400, 3)) * [1, 2, 3] + labels[:, np.newaxis] * [2, 2, 2]
    scale = fourier(alike, labels, 4).scale
    assert len(set(scale)) == 1
    assert scale[0] == pytest.approx(np.sqrt(np.mean([1, 4, 9])), rel=0.05)
    np.testing.assert_allclose(fourier(alike * [1, 1000, 1], labels, 4).scale, [1, 2000, 3], rtol=0.1)
    constant = np.column_stack([1e-3 * alike, np.full(400, 7.0)])
    np.testing.assert_allclose(fourier(constant, labels, 4).scale, 1e-3 * scale[0])
    assert np.isfinite(fourier(np.ones((4, 2)), [0, 0, 1, 1], 4)(np.ones((4, 2)))).all()


def test_the_scale_of_distances_is_the_deviation_within_the_classes(monkeypatch):
    monkeypatch.setattr("openworld.recognition.adaptive.representation._SAMPLES_AT_ONCE", 7)
    labels = np.arange(40) % 3
    within = X - np.array([X[labels == label].mean(axis=0) for label in labels])
    found = Representation.of(X, labels, standardize=True, n_lifted=0, seed=0, directions=False)
    np.testing.assert_allclose(found.scale, np.sqrt(np.sum(within**2, axis=0) / 37))
    tight = np.column_stack([labels * 1e6 + RANDOM.normal(size=40), np.zeros(40)])
    found = Representation.of(tight, labels, standardize=True, n_lifted=0, seed=0, directions=False)
    np.testing.assert_allclose(found.scale, [1e-3 * tight[:, 0].std(), 1])


def test_samples_from_afar_have_finite_fourier_features():
    representation = fourier(X, None, n_lifted=30)
    found = representation(np.full((1, 5), 1e300))
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 1
