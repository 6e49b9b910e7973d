"""Confidence intervals over class orders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    estimate: float
    low: float
    high: float


def fold_interval(values: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of a measure over class orders with its Student's t interval.

    ``mean ± t s / sqrt(n)`` with s the sample deviation (n - 1) and t the (1 + confidence) / 2 quantile
    of Student's t with n - 1 degrees of freedom. Class orders drawn from the same data are not quite
    independent, so the interval is somewhat narrow.

    Parameters
    ----------
    values : array-like of shape (n,)
        The measure for each class order, n >= 2.
    confidence : float, default=0.95
        In (0, 1).

    Raises
    ------
    ValueError
        If there are fewer than two values, one is not finite, or `confidence` is out of range.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    folds = np.asarray(values, dtype=np.float64)
    if folds.ndim != 1 or folds.size < 2 or not np.all(np.isfinite(folds)):
        raise ValueError("values must be one-dimensional, finite and at least two")
    mean = float(np.mean(folds))
    half = float(stats.t.ppf((1.0 + confidence) / 2.0, folds.size - 1) * stats.sem(folds))
    return Interval(mean, mean - half, mean + half)
