"""The Extreme Value Machine: a Weibull on the margin of every sample, few of which are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.baselines.base import Baseline, Scorer
from openworld.baselines.weibull import fit_weibull
from openworld.index import ExactIndex
from openworld.recognition import CrossClassValidation
from openworld.recognition.validation import check_announced, continue_training, unchanged_on_error

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_BLOCK = 1 << 20  # distances worked on at a time
_LEAST_MARGIN = 1e-12  # relative to the largest


def fit_margins(tails: Floats) -> tuple[Floats, Floats]:
    """Fit a Weibull distribution to every row of margins, infinite ones left out.

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
        # A margin of 0 has no logarithm: a sample of another class lies on this one.
        least = _LEAST_MARGIN * np.where(largest > 0, largest, 1.0)
        unit = np.maximum(largest, least)
        fitted = fit_weibull((np.where(there, np.maximum(tails, least), np.nan) / unit)[some])
        shapes[some], scales[some] = fitted.shape, fitted.scale * unit[some, 0]
    return shapes, scales


@dataclass(frozen=True)
class ExtremeVectors:
    """Samples with the Weibull distributions of their margins; callable, it scores every class.

    Attributes
    ----------
    points : array of shape (E, D)
    codes : array of shape (E,)
        The class of each, ascending.
    tails : array of shape (E, tail_size)
        Half the distances to the nearest samples of other classes, ascending; infinite where there are
        no more. They are kept so that a Weibull can be fitted anew when nearer samples come.
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
        """Return the model with further samples: new Weibulls, nearer margins, and fewer vectors.

        The margins of the new samples are those to the vectors kept and to each other; a vector that
        a new sample of another class is nearer to than the end of its tail is fitted anew. Then the
        classes of the new samples are reduced.
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
        """Return half the largest distances within the class: there is no other class to keep away from."""
        tails = np.full((len(points), self.tails.shape[1]), np.inf)
        n_found = min(tails.shape[1], len(points) - 1)
        if n_found:
            distances = self._distances(ExactIndex(points).squared_distances(points))
            tails[:, :n_found] = np.sort(distances, axis=1)[:, -n_found:] / 2
        return tails

    def _reduced(self, classes: Codes, cover_threshold: float) -> ExtremeVectors:
        """Return the model without the vectors of these classes that others of their class cover."""
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
    """Choose rows that together cover every column, each time the one that covers most of the rest.

    The paper's greedy approximation of the smallest cover; of equals the first is taken.
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
    """Return float64 samples, divided by their length where the distance is the cosine distance."""
    samples = samples.astype(np.float64)
    if not cosine:
        return samples
    lengths = np.linalg.norm(samples, axis=1, keepdims=True)
    return np.asarray(samples / np.where(lengths > 0, lengths, 1.0))


class ExtremeValueMachine(Baseline):
    """Extreme Value Machine with Euclidean distance.

    Rudd, Jain, Scheirer, Boult, "The extreme value machine", TPAMI 2018. Around every sample x_i a Weibull
    distribution is fitted to half the distances to the `tail_size` nearest samples of other classes (the
    margin distribution, Theorem 1). ``psi_i(x) = exp(-(d(x, x_i) / lambda_i)^kappa_i)`` is the probability
    that x is included by x_i, and the probability of a class is the largest psi of its samples. A sample
    whose psi reaches `cover_threshold` at another sample of its class makes that one redundant (model
    reduction): a greedy set cover keeps the *extreme vectors*.

    The score of a class is ``-ln(-ln psi)``: it ranks as psi does, but tells apart the many psi that
    are 0 as floats when there are many features. A probability delta is the threshold -ln(-ln delta).
    psi falls away from the data, so the accepted region is bounded.

    `partial_fit` does not retrain: it has the extreme vectors, not the samples behind them, and fits
    anew the vectors that new samples come nearer to than the end of their tail (as Koch et al.,
    "Exploring the open world using incremental extreme value machines", 2022). Stored are E x D numbers
    for the vectors and E x `tail_size` for their margins. Because a batch is reduced before the next one
    comes, order and pieces make some difference. The threshold is found on the starting classes and
    stays.

    The authors' code differs from the paper's formula: its library, libMR, fits the Weibull to the
    margins turned around, ``max - d + 1``. Here the formula counts. A single known class, which
    calibration on two classes leaves, has no margins: half the largest distances within it stand in.

    Parameters
    ----------
    tail_size : int, default=50
        The paper's tau, the number of margins a Weibull is fitted to.
    cover_threshold : float, default=0.5
        The paper's sigma; above 1 every sample is kept.
    threshold : float or CrossClassValidation, optional
        Of the score, not of psi. By default cross-class validation with `MinOpenWorldError`.
    unknown_label : label, optional
        By default -1 for numbers and "unknown" for text.
    """

    accepts_bounded_region = True
    order_matters = True
    retrains = False
    _cosine = False

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
        if self.tail_size < 1:
            raise ValueError(f"tail_size must be at least 1; got {self.tail_size}.")
        empty = ExtremeVectors.none(X.shape[1], self.tail_size, self._cosine)
        return empty.extended(prepared(X, self._cosine), codes, self.cover_threshold)

    def _learn(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        super()._learn(samples, labels)
        del self._samples, self._labels

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn further samples, of known and new classes alike, from the extreme vectors and them alone."""
        check_announced(y, classes)
        if not hasattr(self, "classes_"):
            return self.fit(X, y)
        with unchanged_on_error(self):
            samples, labels = continue_training(self, X, y)
            known = np.unique(np.concatenate([self.classes_, labels]))
            vectors = self.extreme_vectors_
            renumbered = replace(vectors, codes=np.searchsorted(known, self.classes_[vectors.codes]))
            self._scorer = renumbered.extended(
                prepared(samples, self._cosine), np.searchsorted(known, labels), self.cover_threshold
            )
            self.classes_ = known
        return self

    @property
    def extreme_vectors_(self) -> ExtremeVectors:
        """The samples kept, and the Weibull distributions of their margins."""
        return cast(ExtremeVectors, self._scorer)


class CosineExtremeValueMachine(ExtremeValueMachine):
    """Extreme Value Machine with the cosine distance, which the paper uses for deep features.

    The distance does not depend on the length of a sample, so samples infinitely far away can be
    accepted. Parameters are those of `ExtremeValueMachine`.
    """

    accepts_bounded_region = False
    _cosine = True
