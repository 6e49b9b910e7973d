"""ClassStatistics: counts, sums and scatter of each class."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.index.growing_rows import GrowingRows, Restorer
from openworld.recognition.class_sums import ClassSums, PooledScatter
from openworld.recognition.validation import as_key, check_labels, label_kind

Floats = NDArray[np.float64]
ScatterKind = Literal["none", "pooled", "per_class"]
_NUMBERS_AT_ONCE = 1 << 20
_NOTHING = 1e-9  # a class with less than this share of its weight left counts as empty


class ClassStatistics:
    """Count, sum and scatter of each class in float64; statistics of parts add up to those of the whole.

    Because everything is a sum, data may arrive in any order, in any batches and on any number of machines.
    A class can be added, corrected, renamed, merged or forgotten exactly. The classes need not be known in
    advance.

    The scatter of class c is ``sum_i w_i (x_i - mu_c)(x_i - mu_c)^T``. It is kept relative to the class
    mean and combined by Chan's update, so a large offset of the features costs no accuracy.

    Parameters
    ----------
    scatter : {"per_class", "pooled", "none"}, default="per_class"
        "per_class" keeps one (D, D) matrix per class. "pooled" keeps only their sum, a single (D, D) matrix;
        forgetting a class then leaves its scatter in the sum (subtract the statistics of its samples to
        remove that too). "none" keeps counts and sums only.

    Examples
    --------
    >>> monday = ClassStatistics().add([[0.0], [2.0]], ["cat", "cat"])
    >>> tuesday = ClassStatistics().add([[4.0], [6.0], [9.0]], ["cat", "cat", "dog"])
    >>> both = monday + tuesday
    >>> both.mean("cat").tolist(), both.count("cat"), both.class_scatter("cat").tolist()
    ([3.0], 4.0, [[20.0]])
    """

    def __init__(self, scatter: ScatterKind = "per_class") -> None:
        if scatter not in ("none", "pooled", "per_class"):
            raise ValueError(f'scatter must be "none", "pooled" or "per_class"; got {scatter!r}.')
        self.scatter_kind: ScatterKind = scatter
        self.row_labels: list[Hashable] = []  # changed in place, so that an index can share it
        self._row_of: dict[Hashable, int] = {}
        self._counts = GrowingRows(np.empty(0))
        self._sums: GrowingRows | None = None
        self._class_scatter = GrowingRows(np.empty((0, 0, 0)))
        self.pooled: PooledScatter | None = None

    def __len__(self) -> int:
        return len(self.row_labels)

    def __contains__(self, label: object) -> bool:
        return as_key(label) in self._row_of

    @property
    def labels(self) -> list[Hashable]:
        """The class labels in row order: the order of learning, until a class is forgotten."""
        return list(self.row_labels)

    @property
    def n_features(self) -> int | None:
        """Number of features, or None before the first sample."""
        return None if self._sums is None else int(self._sums.rows.shape[1])

    @property
    def counts(self) -> Floats:
        """Weight of each class, shape (K,), in row order."""
        return self._counts.rows

    @property
    def sums(self) -> Floats:
        """Sum of the features of each class, shape (K, D), in row order."""
        return np.empty((0, 0)) if self._sums is None else self._sums.rows

    @property
    def means(self) -> Floats:
        """Mean of each class, shape (K, D), in row order."""
        return np.asarray(self.sums / self.counts[:, np.newaxis])

    @property
    def scatter(self) -> Floats:
        """Within-class scatter summed over all classes, shape (D, D)."""
        if self.scatter_kind == "none":
            raise ValueError('These statistics have no scatter. Create them with scatter="pooled".')
        if self.pooled is not None:
            return self.pooled.total
        return np.asarray(self._class_scatter.rows.sum(axis=0))

    def row(self, label: Any) -> int:
        """Return the row of a class; KeyError if there is no such class."""
        try:
            return self._row_of[as_key(label)]
        except KeyError:
            raise KeyError(f"There is no class {as_key(label)!r} among the {len(self)} classes.") from None

    def rows(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows of known classes."""
        return np.fromiter(map(self._row_of.__getitem__, labels.tolist()), np.intp, len(labels))

    def count(self, label: Any) -> float:
        """Return the total weight of the samples of one class."""
        return float(self.counts[self.row(label)])

    def mean(self, label: Any) -> Floats:
        """Return the mean of one class."""
        row = self.row(label)
        return np.asarray(self.sums[row] / self.counts[row])

    @property
    def class_variances(self) -> Floats:
        """Mean squared distance from the class mean (ddof=1), shape (K,), in row order; 0 for one sample."""
        traces = np.einsum("kii->k", self._class_scatter.rows)
        return np.asarray(traces / np.maximum(self.counts - 1, 1))

    def class_scatter(self, label: Any) -> Floats:
        """Return the scatter of one class about its mean."""
        if self.scatter_kind != "per_class":
            raise ValueError('The scatter of a single class is available only with scatter="per_class".')
        return np.array(self._class_scatter.rows[self.row(label)])

    @classmethod
    def restore(
        cls,
        labels: Iterable[Hashable],
        counts: Floats,
        sums: Floats,
        scatter: ScatterKind = "none",
        scatter_matrices: Floats | PooledScatter | None = None,
    ) -> ClassStatistics:
        """Create statistics from arrays in row order; (D, D) pooled or (K, D, D) per-class scatter."""
        if scatter != "none" and scatter_matrices is None:
            raise ValueError(f'scatter="{scatter}" needs scatter_matrices.')
        statistics = cls(scatter)
        statistics._set_labels(labels)
        statistics._counts, statistics._sums = GrowingRows(counts), GrowingRows(sums)
        if isinstance(scatter_matrices, PooledScatter):
            statistics.pooled = scatter_matrices
        elif scatter == "pooled":
            statistics.pooled = PooledScatter(np.empty((0, sums.shape[1])), np.array(scatter_matrices))
        elif scatter == "per_class" and scatter_matrices is not None:
            statistics._class_scatter = GrowingRows(scatter_matrices)
        return statistics

    # -- learning ---------------------------------------------------------------------------------

    def add(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ClassStatistics:
        """Add labeled samples in place and return self.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            A label that is not known yet adds a class.
        sample_weight : array of shape (n,), optional
            Non-negative weights; a sample of weight 0 is ignored.
        """
        return self._combine(self._of_samples(X, y, sample_weight), sign=1)

    def subtract(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ClassStatistics:
        """Subtract samples that were added before, in place. A class without samples is forgotten."""
        return self._combine(self._of_samples(X, y, sample_weight), sign=-1)

    def __iadd__(self, other: ClassStatistics) -> ClassStatistics:
        return self._combine(other, sign=1)

    def __add__(self, other: ClassStatistics) -> ClassStatistics:
        return self.copy().__iadd__(other)

    def __isub__(self, other: ClassStatistics) -> ClassStatistics:
        return self._combine(other, sign=-1)

    def __sub__(self, other: ClassStatistics) -> ClassStatistics:
        return self.copy().__isub__(other)

    def copy(self) -> ClassStatistics:
        """Return an independent copy."""
        other = ClassStatistics(self.scatter_kind)
        other._set_labels(self.row_labels)
        other._counts = self._counts.copy()
        other._sums = None if self._sums is None else self._sums.copy()
        other._class_scatter = self._class_scatter.copy()
        other.pooled = self.pooled
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> ClassStatistics:
        other = self.copy()
        # An index shares the list of labels; copying both together must keep it shared.
        other.row_labels = memo.setdefault(id(self.row_labels), other.row_labels)
        return other

    def rows_changed_with(self, labels: Iterable[Any]) -> NDArray[np.intp]:
        """Return the rows that a change to these classes may touch: theirs, and the last, which fill gaps."""
        names = {as_key(label) for label in labels}
        rows = {self._row_of[name] for name in names if name in self._row_of}
        return np.array(sorted(rows.union(range(len(self))[-len(names) or len(self) :])), dtype=np.intp)

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes the next change to these classes, even if it stopped halfway."""
        names, attributes, n_classes = [as_key(label) for label in labels], dict(vars(self)), len(self)
        rows = self.rows_changed_with(names)
        kept = [(row, self.row_labels[row]) for row in rows.tolist()]
        parts = [part.restorer(rows) for part in self._growing]

        def restore() -> None:
            vars(self).update(attributes)
            labels = self.row_labels
            stale = [*labels[n_classes:], *(labels[row] for row, _ in kept if row < len(labels))]
            for label in [*names, *stale]:
                self._row_of.pop(label, None)
            labels[n_classes:] = [None] * (n_classes - len(labels))  # in place: an index shares the list
            for row, label in kept:
                labels[row], self._row_of[label] = label, row

        return Restorer([restore, *parts], self.pooled.arrays if self.pooled else [])

    @property
    def _growing(self) -> list[GrowingRows]:
        """The arrays that have one row per class."""
        parts = self._counts, self._sums, self._class_scatter if self.scatter_kind == "per_class" else None
        return [part for part in parts if part is not None]

    # -- correcting -------------------------------------------------------------------------------

    def forget(self, label: Any) -> None:
        """Forget a class. The last class takes its row."""
        row = self.row(label)
        last = self.row_labels.pop()
        del self._row_of[as_key(label)]
        if row < len(self.row_labels):
            self.row_labels[row] = last
            self._row_of[last] = row
        for part in self._growing:
            part.remove(row)

    def rename(self, old: Any, new: Any) -> None:
        """Rename a class. No other class may have the new name."""
        row = self.row(old)
        if as_key(new) != as_key(old) and new in self:
            raise ValueError(f"Class {as_key(new)!r} already exists. Merge the two classes instead.")
        self._check_name(new)
        del self._row_of[self.row_labels[row]]
        self.row_labels[row] = as_key(new)
        self._row_of[as_key(new)] = row

    def merge(self, labels: Iterable[Any], into: Any) -> None:
        """Merge several classes into one named `into`, as if they had always been one class."""
        parts = list(dict.fromkeys(as_key(label) for label in labels))
        if not parts:
            raise ValueError("Give at least one class to merge.")
        if into in self and as_key(into) not in parts:
            parts.append(as_key(into))
        rows = [self.row(label) for label in parts]  # look up every label before changing anything
        self._check_name(into)
        merged = ClassStatistics(self.scatter_kind)
        for row in rows:
            merged += self._of_row(row, into)
        for label in parts:
            self.forget(label)
        self += merged

    # -- combining: the operation behind add, subtract and merge ----------------------------------

    def _of_samples(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> ClassStatistics:
        """Return the statistics of one batch."""
        samples = np.asarray(X)
        if samples.ndim != 2:
            raise ValueError(f"X must have two dimensions (samples, features); got shape {samples.shape}.")
        if samples.dtype.kind == "O":
            samples = samples.astype(np.float64)
        labels = check_labels(y)
        if len(labels) != len(samples):
            raise ValueError(f"There are {len(samples)} samples but {len(labels)} labels.")
        weights = None if sample_weight is None else np.asarray(sample_weight, float)
        if weights is not None:
            if weights.shape != labels.shape or not np.all((weights >= 0) & (weights < np.inf)):
                raise ValueError("sample_weight must hold one finite, non-negative weight for each sample.")
            samples, labels, weights = samples[weights > 0], labels[weights > 0], weights[weights > 0]
        keys, codes = np.unique(labels, return_inverse=True)
        batch = ClassStatistics(self.scatter_kind)
        batch._set_labels(keys.tolist())
        batch._sum_up(samples, codes, weights)
        return batch

    def _sum_up(self, samples: NDArray[Any], codes: NDArray[np.intp], weights: Floats | None) -> None:
        """Sum the samples of each class."""
        of_classes = ClassSums(samples, codes, weights, len(self))
        with np.errstate(over="ignore", invalid="ignore"):  # non-finite results raise an error below
            sums = of_classes.sums()
            means = sums / of_classes.counts[:, np.newaxis]
            spread = 0.0
            if self.scatter_kind == "pooled":
                self.pooled = of_classes.scatter(means)
                spread = self.pooled.trace
            elif self.scatter_kind == "per_class":
                self._class_scatter = GrowingRows(of_classes.class_scatters(means))
                spread = float(np.einsum("kii->", self._class_scatter.rows))
        if not np.all(np.isfinite(sums)) or not np.isfinite(spread):
            raise ValueError("Input X contains NaN or infinity, or values too large to sum.")
        self._counts, self._sums = GrowingRows(of_classes.counts), GrowingRows(sums)

    def _of_row(self, row: int, label: Any) -> ClassStatistics:
        """Return the statistics of one class under another label, without its share of a pooled scatter."""
        scatter: Floats | PooledScatter | None = None
        if self.scatter_kind == "per_class":
            scatter = self._class_scatter.rows[row : row + 1]
        elif self.scatter_kind == "pooled":
            scatter = PooledScatter(np.empty((0, self.sums.shape[1])))
        counts, sums = self.counts[row : row + 1], self.sums[row : row + 1]
        return ClassStatistics.restore([as_key(label)], counts, sums, self.scatter_kind, scatter)

    def _set_labels(self, labels: Iterable[Hashable]) -> None:
        self.row_labels = list(labels)
        self._row_of = {label: row for row, label in enumerate(self.row_labels)}

    def _check_name(self, label: Any) -> None:
        """Raise an error if the label is invalid or of another kind than the classes."""
        check_labels([as_key(label)])
        self._check_kind([label])

    def _check_kind(self, labels: Sequence[Any]) -> None:
        if len(self):
            label_kind([self.row_labels[0], *map(as_key, labels)])

    def check_combines(self, other: ClassStatistics, sign: Literal[1, -1] = 1) -> None:
        """Raise an error if the other statistics cannot be added (sign = 1) or subtracted (sign = -1)."""
        if self.scatter_kind != other.scatter_kind:
            raise ValueError(f"Scatter {self.scatter_kind!r} and {other.scatter_kind!r} cannot be combined.")
        if self.n_features is not None and other.n_features not in (None, self.n_features):
            raise ValueError(f"{self.n_features} and {other.n_features} features cannot be combined.")
        self._check_kind(other.row_labels[:1])
        for label, count in zip(other.row_labels, other.counts, strict=True) if sign < 0 else ():
            if label not in self or self.count(label) < count * (1 - _NOTHING):
                raise ValueError(f"Class {label!r} has fewer samples than should be subtracted from it.")

    def _combine(self, other: ClassStatistics, sign: Literal[1, -1]) -> ClassStatistics:
        """Add (sign = 1) or subtract (sign = -1) other statistics in place.

        Chan's update: combining parts a and b of a class adds
        ``n_a n_b / (n_a + n_b) (mu_a - mu_b)(mu_a - mu_b)^T`` to the sum of their scatters; separating
        them subtracts the same term.
        """
        self.check_combines(other, sign)
        if other._sums is None:
            return self
        if self._sums is None:
            copied = vars(other.copy())
            self.row_labels += copied.pop("row_labels")  # in place: an index may share the list
            vars(self).update(copied)
            return self
        self._append_empty([label for label in other.row_labels if label not in self._row_of])
        rows = np.array([self._row_of[label] for label in other.row_labels], dtype=np.intp)
        counts_b, sums_b = other.counts[:, np.newaxis], other.sums
        counts_a, sums_a = self.counts[rows][:, np.newaxis], self.sums[rows]
        counts, sums = counts_a + sign * counts_b, sums_a + sign * sums_b
        left = counts > _NOTHING * counts_b
        if self.scatter_kind != "none":
            if sign < 0:
                counts_a, sums_a = counts, sums
            both = (left & (counts_a > 0))[:, 0]
            between = np.zeros_like(sums_b)
            n_a, n_b = counts_a[both], counts_b[both]
            between[both] = np.sqrt(n_a * n_b / (n_a + n_b)) * (sums_a[both] / n_a - sums_b[both] / n_b)
            self._combine_scatter(rows, other, between, sign)
        self.counts[rows], self.sums[rows] = counts[:, 0], sums
        for label in [other.row_labels[i] for i in np.flatnonzero(~left[:, 0])]:
            self.forget(label)
        return self

    def _combine_scatter(
        self, rows: NDArray[np.intp], other: ClassStatistics, between: Floats, sign: Literal[1, -1]
    ) -> None:
        if self.pooled is not None and other.pooled is not None:
            for part in (other.pooled, PooledScatter(between[between.any(axis=1)])):
                self.pooled = self.pooled + part if sign > 0 else self.pooled - part
        if self.scatter_kind == "per_class":
            n_at_once = max(1, _NUMBERS_AT_ONCE // max(1, between.shape[1] ** 2))
            for start in range(0, len(rows), n_at_once):
                chunk = slice(start, start + n_at_once)
                change = np.einsum("ki,kj->kij", between[chunk], between[chunk])
                change += other._class_scatter.rows[chunk]
                self._class_scatter.rows[rows[chunk]] += sign * change

    def _append_empty(self, labels: Sequence[Hashable]) -> None:
        for label in labels:
            self._row_of[label] = len(self.row_labels)
            self.row_labels.append(label)
        for part in self._growing:
            part.extend(np.zeros((len(labels), *part.rows.shape[1:])))
