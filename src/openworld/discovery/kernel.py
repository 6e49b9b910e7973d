"""Few features, whose distances matter: mapped so that the angle between samples tells how near they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from openworld.recognition.adaptive.representation import Representation

Floats = NDArray[np.floating[Any]]

N_FOURIER_FEATURES = 512
_CLASSES_WIDE = 1.5  # width of the kernel in a space where classes are known
_NEIGHBORS_WIDE = 4.0  # where none is known: in distances of a sample to its neighbor of this rank
_RANK = 12
_SAMPLES_TO_MEASURE = 1_000  # so that the width does not depend on how many samples there are


def fourier_features(samples: Floats) -> NDArray[np.float32]:
    """Return random Fourier features of samples of unknown classes; units that differ much are standardized.

    Around the center of few features all directions are taken soon: two clusters in one direction, one far
    and one near, would be one. The cosine of these features is a Gaussian kernel of the distance instead,
    about as wide as a neighborhood.
    """
    lift = Representation.of(samples, standardize=True, n_lifted=N_FOURIER_FEATURES, seed=0, directions=False)
    some = samples[:: 1 + (len(samples) - 1) // _SAMPLES_TO_MEASURE]
    standardized = replace(lift, n_lifted=0)(some)
    neighbors = NearestNeighbors(n_neighbors=min(_RANK + 1, len(some))).fit(standardized)
    distances = neighbors.kneighbors(standardized)[0][:, -1]
    apart = distances[distances > 0]  # copies say nothing about the width
    width = _NEIGHBORS_WIDE * float(np.median(apart)) if len(apart) else 1.0
    return _of_width(lift, width)(samples)


def class_kernel(n_dimensions: int) -> Representation:
    """Return the map of whitened samples, whose covariance within a class is the identity."""
    lift = Representation(
        n_dimensions,
        N_FOURIER_FEATURES,
        mean=np.zeros(n_dimensions),
        scale=np.ones(n_dimensions),
        directions=False,
    )
    within = float(np.sqrt(2 * n_dimensions))  # how far two samples of a class are apart
    return _of_width(lift, _CLASSES_WIDE * within)


def _of_width(lift: Representation, width: float) -> Representation:
    return lift if lift.scale is None else replace(lift, scale=lift.scale * width)
