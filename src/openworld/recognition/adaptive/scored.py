"""What held-out samples score, as known and as unknown ones, and the threshold that follows from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.special import logit

from openworld.recognition.threshold import Objective, best_threshold

Doubles = NDArray[np.float64]
Codes = NDArray[np.intp]

N_HALVES = 32
FEWEST_UNKNOWNS = 20  # known unknowns from which they weigh as much as the classes that play unknown
MARGIN = 0.5  # deviations of the known scores, see average_threshold
_SLACK = 0.15  # error, over the number of classes, that is as good as none
_RECALL_OF_FEW = 0.93


class Scored(NamedTuple):
    """What held-out samples score, as known and as unknown samples.

    Attributes
    ----------
    known, unknown : arrays of shape (n,)
        What is compared with the threshold.
    right : bool array of shape (n,)
        Whether the known sample is named right.
    given : array of shape (m,)
        The same of known unknowns: samples that a person said are of no class.
    """

    known: Doubles
    right: NDArray[np.bool_]
    unknown: Doubles
    given: Doubles = np.empty(0)

    def all_unknown(self, part: NDArray[np.bool_] | slice = slice(None)) -> Doubles:
        """Return the scores of a part of the unknown samples, and of known unknowns so often repeated that
        20 or more of them weigh as much.
        """
        unknown = self.unknown[part]
        if not len(self.given):
            return unknown
        times = max(1, round(len(unknown) / max(len(self.given), FEWEST_UNKNOWNS)))
        return np.concatenate([unknown, np.tile(self.given, times)])

    def error(self, threshold: float, part: NDArray[np.bool_] | slice = slice(None)) -> float:
        """Return the open-world error (Eq. 9) of a part of the samples."""
        missed = 1 - np.mean(self.right[part] & (self.known[part] > threshold))
        return float(missed + np.mean(self.all_unknown(part) > threshold))


def average_threshold(
    scored: Scored, codes: Codes, objective: Objective, margin: float = MARGIN
) -> tuple[float, float]:
    """Return the average of the best thresholds of balanced halves of the classes (McCarthy, 1969).

    The paper averages over folds of the classes; the best threshold of one set of classes varies much.
    With few classes the ones that play unknown may all be far away, and any threshold in a wide gap looks
    equally good. There a threshold is not to be much lower than the highest one that looks nearly as good.

    The second number is the optimism: how much the error of a threshold is larger on all samples than on
    the half that it was chosen on.
    """
    known, right = scored.known, scored.right
    _, of_class = np.unique(codes, return_inverse=True)
    means = np.bincount(of_class, known) / np.bincount(of_class)
    ranks = np.argsort(np.argsort(means))  # the names of the classes play no part
    halves = hadamard(N_HALVES)[:, 1 + ranks[of_class] % (N_HALVES - 1)] > 0
    halves = halves[halves.any(axis=1)]

    def best_of_halves(slack: float) -> list[float]:
        return [
            -best_threshold(-known[half], -scored.all_unknown(half), objective, right[half], slack=slack)[0]
            for half in halves
        ]

    thresholds = best_of_halves(0.0)
    average = float(np.mean(thresholds))
    pairs = zip(thresholds, halves, strict=True)
    optimism = float(np.mean([scored.error(best) - scored.error(best, half) for best, half in pairs]))
    if not getattr(objective, "named_right", False) or not right.any():
        return average, optimism
    strict = float(np.mean(best_of_halves(_SLACK / len(means)))) - margin * _deviation(known[right])
    return max(average, strict), optimism


def accepting_most(scored: Scored) -> float:
    """Return a threshold that accepts most of the known samples that are named right."""
    known = scored.known[scored.right]
    least = float(np.median(known)) - 4 * _deviation(known)
    return max(float(np.quantile(known, 1 - _RECALL_OF_FEW)), least)


def _deviation(scores: Doubles) -> float:
    """Return the standard deviation, as far as it is not due to samples from afar."""
    lower, upper = np.quantile(scores, [0.25, 0.75])
    return float(upper - lower) / 1.35


def oscr_area(known: Doubles, right: NDArray[np.bool_], unknown: Doubles) -> float:
    """Return the share of pairs in which the known sample is named right and scores above the unknown one."""
    ordered = np.sort(unknown)
    below = np.searchsorted(ordered, known, side="left") + np.searchsorted(ordered, known, side="right")
    return float(np.mean(right * below) / (2 * len(unknown)))


def logistic(scores: Doubles, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Fit the probability of being right as a logistic curve of the score, rising with it."""
    if right.all() or not right.any():
        share = (right.sum() + 1) / (len(right) + 2)  # as certain as so many samples allow
        return 1.0, float(logit(share) - scores.mean())
    from sklearn.linear_model import LogisticRegression  # loads much that nothing else here needs

    center, spread = float(scores.mean()), float(scores.std()) or 1.0
    model = LogisticRegression(C=100.0).fit((scores[:, np.newaxis] - center) / spread, right)
    slope = max(float(model.coef_[0, 0]) / spread, 1e-3)
    return slope, float(model.intercept_[0]) - slope * center
