"""The Extreme Value Machine: Weibull distributions of margins around a few extreme vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.baselines.weibull import fit_weibull
from openworld.index import ExactIndex
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_BLOCK = 1 << 20  # distances computed at a time
_LEAST_MARGIN = 1e-12  # relative to the largest


def fit_margins(tails: Floats) -> tuple[Floats, Floats]:
    """Fit a Weibull distribution to every row of margins, ignoring infinite ones.

    Returns
    -------
    shapes, scales : arrays of shape (n,)
        1 and 1 for a row without margins.
    """
    there = np.isfinite(tails)
    some = there.any(axis=1)
    shapes, scales = np.ones(len(tails)), np.ones(len(tails))
    if some.any():
        largest = np.max(tails, axis=1, where=there, initial=0.0, keepdims=True)
        # Where a sample of another class coincides with this one, the margin is 0 and has no logarithm.
        least = _LEAST_MARGIN * np.where(largest > 0, largest, 1.0)
        unit = np.maximum(largest, least)
        fitted = fit_weibull((np.where(there, np.maximum(tails, least), np.nan) / unit)[some])
        shapes[some], scales[some] = fitted.shape, fitted.scale * unit[some, 0]
    return shapes, scales


@dataclass(frozen=True)
class ExtremeVectors:
    """Samples with the Weibull distributions of their margins; calling it scores every class.

    Attributes
    ----------
    points : array of shape (E, D)
    codes : array of shape (E,)
        The class of each, ascending.
    tails : array of shape (E, tail_size)
        Half the distances to the nearest samples of other classes, ascending; infinite where there are
        no more. Kept so that a Weibull can be fitted again when nearer samples arrive.
    shapes, scales : arrays of shape (E,)
    cosine : bool
        Points have length 1 and the distance is the cosine distance; otherwise it is Euclidean.
    """

    points: Floats
    codes: Codes
    tails: Floats
    shapes: Floats
    scales: Floats
    cosine: bool

    @classmethod
    def none(cls, n_features: int, tail_size: int, cosine: bool) -> ExtremeVectors:
        """Return an empty model."""
        nothing = np.empty(0)
        tails = np.empty((0, tail_size))
        points = np.empty((0, n_features))
        return cls(points, np.empty(0, dtype=np.intp), tails, nothing, nothing, cosine)

    def extended(self, samples: Floats, codes: Codes, cover_threshold: float) -> ExtremeVectors:
        """Return the model with more samples.

        Margins of the new samples are computed against the kept vectors and each other. A kept vector is
        fitted again when a new sample of another class falls within its tail. Then the classes of the
        new samples are reduced.
        """
        points, all_codes = np.concatenate([self.points, samples]), np.concatenate([self.codes, codes])
        size = self.tails.shape[1]
        old_tails = np.concatenate(
            [self.tails, self._margins(self.points, self.codes, samples, codes)], axis=1
        )
        old_tails = np.sort(old_tails, axis=1)[:, :size]
        tails = np.concatenate([old_tails, self._margins(samples, codes, points, all_codes)])
        one_class = bool(np.all(all_codes == all_codes[0]))
        shapes, scales = fit_margins(self._margins_of_one_class(points) if one_class else tails)
        order = np.argsort(all_codes, kind="stable")
        whole = replace(
            self,
            points=points[order],
            codes=all_codes[order],
            tails=tails[order],
            shapes=shapes[order],
            scales=scales[order],
        )
        return whole._reduced(np.unique(codes), cover_threshold)

    def _margins(self, points: Floats, codes: Codes, others: Floats, other_codes: Codes) -> Floats:
        """Return half the distances to the nearest others of another class, ascending, (n, tail_size)."""
        size = self.tails.shape[1]
        tails = np.full((len(points), size), np.inf)
        n_found = min(size, len(others))
        index, n_rows = ExactIndex(others), max(1, _BLOCK // max(len(others), 1))
        for start in range(0, len(points) if n_found else 0, n_rows):
            rows = slice(start, start + n_rows)
            squared = index.squared_distances(points[rows])
            squared[codes[rows, np.newaxis] == other_codes] = np.inf
            nearest = np.sort(np.partition(squared, n_found - 1, axis=1)[:, :n_found], axis=1)
            tails[rows, :n_found] = self._distances(nearest) / 2
        return tails

    def _margins_of_one_class(self, points: Floats) -> Floats:
        """Return half the largest distances within the only class, which has no margins to other classes."""
        tails = np.full((len(points), self.tails.shape[1]), np.inf)
        n_found = min(tails.shape[1], len(points) - 1)
        if n_found:
            distances = self._distances(ExactIndex(points).squared_distances(points))
            tails[:, :n_found] = np.sort(distances, axis=1)[:, -n_found:] / 2
        return tails

    def _reduced(self, classes: Codes, cover_threshold: float) -> ExtremeVectors:
        """Return the model without the vectors of these classes that other vectors of the class cover."""
        keep = ~np.isin(self.codes, classes)
        for code in classes:
            rows = np.flatnonzero(self.codes == code)
            covers = probability(-self._of(rows).exponents(self.points[rows]).T) >= cover_threshold
            np.fill_diagonal(covers, True)
            keep[rows[greedy_cover(covers)]] = True
        return self._of(np.flatnonzero(keep))

    def _of(self, rows: Codes) -> ExtremeVectors:
        return replace(
            self,
            points=self.points[rows],
            codes=self.codes[rows],
            tails=self.tails[rows],
            shapes=self.shapes[rows],
            scales=self.scales[rows],
        )

    def _distances(self, squared: NDArray[np.floating[Any]]) -> Floats:
        """Turn squared Euclidean distances into distances; ``|u - v|^2 / 2`` is one minus the cosine."""
        return np.asarray(squared / 2 if self.cosine else np.sqrt(squared))

    def exponents(self, samples: Floats) -> Floats:
        """Return ``ln(-ln psi_i(x)) = kappa_i ln(d(x, x_i) / lambda_i)``, shape (n, E)."""
        distances = self._distances(ExactIndex(self.points).squared_distances(samples))
        distances /= self.scales
        np.maximum(distances, np.finfo(np.float64).tiny, out=distances)
        np.log(distances, out=distances)
        distances *= self.shapes
        return distances

    def __call__(self, samples: NDArray[Any]) -> Floats:
        """Return ``-ln(-ln psi)`` of each class, psi being the largest of its vectors, shape (n, K)."""
        samples = prepared(samples, self.cosine)
        starts = np.searchsorted(self.codes, np.arange(self.codes[-1] + 1))
        scores = np.empty((len(samples), len(starts)))
        n_rows = max(1, _BLOCK // len(self.points))
        for start in range(0, len(samples), n_rows):
            rows = slice(start, start + n_rows)
            scores[rows] = -np.minimum.reduceat(self.exponents(samples[rows]), starts, axis=1)
        return scores


def probability(scores: Floats) -> Floats:
    """Return psi, given ``-ln(-ln psi)``."""
    return np.asarray(np.exp(-np.exp(np.minimum(-scores, 700.0))))  # exp(-exp(700)) is 0; exp(710) overflows


def greedy_cover(covers: NDArray[np.bool_]) -> Codes:
    """Choose rows that together cover every column: the paper's greedy set cover.

    Each step takes the row that covers most of the columns left; of equal rows, the first.
    """
    left = np.ones(covers.shape[1], dtype=bool)
    gains = covers.sum(axis=1)
    chosen = []
    while left.any():
        best = int(gains.argmax())
        chosen.append(best)
        newly = covers[best] & left
        left &= ~newly
        gains -= covers[:, newly].sum(axis=1)
    return np.array(chosen, dtype=np.intp)


def prepared(samples: NDArray[Any], cosine: bool) -> Floats:
    """Return float64 samples, scaled to unit length where the distance is the cosine distance."""
    samples = samples.astype(np.float64)
    return np.asarray(normalize(samples)) if cosine else samples


class ExtremeValueMachine(Baseline):
    """Extreme Value Machine with Euclidean distance.

    Rudd, Jain, Scheirer, Boult, "The extreme value machine", TPAMI 2018. Around every sample x_i a Weibull
    distribution is fitted to half the distances to the `tail_size` nearest samples of other classes (the
    margin distribution, Theorem 1). ``psi_i(x) = exp(-(d(x, x_i) / lambda_i)^kappa_i)`` is the probability
    that x is included by x_i, and the probability of a class is the largest psi of its samples. A sample
    whose psi reaches `cover_threshold` at another sample of its class makes that one redundant (model
    reduction): a greedy set cover keeps the *extreme vectors*.

    The score of a class is ``-ln(-ln psi)``, which ranks like psi but does not underflow when there are
    many features. A probability delta is the threshold -ln(-ln delta). psi decays away from the data, so
    the accepted region is bounded.

    `partial_fit` does not retrain. It has the extreme vectors, not the samples behind them, and fits
    again the vectors that have a new sample within their tail (as Koch et al., "Exploring the open world
    using incremental extreme value machines", 2022). It stores E x D numbers for the vectors and
    E x `tail_size` for their margins. A batch is reduced before the next one arrives, so the result
    depends on order and batches. The threshold found in `fit` does not change.

    The authors' code differs from the paper's formula: its library, libMR, fits the Weibull to
    ``max - d + 1``. This class follows the formula. A single known class, as calibration on two classes
    leaves, has no margins; half the largest distances within it are used instead.

    Parameters
    ----------
    tail_size : int, default=50
        The paper's tau, the number of margins a Weibull is fitted to.
    cover_threshold : float, default=0.5
        The paper's sigma; above 1 every sample is kept.
    threshold, unknown_label
        As in `Baseline`. The threshold is one of the score, not of psi.
    """

    accepts_bounded_region = True
    order_matters = True
    retrains = False
    _cosine = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "tail_size": [Interval(Integral, 1, None, closed="left")],
        "cover_threshold": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        tail_size: int = 50,
        cover_threshold: float = 0.5,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.tail_size = tail_size
        self.cover_threshold = cover_threshold

    def _train(self, X: NDArray[Any], codes: Codes, n_classes: int) -> Scorer:
        empty = ExtremeVectors.none(X.shape[1], self.tail_size, self._cosine)
        return empty.extended(prepared(X, self._cosine), codes, self.cover_threshold)

    def _keep(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Keep no samples: the scorer holds the extreme vectors."""

    def _learn_more(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Extend the extreme vectors by the new samples; the samples behind them are not needed."""
        known = np.unique(np.concatenate([self.classes_, labels]))
        vectors = self.extreme_vectors_
        renumbered = replace(vectors, codes=np.searchsorted(known, self.classes_[vectors.codes]))
        self._scorer = renumbered.extended(
            prepared(samples, self._cosine), np.searchsorted(known, labels), self.cover_threshold
        )
        self.classes_ = known

    @property
    def extreme_vectors_(self) -> ExtremeVectors:
        """The samples kept, and the Weibull distributions of their margins."""
        return cast(ExtremeVectors, self._scorer)


class CosineExtremeValueMachine(ExtremeValueMachine):
    """Extreme Value Machine with the cosine distance, which the paper uses for deep features.

    The distance ignores the length of a sample, so samples infinitely far away can be accepted. The
    parameters are those of `ExtremeValueMachine`.
    """

    accepts_bounded_region = False
    _cosine = True
