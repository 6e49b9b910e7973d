"""Calibration of the score: its form, weights and threshold, by leaving samples and classes out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.special import expit, logit

from openworld.index import is_approximate
from openworld.recognition.adaptive.held_out import HeldOut, Products
from openworld.recognition.adaptive.metric import center_weights
from openworld.recognition.threshold import Objective, best_threshold

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.intp]

TIGHTNESS_WEIGHTS = (0.0, 0.5, 1.0)
RUNNER_UP_WEIGHTS: tuple[float, ...] = (0.0, 0.25, 0.5)
N_HALVES = 32
FEWEST_UNKNOWNS = 20  # known unknowns from which they weigh as much as the classes that play unknown
PSEUDO_SAMPLES = 15  # of the typical tightness, in the tightness of every class
_NOISE_UNDONE = 4.0  # noise of a class mean, over its length, of which half the attenuation is undone
_FEWEST_FOR_ANGLES = 3  # fewer classes say nothing about angles: their center lies between them
_FEWEST_CLASSES = 4  # fewer leave no runner-up to an unknown sample
_FEWEST_SAMPLES = 5
_SLACK, _MARGIN = 0.15, 0.5  # see _average_threshold
_RECALL_OF_FEW, _FEW_DIMENSIONS = 0.93, 32  # see calibrate


@dataclass(frozen=True)
class ScoreCalibration:
    """What the score of a class is made of, its threshold and its probability.

    The similarity of a sample x to the mean m of a class of n samples, in the whitened space, is

    - angular: ``cos(x, m) a(n)^-g(n)``. The mean of n samples is longer by noise, so that its cosines shrink
      by the attenuation ``a(n) = (1 + noise / n)^(-1/2)``. It is undone, the less the more noise there is,
      ``g(n) = 1 / (1 + noise / (4 n))``: the noise is amplified as well, and would take samples of others.
    - by distance: ``-|x - m| sqrt(n / (n + 1) / L)``, which is about -1 for the samples of the class,
      however few it has.

    The score is ``s = similarity - weight * tightness``, with the similarity of the class's own samples as
    its tightness. What is compared with the threshold is ``s - runner_up * s'`` with the largest score s' of
    the other classes.

    Attributes
    ----------
    by_distance : bool
    weight, runner_up : float
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

    def similarities(self, products: Products, n_dimensions: int) -> Doubles:
        """Return the similarity of every sample and class, shape (n, K)."""
        mixed, samples, means, counts, left_out = products
        factors = self.factors(counts, n_dimensions)
        if left_out is not None:
            factors = np.broadcast_to(factors, mixed.shape).copy()
            factors[np.arange(len(mixed)), left_out] = self.factors(counts[left_out] - 1, n_dimensions)
        if self.by_distance:
            return np.asarray(-np.sqrt(np.maximum(samples - 2 * mixed + means, 0) * factors))
        lengths = np.sqrt(np.maximum(samples * means, np.finfo(np.float64).tiny))
        return np.asarray(mixed / lengths * factors)

    def factors(self, counts: NDArray[Any], n_dimensions: int) -> Doubles:
        """Return what the number of samples of a class does to its cosines or squared distances."""
        if self.by_distance:
            return np.asarray(counts / ((counts + 1) * n_dimensions))
        noise = self.noise / counts
        return np.asarray((1 + noise) ** (0.5 / (1 + noise / _NOISE_UNDONE)))

    def penalties(self, own: Doubles, codes: Codes, n_classes: int) -> Doubles:
        """Return what the tightness of each class takes off, from similarities of its own samples.

        A class of few samples is taken to be about as tight as a typical one.
        """
        sums = np.bincount(codes, own, minlength=n_classes) + PSEUDO_SAMPLES * self.typical
        return np.asarray(self.weight * sums / (np.bincount(codes, minlength=n_classes) + PSEUDO_SAMPLES))

    def probability(self, compared: NDArray[Any]) -> Doubles:
        """Return the calibrated probability that a class is the right one, from what is compared."""
        return np.asarray(expit(self.slope * compared.astype(np.float64) + self.intercept))


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


def calibrate(held_out: HeldOut, objective: Objective, *, distances: bool = False) -> ScoreCalibration:
    """Choose form, weights, threshold and probability of the score.

    Every sample counts twice: once as a known sample, left out of covariance, mean and center, and once as
    an unknown one, with its whole class left out. Known unknowns take part in threshold and probability.

    Parameters
    ----------
    held_out : HeldOut
    objective : Objective
    distances : bool, default=False
        Whether the score is to be by distance; with two classes it is in any case.
    """
    if len(held_out.counts) < 2 or len(held_out.codes) < _FEWEST_SAMPLES:
        warnings.warn(
            f"Too little to calibrate with: {len(held_out.counts)} class(es), {len(held_out.codes)} samples "
            "of classes with 2 or more. The threshold is a guess until more is learned.",
            UserWarning,
            stacklevel=2,
        )
        return _guess(held_out, objective)
    chosen, scored = best_form(held_out, distances)
    n_classes, n_dimensions = held_out.means.shape
    # Distances go on growing beyond the known samples; each class that plays unknown shows how far is safe.
    margin = _MARGIN * (min(n_classes - 1, 4) if chosen.by_distance else 1)
    threshold, optimism = _average_threshold(scored, held_out.codes, objective, margin)
    few = n_classes < _FEWEST_CLASSES and n_dimensions <= _FEW_DIMENSIONS
    if few and getattr(objective, "named_right", False) and scored.right.any():
        # Such classes may overlap much more than they will with unknown ones.
        threshold = min(threshold, _accepting_most(scored))
    unknown = scored.all_unknown()
    both = np.r_[scored.known, unknown]
    slope, intercept = _logistic(both, np.r_[scored.right, np.zeros(len(unknown), dtype=bool)])
    return replace(
        chosen,
        threshold=threshold,
        slope=slope,
        intercept=intercept,
        error=scored.error(threshold) + optimism,
    )


def best_form(held_out: HeldOut, distances: bool) -> tuple[ScoreCalibration, Scored]:
    """Return the form of the score that promises the largest OSCR area, and what the samples score."""
    return max(_candidates(held_out, distances), key=lambda found: round(found[0].quality, 12))


def _candidates(held_out: HeldOut, distances: bool) -> Iterator[tuple[ScoreCalibration, Scored]]:
    """Yield every form of the score with what the held-out samples score, simplest first."""
    n_classes, n_dimensions = held_out.means.shape
    form = ScoreCalibration(distances or n_classes < _FEWEST_FOR_ANGLES, 1.0, 0.0, _noise(held_out), 0.0)
    similarities = form.similarities(held_out.own(), n_dimensions)[:, 0]
    form = replace(form, typical=float(similarities.mean()))
    tightness = form.penalties(similarities, held_out.codes, n_classes)
    forms = [(replace(form, weight=weight), weight * tightness) for weight in TIGHTNESS_WEIGHTS]
    tops = _largest_two(held_out, forms)
    runner_up = RUNNER_UP_WEIGHTS
    if n_classes < _FEWEST_CLASSES or is_approximate("auto", n_classes):
        runner_up = (0.0,)
    given = held_out.of_unknowns()
    similarities = np.empty((0, n_classes)) if given is None else form.similarities(given, n_dimensions)
    for ((form, penalties), top), weight in product(zip(forms, tops, strict=True), runner_up):
        known, second, right, unknown, unknown_second = top
        _, of_given, given_second = two_largest(similarities - penalties)
        scored = Scored(known, right, unknown, of_given)
        if weight:
            compared = (known - weight * second, right, unknown - weight * unknown_second)
            scored = Scored(*compared, of_given - weight * given_second)
        quality = oscr_area(scored.known, scored.right, scored.unknown)
        yield replace(form, runner_up=weight, quality=quality), scored


def _largest_two(
    held_out: HeldOut, forms: list[tuple[ScoreCalibration, Doubles]]
) -> list[tuple[Doubles, Doubles, NDArray[np.bool_], Doubles, Doubles]]:
    """Return, by each weight, the two largest scores as known and as unknown, and who is named right."""
    found: list[list[tuple[Any, ...]]] = [[] for _ in forms]
    n_dimensions = held_out.means.shape[1]
    for rows, as_known, as_unknown in held_out:
        codes, form = held_out.codes[rows], forms[0][0]
        known, unknown = (form.similarities(part, n_dimensions) for part in (as_known, as_unknown))
        for parts, (_, penalties) in zip(found, forms, strict=True):
            best, first, second = two_largest(known - penalties)
            parts.append((first, second, best == codes, *two_largest(unknown - penalties)[1:]))
    return [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in found]  # type: ignore[misc]


def two_largest(scores: NDArray[Any]) -> tuple[Codes, NDArray[Any], NDArray[Any]]:
    """Return the position of the largest value of each row, that value, and the second largest."""
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    first = scores[rows, best]
    scores[rows, best] = -np.inf
    second = scores.max(axis=1)
    scores[rows, best] = first
    return best, first, second


def _noise(held_out: HeldOut) -> float:
    """Return the squared deviation of a sample over the squared length of a class mean, without its noise."""
    mixed, samples, means, counts, _ = held_out.own()
    deviations = np.mean((samples - 2 * mixed + means) * counts / (counts + 1))
    lengths = np.einsum("ij,ij->i", held_out.means, held_out.means).astype(np.float64)
    signal = center_weights(held_out.counts) @ (lengths - deviations / held_out.counts)
    # Classes of the same samples have no signal at all: the ratio stays finite.
    floor = max(0.01 * lengths.mean(), 1e-6 * deviations, np.finfo(np.float64).tiny)
    return float(deviations / max(signal, floor))


def _guess(held_out: HeldOut, objective: Objective) -> ScoreCalibration:
    """Return a score by distance that accepts what the classes show, or half the way to the next mean.

    Where there are known unknowns, the threshold is the best one between them and the classes.
    """
    n_classes, n_dimensions = held_out.means.shape
    form = ScoreCalibration(True, 0.0, 0.0, 0.0, -1.0, threshold=-2.0, slope=1.0, intercept=2.0)
    if len(held_out.codes):
        own = form.similarities(held_out.own(), n_dimensions)[:, 0]
        outer, middle = np.quantile(own, [0.05, 0.5])  # a few may be far off
        threshold = float(outer - max(_MARGIN * (middle - outer), 0.1 * abs(middle)))
        given = held_out.of_unknowns()
        if given is not None:
            unknown = form.similarities(given, n_dimensions).max(axis=1)
            threshold = -best_threshold(-own, -unknown, objective)[0]
        return replace(form, typical=float(own.mean()), threshold=threshold, intercept=-threshold)
    if n_classes < 2:
        return form
    squares = np.einsum("ij,ij->i", held_out.means, held_out.means).astype(np.float64)
    between = (held_out.means @ held_out.means.T).astype(np.float64)
    np.fill_diagonal(between, -np.inf)
    nearest = form.similarities(
        Products(between, squares[:, np.newaxis], squares, held_out.counts), n_dimensions
    )
    threshold = float(nearest.max()) / 2
    return replace(form, threshold=threshold, intercept=-threshold)


def _average_threshold(
    scored: Scored, codes: Codes, objective: Objective, margin: float = _MARGIN
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


def _accepting_most(scored: Scored) -> float:
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


def _logistic(scores: Doubles, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Fit the probability of being right as a logistic curve of the score, rising with it."""
    if right.all() or not right.any():
        share = (right.sum() + 1) / (len(right) + 2)  # as certain as so many samples allow
        return 1.0, float(logit(share) - scores.mean())
    from sklearn.linear_model import LogisticRegression  # loads much that nothing else here needs

    center, spread = float(scores.mean()), float(scores.std()) or 1.0
    model = LogisticRegression(C=100.0).fit((scores[:, np.newaxis] - center) / spread, right)
    slope = max(float(model.coef_[0, 0]) / spread, 1e-3)
    return slope, float(model.intercept_[0]) - slope * center
