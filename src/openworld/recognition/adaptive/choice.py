"""Choice of the representation on the starting classes: cheap candidates first, on a part of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.recognition.adaptive.calibration import FEW_FEATURES, scored_samples
from openworld.recognition.adaptive.groups import Grouping, Hashes
from openworld.recognition.adaptive.held_out import hold_out, step_of_judged
from openworld.recognition.adaptive.metric import (
    LARGEST_SCATTER,
    SAMPLES_FOR_AXES,
    AdaptiveMetric,
    Whitening,
)
from openworld.recognition.adaptive.representation import MANY_FEATURES
from openworld.recognition.adaptive.reservoir import Reservoir, precise_enough
from openworld.recognition.adaptive.scoring import sorted_classes
from openworld.recognition.class_statistics import ClassStatistics

Judged = tuple[NDArray[Any], NDArray[np.intp], Grouping | None]

POWERS = (1.0, 0.5, 0.25)
_FEW_UNLIFTED = 32
_LIFTED_PER_FEATURE = 64
_LIFTED_TO_CHOOSE, _OF_MANY_TO_CHOOSE = 500, 1000  # rows of a lift that is only tried
_FEWEST_APART = 3  # fewer do not show whether classes lie apart
_FEWEST_CLASSES = 8  # with fewer the promises differ by less than their error
_DEFAULT_POWER = 0.5
_SAMPLES, _SAMPLES_PER_CLASS = 3000, 12  # to choose with
_JUDGED = 600
_GAIN = 0.01  # what a less simple candidate must promise, over the number of classes
_GAIN_OF_MANY = 0.0075  # what a lift of many features must promise
_GOOD_ENOUGH = 0.99  # promised without a lift, which then has little to gain


def choose_metric(
    samples: NDArray[Any],
    labels: NDArray[Any],
    groups: Hashes | None = None,
    *,
    n_lifted: int,
    random_state: int,
) -> AdaptiveMetric:
    """Return the metric, not fitted: lifted where a lift is a candidate and has something to gain.

    Of candidates with a lift, or of those without, the one that promises the largest OSCR area is chosen, the
    simpler one unless another pays; without a lift also the power of the shrinkage. Many features are lifted
    only if the lift promises clearly more: counts of words gain, the features of a deep network do not. With
    a lift of many features another power is chosen if it promises clearly more, too.

    Fewer than eight classes of several samples say too little to choose between similar candidates: there the
    first lift is the default, which also suits the classes that come later, and many features are not lifted.
    The candidates for few features differ more, so two classes are enough.
    """
    n_features = samples.shape[1]
    n_classes = _n_judged(labels, groups)
    many_features = MANY_FEATURES < n_features <= LARGEST_SCATTER
    enough = n_classes >= _FEWEST_CLASSES and len(samples) >= SAMPLES_FOR_AXES * n_features
    candidates = candidate_metrics(n_features, n_lifted, random_state, lift_many=enough)
    few_features = not candidates[0].directions
    if n_classes < (2 if few_features else _FEWEST_CLASSES):
        return _default(candidates)
    if n_classes < _FEWEST_CLASSES:
        candidates = _fewer(candidates, n_classes)
    samples, labels, groups = _some(samples, labels, groups)
    judged = _judged(samples, labels, groups)
    best, quality = candidates[0], -np.inf
    for candidate in candidates:
        if many_features and candidate.n_lifted and candidate.standardize != best.standardize:
            continue  # a trial of many features takes long
        gain = _GAIN / n_classes
        if candidate.n_lifted and not best.n_lifted:
            if quality >= _GOOD_ENOUGH:
                break
            # A trial of few rows promises less than the lift that is kept.
            gain = _GAIN_OF_MANY if many_features else -np.inf
        if len(candidates) > 1 and candidate.n_lifted:
            rows = _OF_MANY_TO_CHOOSE if many_features else _LIFTED_TO_CHOOSE
            candidate.set_params(n_lifted=min(candidate.n_lifted, rows))
        candidate.fit(samples, labels)
        found = _promised(candidate, *judged, candidate.power)
        if found > quality + gain:
            best, quality = candidate, found
    power = best.power
    if many_features or not best.n_lifted:
        power = _best_power(best, quality, judged, gain=_GAIN_OF_MANY if best.n_lifted else 0.0)
    rows = lifted_dimensions(n_features, n_lifted) if best.n_lifted else 0
    return AdaptiveMetric(**{**best.get_params(), "n_lifted": rows, "power": power})


def _best_power(metric: AdaptiveMetric, quality: float, judged: Judged, gain: float) -> float:
    """Return the power of the shrinkage that promises most; another than now only if it gains as much.

    `quality` is what the metric promises as it is.
    """
    promised = {power: _promised(metric, *judged, power) - gain for power in POWERS if power != metric.power}
    return max(POWERS, key=lambda power: round(promised.get(power, quality), 12))


def _n_judged(labels: NDArray[Any], groups: Hashes | None) -> int:
    """Return the number of classes with two samples or more that are no copies of each other."""
    classes, codes = np.unique(labels, return_inverse=True)
    if groups is not None:
        codes = np.unique(np.array([codes, Grouping.of(groups, codes, len(classes)).numbers]), axis=1)[0]
    return int(np.sum(np.bincount(codes) > 1))


def _fewer(candidates: list[AdaptiveMetric], n_classes: int) -> list[AdaptiveMetric]:
    """Return the candidates for few features that differ enough for few classes to choose from."""
    fewer = [metric for metric in candidates if not (metric.directions and metric.standardize)]
    if n_classes < _FEWEST_APART and len(fewer) > 1:
        fewer = fewer[1:]
    return [metric.set_params(power=_DEFAULT_POWER) for metric in fewer]


def _default(candidates: list[AdaptiveMetric]) -> AdaptiveMetric:
    """Return the first candidate with a lift, or the first."""
    chosen = next((metric for metric in candidates if metric.n_lifted), candidates[0])
    return AdaptiveMetric(**{**chosen.get_params(), "power": _DEFAULT_POWER})


def candidate_metrics(
    n_features: int, n_lifted: int, random_state: int, *, lift_many: bool = True
) -> list[AdaptiveMetric]:
    """Return the metrics to choose from, simplest first.

    Few features are compared by distance, or lifted by random Fourier features or as directions; more are
    directions, lifted or not. More than 1,024 are lifted only with `lift_many`, more than 4,096 always.
    """
    lifted = lifted_dimensions(n_features, n_lifted)
    distances: dict[str, Any] = {"standardize": True, "directions": False}
    if n_lifted and n_features <= FEW_FEATURES:
        kinds = [distances, {**distances, "n_lifted": lifted}]
        kinds += [{"standardize": standardize, "n_lifted": lifted} for standardize in (False, True)]
    else:
        lifts = [lifted] if n_features > LARGEST_SCATTER else [0, lifted]
        if n_features > MANY_FEATURES and not lift_many:
            lifts = lifts[:1]
        kinds = [
            {"standardize": standardize, "n_lifted": rows}
            for rows in dict.fromkeys(lifts)
            for standardize in (False, True)
        ]
        if n_features <= _FEW_UNLIFTED:
            kinds.insert(0, distances)
    return [AdaptiveMetric(**kind, random_state=random_state) for kind in kinds]


def lifted_dimensions(n_features: int, n_lifted: int) -> int:
    """Return the number of rows of the lift: at most 64 for each feature."""
    if n_features > LARGEST_SCATTER:
        return n_lifted or 2000
    return min(n_lifted, _LIFTED_PER_FEATURE * n_features)


def _some(
    samples: NDArray[Any], labels: NDArray[Any], groups: Hashes | None
) -> tuple[NDArray[Any], NDArray[Any], Hashes | None]:
    """Return a few thousand samples chosen by their content, so that the order makes no difference."""
    if len(samples) <= _SAMPLES:
        return samples, labels, groups
    kept = Reservoir(_SAMPLES_PER_CLASS, _SAMPLES, precise_enough(samples))
    kept.add(samples, labels, groups)
    classes = np.unique(labels)
    found, codes = kept.samples(classes, kept.per_class)
    return found, classes[codes], kept.groups(classes)


def _judged(samples: NDArray[Any], labels: NDArray[Any], groups: Hashes | None) -> Judged:
    """Return some of the samples, of some classes where there are very many, with the positions of these."""
    classes = np.unique(labels)
    kept = Reservoir(2, _JUDGED, precise_enough(samples))
    kept.add(samples, labels, groups)
    judged, codes = kept.samples(classes, kept.per_class)
    grouping = kept.grouping(classes, kept.per_class)
    some = codes % step_of_judged(len(codes), len(classes)) == 0
    return judged[some], codes[some], grouping and grouping.some(some)


def _promised(
    metric: AdaptiveMetric,
    judged: NDArray[Any],
    codes: NDArray[np.intp],
    grouping: Grouping | None,
    power: float = 1.0,
) -> float:
    """Return the OSCR area that calibration promises on samples of the sorted classes."""
    statistics: ClassStatistics = metric.statistics_
    whitening = metric.whitening_ if power == metric.power else Whitening.of(statistics, power)
    order = sorted_classes(statistics)[1]
    held_out = hold_out(statistics, whitening, order, metric.representation_(judged), codes, grouping)
    if not len(held_out.codes):
        return 0.0
    return scored_samples(held_out, distances=metric.representation_.keeps_distances)[0].quality
