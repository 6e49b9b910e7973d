"""Calibration by leaving classes out: each class in turn plays unknown to all the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.special import expit, logit

from openworld.recognition.adaptive.metric import Whitening, unit
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.threshold import Objective, best_threshold

Floats = NDArray[np.float32]
Codes = NDArray[np.intp]

N_FOLDS = 3
TIGHTNESS_WEIGHTS = (0.0, 0.25, 0.5, 0.75)
SHRINKAGE_POWERS = (1.0, 0.5, 0.25)
N_HALVES = 32
_MOST_JUDGED = 30_000_000  # pairs of a sample and a class


@dataclass(frozen=True)
class HeldOut:
    """Similarities of samples to all class means, by a metric and means that have not seen the samples.

    Attributes
    ----------
    similarities : array of shape (n, K)
        Cosine of the angle between sample and class mean.
    as_unknown : array of shape (n, K)
        The same as if the sample's own class were not known; minus infinity for that class.
    tightness : array of shape (n, K)
        How close each class's own samples are to its mean, by the same metric.
    codes : array of shape (n,)
        The class of each sample.
    power : float
        That of the shrinkage, see `Whitening.of`.
    """

    similarities: Floats
    as_unknown: Floats
    tightness: Floats
    codes: Codes
    power: float = 1.0


@dataclass(frozen=True)
class ScoreCalibration:
    """What leaving classes out found.

    Attributes
    ----------
    weight : float
        How much the tightness of a class raises what is asked of its samples.
    threshold : float
        The score from which a sample is accepted.
    slope, intercept : float
        Of the logistic curve that turns a score into the probability of being right.
    power : float
        How much the covariance is shrunk, see `Whitening.of`.
    quality : float
        OSCR area of the scores: how often a known sample is named right and scores above an unknown one.
    """

    weight: float
    threshold: float
    slope: float
    intercept: float
    power: float
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
    array of shape (K,); NaN for a class of a single sample.
    """
    n_classes = len(means)
    several = counts[codes] > 1.5
    rest = (counts[codes[several], np.newaxis] * means[codes[several]] - whitened[several]).astype(np.float32)
    own = np.einsum("ij,ij->i", unit_samples[several], unit(rest))
    shown = np.bincount(codes[several], minlength=n_classes)
    total = np.bincount(codes[several], own, minlength=n_classes)
    return np.where(shown > 0, total / np.maximum(shown, 1), np.nan).astype(np.float32)


def filled(values: Floats) -> Floats:
    """Put the average of the others in the place of what is NaN, or 1 where there are no others."""
    missing = np.isnan(values)
    return np.where(missing, np.float32(1) if missing.all() else np.nanmean(values), values)


def hold_out(statistics: ClassStatistics, order: Codes, samples: Floats, codes: Codes) -> HeldOut:
    """Judge samples by statistics from which they were taken away, a third of them at a time.

    On the first third it is decided how much the covariance is shrunk.

    Parameters
    ----------
    statistics : ClassStatistics
        Of the represented samples, with pooled scatter.
    order : array of shape (K,)
        The row of each class in `statistics`.
    samples : array of shape (n, L)
        Represented samples that `statistics` hold, sorted by class. With very many classes only those of
        some classes are judged.
    codes : array of shape (n,)
    """
    labels = np.array(statistics.labels, dtype=object)[order]
    rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
    every = -(-len(codes) * len(order) // _MOST_JUDGED)
    judged = (statistics.counts[order][codes] > 1.5) & (codes % every == 0)
    parts: list[HeldOut] = []
    for fold in range(N_FOLDS):
        held = judged & (rank % N_FOLDS == fold)
        if not held.any():
            continue
        taken = ClassStatistics("pooled").add(samples[held], _as_labels(labels[codes[held]]))
        rest = statistics - taken
        powers = (parts[0].power,) if parts else SHRINKAGE_POWERS
        found = [_judge(rest, power, labels, samples, codes, held) for power in powers]
        parts.append(max(found, key=lambda part: _best_weight(part)[0]) if len(found) > 1 else found[0])
    if not parts:
        raise ValueError("Calibration needs at least 2 classes with 2 samples each.")
    return HeldOut(
        np.concatenate([part.similarities for part in parts]),
        np.concatenate([part.as_unknown for part in parts]),
        np.concatenate([part.tightness for part in parts]),
        np.concatenate([part.codes for part in parts]),
        parts[0].power,
    )


def _as_labels(labels: NDArray[np.object_]) -> NDArray[np.generic]:
    return np.array(labels.tolist())


def _judge(
    rest: ClassStatistics,
    power: float,
    labels: NDArray[np.object_],
    samples: Floats,
    codes: Codes,
    held: NDArray[np.bool_],
) -> HeldOut:
    whitening = Whitening.of(rest, power)
    rows = [rest.row(label) for label in labels]
    means = whitening(rest.means[rows].astype(np.float32))
    judged, shown = whitening(samples[held]), whitening(samples[~held])
    similarities = unit(judged) @ unit(means).T
    tight = filled(tightness(unit(shown), shown, codes[~held], means, rest.counts[rows]))
    as_unknown = similarities_as_unknown(judged, means, codes[held])
    return HeldOut(
        similarities, as_unknown, np.broadcast_to(tight, similarities.shape), codes[held], power=power
    )


def similarities_as_unknown(whitened: Floats, means: Floats, codes: Codes) -> Floats:
    """Return the similarities of samples to the other classes as if their own were not known.

    Directions are seen from the mean of the class means, to which the sample's own class contributes: with
    three classes the means lie opposite each other, and a sample of one looks less like the other two than
    an unknown one would. So the centre moves to where it is without that class c, by ``-m_c / (K - 1)``.
    Two classes leave one, which is its own centre: there what sets a sample apart from its class mean
    stands for an unknown sample, and both classes are asked.

    Parameters
    ----------
    whitened : array of shape (n, L)
        Samples as seen from the centre of the class means.
    means : array of shape (K, L)
    codes : array of shape (n,)
    """
    if len(means) == 2:
        return np.asarray(unit(whitened - means[codes]) @ unit(means).T, dtype=np.float32)
    own = means[codes] / np.float32(len(means) - 1)
    moved = whitened + own
    products = moved @ means.T + _row_products(moved, own)
    squares = _row_products(means, means).T + 2 * (own @ means.T) + _row_products(own, own)
    lengths = np.sqrt(np.maximum(squares, 0)) * np.sqrt(_row_products(moved, moved))
    found = products / np.maximum(lengths, np.finfo(np.float32).tiny)
    found[np.arange(len(codes)), codes] = -np.inf
    return np.asarray(found)


def _row_products(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", left, right)[:, np.newaxis])


def calibrate(held_out: HeldOut, objective: Objective) -> ScoreCalibration:
    """Choose the weight of the tightness, the threshold and the probabilities.

    Every sample counts twice: once as a known sample, and once as an unknown one, with its own class
    taken out of the question.
    """
    quality, weight = _best_weight(held_out)
    known, correct, unknown = _known_and_unknown(held_out, weight)
    threshold = _average_threshold(known, correct, unknown, held_out.codes, objective)
    slope, intercept = _logistic(np.r_[known, unknown], np.r_[correct, np.zeros(len(unknown), dtype=bool)])
    return ScoreCalibration(weight, threshold, slope, intercept, held_out.power, quality)


def _best_weight(held_out: HeldOut) -> tuple[float, float]:
    """Return the largest OSCR area and the weight of the tightness that reaches it; of equals the first."""
    qualities = [oscr_area(*_known_and_unknown(held_out, weight)) for weight in TIGHTNESS_WEIGHTS]
    best = int(np.argmax(np.round(qualities, 12)))
    return qualities[best], TIGHTNESS_WEIGHTS[best]


def _average_threshold(
    known: NDArray[np.float64],
    correct: NDArray[np.bool_],
    unknown: NDArray[np.float64],
    codes: Codes,
    objective: Objective,
) -> float:
    """Return the average of the best thresholds of balanced halves of the classes (McCarthy, 1969).

    The paper averages over folds of the classes; the best threshold of one set of classes varies much.
    """
    _, of_class = np.unique(codes, return_inverse=True)
    means = np.bincount(of_class, known) / np.bincount(of_class)
    ranks = np.argsort(np.argsort(means))  # the names of the classes play no part
    halves = hadamard(N_HALVES)[:, 1 + ranks[of_class] % (N_HALVES - 1)] > 0
    thresholds = [
        -best_threshold(-known[half], -unknown[half], objective, correct[half])[0]
        for half in halves
        if half.any()
    ]
    return float(np.mean(thresholds))


def _known_and_unknown(
    held_out: HeldOut, weight: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    asked = np.float32(weight) * held_out.tightness
    scores = (held_out.similarities - asked).astype(np.float64)
    unknown = (held_out.as_unknown - asked).astype(np.float64)
    return scores.max(axis=1), scores.argmax(axis=1) == held_out.codes, unknown.max(axis=1)


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
