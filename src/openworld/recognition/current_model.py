"""What the predictions of OpenWorldRecognizer read, made from what it has learnt."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.recognition.adaptive_metric import AdaptiveMetric, Whitening, unit
from openworld.recognition.class_out import ClassOut, filled, tightness
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.labels import as_array
from openworld.recognition.radial import radii_of
from openworld.recognition.reservoir import Reservoir

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_TIGHTNESS_SAMPLES = 6000


@dataclass(frozen=True)
class CurrentModel:
    """What predictions need.

    Attributes
    ----------
    classes : array of shape (K,)
        Sorted.
    whitening : Whitening
    unit_means : array of shape (K, L)
        Directions of the class means.
    penalties : array of shape (K,)
        What the tightness of each class takes off its similarity.
    radii : array of shape (K,)
        The length of a sample up to which each class's radial factor is 1; it falls to 0 at twice that.
    calibration : ClassOut
    """

    classes: NDArray[Any]
    whitening: Whitening
    unit_means: Floats
    penalties: Floats
    radii: Doubles
    calibration: ClassOut

    def scores(self, represented: Floats) -> Floats:
        """Return ``cos(x, mu_c) - w r_c`` of represented samples and every class, shape (n, K)."""
        scores = unit(self.whitening(represented)) @ self.unit_means.T
        scores -= self.penalties
        return np.asarray(scores)

    def decision(self, scores: Floats, radial: Doubles | float) -> Doubles:
        """Return angular times radial factor, minus the threshold.

        Scores lie between -2 and 1: ``(2 + s) / 3`` is an abating function from 0 to 1 like the radial one.
        """
        angular = (2 + scores.astype(np.float64)) / 3
        return np.asarray(angular * radial - (2 + self.calibration.threshold) / 3)


def sorted_classes(statistics: ClassStatistics) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes in sorted order and their rows in the statistics."""
    classes = as_array(statistics.labels)
    order = np.argsort(classes, kind="stable")
    return classes[order], order


def make_model(
    metric: AdaptiveMetric,
    lengths: ClassStatistics,
    reservoir: Reservoir,
    calibration: ClassOut,
    previous: CurrentModel | None = None,
    changed: Set[Any] = frozenset(),
) -> CurrentModel:
    """Make the model from statistics and reservoir.

    Where a previous model by the same metric is given, only the classes that changed since then are made
    anew, so learning one class costs little however many there are.
    """
    classes, order = sorted_classes(metric.statistics_)
    unit_means = np.empty((len(classes), metric.representation_.n_dimensions), dtype=np.float32)
    penalties = np.empty(len(classes), dtype=np.float32)
    new = np.ones(len(classes), dtype=bool)
    if previous is not None:
        rows = np.searchsorted(previous.classes, classes).clip(max=len(previous.classes) - 1)
        new = previous.classes[rows] != classes
        new |= np.isin(classes, as_array(list(changed)))
        unit_means[~new], penalties[~new] = previous.unit_means[rows[~new]], previous.penalties[rows[~new]]

    counts = metric.statistics_.counts[order[new]]
    means = metric.statistics_.sums[order[new]] / counts[:, np.newaxis]
    whitened = metric.whitening_(means.astype(np.float32))
    unit_means[new] = unit(whitened)
    per_class = int(np.clip(_TIGHTNESS_SAMPLES // len(classes), 4, reservoir.size))
    samples, codes = reservoir.samples(classes[new], per_class)
    shown = metric.whitening_(metric.representation_(samples))
    tight = tightness(unit(shown), shown, codes, whitened, counts)
    penalties[new] = np.float32(calibration.weight) * tight
    radii = radii_of(lengths, classes)
    return CurrentModel(classes, metric.whitening_, unit_means, filled(penalties), radii, calibration)
