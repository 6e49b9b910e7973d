import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammainc, gammaln
from sklearn.svm import LinearSVC

from openworld import EuclideanMetric, NearestClassMean, NearestNonOutlier, SoftmaxThreshold
from openworld.theory.abating import Cone, Gaussian, ReversedWeibull, Thresholded, zero_risk_threshold
from openworld.theory.combinations import LinearlyMapped, Maximum, Product, WeightedSum
from openworld.theory.open_space import OpenSpaceWarning, open_set_risk, open_space_risk
from openworld.theory.sampling import OpenSpace, Sampling

FEW = Sampling(n_samples=20_000)


def ball(radius):
    """The indicator of a ball around the origin."""
    return lambda points: (np.linalg.norm(points, axis=1) < radius).astype(float)


def origin(n_features):
    return np.zeros((1, n_features))


def log_ball_volume(n_features, radius):
    return n_features / 2 * np.log(np.pi) - gammaln(n_features / 2 + 1) + n_features * np.log(radius)


def agrees(estimate, expected, n_errors=4.0):
    return estimate.meaningful and abs(estimate.risk - expected) < n_errors * estimate.standard_error


@pytest.fixture(scope="module")
def four_classes():
    rng = np.random.default_rng(7)
    y = np.repeat(np.arange(4), 25)
    centers = np.array([[-4.0, -3.0], [4.0, -2.5], [3.0, 4.0], [-3.0, 3.5]])
    return centers[y] + rng.standard_normal((100, 2)) * 0.7, y


# --- Eq. 3 ---


def test_open_space_is_the_ball_around_the_mean_without_the_closed_balls_around_the_samples():
    space = OpenSpace([[-1.0, 0.0], [3.0, 0.0]], r=1.0, R=5.0)
    np.testing.assert_array_equal(space.center, [1, 0])
    points = [[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [-1.0, 1.001], [6.0, 0.0], [6.001, 0.0], [1.0, 5.1]]
    np.testing.assert_array_equal(space.contains(points), [True, False, False, True, True, False, False])


@pytest.mark.parametrize(("r", "R"), [(0.0, 5.0), (5.0, 5.0), (1.0, np.inf), (-1.0, 2.0), (1.0, 1.5)])
def test_radii_that_make_no_sense_are_refused(r, R):
    with pytest.raises(ValueError):
        OpenSpace([[-2.0], [2.0]], r, R)


# --- Eq. 4: what can be computed by hand ---


@pytest.mark.parametrize("n_features", [1, 2, 3, 10, 30, 50])
def test_risk_of_a_ball(n_features):
    """A ball of radius rho around one sample: 1 - (r / rho)^D."""
    rho = 2.0
    r = rho * 0.6 ** (1 / n_features)
    n_samples = 20_000 if n_features < 30 else 60_000
    estimate = open_space_risk(ball(rho), origin(n_features), r, 20.0, sampling=Sampling(n_samples))
    assert agrees(estimate, 0.4)
    assert estimate.standard_error < 0.05
    assert estimate.log_measure == pytest.approx(log_ball_volume(n_features, rho), abs=0.3)


@pytest.mark.parametrize("n_features", [1, 2, 3, 10, 50])
def test_risk_of_the_cone(n_features):
    """The cone of Eq. 8: 1 - (r / tau)^D (D + 1 - D r / tau)."""
    tau = 2.0
    r = tau * 0.6 ** (1 / n_features)
    expected = 1 - 0.6 * (n_features + 1 - n_features * r / tau)
    sampling = Sampling(20_000 if n_features < 50 else 40_000)
    estimate = open_space_risk(Cone(origin(n_features), tau), origin(n_features), r, 20.0, sampling=sampling)
    assert agrees(estimate, expected)
    # Eq. 8's constant is one over the volume of the ball of radius tau; a cone holds 1 / (D + 1) of that.
    expected_measure = log_ball_volume(n_features, tau) - np.log(n_features + 1)
    assert estimate.log_measure == pytest.approx(expected_measure, abs=0.2)


@pytest.mark.parametrize("n_features", [1, 3, 20])
def test_risk_of_a_gaussian(n_features):
    """The tail of the chi distribution, whose part beyond S_o is nothing here."""
    model, r = Gaussian(origin(n_features), 1.0), 1.1 * np.sqrt(n_features)
    estimate = open_space_risk(model, origin(n_features), r, 50.0, sampling=FEW)
    assert agrees(estimate, 1 - gammainc(n_features / 2, r**2 / 2))


def test_risk_of_a_strip_in_the_plane():
    r, R = 1.0, 12.0
    strip = 2 * (r * np.sqrt(R**2 - r**2) + R**2 * np.arcsin(r / R))
    estimate = open_space_risk(lambda p: np.abs(p[:, 0]) < r, origin(2), r, R, sampling=FEW)
    assert agrees(estimate, 1 - np.pi * r**2 / strip)


def test_only_the_positive_part_of_a_function_counts():
    function = lambda points: 1 - np.linalg.norm(points, axis=1) / 2  # noqa: E731
    negative = open_space_risk(function, origin(3), 1.0, 20.0, sampling=FEW)
    assert negative == open_space_risk(Cone(origin(3), 2.0), origin(3), 1.0, 20.0, sampling=FEW)


@pytest.mark.parametrize("model", ["sum", "softmax", "nno"])
def test_importance_sampling_agrees_with_uniform_sampling_in_the_plane(four_classes, model):
    X, y = four_classes
    recognition = {
        "sum": WeightedSum([Cone(X, 2.0), Gaussian(X, 1.0)]),
        "softmax": SoftmaxThreshold(EuclideanMetric(standardize=False), tau=0.05).fit(X, y),
        "nno": NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y),
    }[model]
    weighted = open_space_risk(recognition, X, 0.5, 12.0, sampling=FEW)
    uniform = open_space_risk(recognition, X, 0.5, 12.0, sampling=Sampling(40_000, uniform_share=1.0))
    assert weighted.meaningful
    assert agrees(uniform, weighted.risk, 4 * np.hypot(1, weighted.standard_error / uniform.standard_error))
    assert uniform.log_measure == pytest.approx(weighted.log_measure, abs=0.1)


def test_more_samples_than_are_drawn_around():
    X = np.linspace(-1, 1, 2500)[:, np.newaxis]
    estimate = open_space_risk(lambda p: np.abs(p[:, 0]) < 3, X, 1.0, 10.0, sampling=FEW)
    assert agrees(estimate, 1 / 3)


# --- how sure ---


@pytest.mark.parametrize(
    ("n_features", "n_samples", "risk"), [(2, 2_000, 0.3), (2, 2_000, 0.02), (10, 8_000, 0.5)]
)
def test_the_interval_covers_the_truth_as_often_as_it_says(n_features, n_samples, risk):
    r = 2.0 * (1 - risk) ** (1 / n_features)
    estimates = [
        open_space_risk(
            ball(2.0), origin(n_features), r, 20.0, sampling=Sampling(n_samples, random_state=seed)
        )
        for seed in range(200)
    ]
    covered = np.mean([e.interval[0] <= risk <= e.interval[1] for e in estimates])
    assert 0.91 <= covered <= 0.99
    spread = np.std([e.risk for e in estimates])
    assert spread == pytest.approx(np.mean([e.standard_error for e in estimates]), rel=0.2)
    assert np.mean([e.risk for e in estimates]) == pytest.approx(risk, abs=4 * spread / np.sqrt(200))


def test_an_interval_is_not_a_point_where_nothing_was_found():
    none = open_space_risk(ball(1.0), origin(2), 1.0, 10.0, sampling=FEW)
    assert none.risk == none.standard_error == none.interval[0] == 0
    assert 0 < none.interval[1] < 0.01
    everything = open_space_risk(lambda p: np.linalg.norm(p, axis=1) > 2, origin(2), 1.0, 10.0, sampling=FEW)
    assert everything.risk == pytest.approx(1)
    assert 0.99 < everything.interval[0] < 1


def test_a_higher_confidence_gives_a_wider_interval():
    narrow, wide = (
        open_space_risk(ball(2.0), origin(2), 1.0, 9.0, sampling=replace(FEW, confidence=c)).interval
        for c in (0.5, 0.99)
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_the_same_seed_gives_the_same_estimate():
    first, again, other = (
        open_space_risk(ball(2.0), origin(4), 1.5, 9.0, sampling=replace(FEW, random_state=seed))
        for seed in (3, 3, 4)
    )
    assert first == again != other
    with pytest.raises(FrozenInstanceError):
        first.risk = 0.0


def test_uniform_sampling_of_many_dimensions_says_that_it_saw_nothing():
    with pytest.warns(OpenSpaceWarning, match="not meaningful"):
        nothing = open_space_risk(ball(2.0), origin(20), 1.0, 20.0, sampling=replace(FEW, uniform_share=1.0))
    assert np.isnan(nothing.risk)
    assert nothing.interval == (0, 1)
    assert nothing.effective_sample_size == 0
    assert nothing.log_measure == -np.inf
    assert not nothing.meaningful


def test_too_few_points_are_said_to_be_too_few():
    with pytest.warns(OpenSpaceWarning):
        few = open_space_risk(ball(2.0), origin(50), 1.9, 20.0, sampling=Sampling(2_000))
    assert not few.meaningful
    assert few.effective_sample_size < 100


@pytest.mark.parametrize("seed", range(4))
def test_a_shape_that_does_not_suit_the_sampling_is_said_not_to(seed):
    """A long ellipsoid in ten dimensions: the estimate is off, at times with many effective points."""
    axes = np.ones(10)
    axes[0] = 10
    with pytest.warns(OpenSpaceWarning):
        open_space_risk(
            lambda p: np.sum((p / axes) ** 2, axis=1) < 1,
            origin(10),
            1.0,
            50.0,
            sampling=Sampling(60_000, random_state=seed),
        )


# --- Theorem 1 ---


def combinations_over(X):
    parts = [Cone(X, 3.0), Gaussian(X, 1.0), ReversedWeibull(X, 3.0, 2.0)]
    return {
        "sum": WeightedSum(parts, [1.0, 0.7, 0.4]),
        "maximum": Maximum(parts),
        "product": Product(parts),
        "nested": Product([WeightedSum(parts[:2]), Maximum(parts[1:])]),
    }


@pytest.mark.parametrize("n_features", [2, 10])
@pytest.mark.parametrize("name", ["sum", "maximum", "product", "nested"])
def test_the_zero_risk_threshold_gives_no_risk_and_a_lower_one_some(n_features, name):
    X = 3 * np.random.default_rng(5).standard_normal((20, n_features))
    model, r = combinations_over(X)[name], 0.9
    tau = zero_risk_threshold(model, r)
    none = open_space_risk(Thresholded(model, tau), X, r, 30.0, sampling=FEW)
    some = open_space_risk(Thresholded(model, 0.9 * tau), X, r, 30.0, sampling=FEW)
    assert none.risk == 0
    assert none.meaningful
    assert some.interval[0] > 0
    assert some.meaningful


def test_thresholding_each_model_before_the_sum_gives_no_risk_either():
    X = 3 * np.random.default_rng(6).standard_normal((20, 3))
    narrow, wide, r = Cone(X[:10], 1.0), Cone(X[10:], 10.0), 0.5
    own = WeightedSum([Thresholded(model, zero_risk_threshold(model, r)) for model in (narrow, wide)])
    assert open_space_risk(own, X, r, 30.0, sampling=FEW).risk == 0
    minimum = min(zero_risk_threshold(model, r) for model in (narrow, wide))
    papers = WeightedSum([Thresholded(model, minimum) for model in (narrow, wide)])
    assert open_space_risk(papers, X, r, 30.0, sampling=FEW).risk > 0.5


# --- Theorem 2 ---


def test_no_risk_after_an_injective_map_is_no_risk_before_it():
    rng = np.random.default_rng(8)
    X, T, r = rng.standard_normal((10, 3)) * 3, rng.standard_normal((3, 3)), 0.8
    model = LinearlyMapped(Gaussian(X @ T, 1.0), T, X)
    recognized = Thresholded(model, zero_risk_threshold(model, r))
    assert open_space_risk(recognized, X, r, 30.0, sampling=FEW).risk == 0


def test_no_risk_after_a_projection_is_a_risk_that_tends_to_1_before_it():
    T, r = np.array([[1.0], [0.0]]), 1.0
    projected = Cone(origin(1), r)
    assert open_space_risk(projected, origin(1), r, 20.0, sampling=FEW).risk == 0
    strip = LinearlyMapped(projected, T, origin(2))
    risks = [open_space_risk(strip, origin(2), r, R).risk for R in (2.0, 10.0, 100.0)]
    assert np.all(np.diff(risks) > 0)
    assert risks[0] > 0.3
    assert risks[-1] > 0.98


# --- what manages open space risk, and what does not ---


def reject_band(X, y, band):
    """A linear SVM that answers unknown near its planes: the paper's example of what does not help."""
    svm = LinearSVC(random_state=0).fit(X, y)
    return lambda points: svm.decision_function(points).max(axis=1) > band


@pytest.mark.parametrize("name", ["softmax", "svm", "ncm"])
def test_rejection_alone_does_not_manage_open_space_risk(four_classes, name):
    X, y = four_classes
    recognition = {
        "softmax": SoftmaxThreshold(EuclideanMetric(standardize=False), tau=0.01).fit(X, y),
        "svm": reject_band(X, y, 0.5),
        "ncm": NearestClassMean(EuclideanMetric()).fit(X, y),
    }[name]
    estimates = [open_space_risk(recognition, X, 0.5, R, sampling=FEW) for R in (10.0, 100.0, 1e3, 1e4)]
    risks = [estimate.risk for estimate in estimates]
    assert all(estimate.meaningful for estimate in estimates)
    assert np.all(np.diff(risks) > 0)
    assert risks[-1] > 0.9999
    # The region grows as the square of R: hundredfold each time.
    growth = np.diff([estimate.log_measure for estimate in estimates])[1:]
    np.testing.assert_allclose(growth, np.log(100), atol=0.1)


def test_the_region_of_nearest_non_outlier_does_not_grow(four_classes):
    X, y = four_classes
    nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y)
    estimates = [open_space_risk(nno, X, 0.5, R, sampling=FEW) for R in (10.0, 100.0, 1e4, 1e6)]
    for estimate in estimates:
        assert estimate.meaningful
        assert estimate.log_measure == pytest.approx(np.log(4 * np.pi * 2.0**2), abs=0.1)
        assert agrees(estimate, estimates[0].risk, 6)
    # Within tau of a class mean: no risk once r covers that from the nearest sample.
    assert open_space_risk(nno, X, 4.0, 20.0, sampling=FEW).risk == 0


def test_nearest_non_outlier_in_twenty_dimensions():
    rng = np.random.default_rng(9)
    X, y = 10 * rng.standard_normal((5, 20)).repeat(4, axis=0), np.arange(5).repeat(4)
    nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y)
    r = 2.0 * 0.7 ** (1 / 20)
    assert agrees(open_space_risk(nno, X, r, 100.0, sampling=Sampling(60_000)), 0.3)


def test_the_risk_of_one_class(four_classes):
    X, y = four_classes
    nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y)
    mean = X[y == 1].mean(axis=0)
    alone = open_space_risk(nno, [mean], 1.0, 20.0, label=1, sampling=FEW)
    assert agrees(alone, 1 - 1 / 4)
    others = open_space_risk(nno, [mean], 1.0, 20.0, sampling=FEW)
    assert agrees(others, 1 - 1 / 16)


def test_a_classifier_without_unknown_recognizes_everything(four_classes):
    X, y = four_classes
    svm = LinearSVC(random_state=0).fit(X, y)
    estimate = open_space_risk(svm, X, 0.5, 20.0, sampling=FEW)
    assert estimate.log_measure == pytest.approx(np.log(np.pi * 400), abs=0.1)
    parts = [open_space_risk(svm, X, 0.5, 20.0, label=c, sampling=FEW) for c in range(4)]
    assert np.exp([part.log_measure for part in parts]).sum() == pytest.approx(np.exp(estimate.log_measure))


# --- Eq. 5 ---


def test_open_set_risk_is_the_sum_of_equation_5(four_classes):
    X, y = four_classes
    nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0).fit(X, y)
    result = open_set_risk(nno, X, y, 0.5, 20.0, lambda_r=3.0, sampling=FEW)
    assert result.empirical == np.mean(nno.predict(X) != y) > 0
    assert result.open_space == open_space_risk(nno, X, 0.5, 20.0, sampling=FEW)
    assert result.total == result.open_space.risk + 3 * result.empirical


def test_empirical_risk_on_other_samples_unknown_ones_among_them(four_classes):
    X, y = four_classes
    nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y)
    evaluation = np.array([X[y == 0].mean(axis=0), [0.0, 0.0], [50.0, 0.0]]), [0, -1, 2]
    result = open_set_risk(nno, X, y, 0.5, 20.0, evaluation=evaluation, sampling=FEW)
    assert result.empirical == pytest.approx(1 / 3)
    hamming = open_set_risk(
        nno, X, y, 0.5, 20.0, evaluation=evaluation, empirical_risk=lambda t, a: 7.0, sampling=FEW
    )
    assert hamming.empirical == 7
    of_class = open_set_risk(nno, X, y, 0.5, 20.0, label=2, evaluation=evaluation, sampling=FEW)
    assert of_class.empirical == pytest.approx(1 / 3)


def test_empirical_risk_of_a_single_function():
    X = np.array([[0.0, 0.0], [0.5, 0.0], [9.0, 0.0]])
    result = open_set_risk(Cone(X[:1], 1.0), X, [True, True, True], 0.9, 20.0, sampling=FEW)
    assert result.empirical == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="must be booleans"):
        open_set_risk(Cone(X[:1], 1.0), X, ["a", "b", "b"], 0.9, 20.0, sampling=FEW)


# --- what is refused ---


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Sampling(n_samples=1),
        lambda: Sampling(uniform_share=0.0),
        lambda: Sampling(uniform_share=1.1),
        lambda: Sampling(confidence=1.0),
        lambda: open_space_risk(ball(1.0), [[0.0]], 1.0, 2.0, label=3),
        lambda: open_space_risk(lambda p: p, [[0.0]], 1.0, 2.0),
        lambda: open_space_risk(lambda p: np.full(len(p), np.nan), [[0.0]], 1.0, 2.0),
        lambda: open_set_risk(ball(1.0), [[0.0]], [True], 1.0, 2.0, lambda_r=-1.0),
        lambda: open_set_risk(ball(1.0), [[0.0]], [True, False], 1.0, 2.0),
    ],
)
def test_refuses_what_makes_no_sense(wrong):
    with pytest.raises(ValueError):
        wrong()


def test_refuses_what_is_no_recognition_function():
    with pytest.raises(TypeError, match="recognizer"):
        open_space_risk(3, [[0.0]], 1.0, 2.0)


def test_the_example_of_the_documentation(capsys):
    page = Path(__file__).parents[2] / "docs" / "theory.md"
    code = re.search(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[1]
    exec(code, {})
    reach, none, some = capsys.readouterr().out.splitlines()
    assert float(reach) == pytest.approx(1.5)
    assert float(none) == 0
    assert "risk=0.9" in some
    assert "meaningful=True" in some
