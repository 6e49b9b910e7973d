"""The likelihood that the metric maximizes: Eq. 1 (distances) and Eq. 2 (dot products with biases)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

Floats = NDArray[np.floating[Any]]


def distance_logits(projected: Floats, projected_means: Floats) -> Floats:
    """Return the exponents of Eq. 1, ``-|W'x - W'mu_c|^2 / 2``, without the term shared by all classes."""
    squared_norms = np.einsum("ij,ij->i", projected_means, projected_means)
    return np.asarray(projected @ projected_means.T - squared_norms / 2)


def dot_logits(projected: Floats, projected_means: Floats, biases: Floats) -> Floats:
    """Return the exponents of Eq. 2, ``x'WW'mu_c + s_c``."""
    return np.asarray(projected @ projected_means.T + biases)


def mean_loss(logits: Floats, codes: NDArray[np.intp]) -> float:
    """Return the mean of ``-ln p(y_i | x_i)``."""
    return -float(log_softmax(logits, axis=-1)[np.arange(len(codes)), codes].mean(dtype=np.float64))


def _loss_and_residuals(logits: Floats, codes: NDArray[np.intp]) -> tuple[float, Floats]:
    """Return the mean loss and its derivative with respect to the logits, ``(p - [y = c]) / n``."""
    log_p = log_softmax(logits, axis=-1)
    rows = np.arange(len(codes))
    loss = -float(log_p[rows, codes].mean(dtype=np.float64))
    residuals = np.exp(log_p)
    residuals[rows, codes] -= 1
    residuals /= len(codes)
    return loss, residuals


def distance_loss(W: Floats, X: Floats, codes: NDArray[np.intp], means: Floats) -> tuple[float, Floats]:
    """Return the mean loss under Eq. 1 and its gradient with respect to W.

    The gradient is ``1/n sum_i sum_c ([y_i = c] - p(c|x_i)) (x_i - mu_c)(x_i - mu_c)' W``. The first factor
    sums to zero over c, so the term in ``x_i x_i'`` vanishes and matrix products are sufficient.

    Parameters
    ----------
    W : array of shape (D, m)
    X : array of shape (n, D)
    codes : array of shape (n,)
        The class of each sample, as a row of `means`.
    means : array of shape (K, D)
    """
    projected, projected_means = X @ W, means @ W
    loss, residuals = _loss_and_residuals(distance_logits(projected, projected_means), codes)
    shared = residuals.T @ projected - residuals.sum(axis=0)[:, np.newaxis] * projected_means
    return loss, np.asarray(X.T @ (residuals @ projected_means) + means.T @ shared)


def dot_loss(
    W: Floats, biases: Floats, X: Floats, codes: NDArray[np.intp], means: Floats
) -> tuple[float, Floats, Floats]:
    """Return the mean loss under Eq. 2 and its gradients with respect to W and the biases s."""
    projected, projected_means = X @ W, means @ W
    loss, residuals = _loss_and_residuals(dot_logits(projected, projected_means, biases), codes)
    gradient = X.T @ (residuals @ projected_means) + means.T @ (residuals.T @ projected)
    return loss, np.asarray(gradient), np.asarray(residuals.sum(axis=0))
