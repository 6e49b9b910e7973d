"""The radial factor, which bounds the accepted region by the lengths of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.recognition.class_statistics import ClassStatistics

Doubles = NDArray[np.float64]


def lengths_of(samples: NDArray[Any]) -> Doubles:
    """Return the Euclidean length of each sample, in float64."""
    with np.errstate(over="ignore"):  # infinitely long is long enough
        squares = np.einsum("ij,ij->i", samples, samples, dtype=np.float64, casting="same_kind")
    return np.asarray(np.sqrt(squares))


def length_statistics(samples: NDArray[Any], labels: NDArray[Any]) -> ClassStatistics:
    """Return count, sum and scatter of the lengths of each class's samples."""
    return ClassStatistics("per_class").add(lengths_of(samples)[:, np.newaxis], labels)


def radii_of(lengths: ClassStatistics, classes: NDArray[Any]) -> Doubles:
    """Return the radius of each class: twice a length that almost no sample of it exceeds."""
    rows = lengths.rows(classes)
    counts, means = lengths.counts[rows], lengths.means[rows, 0]
    deviations = np.sqrt(lengths.class_variances[rows])
    # A class of few samples uses a typical value: the median, as one class may be far out.
    several = counts > 1.5
    typical = float(np.median(deviations[several])) if several.any() else 0.0
    radii = 2 * (means + 4 * np.maximum(deviations, typical))
    return np.asarray(np.maximum(radii, np.finfo(np.float64).tiny))


def radial_factor(samples: NDArray[Any], radii: Doubles) -> Doubles | float:
    """Return the radial factor of every sample and class: 1 within the radius, 0 from twice the radius on."""
    if samples.dtype == np.float32:  # whose rounding changes a length by far less than a hundredth
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->i", samples, samples)
        if np.sqrt(squares.max()) <= 0.99 * radii.min():
            return 1.0
    lengths = lengths_of(samples)
    if lengths.max() <= radii.min():
        return 1.0
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(2 - lengths[:, np.newaxis] / radii, 0, 1))
