"""The score of a class: similarity to its mean, less its tightness, less a share of the runner-up's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from openworld.recognition.adaptive.held_out import Products

Doubles = NDArray[np.float64]
Codes = NDArray[np.intp]

PSEUDO_SAMPLES = 15  # of the typical tightness, in the tightness of every class
_NOISE_UNDONE = 6.0  # noise of a sample, over the length of a class mean, at which half is undone


@dataclass(frozen=True)
class ScoreCalibration:
    """What the score of a class is made of, its threshold and its probability.

    The similarity of a sample x to the mean m of a class of n samples, in the whitened space, is

    - angular: ``cos(x, m) f(n)``. The mean of n samples is longer by noise, so that its cosines shrink by the
      attenuation ``a(n) = (1 + noise / n)^(-1/2)``. It is undone, the less the more noise there is: by
      ``a(n)^-g`` with ``g = 1 / (1 + noise / 6)``. The noise is amplified as well, and takes samples of other
      classes: half of it, ``f = a(n)^(-g/2)``, is undone when a class is named, the rest when it is accepted.
    - by distance: ``-|x - m| sqrt(n / (n + 1) / L)``, which is about -1 for the samples of the class,
      however few it has.

    The score is ``s = similarity - weight * tightness``, with the similarity of the class's own samples as
    its tightness. What is compared with the threshold is ``s - runner_up * s' - strictness * penalty`` with
    the largest score s' of the other classes and the penalty, ``weight * tightness``, of the class with the
    largest score, whose similarity counts f times if it is angular and positive: tightness and few samples
    tell less about which class is the right one than about whether any is. Without a runner-up the score
    itself is compared, and ``f = a(n)^-g``.

    Attributes
    ----------
    by_distance : bool
    weight, runner_up, strictness : float
    noise : float
        Mean squared deviation of a sample from its class mean, over the mean squared length of a class mean.
    typical : float
        The tightness of a typical class.
    threshold : float
        From which a sample is accepted.
    slope, intercept : float
        Of the logistic curve that turns what is compared with the threshold into a probability.
    quality : float
        OSCR area promised: how often a known sample is named right and above an unknown one.
    error : float
        Open-world error promised at the threshold.
    """

    by_distance: bool
    weight: float
    runner_up: float
    noise: float
    typical: float
    threshold: float = 0.0
    slope: float = 1.0
    intercept: float = 0.0
    quality: float = float("nan")
    error: float = float("nan")
    strictness: float = 0.0

    def similarities(self, products: Products, n_dimensions: int) -> Doubles:
        """Return the similarity of every sample and class, shape (n, K)."""
        mixed, samples, means, counts, left_out, left = products
        factors = self.factors(counts, n_dimensions)
        if left_out is not None and left is not None:
            factors = np.broadcast_to(factors, mixed.shape).copy()
            factors[np.arange(len(mixed)), left_out] = self.factors(left, n_dimensions)
        if self.by_distance:
            return np.asarray(-np.sqrt(np.maximum(samples - 2 * mixed + means, 0) * factors))
        lengths = np.sqrt(np.maximum(samples * means, np.finfo(np.float64).tiny))
        return np.asarray(mixed / lengths * factors)

    def factors(self, counts: NDArray[Any], n_dimensions: int) -> Doubles:
        """Return what the number of samples of a class does to its cosines or squared distances."""
        if self.by_distance:
            return np.asarray(counts / ((counts + 1) * n_dimensions))
        undone = 1 / (1 + self.noise / _NOISE_UNDONE)
        return np.asarray((1 + self.noise / counts) ** (undone / (4 if self.runner_up else 2)))

    def penalties(self, own: Doubles, codes: Codes, n_classes: int) -> Doubles:
        """Return what the tightness of each class takes off, from similarities of its own samples.

        A class of few samples is taken to be about as tight as a typical one.
        """
        sums = np.bincount(codes, own, minlength=n_classes) + PSEUDO_SAMPLES * self.typical
        return np.asarray(self.weight * sums / (np.bincount(codes, minlength=n_classes) + PSEUDO_SAMPLES))

    def compared(
        self, first: NDArray[Any], second: NDArray[Any], penalties: NDArray[Any], factors: NDArray[Any]
    ) -> NDArray[Any]:
        """Return what is compared with the threshold: of the class with the largest score, its score, the
        second largest one, and its penalty and factor.
        """
        if not self.runner_up:
            return first
        compared = first - self.runner_up * second - self.strictness * penalties
        if not self.by_distance:
            compared += (factors - 1) * np.maximum(first + penalties, 0)
        return np.asarray(compared, first.dtype)

    def probability(self, compared: NDArray[Any]) -> Doubles:
        """Return the calibrated probability that a class is the right one, from what is compared."""
        return np.asarray(expit(self.slope * compared.astype(np.float64) + self.intercept))


def two_largest(scores: NDArray[Any]) -> tuple[Codes, NDArray[Any], NDArray[Any]]:
    """Return the position of the largest value of each row, that value, and the second largest."""
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    first = scores[rows, best]
    scores[rows, best] = -np.inf
    second = scores.max(axis=1)
    scores[rows, best] = first
    return best, first, second
