"""How sure a measurement is: over the test samples by bootstrap, over class orders by Student's t."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import stats


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    estimate: float
    low: float
    high: float


class Resamplable(Protocol):
    """Test samples that can be drawn again, known and unknown separately: `Decisions`, `Scores`."""

    def resample(self, rng: np.random.Generator) -> Self:
        """Draw as many samples of each kind with replacement."""


SamplesT = TypeVar("SamplesT", bound=Resamplable)


def bootstrap_interval(
    measure: Callable[[SamplesT], float],
    samples: SamplesT,
    *,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator,
) -> Interval:
    """Return a measure with its percentile bootstrap interval over the test samples.

    The N known and the N' unknown samples are resampled separately. The interval tells what other test
    samples of the *same* classes would give to the *same* model; `fold_interval` tells what other
    classes would give. The percentile interval is plain: with few samples per class it is somewhat
    narrow, and off centre for measures with a bias, such as `open_set_f1_macro`.

    Parameters
    ----------
    measure : callable
        From `samples` to float, such as `pooled_accuracy` or
        ``lambda scores: ccr_at_fpr(scores, 0.1)``.
    samples : Decisions or Scores
    n_resamples : int, default=1000
    confidence : float, default=0.95
        In (0, 1).
    random_state : int or numpy.random.Generator
        The same seed gives the same interval.

    Returns
    -------
    Interval
        The measure of `samples` itself, and the (1 ± confidence) / 2 quantiles over the resamples.

    Raises
    ------
    ValueError
        If `confidence` or `n_resamples` is out of range, or the measure is not defined for `samples`.
    """
    _check_confidence(confidence)
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples}")
    rng = np.random.default_rng(random_state)
    estimate = measure(samples)
    resampled = [measure(samples.resample(rng)) for _ in range(n_resamples)]
    low, high = np.quantile(resampled, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return Interval(estimate, float(low), float(high))


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
    _check_confidence(confidence)
    folds = np.asarray(values, dtype=np.float64)
    if folds.ndim != 1 or folds.size < 2 or not np.all(np.isfinite(folds)):
        raise ValueError("values must be one-dimensional, finite and at least two")
    mean = float(np.mean(folds))
    error = float(np.std(folds, ddof=1) / np.sqrt(folds.size))
    half = float(stats.t.ppf((1.0 + confidence) / 2.0, folds.size - 1)) * error
    return Interval(mean, mean - half, mean + half)


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
