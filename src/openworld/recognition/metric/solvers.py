"""Solvers that maximize the likelihood of the metric: the authors' SGD, and a faster one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize_scalar

from openworld.recognition.metric.likelihood import (
    distance_logits,
    distance_loss,
    dot_logits,
    dot_loss,
    mean_loss,
)

Floats = NDArray[np.floating[Any]]
Progress = Callable[[int, int, float], None]

_SGD_BATCH, _SGD_RECORDS = 100, 50
_BATCH, _PATIENCE = 256, 5


@dataclass(frozen=True)
class Problem:
    """Standardized training and held-out samples with their classes.

    `with_biases` selects Eq. 2 instead of Eq. 1.
    """

    X: Floats
    codes: NDArray[np.intp]
    held_out_X: Floats
    held_out_codes: NDArray[np.intp]
    means: Floats
    with_biases: bool

    def loss(self, W: Floats, biases: Floats, X: Floats, codes: NDArray[np.intp]) -> float:
        """Return the mean loss of the given samples."""
        projected, projected_means = X @ W, self.means @ W
        if self.with_biases:
            return mean_loss(dot_logits(projected, projected_means, biases), codes)
        return mean_loss(distance_logits(projected, projected_means), codes)

    def gradients(
        self, W: Floats, biases: Floats, X: Floats, codes: NDArray[np.intp]
    ) -> tuple[float, Floats, Floats]:
        """Return the mean loss of the given samples and its gradients with respect to W and the biases."""
        if self.with_biases:
            return dot_loss(W, biases, X, codes, self.means)
        return (*distance_loss(W, X, codes, self.means), np.zeros_like(biases))

    def judge(self, W: Floats, biases: Floats) -> float:
        """Return the held-out loss, or the training loss if no sample could be held out."""
        if len(self.held_out_codes):
            return self.loss(W, biases, self.held_out_X, self.held_out_codes)
        return self.loss(W, biases, self.X, self.codes)


@dataclass
class Solution:
    """The best metric so far, and the steps, seconds and losses at every evaluation."""

    W: Floats
    biases: Floats
    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    training_loss: list[float] = field(default_factory=list)
    held_out_loss: list[float] = field(default_factory=list)
    started: float = field(default_factory=perf_counter)

    def record(self, step: int, training_loss: float, held_out_loss: float) -> None:
        """Record an evaluation; raise an error if a loss is not finite."""
        if not np.isfinite(training_loss) or not np.isfinite(held_out_loss):
            raise ValueError(
                f"The loss is not finite ({training_loss}) after {step} steps of metric learning: "
                "lower learning_rate, or check for features of very different scale."
            )
        self.steps.append(step)
        self.seconds.append(perf_counter() - self.started)
        self.training_loss.append(training_loss)
        self.held_out_loss.append(held_out_loss)


def authors_sgd(
    problem: Problem,
    n_components: int,
    *,
    n_steps: int,
    learning_rate: float,
    random_state: np.random.RandomState,
    progress: Progress | None,
) -> Solution:
    """Stochastic gradient descent as the authors ran it.

    W starts as 0.1 times standard normal; each step draws 100 samples with replacement; the rate is
    constant. Their softmax uses minus the squared distance, without the factor 1/2 of Eq. 1. That equals
    Eq. 1 for sqrt(2) W, which is returned, so Eq. 1 holds for the result.
    """
    unit = 1.0 if problem.with_biases else np.sqrt(2.0)
    W = 0.1 * random_state.standard_normal((problem.X.shape[1], n_components))
    biases = np.zeros(len(problem.means))
    solution = Solution(unit * W, biases)
    record_every = max(1, n_steps // _SGD_RECORDS)
    for step in range(1, n_steps + 1):
        batch = random_state.randint(len(problem.X), size=_SGD_BATCH)
        loss, gradient, bias_gradient = problem.gradients(
            unit * W, biases, problem.X[batch], problem.codes[batch]
        )
        W -= learning_rate * unit * gradient
        biases -= learning_rate * bias_gradient
        if step % record_every == 0 or step == n_steps or not np.isfinite(loss):
            solution.record(step, loss, problem.judge(unit * W, biases))
            if progress is not None:
                progress(step, n_steps, solution.held_out_loss[-1])
    solution.W, solution.biases = unit * W, biases
    return solution


def discriminant_then_descent(
    problem: Problem,
    n_components: int,
    *,
    n_epochs: int,
    learning_rate: float,
    random_state: np.random.RandomState,
    progress: Progress | None,
) -> Solution:
    """Start from the closed-form discriminant, fit its scale, then run Adam with early stopping.

    The search uses coordinates in which the within-class covariance is the identity. There the loss is well
    conditioned, and the class means span the discriminant directions. Only directions that separate the
    means are optimized; further directions do not change Eq. 1.
    """
    solution = Solution(np.empty(0), np.zeros(len(problem.means)))
    residuals = problem.X - problem.means[problem.codes]
    unwhiten = choose_whitening(problem, residuals.T @ residuals / len(residuals))
    white = Problem(
        problem.X @ unwhiten,
        problem.codes,
        problem.held_out_X @ unwhiten,
        problem.held_out_codes,
        problem.means @ unwhiten,
        problem.with_biases,
    )
    V, others, biases = scaled(white, *directions(white.means, n_components))
    best, step, since_best = white.judge(V, biases), 0, 0
    solution.record(step, white.loss(V, biases, white.X, white.codes), best)
    solution.W, solution.biases = unwhiten @ np.hstack([V, others]), biases.copy()
    adam = Adam([V, biases], learning_rate * float(np.sqrt(np.mean(V**2))))
    for epoch in range(n_epochs if len(problem.held_out_codes) else 0):
        losses = []
        for batch in _batches(len(white.X), _BATCH, random_state):
            loss, *gradients = white.gradients(V, biases, white.X[batch], white.codes[batch])
            adam.step(gradients)
            losses.append(loss)
            step += 1
        solution.record(step, float(np.mean(losses)), white.judge(V, biases))
        if progress is not None:
            progress(epoch + 1, n_epochs, solution.held_out_loss[-1])
        if solution.held_out_loss[-1] < best:
            best, since_best = solution.held_out_loss[-1], 0
            solution.W, solution.biases = unwhiten @ np.hstack([V, others]), biases.copy()
        else:
            since_best += 1
        if since_best == _PATIENCE:
            break
    return solution


def choose_whitening(problem: Problem, covariance: Floats) -> Floats:
    """Return P with ``P' S P = 1`` for the shrunk within-class covariance S with the lowest held-out loss.

    S mixes the within-class covariance with a multiple of the identity. The loss is that of the resulting
    discriminant on held-out samples.
    """
    level = float(np.trace(covariance)) / len(covariance) or 1.0
    best_loss, best = np.inf, np.eye(len(covariance), dtype=covariance.dtype)
    for shrinkage in (0.9, 0.6, 0.3, 0.1, 0.03, 0.01):
        shrunk = (1 - shrinkage) * covariance
        shrunk[np.diag_indices_from(shrunk)] += shrinkage * level
        root = cholesky(shrunk, lower=True, check_finite=False)
        # Two triangular solves give the discriminant of the whitened means in the original coordinates.
        white_means = solve_triangular(root, problem.means.T, lower=True, check_finite=False)
        W = solve_triangular(root, white_means, lower=True, trans="T", check_finite=False)
        loss = _discriminant_loss(problem, W, white_means)
        if loss >= best_loss:
            break
        best_loss, best = loss, root
    return np.asarray(solve_triangular(best, np.eye(len(best), dtype=best.dtype), lower=True, trans="T"))


def _discriminant_loss(problem: Problem, W: Floats, white_means: Floats) -> float:
    """Return the held-out loss of linear discriminant analysis at its best scale."""
    X, codes = problem.held_out_X, problem.held_out_codes
    if not len(codes):
        X, codes = problem.X, problem.codes
    logits = X @ W - np.einsum("ij,ij->j", white_means, white_means) / 2
    return _best_scale(logits, codes)[1]


def _best_scale(logits: Floats, codes: NDArray[np.intp]) -> tuple[float, float]:
    """Return the factor on the logits that minimizes the loss, and that loss."""
    found = minimize_scalar(
        lambda log_scale: mean_loss(np.exp(log_scale) * logits, codes), bounds=(-8.0, 4.0), method="bounded"
    )
    return float(np.exp(found.x)), float(found.fun)


def scaled(problem: Problem, V: Floats, others: Floats) -> tuple[Floats, Floats, Floats]:
    """Scale the directions for the best likelihood under Eq. 1; the biases make Eq. 2 equal to it."""
    X, codes = problem.held_out_X, problem.held_out_codes
    if not len(codes):
        X, codes = problem.X, problem.codes
    projected_means = problem.means @ V
    scale = _best_scale(distance_logits(X @ V, projected_means), codes)[0]
    V, others = scale**0.5 * V, scale**0.5 * others
    projected_means = problem.means @ V
    biases = -np.einsum("ij,ij->i", projected_means, projected_means) / 2
    return V, others, biases if problem.with_biases else np.zeros_like(biases)


def directions(white_means: Floats, n_components: int) -> tuple[Floats, Floats]:
    """Return orthonormal directions of whitened space: those that separate the means, and others.

    The others, beyond the first K - 1, do not change which mean is nearest. They carry the distance from the
    subspace of the means, which helps to detect unknown samples.
    """
    centered = white_means - white_means.mean(axis=0)
    n_separating = min(n_components, len(centered) - 1)
    directions = np.linalg.svd(centered, full_matrices=n_components > n_separating)[2][:n_components].T
    separating, others = directions[:, :n_separating], directions[:, n_separating:]
    return np.ascontiguousarray(separating), np.ascontiguousarray(others)


def _batches(n: int, size: int, random_state: np.random.RandomState) -> Iterator[NDArray[np.intp]]:
    order = random_state.permutation(n)
    for start in range(0, n, size):
        yield order[start : start + size]


class Adam:
    """Adam optimizer (Kingma and Ba 2015) for a list of arrays, which it updates in place."""

    def __init__(self, arrays: list[Floats], learning_rate: float) -> None:
        self.arrays = arrays
        self.learning_rate = learning_rate
        self.first = [np.zeros_like(array) for array in arrays]
        self.second = [np.zeros_like(array) for array in arrays]
        self.steps = 0

    def step(self, gradients: list[Floats], decay: float = 0.9, decay2: float = 0.999) -> None:
        """Move the arrays against the gradients."""
        self.steps += 1
        rate = self.learning_rate * np.sqrt(1 - decay2**self.steps) / (1 - decay**self.steps)
        for array, gradient, first, second in zip(
            self.arrays, gradients, self.first, self.second, strict=True
        ):
            first += (1 - decay) * (gradient - first)
            second += (1 - decay2) * (gradient**2 - second)
            array -= (rate * first / (np.sqrt(second) + 1e-8)).astype(array.dtype)
