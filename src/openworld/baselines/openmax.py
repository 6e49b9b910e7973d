"""OpenMax: class activations revised by their distance to the mean activation of the class."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Scorer
from openworld.baselines.logistic_regression import MaximumLogit
from openworld.baselines.weibull import Weibull, fit_upper_tail
from openworld.index import ExactIndex
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_PAPERS_TAIL = 20
_LEAST_TAIL = 5


@dataclass(frozen=True)
class ActivationTails:
    """Mean activation vector of each class, and the Weibull of its largest distances (Algorithm 1).

    Attributes
    ----------
    means : array of shape (K, K)
    weibulls : Weibull
        Shape, scale and location of each class: the paper's kappa, lambda and tau.
    """

    means: Floats
    weibulls: Weibull

    @classmethod
    def of(cls, activations: Floats, codes: Codes, tail_fraction: float) -> ActivationTails:
        """Fit to the activations of training samples that are classified right."""
        n_classes = activations.shape[1]
        right = activations.argmax(axis=1) == codes
        right |= np.bincount(codes, right, n_classes)[codes] == 0  # a class without correct samples keeps all
        activations, codes = activations[right], codes[right]
        counts = np.bincount(codes, minlength=n_classes)
        means = np.zeros((n_classes, n_classes))
        np.add.at(means, codes, activations)
        means /= counts[:, np.newaxis]
        distances = np.linalg.norm(activations - means[codes], axis=1)
        pooled = _tail(distances, tail_fraction)
        tails = np.full((n_classes, max(len(pooled), int(counts.max()))), np.nan)
        for code in range(n_classes):
            own = tail_fraction * counts[code] >= _PAPERS_TAIL
            tail = _tail(distances[codes == code], tail_fraction) if own else pooled
            tails[code, : len(tail)] = tail
        return cls(means, fit_upper_tail(tails))

    def outlying(self, activations: Floats) -> Floats:
        """Return the probability that each activation vector is an outlier of each class, shape (n, K)."""
        return self.weibulls.cdf(np.sqrt(ExactIndex(self.means).squared_distances(activations)))


def _tail(distances: Floats, fraction: float) -> Floats:
    """Return the largest distances."""
    size = max(int(np.ceil(fraction * len(distances))), _LEAST_TAIL)
    return np.sort(distances)[-size:]


def openmax_probabilities(activations: Floats, outlying: Floats, alpha: int) -> Floats:
    """Return the probabilities of unknown (first column) and of each class, shape (n, 1 + K).

    Algorithm 2: of the alpha largest activations the one of rank i = 1, 2, ... loses the share
    ``(alpha - i + 1) / alpha`` of its outlier probability, and unknown receives all that is lost.
    """
    alpha = min(alpha, activations.shape[1])
    ranked = np.argsort(-activations, axis=1, kind="stable")[:, :alpha]
    shares = np.zeros_like(activations)
    np.put_along_axis(shares, ranked, (alpha - np.arange(alpha))[np.newaxis] / alpha, axis=1)
    lost = activations * outlying * shares
    revised = np.column_stack([lost.sum(axis=1), activations - lost])
    return np.asarray(softmax(revised, axis=1))


@dataclass(frozen=True)
class _OpenMaxScore:
    activations: Scorer
    tails: ActivationTails
    alpha: int

    def __call__(self, samples: NDArray[Any]) -> Floats:
        activations = self.activations(samples)
        probabilities = openmax_probabilities(activations, self.tails.outlying(activations), self.alpha)
        unknown, classes = probabilities[:, :1], probabilities[:, 1:]
        known_wins = classes.max(axis=1, keepdims=True) > unknown
        return np.where(known_wins, classes, classes - unknown)


class OpenMax(MaximumLogit):
    """OpenMax, with the logits of the logistic regression of `MaximumLogit` as activations.

    Bendale & Boult, "Towards open set deep networks", CVPR 2016: mean activation vectors of the samples
    classified right and a Weibull on their largest distances, moved as libMR moves them (Algorithm 1);
    revised activations and the probability of unknown (Algorithm 2). Distances are Euclidean. The
    formula of Algorithm 2 for the weights is read as the authors' code computes it, with the Weibull's
    distribution function.

    A sample is accepted if a class is more probable than unknown *and* its probability is above the
    threshold. So the score of a class is its probability where some class wins, and its probability
    minus that of unknown, at most 0, where unknown wins; the threshold is never below 0.

    The paper fits a Weibull to the 20 largest of 1,300 distances per class. Where `tail_fraction` of a
    class is fewer than 20 distances, the distances of all classes are pooled: the 20 largest of 30 are not
    a tail, and a Weibull fitted to them calls half of the class outliers. `partial_fit` retrains
    everything. The logits are constant along directions the regression ignores, so samples infinitely far
    away can be accepted.

    Parameters
    ----------
    alpha : int, default=3
        Number of the largest activations to revise; the paper's 10 is for 1,000 classes.
    tail_fraction : float, default=0.02
        Share of the distances that a Weibull is fitted to.
    threshold, unknown_label
        As in `Baseline`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MaximumLogit._parameter_constraints,
        "alpha": [Interval(Integral, 1, None, closed="left")],
        "tail_fraction": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        *,
        alpha: int = 3,
        tail_fraction: float = 0.02,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.alpha = alpha
        self.tail_fraction = tail_fraction

    def _train(self, X: NDArray[Any], codes: Codes, n_classes: int) -> Scorer:
        activations = super()._train(X, codes, n_classes)
        if n_classes == 1:
            return activations
        tails = ActivationTails.of(activations(X), codes, self.tail_fraction)
        return _OpenMaxScore(activations, tails, self.alpha)

    def _find_threshold(self, X: NDArray[Any], codes: Codes) -> float:
        return max(super()._find_threshold(X, codes), 0.0)
