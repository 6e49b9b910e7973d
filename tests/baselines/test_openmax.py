"""OpenMax against libMR, pytorch-ood and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openworld.baselines.logistic_regression import MaximumLogit
from openworld.baselines.openmax import ActivationTails, OpenMax, openmax_probabilities
from openworld.recognition import CrossClassValidation, KnownRecall


def activations() -> tuple[Any, Any]:
    """60 activation vectors of each of three classes, all classified right."""
    codes = np.repeat(np.arange(3), 60)
    return np.sin(np.arange(1, 541) ** 1.5).reshape(180, 3) + 4 * np.eye(3)[codes], codes


QUERIES = np.array([[4.5, 0.3, -0.2], [3.0, 2.5, 0.0], [-0.5, 5.9, 0.4], [0.2, 1.0, 3.0], [7.0, 0.0, -1.0]])


def test_tails_against_libmr() -> None:
    """`libmr.MR.fit_high` with a tail of 20, version 0.1.9: scale, shape, smallest of the tail."""
    expected = [
        (1.211002246630104, 9.226058986289372, 1.3557734257202498),
        (1.2429097810635266, 8.399986593249357, 1.3203259683211546),
        (1.2320735236050357, 10.728004697378541, 1.2450059160653142),
    ]
    tails = ActivationTails.of(*activations(), tail_fraction=1 / 3)
    found = np.column_stack([tails.weibulls.scale, tails.weibulls.shape, tails.weibulls.location + 1])
    np.testing.assert_allclose(found, expected, rtol=1e-4)  # libmr stops at 1e-5


def test_probabilities_against_pytorch_ood() -> None:
    """`pytorch_ood.detector.openmax.numpy.OpenMax` 0.4.0, alpha = 3, with libmr 0.1.9 as its Weibull."""
    expected = [
        [0.0122679078, 0.9664700686, 0.0118656997, 0.0093963238],
        [0.9611276757, 0.0090380242, 0.0207962758, 0.0090380242],
        [0.9929626006, 0.0017636267, 0.0024613705, 0.0028124022],
        [0.2246436065, 0.0663632884, 0.0810563035, 0.6279368017],
        [0.9968115392, 0.0012685761, 0.0012685761, 0.0006513087],
    ]
    tails = ActivationTails.of(*activations(), tail_fraction=1 / 3)
    found = openmax_probabilities(QUERIES, tails.outlying(QUERIES), alpha=3)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("alpha", [1, 2, 3, 10])
def test_algorithm_2_one_sample_at_a_time(alpha: int) -> None:
    outlying = np.abs(np.sin(np.arange(15) ** 1.5)).reshape(5, 3)
    found = openmax_probabilities(QUERIES, outlying, alpha)
    for v, w, probabilities in zip(QUERIES, outlying, found, strict=True):
        weights = np.ones(3)
        for i, c in enumerate(np.argsort(-v)[: min(alpha, 3)], start=1):
            weights[c] = 1 - (min(alpha, 3) - i + 1) / min(alpha, 3) * w[c]
        revised = np.r_[np.sum(v * (1 - weights)), v * weights]
        np.testing.assert_allclose(probabilities, np.exp(revised) / np.exp(revised).sum(), rtol=1e-12)


def test_small_classes_share_one_tail() -> None:
    vectors, codes = activations()
    vectors, codes = np.r_[vectors, [[0.1, 0.2, 9.0]]], np.r_[codes, 2]
    some = np.r_[0:40, 60:65, 180]  # the third class has one sample
    tails = ActivationTails.of(vectors[some], codes[some], tail_fraction=0.2)
    assert len(set(tails.weibulls.shape)) == len(set(tails.weibulls.location)) == 1
    np.testing.assert_allclose(tails.means[2], [0.1, 0.2, 9.0])
    means = np.array([vectors[:40].mean(0), vectors[60:65].mean(0), [0.1, 0.2, 9.0]])
    distances = np.sort(np.linalg.norm(vectors[some] - means[codes[some]], axis=1))
    assert tails.weibulls.location[0] == pytest.approx(distances[-10] - 1)  # a fifth of 46, rounded up


def test_only_samples_classified_right_count() -> None:
    vectors, codes = activations()
    wrong = np.array([[0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])
    tails = ActivationTails.of(np.r_[vectors, wrong], np.r_[codes, 0, 0], tail_fraction=1 / 3)
    np.testing.assert_allclose(tails.means[0], vectors[:60].mean(axis=0))
    never_right = ActivationTails.of(np.r_[vectors[60:], wrong], np.r_[codes[60:], 0, 0], tail_fraction=0.02)
    np.testing.assert_allclose(never_right.means[0], wrong.mean(axis=0))


def test_accepted_if_unknown_does_not_win_and_the_threshold_is_passed() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    shown = y < 5
    model = OpenMax(threshold=0.6).fit(X[shown], y[shown])
    logits: Any = MaximumLogit(threshold=0.0).fit(X[shown], y[shown]).decision_function(X)
    scorer: Any = model._scorer
    probabilities = openmax_probabilities(logits, scorer.tails.outlying(logits), alpha=3)
    winner = probabilities.argmax(axis=1)
    expected = np.where((winner > 0) & (probabilities.max(axis=1) > 0.6), winner - 1, -1)
    assert np.array_equal(model.predict(X), expected)
    assert {-1, 0, 1, 2, 3, 4} == set(expected.tolist())


def test_unknown_wins_whatever_the_threshold_found() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 5][:400], y[y < 5][:400]
    assert OpenMax(threshold=CrossClassValidation(KnownRecall(1.0))).fit(X, y).threshold_ == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_and_single_samples(dtype: Any) -> None:
    vectors, codes = activations()
    X = np.hstack([vectors, np.cos(vectors)]).astype(dtype)
    two = codes < 2
    model = OpenMax().fit(X[two], codes[two])
    assert np.mean(model.predict(X[two]) == codes[two]) > 0.8
    model.partial_fit(np.array([[0, 0, 50, 1, 1, 1]], dtype=dtype), [7])
    assert model.classes_.tolist() == [0, 1, 7]
    assert np.all(np.isfinite(model.decision_function(X)))


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"tail_fraction": 0.0}, {"tail_fraction": 1.5}])
def test_wrong_parameters_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="parameter of OpenMax"):
        OpenMax(**wrong).fit(*activations())


def test_digits() -> None:
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[::2], y[::2], X[1::2], y[1::2]
    answers = OpenMax().fit(X[y < 8], y[y < 8]).predict(X_test)
    assert np.mean(answers[y_test < 8] == y_test[y_test < 8]) > 0.7
    assert np.mean(answers[y_test >= 8] == -1) > 0.7
