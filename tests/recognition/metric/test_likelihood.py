import math

import numpy as np
import pytest

from openworld.recognition.metric.likelihood import (
    distance_logits,
    distance_loss,
    dot_logits,
    dot_loss,
    mean_loss,
)

SIZES = [(7, 4, 3, 5), (1, 1, 1, 2), (9, 5, 1, 3), (6, 3, 3, 6)]  # samples, features, m, classes


def example(n, n_features, m, n_classes):
    random = np.random.default_rng(n * 1000 + n_features)
    W = random.normal(size=(n_features, m))
    X = random.normal(size=(n, n_features))
    codes = random.integers(n_classes, size=n)
    means = random.normal(size=(n_classes, n_features))
    return W, X, codes, means, random.normal(size=n_classes)


def naive_loss(logit, X, codes, means):
    """The mean of -ln p(y_i | x_i), with p written out as a quotient, sample by sample."""
    total = 0.0
    for x, y in zip(X, codes, strict=True):
        exponentials = [math.exp(logit(x, c)) for c in range(len(means))]
        total -= math.log(exponentials[y] / sum(exponentials))
    return total / len(X)


def naive_distance_loss(W, X, codes, means):
    def logit(x, c):
        return -0.5 * sum(float(W[:, j] @ (x - means[c])) ** 2 for j in range(W.shape[1]))

    return naive_loss(logit, X, codes, means)


def naive_dot_loss(W, biases, X, codes, means):
    return naive_loss(lambda x, c: float(x @ W @ W.T @ means[c] + biases[c]), X, codes, means)


def central_differences(function, point, step=1e-6):
    gradient = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        ahead, behind = point.copy(), point.copy()
        ahead[index] += step
        behind[index] -= step
        gradient[index] = (function(ahead) - function(behind)) / (2 * step)
    return gradient


@pytest.mark.parametrize("sizes", SIZES)
def test_distance_loss_is_equation_1(sizes):
    W, X, codes, means, _ = example(*sizes)
    expected = naive_distance_loss(W, X, codes, means)
    assert distance_loss(W, X, codes, means)[0] == pytest.approx(expected, rel=1e-12)
    assert mean_loss(distance_logits(X @ W, means @ W), codes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_dot_loss_is_equation_2(sizes):
    W, X, codes, means, biases = example(*sizes)
    expected = naive_dot_loss(W, biases, X, codes, means)
    assert dot_loss(W, biases, X, codes, means)[0] == pytest.approx(expected, rel=1e-12)
    assert mean_loss(dot_logits(X @ W, means @ W, biases), codes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_gradient_of_equation_1(sizes):
    W, X, codes, means, _ = example(*sizes)
    numeric = central_differences(lambda W: naive_distance_loss(W, X, codes, means), W)
    np.testing.assert_allclose(distance_loss(W, X, codes, means)[1], numeric, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_of_equation_2(sizes):
    W, X, codes, means, biases = example(*sizes)
    _, gradient, bias_gradient = dot_loss(W, biases, X, codes, means)
    numeric = central_differences(lambda W: naive_dot_loss(W, biases, X, codes, means), W)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-8)
    numeric = central_differences(lambda biases: naive_dot_loss(W, biases, X, codes, means), biases)
    np.testing.assert_allclose(bias_gradient, numeric, rtol=1e-5, atol=1e-8)


def test_gradient_agrees_with_the_sum_over_outer_products():
    W, X, codes, means, _ = example(8, 4, 2, 3)
    gradient = np.zeros_like(W)
    for x, y in zip(X, codes, strict=True):
        squared = np.array([np.sum((W.T @ (x - mean)) ** 2) for mean in means])
        p = np.exp(-squared / 2) / np.exp(-squared / 2).sum()
        for c, mean in enumerate(means):
            gradient += ((y == c) - p[c]) * np.outer(x - mean, x - mean) @ W / len(X)
    np.testing.assert_allclose(distance_loss(W, X, codes, means)[1], gradient, rtol=1e-12)


def test_distance_logits_leave_out_only_what_all_classes_share():
    W, X, _, means, _ = example(7, 4, 3, 5)
    z, projected_means = X @ W, means @ W
    left_out = -0.5 * np.sum((z[:, None] - projected_means) ** 2, axis=2) - distance_logits(
        z, projected_means
    )
    np.testing.assert_allclose(left_out, np.repeat(left_out[:, :1], 5, axis=1), rtol=1e-12)


def test_moving_samples_and_means_together_changes_no_distance():
    W, X, codes, means, _ = example(7, 4, 3, 5)
    loss, gradient = distance_loss(W, X, codes, means)
    moved_loss, moved_gradient = distance_loss(W, X + 3, codes, means + 3)
    assert moved_loss == pytest.approx(loss, rel=1e-10)
    np.testing.assert_allclose(moved_gradient, gradient, rtol=1e-8)


def test_losses_stay_finite_when_distances_are_huge():
    W, X, codes, means, biases = example(7, 4, 3, 5)
    for scale in (1e3, 1e30):
        loss, gradient = distance_loss(W, scale * X, codes, means)
        assert np.isfinite(loss)
        assert loss > 1
        assert np.all(np.isfinite(gradient))
        assert np.isfinite(dot_loss(scale * W, biases, X, codes, means)[0])


def test_no_class_can_be_told_when_the_metric_is_zero():
    W, X, codes, means, _ = example(7, 4, 3, 5)
    loss, gradient = distance_loss(np.zeros_like(W), X, codes, means)
    assert loss == pytest.approx(math.log(5))
    np.testing.assert_array_equal(gradient, 0)


def test_float32_stays_float32_and_is_close():
    W, X, codes, means, biases = example(7, 4, 3, 5)
    single = [array.astype(np.float32) for array in (W, X, means, biases)]
    loss, gradient = distance_loss(single[0], single[1], codes, single[2])
    assert gradient.dtype == np.float32
    expected_loss, expected_gradient = distance_loss(W, X, codes, means)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-5)
    _, gradient, bias_gradient = dot_loss(single[0], single[3], single[1], codes, single[2])
    assert gradient.dtype == bias_gradient.dtype == np.float32
