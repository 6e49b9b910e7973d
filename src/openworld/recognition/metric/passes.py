"""Out-of-core learning of NCMMetric: each pass over the data sums statistics or gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.metric.likelihood import distance_loss, dot_loss
from openworld.recognition.metric.ncm import NCMMetric
from openworld.recognition.metric.solvers import (
    Problem,
    Solution,
    choose_whitening,
    directions,
    scaled,
)
from openworld.recognition.validation import as_array, as_float

Floats = NDArray[np.floating[Any]]

_LOGITS_AT_ONCE = 1 << 22
_PASSES = 20
_PATIENCE = 5


@dataclass(frozen=True)
class SearchPoint:
    """The point of the search at which a gradient is computed: everything it needs except the samples.

    Attributes
    ----------
    classes : array of shape (K,)
        Sorted.
    mean : array of shape (D,)
    into : array of shape (D, D)
        Maps ``x - mean`` to standardized and whitened coordinates.
    means : array of shape (K, D)
        The class means in whitened coordinates.
    V : array of shape (D, m)
        The metric in whitened coordinates.
    biases : array of shape (K,) or None
        The biases s_c of Eq. 2; None for Eq. 1.
    """

    classes: NDArray[Any]
    mean: Floats
    into: Floats
    means: Floats
    V: Floats
    biases: Floats | None


@dataclass(frozen=True)
class Gradient:
    """Loss and gradients summed over samples. The gradients of parts add up to that of the whole."""

    n_samples: int
    loss: float
    V: Floats
    biases: Floats

    def __add__(self, other: Gradient) -> Gradient:
        return Gradient(
            self.n_samples + other.n_samples,
            self.loss + other.loss,
            self.V + other.V,
            self.biases + other.biases,
        )

    @classmethod
    def of(cls, point: SearchPoint, X: NDArray[Any], labels: NDArray[Any]) -> Gradient:
        """Sum over the given samples, leaving out samples of classes that the search does not know."""
        codes = np.minimum(np.searchsorted(point.classes, labels), len(point.classes) - 1)
        known = point.classes[codes] == labels
        X, codes = as_float(X[known]), codes[known]
        dtype = X.dtype
        into, means, V = (part.astype(dtype) for part in (point.into, point.means, point.V))
        biases = np.zeros(len(means), dtype) if point.biases is None else point.biases.astype(dtype)
        total = cls(0, 0.0, np.zeros_like(point.V), np.zeros(len(means)))
        step = max(16, _LOGITS_AT_ONCE // len(means))
        for start in range(0, len(X), step):
            chunk = slice(start, start + step)
            white = (X[chunk] - point.mean.astype(dtype)) @ into
            if point.biases is None:
                loss, by_V = distance_loss(V, white, codes[chunk], means)
                by_biases = np.zeros_like(biases)
            else:
                loss, by_V, by_biases = dot_loss(V, biases, white, codes[chunk], means)
            n = len(white)
            total += cls(n, n * loss, n * by_V.astype(np.float64), n * by_biases.astype(np.float64))
        return total


class Passes(Protocol):
    """A source of samples that can be read any number of times."""

    def statistics(self) -> ClassStatistics:
        """Return the statistics of the training samples, with pooled scatter."""
        ...

    def held_out(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a bounded number of held-out samples and their labels."""
        ...

    def gradient(self, point: SearchPoint) -> Gradient:
        """Return loss and gradient summed over the training samples."""
        ...


def fit_in_passes(metric: NCMMetric, passes: Passes) -> NCMMetric:
    """Fit a metric without holding all samples in memory.

    The first pass gives counts, means and scatter, and from these the mean and standard deviation of the
    features and the closed-form discriminant that `solver="discriminant"` starts from. Every further pass
    gives the exact gradient over all samples for L-BFGS, until the loss on the held-out samples stops
    falling. Only sums are taken, so the order and the batches of the samples do not matter: a file sorted by
    class gives the same result as a shuffled one.

    Parameters
    ----------
    metric : NCMMetric
        With `solver="discriminant"`. `max_iter` is the number of L-BFGS iterations, by default 20, each of
        about one pass; `learning_rate` is not used.
    passes : Passes

    Returns
    -------
    metric : NCMMetric
        The given metric, fitted.
    """
    metric._validate_params()
    if metric.solver != "discriminant":
        raise ValueError('Out-of-core learning of a metric needs solver="discriminant".')
    statistics = passes.statistics()
    if len(statistics) < 2:
        raise ValueError("Learning a metric needs at least 2 classes; got 1 class.")
    n_features = statistics.n_features or 0
    n_components = min(n_features, 512) if metric.n_components is None else metric.n_components
    if n_components > n_features:
        raise ValueError(
            f"n_components={n_components} must be between 1 and the number of features, {n_features}."
        )
    classes = as_array(statistics.labels)
    order = np.argsort(classes, kind="stable")
    classes, means = classes[order], statistics.means[order]
    n_samples = float(statistics.counts.sum())
    mean, scale = _mean_and_scale(statistics, standardize=metric.standardize)
    covariance = statistics.scatter / n_samples / np.outer(scale, scale)
    X, labels = passes.held_out()
    known = np.isin(labels, classes)
    X, codes = (X[known] - mean) / scale, np.searchsorted(classes, labels[known])
    if not len(codes):
        raise ValueError("No sample could be held out to validate the metric. Give more samples.")
    problem = Problem(X, codes, X, codes, (means - mean) / scale, metric.form == "dot")
    unwhiten = choose_whitening(problem, covariance)
    white = Problem(X @ unwhiten, codes, X @ unwhiten, codes, problem.means @ unwhiten, problem.with_biases)
    solution = _descend(metric, white, n_components, passes, classes, mean, unwhiten / scale[:, np.newaxis])
    metric.classes_, metric.n_features_in_ = classes, n_features
    metric.set_fitted(mean, scale, unwhiten @ solution.W)
    metric.biases_ = np.asarray(solution.biases, dtype=np.float64)
    metric.loss_curve_, metric.held_out_loss_curve_ = solution.training_loss, solution.held_out_loss
    metric.steps_curve_, metric.seconds_curve_ = solution.steps, solution.seconds
    metric.n_iter_, metric.seconds_ = max(solution.steps[-1], 1), solution.seconds[-1]
    return metric


def _descend(
    metric: NCMMetric,
    white: Problem,
    n_components: int,
    passes: Passes,
    classes: NDArray[Any],
    mean: Floats,
    into: Floats,
) -> Solution:
    """Run L-BFGS from the discriminant, and return the metric with the lowest held-out loss."""
    V, others, biases = scaled(white, *directions(white.means, n_components))
    solution = Solution(np.hstack([V, others]), biases)
    last: dict[str, float] = {}
    n_steps = metric.max_iter or _PASSES

    def unpacked(at: Floats) -> tuple[Floats, Floats]:
        parts: tuple[Floats, Floats] = at[: V.size].reshape(V.shape), biases
        return (parts[0], at[V.size :]) if white.with_biases else parts

    def whole(at: Floats) -> tuple[float, Floats]:
        V, biases = unpacked(at)
        point = SearchPoint(classes, mean, into, white.means, V, biases if white.with_biases else None)
        found = passes.gradient(point)
        last["loss"] = found.loss / found.n_samples
        flat = [found.V.ravel(), *([found.biases] if white.with_biases else [])]
        return last["loss"], np.concatenate(flat) / found.n_samples

    def evaluate(at: Floats) -> None:
        V, biases = unpacked(at)
        held_out_loss = white.judge(V, biases)
        if not solution.held_out_loss or held_out_loss < min(solution.held_out_loss):
            solution.W, solution.biases = np.hstack([V, others]), biases.copy()
        solution.record(len(solution.steps), last["loss"], held_out_loss)
        if metric.callback is not None:
            metric.callback(len(solution.steps) - 1, n_steps, held_out_loss)
        if min(solution.held_out_loss) < min(solution.held_out_loss[-_PATIENCE:]):
            raise StopIteration

    start = np.concatenate([V.ravel(), *([biases] if white.with_biases else [])])
    first = whole(start)
    evaluate(start)
    options: Any = {"callback": evaluate, "options": {"maxiter": n_steps}}
    # L-BFGS evaluates the start again: reuse the value, as a pass is expensive.
    function: Any = lambda at: first if np.array_equal(at, start) else whole(at)  # noqa: E731
    minimize(function, start, jac=True, method="L-BFGS-B", **options)
    return solution


def _mean_and_scale(statistics: ClassStatistics, *, standardize: bool) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of each feature over all samples, computed from sums."""
    counts, means = statistics.counts, statistics.means
    mean = counts @ means / counts.sum()
    if not standardize:
        return mean, np.ones_like(mean)
    variance = (np.diag(statistics.scatter) + counts @ (means - mean) ** 2) / counts.sum()
    scale = np.sqrt(np.maximum(variance, 0))
    constant = scale <= 10 * np.finfo(np.float32).eps * np.abs(mean)
    return mean, np.where(constant, 1.0, scale)
