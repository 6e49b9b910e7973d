"""OpenMax: a logistic regression whose activations are revised by how far they are from the class's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.baselines.base import Scorer
from openworld.baselines.extreme_value_machine import fit_weibulls
from openworld.baselines.logistic_regression import MaximumLogit
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]

_SHIFT = 1.0  # libMR puts the smallest distance of a tail at 1


@dataclass(frozen=True)
class ActivationTails:
    """Mean activation vector of every class and the Weibull of its largest distances (Algorithm 1).

    Attributes
    ----------
    means : array of shape (K, K)
    origins, shapes, scales : arrays of shape (K,)
        ``(tau_c, kappa_c, lambda_c)``: shift, shape and scale.
    """

    means: Floats
    origins: Floats
    shapes: Floats
    scales: Floats

    @classmethod
    def of(
        cls, activations: Floats, codes: NDArray[np.intp], tail_size: int, tail_fraction: float
    ) -> ActivationTails:
        """Fit to the activations of the training samples that are classified right."""
        n_classes = activations.shape[1]
        means = np.empty((n_classes, n_classes))
        tails = np.full((n_classes, tail_size), np.inf)
        right = activations.argmax(axis=1) == codes
        for code in range(n_classes):
            of_class = codes == code
            some = of_class & right if np.any(of_class & right) else of_class
            means[code] = activations[some].mean(axis=0)
            distances = np.sort(np.linalg.norm(activations[some] - means[code], axis=1))
            size = min(tail_size, int(np.ceil(tail_fraction * len(distances))))
            tails[code, :size] = distances[-size:]
        origins = tails.min(axis=1) - _SHIFT
        shapes, scales = fit_weibulls(tails - origins[:, np.newaxis])
        return cls(means, origins, shapes, scales)

    def outlying(self, activations: Floats) -> Floats:
        """Return how likely each activation vector is an outlier of each class, shape (n, K)."""
        squared = (
            np.einsum("ij,ij->i", activations, activations)[:, np.newaxis]
            - 2 * activations @ self.means.T
            + np.einsum("ij,ij->i", self.means, self.means)
        )
        beyond = np.maximum(np.sqrt(np.maximum(squared, 0)) - self.origins, 0) / self.scales
        with np.errstate(divide="ignore"):
            exponent = np.minimum(self.shapes * np.log(beyond), 700.0)
        return np.asarray(-np.expm1(-np.exp(exponent)))


def revised_probabilities(activations: Floats, outlying: Floats, alpha: int) -> Floats:
    """Return the OpenMax probabilities of unknown (column 0) and of each class, shape (n, 1 + K)."""
    n_classes = activations.shape[1]
    alpha = min(alpha, n_classes)
    ranked = np.argsort(-activations, axis=1, kind="stable")[:, :alpha]
    rank_weights = np.zeros_like(activations)
    np.put_along_axis(rank_weights, ranked, (alpha - np.arange(alpha)) / alpha, axis=1)
    taken = activations * outlying * rank_weights
    revised = np.column_stack([taken.sum(axis=1), activations - taken])
    revised = np.exp(revised - revised.max(axis=1, keepdims=True))
    return np.asarray(revised / revised.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class _OpenMaxScore:
    activations: Callable[[NDArray[Any]], Floats]
    tails: ActivationTails
    alpha: int

    def __call__(self, samples: NDArray[Any]) -> Floats:
        activations = self.activations(samples)
        probabilities = revised_probabilities(activations, self.tails.outlying(activations), self.alpha)
        unknown, classes = probabilities[:, :1], probabilities[:, 1:]
        return np.where(unknown < classes.max(axis=1, keepdims=True), classes, classes - unknown)


class OpenMax(MaximumLogit):
    """OpenMax on the logits of a logistic regression, retrained on everything."""

    def __init__(
        self,
        *,
        alpha: int = 3,
        tail_size: int = 20,
        tail_fraction: float = 0.25,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.alpha = alpha
        self.tail_size = tail_size
        self.tail_fraction = tail_fraction

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        activations = super()._train(X, codes, n_classes)
        if n_classes == 1:
            return activations
        tails = ActivationTails.of(activations(X), codes, self.tail_size, self.tail_fraction)
        return _OpenMaxScore(activations, tails, self.alpha)

    def _find_threshold(self, X: NDArray[Any], codes: NDArray[np.intp]) -> float:
        return max(super()._find_threshold(X, codes), 0.0)
