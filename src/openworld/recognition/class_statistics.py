"""ClassStatistics: counts, sums and scatter of each class."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.index.growing_rows import GrowingRows, in_turn
from openworld.recognition.class_sums import ClassSums
from openworld.recognition.validation import as_key, check_labels, label_kind

Floats = NDArray[np.float64]
ScatterKind = Literal["none", "pooled", "per_class"]
_NUMBERS_AT_ONCE = 1 << 20
_NOTHING = 1e-9  # the share of a class's weight below which nothing is left of it


class ClassStatistics:
    """Count, sum and scatter of each class in float64; statistics of parts add up to those of the whole.

    Because everything is a sum, data may arrive in any order, in any pieces and on any number of
    machines; a class can be added, corrected, renamed, merged or forgotten exactly; and no list of
    classes is needed beforehand.

    The scatter of class c is ``sum_i w_i (x_i - mu_c)(x_i - mu_c)^T``. It is kept relative to the class
    mean and combined by Chan's update, so a large offset of the features costs no accuracy.

    Parameters
    ----------
    scatter : {"per_class", "pooled", "none"}, default="per_class"
        "per_class" keeps one (D, D) matrix per class. "pooled" keeps only their sum, one (D, D) matrix
        however many classes there are; a forgotten class then leaves its share of the scatter behind
        (subtract the statistics of its samples to take that away too). "none" keeps counts and sums.

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
        self._labels: list[Hashable] = []
        self._row_of: dict[Hashable, int] = {}
        self._counts = GrowingRows(np.empty(0))
        self._sums: GrowingRows | None = None
        self._class_scatter = GrowingRows(np.empty((0, 0, 0)))
        self._pooled: Floats | None = None

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, label: object) -> bool:
        return as_key(label) in self._row_of

    @property
    def labels(self) -> list[Hashable]:
        """The class labels in row order: the order in which they were learned, until one is forgotten."""
        return list(self._labels)

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
            raise ValueError('These statistics keep no scatter: make them with scatter="pooled".')
        if self.scatter_kind == "pooled" and self._pooled is not None:
            return self._pooled
        return np.asarray(self._class_scatter.rows.sum(axis=0))

    def row(self, label: Any) -> int:
        """Return the row of a class, or say that there is no such class."""
        try:
            return self._row_of[as_key(label)]
        except KeyError:
            raise KeyError(f"There is no class {as_key(label)!r} among the {len(self)} known ones.") from None

    def rows(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows of classes that are known."""
        return np.fromiter(map(self._row_of.__getitem__, labels.tolist()), np.intp, len(labels))

    def count(self, label: Any) -> float:
        """Return the weight of the samples of one class."""
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
            raise ValueError('The scatter of one class is kept only with scatter="per_class".')
        return np.array(self._class_scatter.rows[self.row(label)])

    @classmethod
    def restore(
        cls,
        labels: Iterable[Hashable],
        counts: Floats,
        sums: Floats,
        scatter: ScatterKind = "none",
        scatter_matrices: Floats | None = None,
    ) -> ClassStatistics:
        """Make statistics from arrays in row order; (D, D) pooled or (K, D, D) per-class scatter."""
        if scatter != "none" and scatter_matrices is None:
            raise ValueError(f'scatter="{scatter}" needs its scatter_matrices.')
        statistics = cls(scatter)
        statistics._set_labels(labels)
        statistics._counts, statistics._sums = GrowingRows(counts), GrowingRows(sums)
        if scatter == "pooled":
            statistics._pooled = np.array(scatter_matrices)
        elif scatter == "per_class" and scatter_matrices is not None:
            statistics._class_scatter = GrowingRows(scatter_matrices)
        return statistics

    # -- learning ---------------------------------------------------------------------------------

    def add(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ClassStatistics:
        """Add labeled samples, in place, and return these statistics.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            Labels; those not seen before become new classes.
        sample_weight : array of shape (n,), optional
            Non-negative weights; a sample of weight 0 is ignored.
        """
        return self._combine(self._of_samples(X, y, sample_weight), sign=1)

    def subtract(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ClassStatistics:
        """Take away samples that were added before, in place. A class left with no sample is forgotten."""
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
        """Return independent statistics with the same content."""
        other = ClassStatistics(self.scatter_kind)
        other._set_labels(self._labels)
        other._counts = self._counts.copy()
        other._sums = None if self._sums is None else self._sums.copy()
        other._class_scatter = self._class_scatter.copy()
        other._pooled = None if self._pooled is None else self._pooled.copy()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> ClassStatistics:
        other = self.copy()
        # An index refers to this very list: a copy of both keeps them together.
        other._labels = memo.setdefault(id(self._labels), other._labels)
        return other

    def rows_changed_with(self, labels: Iterable[Any]) -> NDArray[np.intp]:
        """Return the rows that may change with these classes: theirs, and the last ones, which fill gaps."""
        names = {as_key(label) for label in labels}
        rows = {self._row_of[name] for name in names if name in self._row_of}
        return np.array(sorted(rows.union(range(len(self))[-len(names) or len(self) :])), dtype=np.intp)

    def restorer(self, labels: Iterable[Any]) -> Callable[[], None]:
        """Return a function that undoes the next change of these classes, whatever was done of it."""
        names, attributes, n_classes = [as_key(label) for label in labels], dict(vars(self)), len(self)
        rows = self.rows_changed_with(names)
        kept = [(row, self._labels[row]) for row in rows.tolist()]
        parts = [part.restorer(rows) for part in self._growing]

        def restore() -> None:
            vars(self).update(attributes)
            stale = [*self._labels[n_classes:], *(self._labels[row] for row, _ in kept if row < len(self))]
            for label in [*names, *stale]:
                self._row_of.pop(label, None)
            self._labels[n_classes:] = [None] * (n_classes - len(self))  # in place: an index refers to it
            for row, label in kept:
                self._labels[row], self._row_of[label] = label, row

        return in_turn([restore, *parts])

    @property
    def _growing(self) -> list[GrowingRows]:
        """What has one row for each class."""
        parts = self._counts, self._sums, self._class_scatter if self.scatter_kind == "per_class" else None
        return [part for part in parts if part is not None]

    # -- correcting -------------------------------------------------------------------------------

    def forget(self, label: Any) -> None:
        """Forget a class. The last class takes its row."""
        row = self.row(label)
        last = self._labels.pop()
        del self._row_of[as_key(label)]
        if row < len(self._labels):
            self._labels[row] = last
            self._row_of[last] = row
        for part in self._growing:
            part.remove(row)

    def rename(self, old: Any, new: Any) -> None:
        """Give a class another name that no class has yet."""
        row = self.row(old)
        if as_key(new) != as_key(old) and new in self:
            raise ValueError(f"There is a class {as_key(new)!r} already: merge the two classes instead.")
        self._check_name(new)
        del self._row_of[self._labels[row]]
        self._labels[row] = as_key(new)
        self._row_of[as_key(new)] = row

    def merge(self, labels: Iterable[Any], into: Any) -> None:
        """Make one class named `into` of several; the result is as if they had always been one."""
        parts = list(dict.fromkeys(as_key(label) for label in labels))
        if not parts:
            raise ValueError("merge needs at least one class.")
        if into in self and as_key(into) not in parts:
            parts.append(as_key(into))
        rows = [self.row(label) for label in parts]  # every label is looked up before anything changes
        self._check_name(into)
        merged = ClassStatistics(self.scatter_kind)
        for row in rows:
            merged += self._of_row(row, into)
        for label in parts:
            self.forget(label)
        self += merged

    # -- the one operation behind all of them -----------------------------------------------------

    def _of_samples(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> ClassStatistics:
        """Statistics of a batch alone."""
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
        scatter = np.zeros((0, 0))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            sums = of_classes.sums()
            means = sums / of_classes.counts[:, np.newaxis]
            if self.scatter_kind == "pooled":
                self._pooled = scatter = of_classes.scatter(means)
            elif self.scatter_kind == "per_class":
                scatter = of_classes.class_scatters(means)
                self._class_scatter = GrowingRows(scatter)
            spread = np.trace(scatter, axis1=-2, axis2=-1)
        if not np.all(np.isfinite(sums)) or not np.all(np.isfinite(spread)):
            raise ValueError("Input X contains NaN or infinity, or values too large to be summed up.")
        self._counts, self._sums = GrowingRows(of_classes.counts), GrowingRows(sums)

    def _of_row(self, row: int, label: Any) -> ClassStatistics:
        """Statistics of one class alone under another name; its share of a pooled scatter stays behind."""
        n_features = self.sums.shape[1]
        scatter = None
        if self.scatter_kind == "per_class":
            scatter = self._class_scatter.rows[row : row + 1]
        elif self.scatter_kind == "pooled":
            scatter = np.zeros((n_features, n_features))
        counts, sums = self.counts[row : row + 1], self.sums[row : row + 1]
        return ClassStatistics.restore([as_key(label)], counts, sums, self.scatter_kind, scatter)

    def _set_labels(self, labels: Iterable[Hashable]) -> None:
        self._labels = list(labels)
        self._row_of = {label: row for row, label in enumerate(self._labels)}

    def _check_name(self, label: Any) -> None:
        """Refuse a name that could not have been learned."""
        check_labels([as_key(label)])
        self._check_kind([label])

    def _check_kind(self, labels: Sequence[Any]) -> None:
        if len(self):
            label_kind([self._labels[0], *map(as_key, labels)])

    def check_combines(self, other: ClassStatistics, sign: Literal[1, -1] = 1) -> None:
        """Raise the error that adding the others (with sign = -1, subtracting them) would raise."""
        if self.scatter_kind != other.scatter_kind:
            raise ValueError(f"Scatter {self.scatter_kind!r} and {other.scatter_kind!r} do not combine.")
        if self.n_features is not None and other.n_features not in (None, self.n_features):
            raise ValueError(f"{self.n_features} and {other.n_features} features do not combine.")
        self._check_kind(other._labels[:1])
        for label, count in zip(other._labels, other.counts, strict=True) if sign < 0 else ():
            if label not in self or self.count(label) < count * (1 - _NOTHING):
                raise ValueError(f"Class {label!r} has fewer samples than are to be taken away from it.")

    def _combine(self, other: ClassStatistics, sign: Literal[1, -1]) -> ClassStatistics:
        """Add the other's classes (sign = 1) or subtract them (sign = -1).

        Chan's update: joining parts a and b of a class adds
        ``n_a n_b / (n_a + n_b) (mu_a - mu_b)(mu_a - mu_b)^T`` to the sum of their scatters; parting
        them takes the same away.
        """
        self.check_combines(other, sign)
        if other._sums is None:
            return self
        if self._sums is None:
            copied = vars(other.copy())
            self._labels += copied.pop("_labels")  # an index may refer to this very list
            vars(self).update(copied)
            return self
        self._append_empty([label for label in other._labels if label not in self._row_of], self._sums)
        rows = np.array([self._row_of[label] for label in other._labels], dtype=np.intp)
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
        for label in [label for label, some in zip(other._labels, left[:, 0], strict=True) if not some]:
            self.forget(label)
        return self

    def _combine_scatter(
        self, rows: NDArray[np.intp], other: ClassStatistics, between: Floats, sign: Literal[1, -1]
    ) -> None:
        if self._pooled is not None and other._pooled is not None:
            pooled = self._pooled + (other._pooled if sign > 0 else -other._pooled)
            if between.any():  # not where all classes are new
                pooled += sign * (between.T @ between)
            self._pooled = pooled  # not changed in place, so that it can be restored
        if self.scatter_kind == "per_class":
            n_at_once = max(1, _NUMBERS_AT_ONCE // max(1, between.shape[1] ** 2))
            for start in range(0, len(rows), n_at_once):
                some = slice(start, start + n_at_once)
                joined = np.einsum("ki,kj->kij", between[some], between[some])
                joined += other._class_scatter.rows[some]
                self._class_scatter.rows[rows[some]] += sign * joined

    def _append_empty(self, labels: Sequence[Hashable], sums: GrowingRows) -> None:
        for label in labels:
            self._row_of[label] = len(self._labels)
            self._labels.append(label)
        n_features = sums.rows.shape[1]
        self._counts.extend(np.zeros(len(labels)))
        sums.extend(np.zeros((len(labels), n_features)))
        if self.scatter_kind == "per_class":
            self._class_scatter.extend(np.zeros((len(labels), n_features, n_features)))
