"""Calibration of the score: its noise, threshold and probability, by leaving samples and classes out."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from openworld.index import is_approximate
from openworld.recognition.adaptive.held_out import HeldOut, Products
from openworld.recognition.adaptive.metric import center_weights
from openworld.recognition.adaptive.score import ScoreCalibration, two_largest
from openworld.recognition.adaptive.scored import (
    MARGIN,
    Scored,
    accepting_most,
    average_threshold,
    logistic,
    oscr_area,
)
from openworld.recognition.threshold import Objective, best_threshold

Doubles = NDArray[np.float64]

TIGHTNESS_WEIGHT = 0.25  # in which class is named
STRICTNESS = 2.0  # times that weight more in whether it is accepted
RUNNER_UP_WEIGHT = 0.25
_FEWEST_FOR_ANGLES = 3  # fewer classes say nothing about angles: their center lies between them
_FEWEST_FOR_RUNNER_UP = 4  # fewer leave no runner-up to an unknown sample
_FEWEST_FOR_RUNNER_UP_ANGLE = 6  # of fewer, one left out may leave another without its only neighbor
_FEWEST_FOR_TIGHTNESS = 8  # fewer do not show how much tightness tells
_FEWEST_SAMPLES = 5
FEW_FEATURES = 128


def calibrate(
    held_out: HeldOut, objective: Objective, *, distances: bool = False, few_features: bool = False
) -> ScoreCalibration:
    """Find noise, threshold and probability of the score.

    Every sample counts twice: once as a known sample, left out of covariance, mean and center, and once as
    an unknown one, with its whole class left out. Known unknowns take part in threshold and probability.

    Parameters
    ----------
    held_out : HeldOut
    objective : Objective
    distances : bool, default=False
        Whether the score is to be by distance; with two classes it is in any case.
    few_features : bool, default=False
        Whether samples have few features, in which two or three classes may overlap.
    """
    if len(held_out.counts) < 2 or len(held_out.codes) < _FEWEST_SAMPLES:
        warnings.warn(
            f"Too little to calibrate with: {len(held_out.counts)} class(es), {len(held_out.codes)} samples "
            "of classes with 2 or more. The threshold is a guess until more is learned.",
            UserWarning,
            stacklevel=2,
        )
        return _guess(held_out, objective)
    form, scored = scored_samples(held_out, distances)
    n_classes = len(held_out.means)
    # Distances go on growing beyond the known samples; each class that plays unknown shows how far is safe.
    margin = MARGIN * (min(n_classes - 1, 4) if form.by_distance else 1)
    threshold, optimism = average_threshold(scored, held_out.codes, objective, margin)
    few = few_features and n_classes < _FEWEST_FOR_RUNNER_UP
    if few and getattr(objective, "named_right", False) and scored.right.any():
        # Such classes may overlap much more than they will with unknown ones.
        threshold = min(threshold, accepting_most(scored))
    unknown = scored.all_unknown()
    both = np.r_[scored.known, unknown]
    slope, intercept = logistic(both, np.r_[scored.right, np.zeros(len(unknown), dtype=bool)])
    return replace(
        form,
        threshold=threshold,
        slope=slope,
        intercept=intercept,
        error=scored.error(threshold) + optimism,
    )


def scored_samples(held_out: HeldOut, distances: bool) -> tuple[ScoreCalibration, Scored]:
    """Return the form of the score that promises the largest OSCR area, and what the samples score."""
    forms, penalties = _forms(held_out, distances)
    n_dimensions = held_out.means.shape[1]

    def largest(products: Products) -> tuple[NDArray[np.intp], Doubles, Doubles, Doubles, Doubles]:
        similarities = forms[0].similarities(products, n_dimensions)
        best, first, second = two_largest(similarities - penalties)
        counts = held_out.effective[best]
        if products.left is not None:
            counts = np.where(best == products.left_out, products.left, counts)
        return best, first, second, penalties[best], forms[0].factors(counts, n_dimensions)

    pairs = [(largest(as_known), largest(as_unknown)) for _, as_known, as_unknown in held_out]
    (best, *known), (_, *unknown) = (
        map(np.concatenate, zip(*parts, strict=True)) for parts in zip(*pairs, strict=True)
    )
    given = held_out.of_unknowns()
    of_given = None if given is None else largest(given)[1:]
    found = []
    for form in forms:
        scored = Scored(form.compared(*known), best == held_out.codes, form.compared(*unknown))
        if of_given is not None:
            scored = scored._replace(given=form.compared(*of_given))
        quality = oscr_area(scored.known, scored.right, scored.unknown)
        found.append((replace(form, quality=quality), scored))
    return max(found, key=lambda found: round(found[0].quality, 12))


def _forms(held_out: HeldOut, distances: bool) -> tuple[list[ScoreCalibration], Doubles]:
    """Return the forms of the score to choose from, which differ in the runner-up only, and the penalties."""
    n_classes, n_dimensions = held_out.means.shape
    approximate = is_approximate("auto", n_classes)  # only the best class is looked for, by one score
    by_distance = distances or n_classes < _FEWEST_FOR_ANGLES
    fewest = _FEWEST_FOR_RUNNER_UP if by_distance else _FEWEST_FOR_RUNNER_UP_ANGLE
    runner_up = RUNNER_UP_WEIGHT if n_classes >= fewest and not approximate else 0.0
    form = ScoreCalibration(by_distance, 0.0, runner_up, _noise(held_out), 0.0)
    own = form.similarities(held_out.own(), n_dimensions)[:, 0]
    form = replace(form, typical=float(own.mean()))
    if not by_distance and n_classes >= _FEWEST_FOR_TIGHTNESS:
        weight, strictness = TIGHTNESS_WEIGHT, STRICTNESS
        if approximate:
            weight, strictness = weight * (1 + strictness), 0.0
        form = replace(form, weight=weight, strictness=strictness)
    # Far from all classes the second is hardly farther than the first: distances may do without it.
    forms = [replace(form, runner_up=0.0), form] if by_distance and runner_up else [form]
    return forms, form.penalties(own, held_out.codes, n_classes)


def _noise(held_out: HeldOut) -> float:
    """Return the squared deviation of a sample over the squared length of a class mean, without its noise."""
    mixed, samples, means, counts, *_ = held_out.own()
    deviations = np.mean((samples - 2 * mixed + means) * counts / (counts + 1))
    lengths = np.einsum("ij,ij->i", held_out.means, held_out.means).astype(np.float64)
    signal = center_weights(held_out.effective) @ (lengths - deviations / held_out.effective)
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
        threshold = float(outer - max(MARGIN * (middle - outer), 0.1 * abs(middle)))
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
        Products(between, squares[:, np.newaxis], squares, held_out.effective), n_dimensions
    )
    threshold = float(nearest.max()) / 2
    return replace(form, threshold=threshold, intercept=-threshold)
