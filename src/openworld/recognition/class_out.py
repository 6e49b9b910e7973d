"""Calibration by leaving classes out: each class in turn plays unknown to all the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from openworld.recognition.adaptive_metric import Whitening, unit
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.threshold import Objective, best_threshold

Floats = NDArray[np.float32]
Codes = NDArray[np.intp]

N_FOLDS = 3
TIGHTNESS_WEIGHTS = (0.0, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class HeldOut:
    """Similarities of samples to all class means, by a metric and means that have not seen the samples.

    Attributes
    ----------
    similarities : array of shape (n, K)
        Cosine of the angle between sample and class mean.
    tightness : array of shape (n, K)
        How close each class's own samples are to its mean, by the same metric.
    codes : array of shape (n,)
        The class of each sample.
    """

    similarities: Floats
    tightness: Floats
    codes: Codes


@dataclass(frozen=True)
class ClassOut:
    """What leaving classes out found.

    Attributes
    ----------
    weight : float
        How much the tightness of a class raises what is asked of its samples.
    threshold : float
        The score from which a sample is accepted.
    slope, intercept : float
        Of the logistic curve that turns a score into the probability of being right.
    quality : float
        OSCR area of the scores: how often a known sample is named right and scores above an unknown one.
    """

    weight: float
    threshold: float
    slope: float
    intercept: float
    quality: float

    def probability(self, scores: Floats) -> NDArray[np.float64]:
        """Return the calibrated probability that a class with this score is the right one."""
        return np.asarray(expit(self.slope * scores.astype(np.float64) + self.intercept))


def tightness(
    unit_samples: Floats, whitened: Floats, codes: Codes, means: Floats, counts: NDArray[np.float64]
) -> Floats:
    """Return the mean similarity of each class's samples to the mean of the *other* samples of the class.

    Parameters
    ----------
    unit_samples, whitened : arrays of shape (n, L)
        Some samples of the classes, with and without their length divided out.
    codes : array of shape (n,)
    means : array of shape (K, L)
        Whitened class means of all samples.
    counts : array of shape (K,)
        Samples of each class.

    Returns
    -------
    array of shape (K,); a class of a single sample gets the average of the others.
    """
    n_classes = len(means)
    several = counts[codes] > 1.5
    rest = (counts[codes[several], np.newaxis] * means[codes[several]] - whitened[several]).astype(np.float32)
    own = np.einsum("ij,ij->i", unit_samples[several], unit(rest))
    shown = np.bincount(codes[several], minlength=n_classes)
    total = np.bincount(codes[several], own, minlength=n_classes)
    average = float(own.mean()) if len(own) else 1.0
    return np.where(shown > 0, total / np.maximum(shown, 1), average).astype(np.float32)


def hold_out(statistics: ClassStatistics, order: Codes, samples: Floats, codes: Codes) -> HeldOut:
    """Judge samples by statistics from which they were taken away, a third of them at a time.

    Parameters
    ----------
    statistics : ClassStatistics
        Of the represented samples, with pooled scatter.
    order : array of shape (K,)
        The row of each class in `statistics`.
    samples : array of shape (n, L)
        Represented samples that `statistics` hold, sorted by class.
    codes : array of shape (n,)
    """
    labels = np.array(statistics.labels, dtype=object)[order]
    first = np.searchsorted(codes, codes)
    rank = np.arange(len(codes)) - first
    several = statistics.counts[order][codes] > 1.5
    parts = []
    for fold in range(N_FOLDS):
        held = several & (rank % N_FOLDS == fold) & ~_last_sample(statistics, order, codes, rank, fold)
        if not held.any():
            continue
        taken = ClassStatistics("pooled").add(samples[held], _as_labels(labels[codes[held]]))
        rest = statistics - taken
        parts.append(_judge(rest, labels, samples, codes, held))
    if not parts:
        raise ValueError("Calibration needs at least 2 classes with 2 samples each.")
    return HeldOut(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _last_sample(
    statistics: ClassStatistics, order: Codes, codes: Codes, rank: Codes, fold: int
) -> NDArray[np.bool_]:
    """Tell the samples whose taking away would leave nothing of their class."""
    taken = np.bincount(codes[rank % N_FOLDS == fold], minlength=len(order))
    emptied = taken >= statistics.counts[order] - 1e-6
    return np.asarray(emptied[codes] & (rank == fold))


def _as_labels(labels: NDArray[np.object_]) -> NDArray[np.generic]:
    return np.array(labels.tolist())


def _judge(
    rest: ClassStatistics, labels: NDArray[np.object_], samples: Floats, codes: Codes, held: NDArray[np.bool_]
) -> tuple[Floats, Floats, Codes]:
    whitening = Whitening.of(rest)
    rows = [rest.row(label) for label in labels]
    means = whitening(rest.means[rows].astype(np.float32))
    similarities = unit(whitening(samples[held])) @ unit(means).T
    shown = whitening(samples[~held])
    tight = tightness(unit(shown), shown, codes[~held], means, rest.counts[rows])
    return similarities, np.broadcast_to(tight, similarities.shape), codes[held]


def calibrate(held_out: HeldOut, objective: Objective) -> ClassOut:
    """Choose the weight of the tightness, the threshold and the probabilities.

    Every sample counts twice: once as a known sample, and once as an unknown one, with its own class
    taken out of the question.
    """
    best: tuple[float, float, NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]] | None = None
    for weight in TIGHTNESS_WEIGHTS:
        known, correct, unknown = _known_and_unknown(held_out, weight)
        quality = oscr_area(known, correct, unknown)
        if best is None or quality > best[0] + 1e-12:
            best = quality, weight, known, correct, unknown
    assert best is not None
    quality, weight, known, correct, unknown = best
    threshold = -best_threshold(-known, -unknown, objective)[0]
    slope, intercept = _logistic(np.r_[known, unknown], np.r_[correct, np.zeros(len(unknown), dtype=bool)])
    return ClassOut(weight, threshold, slope, intercept, quality)


def _known_and_unknown(
    held_out: HeldOut, weight: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    scores = (held_out.similarities - weight * held_out.tightness).astype(np.float64)
    rows = np.arange(len(scores))
    known, correct = scores.max(axis=1), scores.argmax(axis=1) == held_out.codes
    scores[rows, held_out.codes] = -np.inf
    return known, correct, scores.max(axis=1)


def oscr_area(known: NDArray[np.float64], correct: NDArray[np.bool_], unknown: NDArray[np.float64]) -> float:
    """Return the share of pairs in which the known sample is named right and scores above the unknown one."""
    ordered = np.sort(unknown)
    below = np.searchsorted(ordered, known, side="left") + np.searchsorted(ordered, known, side="right")
    return float(np.mean(correct * below) / (2 * len(unknown)))


def _logistic(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[float, float]:
    """Fit the probability of being right as a logistic curve of the score, rising with it."""
    if right.all() or not right.any():
        share = (right.sum() + 1) / (len(right) + 2)  # as certain as so many samples allow
        return 1.0, float(logit(share) - scores.mean())
    from sklearn.linear_model import LogisticRegression  # loads much that nothing else here needs

    centre, spread = float(scores.mean()), float(scores.std()) or 1.0
    model = LogisticRegression(C=100.0).fit((scores[:, np.newaxis] - centre) / spread, right)
    slope = max(float(model.coef_[0, 0]) / spread, 1e-3)
    return slope, float(model.intercept_[0]) - slope * centre
