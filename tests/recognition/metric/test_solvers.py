import numpy as np
import pytest
from scipy.linalg import eigh, subspace_angles
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from openworld.recognition.metric import solvers as metric_solvers
from openworld.recognition.metric.solvers import Adam, Problem, authors_sgd, discriminant_then_descent

SHRINKAGES = (0.9, 0.6, 0.3, 0.1, 0.03, 0.01)


def seeded(seed=0):
    return np.random.RandomState(seed)


@pytest.fixture(scope="module")
def digits():
    """Standardized digits: 60 of each class to learn from, 20 held out, the rest to test with."""
    X, y = load_digits(return_X_y=True)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    rows = [np.flatnonzero(y == c) for c in range(10)]
    learn = np.concatenate([r[:60] for r in rows])
    held = np.concatenate([r[60:80] for r in rows])
    test = np.concatenate([r[80:] for r in rows])
    means = np.array([X[r[:60]].mean(axis=0) for r in rows])
    return Problem(X[learn], y[learn], X[held], y[held], means, False), X[test], y[test]


def with_biases(problem):
    return Problem(problem.X, problem.codes, problem.held_out_X, problem.held_out_codes, problem.means, True)


def closed_form(problem, n_components, random_state=None):
    return discriminant_then_descent(
        problem,
        n_components,
        n_epochs=0,
        learning_rate=0.01,
        random_state=random_state or seeded(),
        progress=None,
    )


def eq1_loss(W, X, codes, means):
    """Eq. 1 with the distances written out."""
    squared = np.array([[np.sum((W.T @ (x - mean)) ** 2) for mean in means] for x in X])
    p = np.exp(-(squared - squared.min(axis=1, keepdims=True)) / 2)
    return -np.mean(np.log(p[np.arange(len(X)), codes] / p.sum(axis=1)))


def shrunk_within_covariance(problem, shrinkage):
    n_classes = len(problem.means)
    within = np.mean(
        [np.cov(problem.X[problem.codes == c], rowvar=False, bias=True) for c in range(n_classes)], axis=0
    )
    return (1 - shrinkage) * within + shrinkage * np.trace(within) / len(within) * np.eye(len(within))


def chosen_shrinkage(problem):
    """The shrinkage under which the chosen whitening whitens; classes of one size are assumed."""
    residuals = problem.X - problem.means[problem.codes]
    P = metric_solvers.choose_whitening(problem, residuals.T @ residuals / len(residuals))
    off = [np.abs(P.T @ shrunk_within_covariance(problem, s) @ P - np.eye(len(P))).max() for s in SHRINKAGES]
    assert min(off) < 1e-8
    return SHRINKAGES[int(np.argmin(off))]


# --- The closed-form start ---


def test_start_decides_as_linear_discriminant_analysis(digits):
    problem, X, _ = digits
    lda = LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage=chosen_shrinkage(problem), priors=np.full(10, 0.1)
    ).fit(problem.X, problem.codes)
    W = closed_form(problem, 9).W
    squared = np.sum(((X @ W)[:, None] - problem.means @ W) ** 2, axis=2)
    np.testing.assert_array_equal(squared.argmin(axis=1), lda.predict(X))
    # Not only the decisions: the scores agree up to one factor, the scale.
    ours = -squared / 2
    ours -= ours.mean(axis=1, keepdims=True)
    theirs = lda.decision_function(X)
    theirs -= theirs.mean(axis=1, keepdims=True)
    factor = np.sum(ours * theirs) / np.sum(theirs * theirs)
    assert factor > 0
    np.testing.assert_allclose(ours, factor * theirs, atol=1e-6 * np.abs(ours).max())


@pytest.mark.parametrize("n_components", [1, 2, 5, 9])
def test_start_spans_the_discriminant_directions(digits, n_components):
    problem = digits[0]
    centered = problem.means - problem.means.mean(axis=0)
    within = shrunk_within_covariance(problem, chosen_shrinkage(problem))
    directions = eigh(centered.T @ centered, within)[1][:, ::-1][:, :n_components]
    W = closed_form(problem, n_components).W
    assert subspace_angles(W, directions).max() < 1e-6


def test_start_has_the_scale_that_suits_the_held_out_part_best(digits):
    problem = digits[0]
    W = closed_form(problem, 9).W
    loss = eq1_loss(W, problem.held_out_X, problem.held_out_codes, problem.means)
    for factor in (0.8, 0.97, 1.03, 1.25):
        assert loss < eq1_loss(factor * W, problem.held_out_X, problem.held_out_codes, problem.means)


def test_directions_beyond_the_means_change_no_decision_but_carry_distance(digits):
    problem, X, _ = digits
    few, many = closed_form(problem, 9).W, closed_form(problem, 64).W
    assert np.linalg.matrix_rank(many) == 64
    np.testing.assert_allclose(many[:, :9], few, atol=1e-8)
    near, far = (np.sum(((X @ W)[:, None] - problem.means @ W) ** 2, axis=2) for W in (few, many))
    np.testing.assert_array_equal(far.argmin(axis=1), near.argmin(axis=1))
    carried = far - near  # the same to every mean
    np.testing.assert_allclose(carried, carried[:, :1].repeat(10, axis=1), rtol=1e-6)
    assert carried.min() > 1


def test_start_of_equation_2_equals_that_of_equation_1(digits):
    problem = digits[0]
    distance, dot = closed_form(problem, 9), closed_form(with_biases(problem), 9)
    np.testing.assert_array_equal(distance.W, dot.W)
    assert dot.held_out_loss == pytest.approx(distance.held_out_loss, rel=1e-10)
    np.testing.assert_array_equal(distance.biases, 0)
    np.testing.assert_allclose(dot.biases, -0.5 * np.sum((problem.means @ dot.W) ** 2, axis=1))


def test_whitening_survives_samples_that_coincide_with_their_means():
    means = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    problem = Problem(means, np.arange(3), np.empty((0, 2)), np.empty(0, int), means, False)
    solution = closed_form(problem, 2)
    assert np.all(np.isfinite(solution.W))
    assert solution.held_out_loss[0] < 0.1


# --- The descent ---


@pytest.mark.parametrize("form", ["distance", "dot"])
def test_descent_is_no_worse_than_its_start_and_better_than_chance_and_sgd(digits, form):
    problem = digits[0] if form == "distance" else with_biases(digits[0])
    solution = discriminant_then_descent(
        problem, 9, n_epochs=15, learning_rate=0.01, random_state=seeded(), progress=None
    )
    found = problem.judge(solution.W, solution.biases)
    assert found <= closed_form(problem, 9).held_out_loss[0] * (1 + 1e-9)
    assert found == pytest.approx(min(solution.held_out_loss), rel=1e-9)
    assert found < np.log(10)
    sgd = authors_sgd(problem, 9, n_steps=300, learning_rate=1e-3, random_state=seeded(), progress=None)
    assert found < problem.judge(sgd.W, sgd.biases)


def test_descent_lowers_the_training_loss(digits):
    problem = digits[0]
    solution = discriminant_then_descent(
        problem, 9, n_epochs=5, learning_rate=0.01, random_state=seeded(), progress=None
    )
    assert solution.training_loss[-1] < solution.training_loss[0]
    assert solution.steps == [3 * epoch for epoch in range(len(solution.steps))]  # 600 samples, 256 a batch


def test_descent_that_only_harms_returns_the_start(digits):
    problem = digits[0]
    solution = discriminant_then_descent(
        problem, 9, n_epochs=50, learning_rate=30.0, random_state=seeded(), progress=None
    )
    np.testing.assert_allclose(solution.W, closed_form(problem, 9).W, rtol=1e-10)
    assert len(solution.steps) == 1 + 5  # the start and as many epochs as patience lasts


def test_descent_does_not_touch_the_problem(digits):
    problem = digits[0]
    before = [array.copy() for array in (problem.X, problem.held_out_X, problem.means)]
    discriminant_then_descent(
        problem, 9, n_epochs=2, learning_rate=0.01, random_state=seeded(), progress=None
    )
    for old, new in zip(before, (problem.X, problem.held_out_X, problem.means), strict=True):
        np.testing.assert_array_equal(old, new)


def test_float32_problem_gives_nearly_the_same_metric(digits):
    problem = digits[0]
    single = Problem(
        *(problem.X.astype(np.float32), problem.codes),
        *(problem.held_out_X.astype(np.float32), problem.held_out_codes),
        problem.means.astype(np.float32),
        False,
    )
    assert closed_form(single, 9).held_out_loss[0] == pytest.approx(
        closed_form(problem, 9).held_out_loss[0], rel=1e-3
    )


def test_adam_against_the_published_algorithm():
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 2))
    gradients = random.normal(size=(4, 3, 2))
    moved = x.copy()
    adam = Adam([moved], 0.1)
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t, gradient in enumerate(gradients, start=1):
        adam.step([gradient])
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        x = x - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(moved, x, rtol=1e-5)


def test_batches_hold_every_sample_once():
    batches = list(metric_solvers._batches(23, 10, seeded()))
    assert [len(batch) for batch in batches] == [10, 10, 3]
    assert sorted(np.concatenate(batches)) == list(range(23))


# --- The authors' descent ---


@pytest.mark.parametrize("n_steps", [1, 3])
def test_sgd_steps_by_hand(digits, n_steps):
    """The authors' softmax is over -d^2, not -d^2/2; in the result Eq. 1 holds with its 1/2."""
    problem = digits[0]
    solution = authors_sgd(
        problem, 4, n_steps=n_steps, learning_rate=0.01, random_state=seeded(7), progress=None
    )
    random = seeded(7)
    W = 0.1 * random.standard_normal((64, 4))
    for _ in range(n_steps):
        batch = random.randint(len(problem.X), size=100)
        gradient = np.zeros_like(W)
        for i in batch:
            differences = problem.X[i] - problem.means
            p = np.exp(-np.sum((differences @ W) ** 2, axis=1))
            p /= p.sum()
            for c in range(10):
                weight = (problem.codes[i] == c) - p[c]
                gradient += weight * 2 * np.outer(differences[c], differences[c] @ W) / 100
        W -= 0.01 * gradient
    np.testing.assert_allclose(solution.W, np.sqrt(2) * W, rtol=1e-9)
    squared = np.sum(((problem.held_out_X @ W)[:, None] - problem.means @ W) ** 2, axis=2)
    p = np.exp(-squared) / np.exp(-squared).sum(axis=1, keepdims=True)
    theirs = -np.mean(np.log(p[np.arange(len(p)), problem.held_out_codes]))
    assert solution.held_out_loss[-1] == pytest.approx(theirs, rel=1e-9)


def test_sgd_step_of_equation_2_by_hand(digits):
    problem = with_biases(digits[0])
    solution = authors_sgd(problem, 3, n_steps=1, learning_rate=0.01, random_state=seeded(7), progress=None)
    random = seeded(7)
    W = 0.1 * random.standard_normal((64, 3))
    batch = random.randint(len(problem.X), size=100)
    gradient, bias_gradient = np.zeros_like(W), np.zeros(10)
    for i in batch:
        p = np.exp(problem.means @ W @ W.T @ problem.X[i])
        p /= p.sum()
        for c in range(10):
            weight = p[c] - (problem.codes[i] == c)
            outer = np.outer(problem.X[i], problem.means[c])
            gradient += weight * (outer + outer.T) @ W / 100
            bias_gradient[c] += weight / 100
    np.testing.assert_allclose(solution.W, W - 0.01 * gradient, rtol=1e-9)
    np.testing.assert_allclose(solution.biases, -0.01 * bias_gradient, rtol=1e-9)


def test_sgd_loss_falls(digits):
    problem = digits[0]
    start = 0.1 * np.sqrt(2) * seeded().standard_normal((64, 9))
    solution = authors_sgd(problem, 9, n_steps=300, learning_rate=1e-3, random_state=seeded(), progress=None)
    first, last = problem.judge(start, np.zeros(10)), solution.held_out_loss[-1]
    assert last < 0.8 * first
    assert last == pytest.approx(
        eq1_loss(solution.W, problem.held_out_X, problem.held_out_codes, problem.means), rel=1e-9
    )


def test_sgd_looks_at_every_fiftieth_of_the_way_and_at_the_end(digits):
    seen = []
    solution = authors_sgd(
        digits[0],
        2,
        n_steps=103,
        learning_rate=1e-4,
        random_state=seeded(),
        progress=lambda *a: seen.append(a),
    )
    assert solution.steps == [*range(2, 103, 2), 103]
    assert seen == [
        (step, 103, loss) for step, loss in zip(solution.steps, solution.held_out_loss, strict=True)
    ]


@pytest.mark.parametrize("learning_rate", [1e6, 1e300])
def test_sgd_that_runs_away_names_the_learning_rate(digits, learning_rate):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="lower learning_rate"):
        authors_sgd(
            digits[0], 9, n_steps=200, learning_rate=learning_rate, random_state=seeded(), progress=None
        )
