"""Leave-one-out and leave-class-out in closed form: products as if the metric had not seen a sample.

Everything is computed from whitened samples and class means. Taking samples out of the covariance ``C`` is a
low-rank change ``C' = C - k D^T D`` (Woodbury): in whitened coordinates the inner product of a and b becomes
``a b + k (D a)^T (I - k D D^T)^-1 (D b)``, so no covariance is factored twice. Of a class that is left out
only some samples are kept; the others leave to first order, ``a b + w k (D a)^T (D b) - share a b``, where w
is their number over that of the kept ones and share their part of the degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from openworld.recognition.adaptive.groups import Grouping
from openworld.recognition.adaptive.metric import Whitening, center_weights
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.validation import rank_in_class

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.intp]

_PAIRS_AT_ONCE = 4_000_000  # of a sample and a class, in products of matrices
_CACHED_PAIRS = 1 << 16  # in what follows: few enough to stay in a processor's cache
_MOST_JUDGED = 100_000_000  # pairs in all, or up to twice as many
_LEAST = 1e-4  # the share of the variance that is left at least when samples are taken out
_MOST_OF_CLASS = 2 / 3  # of a larger group too little of the class would be left


class Products(NamedTuple):
    """Inner products of n samples and K class means in a whitened space.

    Attributes
    ----------
    mixed : array of shape (n, K)
        Of each sample and each mean.
    samples : array of shape (n, 1)
        Squared length of each sample.
    means : array of shape (n, K) or (K,)
        Squared length of each mean.
    counts : array of shape (n, K) or (K,)
        Samples behind each mean, as many as would tell as much if none were a copy.
    left_out : array of shape (n,), optional
        The class that each sample was left out of.
    left : array of shape (n,), optional
        The samples behind its mean then.
    """

    mixed: NDArray[Any]
    samples: NDArray[Any]
    means: NDArray[Any]
    counts: NDArray[Any]
    left_out: Codes | None = None
    left: Doubles | None = None


@dataclass(frozen=True)
class HeldOut:
    """Whitened samples that the class statistics hold, and what it takes to leave them out.

    Attributes
    ----------
    samples : array of shape (n, L)
        Of classes with other samples that are no copies of them.
    codes : array of shape (n,)
        The class of each sample, ascending.
    means : array of shape (K, L)
        Whitened class means. The origin is their mean, weighted by `shares`.
    counts, shares : arrays of shape (K,)
    per_sample : float
        k: what one sample adds to the shrunk covariance.
    parts : array of shape (n,)
        The share of its class that leaves with each sample: the sample, or its group.
    effective : array of shape (K,)
        The counts, if copies told as much as other samples do.
    groups : array of shape (n,), optional
        The group of each sample, unless each is one of its own.
    unknowns : array of shape (m, L), optional
        Whitened samples of no class, which the statistics do not hold.
    shrunk : float
        The share of the shrunk covariance, averaged over whitened directions, that the shrinkage put there.
    """

    samples: Floats
    codes: Codes
    means: Floats
    counts: Doubles
    shares: Doubles
    per_sample: float
    parts: Doubles
    effective: Doubles
    groups: Codes | None = None
    unknowns: Floats | None = None
    shrunk: float = 0.0

    def some(self, per_class: int, step: int) -> HeldOut:
        """Return the same with the first `per_class` samples of every `step`-th class only."""
        some = (rank_in_class(self.codes) < per_class) & (self.codes % step == 0)
        if some.all():
            return self
        groups = None if self.groups is None else self.groups[some]
        samples, codes, parts = self.samples[some], self.codes[some], self.parts[some]
        return replace(self, samples=samples, codes=codes, parts=parts, groups=groups)

    def of_unknowns(self) -> Products | None:
        """Return the products of the samples of no class and all means; None without such samples."""
        if self.unknowns is None or not len(self.unknowns):
            return None
        mixed = (self.unknowns @ self.means.T).astype(np.float64)
        squares = _row_products(self.means, self.means)[:, 0]
        return Products(mixed, _row_products(self.unknowns, self.unknowns), squares, self.effective)

    def own(self) -> Products:
        """Return the products of each sample and the mean of its class without its group, K = 1."""
        means = self.means[self.codes]
        squares = _row_products(means, means)
        mixed, samples = _row_products(self.samples, means), _row_products(self.samples, self.samples)
        column = np.zeros(len(means), dtype=np.intp)
        products = self._without_group(slice(None), column, mixed, samples, squares, squares)
        assert products.left is not None
        return products._replace(counts=products.left[:, np.newaxis], left_out=None, left=None)

    def __iter__(self) -> Iterator[tuple[slice, Products, Products]]:
        """Yield rows of samples, their products when known, and when their own class is unknown."""
        squares = _row_products(self.means, self.means)[:, 0]
        for classes, rows in self._pieces(0, len(self.counts), _PAIRS_AT_ONCE):
            between = self.means[classes] @ self.means.T
            mixed = self.samples[rows] @ self.means.T
            for _, part in self._pieces(classes.start, classes.stop, _CACHED_PAIRS):
                samples, codes = self.samples[part], self.codes[part]
                inner = (
                    mixed[part.start - rows.start : part.stop - rows.start].astype(np.float64),
                    _row_products(samples, samples),
                    squares,
                    between[codes - classes.start].astype(np.float64),
                )
                known = self._without_group(part, codes, *inner)
                yield part, known, self._without_class(samples, codes, *inner)

    def _pieces(self, first: int, last: int, n_pairs: int) -> Iterator[tuple[slice, slice]]:
        """Yield classes and the rows of their samples, with about so many pairs of a sample and a class."""
        n_classes = len(self.counts)
        at_once = max(1, n_pairs // max(1, n_classes * (1 + len(self.codes) // n_classes)))
        for start in range(first, last, at_once):
            stop = min(start + at_once, last)
            rows = slice(*np.searchsorted(self.codes, [start, stop]).tolist())
            if rows.start < rows.stop:
                yield slice(start, stop), rows

    def _without_group(
        self, rows: slice, own: Codes, mixed: Doubles, samples: Doubles, means: Doubles, between: Doubles
    ) -> Products:
        """Take the group of each sample out of the covariance, its own mean (column `own`) and the center.

        A sample without a group leaves exactly. A group leaves as if all its samples were at their mean: with
        the deviation d of that from the class mean and the group's share p of the class, the class mean moves
        by -d p / (1 - p).
        """
        at_own, codes, held = (np.arange(len(own)), own), self.codes[rows], self.samples[rows]
        middles, of_middles = self._mean_of_group(held, rows), self._mean_of_group(mixed, rows)
        along = _row_products(held, middles) - mixed[at_own][:, np.newaxis]  # d x
        with_means = of_middles - between  # d m_j
        to_own = (of_middles + with_means)[at_own][:, np.newaxis]
        square = np.maximum(_row_products(middles, middles) - to_own, 0)  # d d
        step = (self.parts[rows] / (1 - self.parts[rows]))[:, np.newaxis]
        mixed, means = mixed.copy(), np.broadcast_to(means, mixed.shape).copy()
        mixed[at_own] -= (along * step)[:, 0]
        means[at_own] += (square * step**2)[:, 0] - 2 * with_means[at_own] * step[:, 0]
        with_means[at_own] -= (square * step)[:, 0]
        shift = self.shares[codes][:, np.newaxis] * step  # and everything, seen from the center, by shift d
        mixed += shift * (along + with_means) + shift**2 * square
        means += 2 * shift * with_means + shift**2 * square
        samples = samples + 2 * shift * along + shift**2 * square
        along, with_means = along + shift * square, with_means + shift * square
        taken = self.per_sample * self.counts[codes][:, np.newaxis] * step
        gain = taken / np.maximum(1 - taken * square, _LEAST)
        mixed += gain * along * with_means
        means += gain * with_means**2
        left = self.effective[codes] * (1 - self.parts[rows])
        return Products(mixed, samples + gain * along**2, means, self.effective, own, left)

    def _mean_of_group(self, values: NDArray[Any], rows: slice) -> NDArray[Any]:
        """Return the mean of the rows of values over the group of each."""
        if self.groups is None or not len(values):
            return values
        _, of_row, sizes = np.unique(self.groups[rows], return_inverse=True, return_counts=True)
        belongs = csr_array((np.ones(len(of_row), values.dtype), of_row, np.arange(len(of_row) + 1)))
        return np.asarray((belongs.T @ values / sizes[:, np.newaxis].astype(values.dtype))[of_row])

    def _without_class(
        self, held: Floats, codes: Codes, mixed: Doubles, samples: Doubles, means: Doubles, between: Doubles
    ) -> Products:
        """Take the whole class of each sample out: mean, share of the center, samples of the covariance."""
        at_own = (np.arange(len(codes)), codes)
        own, own_square = mixed[at_own][:, np.newaxis], between[at_own][:, np.newaxis]
        share = self.shares[codes][:, np.newaxis]
        shift = share / np.maximum(1 - share, np.finfo(float).eps)  # everything moves by shift m_c
        moved = mixed + shift * (own + between) + shift**2 * own_square
        lengths = means + 2 * shift * between + shift**2 * own_square
        samples = samples + 2 * shift * own + shift**2 * own_square
        if self.per_sample > 0:
            deviations, to_own = held - self.means[codes], own - own_square
            with_means = mixed - between + shift * to_own
            sizes = np.bincount(codes)[codes]
            for size in np.unique(sizes).tolist():  # classes of as many samples at once
                rows = np.flatnonzero(sizes == size).reshape(-1, size)
                between_deviations = (deviations[rows] @ deviations[rows].mT).astype(np.float64)
                with_samples = between_deviations + ((1 + shift) * to_own)[rows]
                unkept = np.maximum(self.counts[codes[rows[:, :1]]] - size, 0)[..., np.newaxis]
                parts = [part[rows] for part in (moved, lengths, samples)]
                self._leave_covariance(parts, between_deviations, with_means[rows], with_samples, unkept)
                moved[rows], lengths[rows], samples[rows] = parts
        moved[at_own] = -np.inf
        return Products(moved, samples, lengths, self.effective)

    def _leave_covariance(
        self,
        parts: list[Doubles],
        squares: Doubles,
        with_means: Doubles,
        with_samples: Doubles,
        unkept: Doubles,
    ) -> None:
        """Take classes of as many kept samples, with deviations D, out of the covariance.

        The kept samples leave it exactly, by the formula at the top. The others of the class leave to first
        order, as if they were the kept ones except the judged sample: its product with itself says nothing
        about its products with others. Those of one of two classes stay, as that is no small change. What is
        left of the scatter is divided by what is left of the degrees of freedom; what the shrinkage put into
        the covariance stays.

        Parameters
        ----------
        parts : list of arrays of shape (n_classes, n, K), (n_classes, n, K) and (n_classes, n, 1)
            Products of samples and means, squares of means and of samples; changed in place.
        squares, with_means, with_samples : arrays of shape (n_classes, n, n), (n_classes, n, K), as the first
            Products of D with D, with the means and with the samples.
        unkept : array of shape (n_classes, 1, 1)
            How many samples of each class are not kept.
        """
        n, degrees = squares.shape[1], max(float(self.counts.sum()) - len(self.counts), 1.0)
        values, vectors = np.linalg.eigh(self.per_sample * squares)
        root = (vectors * np.sqrt(self.per_sample / np.maximum(1 - values, _LEAST))[:, np.newaxis]).mT
        of_means, of_samples = root @ with_means, root @ with_samples
        left = max(degrees - (n - 1), 1.0) / degrees
        left = 1 / ((1 - self.shrunk) / left + self.shrunk)
        for part, gain in zip(parts, _gains(of_means, of_samples), strict=True):
            part += gain
            part *= left
        if n > 1 and len(self.counts) > 2 and unkept.any():
            weight, share = self.per_sample * unkept / (n - 1), (1 - self.shrunk) * unkept / degrees
            with_samples[:, np.arange(n), np.arange(n)] = 0
            mixed, means, samples = _gains(with_means, with_samples)
            for part, gain in zip(parts, (mixed, means - with_means**2, samples), strict=True):
                part += weight * gain - share * part


def _gains(with_means: Doubles, with_samples: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Return what products of samples and means, squares of means and of samples gain, for each class."""
    means, samples = np.sum(with_means**2, axis=1, keepdims=True), np.sum(with_samples**2, axis=1)
    return with_samples.mT @ with_means, means, samples[..., np.newaxis]


def step_of_judged(n_samples: int, n_classes: int) -> int:
    """Return 1 where the samples of all classes can be judged, n where only those of every n-th class can."""
    return max(1, n_samples * n_classes // _MOST_JUDGED)


def hold_out(
    statistics: ClassStatistics,
    whitening: Whitening,
    order: Codes,
    represented: Floats,
    codes: Codes,
    grouping: Grouping | None = None,
    unknowns: Floats | None = None,
    *,
    seen: bool = True,
) -> HeldOut:
    """Whiten class means, and the samples to judge with that leave others of their class behind.

    Parameters
    ----------
    statistics : ClassStatistics
        Of the represented samples, with pooled scatter.
    whitening : Whitening
    order : array of shape (K,)
        The rows of the classes in `statistics`.
    represented : array of shape (n, L)
        Samples that `statistics` hold, sorted by class.
    codes : array of shape (n,)
    grouping : Grouping, optional
        Of these samples; by default each is a group of its own.
    unknowns : array of shape (m, L), optional
        Represented samples of no class.
    seen : bool, default=True
        Whether the whitening was made from these statistics. Otherwise it has not seen what was learned of
        the classes since, and there is nothing to leave out of it.
    """
    counts = statistics.counts[order]
    groups, parts, effective = None, 1 / counts[codes], counts
    if grouping is not None:
        groups, parts = grouping.numbers, grouping.parts(counts, codes)
        effective = grouping.effective(counts)
    several = parts <= _MOST_OF_CLASS
    means = whitening((statistics.sums[order] / counts[:, np.newaxis]).astype(np.float32))
    samples = represented[several]
    if unknowns is not None and len(unknowns):
        unknowns = whitening(unknowns)
    return HeldOut(
        whitening(samples) if len(samples) else means[:0],
        codes[several],
        means,
        counts,
        center_weights(counts) if seen else np.zeros(len(counts)),
        whitening.per_sample if seen else 0.0,
        parts[several],
        effective,
        None if groups is None else groups[several],
        unknowns,
        _shrunk_share(statistics, whitening) if seen else 0.0,
    )


def _shrunk_share(statistics: ClassStatistics, whitening: Whitening) -> float:
    """Return the share of the shrunk covariance that is the multiple of the identity, in whitened directions.

    ``tr(s v C^-1) / L`` with the shrinkage s, the mean variance v and the shrunk covariance C.
    """
    degrees = max(float(statistics.counts.sum()) - len(statistics), 1.0)
    variance = float(np.trace(statistics.scatter)) / (degrees * len(whitening.map))
    inverse_trace = float(np.einsum("ij,ij->", whitening.map, whitening.map, dtype=np.float64))
    return min(whitening.shrinkage * variance * inverse_trace / len(whitening.map), 1.0)


def _row_products(left: Floats, right: Floats) -> Doubles:
    return np.asarray(np.einsum("ij,ij->i", left, right), dtype=np.float64)[:, np.newaxis]
