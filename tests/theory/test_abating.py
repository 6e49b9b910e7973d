import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.theory.abating import (
    Cone,
    Gaussian,
    NearestSample,
    ReversedWeibull,
    Thresholded,
    zero_risk_threshold,
)
from openworld.theory.combinations import LinearlyMapped, Maximum, Product, WeightedSum

positive = st.floats(0.05, 20)
thresholds = st.floats(0, 1.2)


def at_distance(distances):
    """Points at these distances from the origin, in a fixed direction of the plane."""
    return np.outer(distances, [0.6, 0.8])


@st.composite
def radial_models(draw, centers=((0.0, 0.0),)):
    kind = draw(st.sampled_from([Cone, Gaussian, ReversedWeibull]))
    if kind is ReversedWeibull:
        return ReversedWeibull(centers, draw(st.floats(0.3, 6)), draw(positive))
    return kind(centers, draw(positive))


@st.composite
def combinations(draw, centers=((0.0, 0.0),)):
    """Models, their combinations, and combinations of those."""
    single = radial_models(centers)
    parts = draw(st.lists(single, min_size=1, max_size=3))
    weights = draw(st.lists(st.floats(0, 1), min_size=len(parts), max_size=len(parts)))
    inner = draw(st.sampled_from([WeightedSum(parts, weights), Maximum(parts), Product(parts)]))
    inner = draw(st.sampled_from([inner, Thresholded(inner, draw(st.floats(0, 0.5)))]))
    other = draw(single)
    return draw(st.sampled_from([inner, WeightedSum([inner, other]), Product([inner, other])]))


# --- single models ---


def test_values_are_the_formulas():
    X = np.array([[0.0, 0.0], [3.0, 4.0], [10.0, 1.0]])
    centers = [[0.0, 0.0], [10.0, 0.0]]
    d = np.array([0, 5, 1])
    np.testing.assert_allclose(Cone(centers, 4.0).value(X), [1, 0, 0.75])
    np.testing.assert_allclose(Gaussian(centers, 2.0).value(X), np.exp(-(d**2) / 8))
    np.testing.assert_allclose(ReversedWeibull(centers, 1.5, 3.0).value(X), np.exp(-((d / 3) ** 1.5)))


def test_the_cone_is_the_decision_of_nearest_non_outlier():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)) * 3, np.repeat(np.arange(4), 10)
    nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y)
    means = np.array([X[y == c].mean(axis=0) for c in range(4)])
    points = rng.standard_normal((200, 3)) * 3
    expected = np.maximum(nno.decision_function(points).max(axis=1), 0)
    np.testing.assert_allclose(Cone(means, 2.0).value(points), expected, atol=1e-7)


@pytest.mark.parametrize("n_features", [3, 30])
def test_distances_are_those_to_the_nearest_sample(n_features):
    rng = np.random.default_rng(1)
    samples, points = rng.standard_normal((20, n_features)), rng.standard_normal((50, n_features))
    expected = np.linalg.norm(points[:, None] - samples, axis=2).min(axis=1)
    np.testing.assert_allclose(NearestSample(samples).distances(points), expected, rtol=1e-12)


@given(model=radial_models(), distances=st.lists(st.floats(0, 100), min_size=2, max_size=20))
def test_abating_along_rays_from_a_single_center(model, distances):
    values = model.value(at_distance(np.sort(distances)))
    assert np.all(np.diff(values) <= 1e-15)
    assert np.all((values >= 0) & (values <= 1))
    assert model.value([[0.0, 0.0]])[0] == 1


# --- bound, reach, thresholds ---


@given(model=combinations(), distances=st.lists(st.floats(0, 100), min_size=2, max_size=20))
def test_combinations_abate_and_stay_in_their_range(model, distances):
    values = model.value(at_distance(np.sort(distances)))
    assert np.all(np.diff(values) <= 1e-12)
    assert np.all((values >= 0) & (values <= model.bound(0) * (1 + 1e-12)))


def test_a_weighted_sum_lies_between_0_and_the_sum_of_its_weights():
    total = WeightedSum([Gaussian([[0.0]], 1.0)] * 3, [1.0, 1.0, 0.5])
    assert total.value([[0.0]])[0] == total.bound(0) == 2.5
    assert WeightedSum([Gaussian([[0.0]], 1.0)] * 3).value([[0.0]])[0] == pytest.approx(1)


@given(model=combinations(), distance=st.floats(0, 100))
def test_bound_is_attained_with_shared_centers(model, distance):
    value = model.value(at_distance([distance]))[0]
    # A jump at a threshold may fall to either side of a rounded distance.
    near = [model.bound(distance * (1 - 1e-9)), model.bound(distance * (1 + 1e-9))]
    assert min(near) - 1e-7 <= value <= max(near) + 1e-7


@given(model=combinations(), threshold=thresholds)
def test_reach_is_where_the_value_falls_to_the_threshold(model, threshold):
    reach = model.reach(threshold)
    if reach == np.inf:
        # Only a threshold of 0, or one so small that no double tells the distance, is never reached.
        assert threshold < 1e-300
        return
    beyond = model.value(at_distance([reach * (1 + 1e-6) + 1e-12, 2 * reach + 1, 100 * reach + 100]))
    assert np.all(beyond <= threshold)
    if reach > 1e-6:
        assert model.value(at_distance([reach * (1 - 1e-6)]))[0] >= threshold * (1 - 1e-9)


@given(model=combinations(), low=thresholds, high=thresholds)
def test_a_higher_threshold_recognizes_less(model, low, high):
    low, high = min(low, high), max(low, high)
    points = at_distance(np.linspace(0, 50, 101))
    recognized_low = Thresholded(model, low).value(points) > 0
    recognized_high = Thresholded(model, high).value(points) > 0
    assert np.all(recognized_low >= recognized_high)
    assert model.reach(high) <= model.reach(low)


def test_the_threshold_is_strict():
    cone = Thresholded(Cone([[0.0]], 2.0), 0.5)
    np.testing.assert_array_equal(cone.value([[0.0], [0.9], [1.0], [1.5]]), [1, 0.55, 0, 0])
    assert Thresholded(Cone([[0.0]], 2.0), 0.0).value([[2.0]])[0] == 0


def test_reach_in_closed_form():
    center = [[0.0]]
    assert Cone(center, 4.0).reach(0.25) == 3
    assert Cone(center, 4.0).reach(0) == 4
    assert Gaussian(center, 2.0).reach(np.exp(-2)) == pytest.approx(4)
    assert ReversedWeibull(center, 3.0, 2.0).reach(np.exp(-8)) == pytest.approx(4)
    assert Gaussian(center, 2.0).reach(0) == np.inf
    assert Gaussian(center, 2.0).reach(1.0) == Cone(center, 1.0).reach(1.5) == 0
    two = [Cone(center, 4.0), Cone(center, 2.0)]
    assert Maximum(two).reach(0.5) == 2
    assert WeightedSum(two, [1.0, 1.0]).reach(0.5) == pytest.approx(2)
    assert WeightedSum(two, [1.0, 1.0]).reach(1.0) == pytest.approx(4 / 3)
    assert Product(two).reach(0.375) == pytest.approx(1)
    assert WeightedSum(two, [0.0, 1.0]).reach(0) == 2
    assert WeightedSum(two, [0.0, 0.0]).reach(0) == 0
    assert Product([Gaussian(center, 9.0), two[1]]).reach(0) == 2


# --- Theorem 1 ---


@given(model=combinations(), r=st.floats(0.01, 30))
def test_at_the_zero_risk_threshold_nothing_farther_than_r_is_recognized(model, r):
    tau = zero_risk_threshold(model, r)
    far = at_distance(r * np.array([1 + 1e-9, 1.1, 2, 10, 1000]))
    assert not np.any(Thresholded(model, tau * (1 + 1e-12)).value(far) > 0)


def test_a_lower_threshold_recognizes_points_farther_than_r():
    X = np.random.default_rng(0).standard_normal((30, 2))
    parts = [Cone(X, 3.0), Gaussian(X, 1.0), ReversedWeibull(X, 3.0, 2.0)]
    for model in (*parts, WeightedSum(parts, [1.0, 0.5, 0.2]), Maximum(parts), Product(parts)):
        tau = zero_risk_threshold(model, 0.8)
        points = 5 * np.random.default_rng(1).standard_normal((20_000, 2))
        is_far = NearestSample(X).distances(points) > 0.8
        assert not np.any((model.value(points) > tau) & is_far)
        assert np.any((model.value(points) > tau) & ~is_far)
        assert np.any((model.value(points) > 0.98 * tau) & is_far)


def test_the_minimum_of_the_papers_proof_is_not_enough():
    """Theorem 1's proof takes min_j tau_j. The smallest threshold gives the largest regions."""
    center, r = [[0.0]], 0.5
    narrow, wide = Cone(center, 1.0), Cone(center, 10.0)
    taus = [zero_risk_threshold(model, r) for model in (narrow, wide)]
    assert taus == [0.5, 0.95]
    far = [[3.0]]
    # Each model thresholded at the minimum, then added: recognized six times too far away.
    at_minimum = WeightedSum([Thresholded(narrow, min(taus)), Thresholded(wide, min(taus))])
    assert at_minimum.value(far)[0] > 0
    # The sum thresholded at the minimum; and with equal models, a sum of many is above any of their taus.
    assert Thresholded(WeightedSum([narrow, wide], [1.0, 1.0]), min(taus)).value(far)[0] > 0
    many = WeightedSum([narrow] * 10, [1.0] * 10)
    assert Thresholded(many, taus[0]).value([[0.9]])[0] > 0
    # What holds: the maximum, or each its own threshold, before adding; sum_j c_j tau_j after.
    own = WeightedSum([Thresholded(narrow, taus[0]), Thresholded(wide, taus[1])])
    at_maximum = WeightedSum([Thresholded(narrow, max(taus)), Thresholded(wide, max(taus))])
    for model in (own, at_maximum):
        assert model.reach(0) <= r * (1 + 1e-12)
        assert zero_risk_threshold(model, r) == 0
    assert zero_risk_threshold(many, r) == pytest.approx(10 * taus[0])
    # For a product the minimum is enough, and more than needed.
    product = Product([narrow, wide])
    assert zero_risk_threshold(product, r) == pytest.approx(0.5 * 0.95)
    assert zero_risk_threshold(product, r) <= min(taus)


def test_thresholding_a_sum_over_different_samples_can_reject_everything():
    """Then the parts are thresholded before they are added, as the theorem writes it."""
    parts = [Gaussian([[-50.0]], 2.0), Gaussian([[50.0]], 2.0)]
    total, r = WeightedSum(parts, [1.0, 1.0]), 1.0
    tau = zero_risk_threshold(total, r)
    assert total.value([[50.0], [-50.0]]).max() < tau
    before = WeightedSum([Thresholded(part, zero_risk_threshold(part, r)) for part in parts], [1.0, 1.0])
    np.testing.assert_array_equal(
        before.value([[50.0], [-50.5], [51.5], [0.0]]) > 0, [True, True, False, False]
    )
    assert zero_risk_threshold(before, r) == 0


def test_class_means_are_not_training_samples():
    """A ball around the mean of a ring is open space, until r is as large as the ring."""
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    ring = 5 * np.column_stack([np.cos(angles), np.sin(angles)])
    cone = Cone(ring.mean(axis=0, keepdims=True), 8.0)
    assert zero_risk_threshold(cone, 1.0) < 1
    assert zero_risk_threshold(cone, 1.0, samples=ring) == 1
    assert zero_risk_threshold(cone, 7.0, samples=ring) == pytest.approx(1 - 2 / 8)


# --- Theorem 2 ---


@pytest.mark.parametrize("shape", [(3, 3), (3, 5)])
def test_an_injective_map_keeps_the_region_bounded(shape):
    rng = np.random.default_rng(3)
    T, X = rng.standard_normal(shape), rng.standard_normal((10, 3))
    model = LinearlyMapped(Gaussian(X @ T, 1.0), T, X)
    smallest = np.linalg.svd(T)[1][-1]
    assert model.is_injective
    assert model.reach(0.1) == pytest.approx(model.model.reach(0.1) / smallest)
    points = 20 * rng.standard_normal((20_000, 3))
    distances = NearestSample(X).distances(points)
    assert np.all(distances[model.value(points) > 0.1] <= model.reach(0.1))
    tau = zero_risk_threshold(model, 0.5)
    assert np.all(distances[model.value(points) > tau] <= 0.5)


def test_the_bound_of_an_injective_map_is_attained():
    T = np.diag([2.0, 0.5])
    model = LinearlyMapped(Cone([[0.0, 0.0]], 3.0), T)
    assert model.bound(4.0) == model.value([[0.0, 4.0]])[0] == pytest.approx(1 / 3)
    assert model.reach(0) == 6


@pytest.mark.parametrize(
    "T",
    [np.eye(3)[:, :2], np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]), np.ones((3, 4))],
    ids=["fewer dimensions", "square of rank 2", "more dimensions, rank 1"],
)
def test_a_map_that_loses_a_direction_does_not(T):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((5, 3))
    model = LinearlyMapped(Cone(X @ T, 1.0), T, X)
    lost = np.linalg.svd(T)[0][:, -1]
    assert not model.is_injective
    assert model.model.reach(0.5) == 0.5
    assert model.reach(0.5) == np.inf
    assert model.reach(1.0) == 0
    assert np.all(model.value(X + 1e6 * lost) > 0.999)
    assert zero_risk_threshold(model, 100.0) == model.bound(0) == 1


def test_a_product_with_a_bounded_factor_bounds_what_a_map_leaves_open():
    X, T = np.zeros((1, 2)), np.array([[1.0], [0.0]])
    strip = LinearlyMapped(Cone(X @ T, 1.0), T, X)
    assert Product([strip, Gaussian(X, 3.0)]).reach(0.1) == pytest.approx(Gaussian(X, 3.0).reach(0.1))
    # A sum stays unbounded up to the strip's weight, and is bounded above it.
    both = WeightedSum([strip, Gaussian(X, 3.0)], [0.3, 0.7])
    assert both.reach(0.29) == np.inf
    assert both.reach(0.4) == pytest.approx(Gaussian(X, 3.0).reach(1 / 7))


# --- what is refused ---


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Cone([[0.0]], 0.0),
        lambda: Gaussian([[0.0]], -1.0),
        lambda: Gaussian([[0.0]], np.inf),
        lambda: ReversedWeibull([[0.0]], np.nan, 1.0),
        lambda: Cone([[np.nan]], 1.0),
        lambda: Cone([0.0], 1.0),
        lambda: Cone([[0.0]], 1.0).value([[0.0, 1.0]]),
        lambda: Cone([[0.0]], 1.0).reach(-0.1),
        lambda: Cone([[0.0]], 1.0).bound(np.nan),
        lambda: Thresholded(Cone([[0.0]], 1.0), -0.1),
        lambda: Maximum([]),
        lambda: Product([Cone([[0.0]], 1.0), Cone([[0.0, 0.0]], 1.0)]),
        lambda: WeightedSum([Cone([[0.0]], 1.0)], [1.5]),
        lambda: WeightedSum([Cone([[0.0]], 1.0)], [-0.5]),
        lambda: WeightedSum([Cone([[0.0]], 1.0)], [0.5, 0.5]),
        lambda: LinearlyMapped(Cone([[0.0]], 1.0), np.eye(2)),
        lambda: LinearlyMapped(Cone([[1.0]], 1.0), [[1.0], [0.0]], centers=[[2.0, 0.0]]),
        lambda: LinearlyMapped(Cone([[1.0, 2.0]], 1.0), [[1.0, 1.0]]),
        lambda: zero_risk_threshold(Cone([[0.0]], 1.0), -1.0),
    ],
)
def test_refuses_what_makes_no_sense(wrong):
    with pytest.raises(ValueError):
        wrong()


def test_centers_cannot_be_changed_behind_the_models_back():
    centers = np.zeros((1, 2))
    cone = Cone(centers, 1.0)
    centers += 5
    assert cone.value([[0.0, 0.0]])[0] == 1
    with pytest.raises(ValueError):
        cone.centers[0, 0] = 3
