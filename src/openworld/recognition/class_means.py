"""ClassMeans: class statistics, projected means and nearest-mean index, always updated together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from openworld.index import Index, IndexKind, Training, make_index
from openworld.index.growing_rows import Restorer
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.metric.ncm import LinearMetric, same_metric
from openworld.recognition.validation import (
    answers,
    as_array,
    as_float,
    as_key,
)

Floats = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]

# Samples are processed in chunks of about this many distances, so memory does not grow with their number.
_CHUNK_DISTANCES = 1 << 22
_CHUNK_ROWS = 4096
# The square of a distance up to this one is a finite float32 in any number of dimensions in use.
_FARTHEST = 1e17


class ClassMeans:
    """Class means in a metric: statistics, projected means and index, always updated together.

    Classes are stored as sums in feature space (`ClassStatistics`), so learning one class changes no other
    class's mean, and the result does not depend on the order or the batches of the samples. A mean is
    projected when it changes, and the index is updated for that mean only. Among equally near classes the
    one with the smallest label wins.

    Parameters
    ----------
    metric : transformer
        Fitted. It is not changed.
    statistics : ClassStatistics
        Without scatter. This object takes ownership of them.
    index_kind : {"auto", "exact", "approximate"}
    origin : array of shape (m,), optional
        The origin of the index's coordinates; by default a central point among the means.
    projected : array of shape (K, m), optional
        The projected means, if they were stored in a model file.
    training : Training, optional
        The training of an approximate index, if it was stored in a model file.
    """

    def __init__(
        self,
        metric: Any,
        statistics: ClassStatistics,
        index_kind: IndexKind = "auto",
        origin: NDArray[np.float64] | None = None,
        projected: NDArray[np.float64] | None = None,
        training: Training | None = None,
    ) -> None:
        self.metric, self.statistics, self.index_kind = metric, statistics, index_kind
        self._make_index(
            self._project(statistics.means) if projected is None else projected, origin, training
        )

    def _make_index(
        self,
        projected: NDArray[np.float64],
        origin: NDArray[np.float64] | None,
        training: Training | None = None,
    ) -> None:
        # A metric that changes with every batch moves all means, so a trained index would be used only once.
        moving = self.index_kind == "auto" and hasattr(self.metric, "partial_fit")
        kind: IndexKind = "exact" if moving else self.index_kind
        self.index: Index = make_index(kind, projected, origin, self.statistics.row_labels, training)
        self._sorted: tuple[NDArray[Any], Rows] | None = None
        self._dtype: np.dtype[Any] | None = None

    # -- changing -----------------------------------------------------------------------------------

    def add(self, batch: ClassStatistics) -> None:
        """Add counts and sums of known and new classes, all or nothing.

        The cost does not depend on the number of other classes.
        """
        if not len(batch):
            return
        self.statistics.check_combines(batch)
        counts, sums = batch.counts.copy(), batch.sums.copy()
        known = np.array([label in self.statistics for label in batch.labels])
        rows = self._rows(label for label, is_known in zip(batch.labels, known, strict=True) if is_known)
        if len(rows):
            counts[known] += self.statistics.counts[rows]
            sums[known] += self.statistics.sums[rows]
        projected = self._project(sums / counts[:, np.newaxis])
        restore = self.restorer(batch.labels)
        try:
            self.statistics += batch
            if len(rows):
                self.index.replace(rows, projected[known])
            self.index.add(projected[~known])
            self._labels_changed(batch.labels, [])
        except BaseException:
            restore()
            raise

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes the next change to these classes, even if it stopped halfway."""
        names = list(labels)
        cache = partial(vars(self).update, _sorted=self._sorted, _dtype=self._dtype)
        index = self.index.restorer(self.statistics.rows_changed_with(names))
        return Restorer([cache, index, self.statistics.restorer(names)])

    def learn(self, samples: NDArray[Any], labels: NDArray[Any]) -> ClassMeans:
        """Learn samples, all or nothing, and return the updated means.

        With a fixed metric this object is updated and returned. A metric with `partial_fit` learns the
        samples too, which moves all means, so a new object is returned.
        """
        batch = ClassStatistics("none").add(samples, labels)
        if not hasattr(self.metric, "partial_fit"):
            self.add(batch)
            return self
        self.statistics.check_combines(batch)
        metric = deepcopy(self.metric).partial_fit(as_float(samples), labels)
        return ClassMeans(metric, self.statistics + batch, self.index_kind)

    def forget(self, label: Any) -> None:
        """Forget a class. The last one cannot be forgotten."""
        row = self.statistics.row(label)
        if len(self.statistics) == 1:
            raise ValueError(
                f"{as_key(label)!r} is the only class and cannot be forgotten. A recognizer needs one."
            )
        self.statistics.forget(label)
        self.index.remove(row)
        self._labels_changed([], [as_key(label)])

    def rename(self, old: Any, new: Any) -> None:
        """Rename a class. No other class may have the new name."""
        self.statistics.rename(old, new)
        self._labels_changed([as_key(new)], [as_key(old)])

    def merge(self, labels: Iterable[Any], into: Any) -> None:
        """Merge several classes into one, whose mean is that of all their samples."""
        parts = list(dict.fromkeys(as_key(label) for label in labels))
        gone = [*parts, as_key(into)] if into in self.statistics and into not in parts else parts
        rows = self._rows(gone).tolist()
        self.statistics.merge(parts, into)
        while rows:  # as in the statistics, the last row replaces the removed one
            row, last = rows.pop(0), len(self.index) - 1
            self.index.remove(row)
            rows = [row if other == last else other for other in rows]
        self.index.add(self._project(self.statistics.mean(into)[np.newaxis]))
        self._labels_changed([as_key(into)], gone)

    def empty(self) -> ClassMeans:
        """Return an object without classes that has the same metric and the same origin."""
        nothing = ClassStatistics("none")
        return ClassMeans(self.metric, nothing, self.index_kind, self.index.origin, self.index.means[:0])

    def __add__(self, other: ClassMeans) -> ClassMeans:
        if not same_metric(self.metric, other.metric):
            raise ValueError(
                "Only models with the same metric can be added. Create the parts with without_classes()."
            )
        whole = self.statistics + other.statistics
        projected = None if len(whole) else self.index.means  # empty
        return ClassMeans(self.metric, whole, self.index_kind, self.index.origin, projected)

    def optimize(self, index_kind: IndexKind) -> None:
        """Rebuild the index for the current number of classes."""
        self.index_kind = index_kind
        self._make_index(self.index.means, self.index.origin)

    # -- searching ----------------------------------------------------------------------------------

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted."""
        return self.in_order()[0]

    def in_order(self) -> tuple[NDArray[Any], Rows]:
        """Return the sorted classes and the row of each."""
        if self._sorted is None:
            classes = as_array(self.statistics.labels)
            order = np.argsort(classes, kind="stable")
            self._sorted = classes[order], order
        return self._sorted

    def nearest(
        self, samples: NDArray[Any], n: int = 1, boundary: float | None = None
    ) -> tuple[Floats, Rows]:
        """Return distances and rows of the n nearest classes; classes beyond the boundary may be missed."""
        found = [self.index.nearest(projected, n, boundary) for projected in self.projected(samples, 1)]
        return np.concatenate([d for d, _ in found]), np.concatenate([p for _, p in found])

    def squared_distances(self, samples: NDArray[Any]) -> Floats:
        """Return the squared distance of every sample to every class, columns as in `classes`."""
        parts = [self.index.squared_distances(z) for z in self.projected(samples, len(self.index))]
        return self.columns_in_order(np.concatenate(parts))

    def projected(self, samples: NDArray[Any], n_columns: int) -> Iterator[Floats]:
        """Yield projected samples in chunks small enough to hold `n_columns` numbers per sample."""
        n_rows = int(np.clip(_CHUNK_DISTANCES // n_columns, 16, _CHUNK_ROWS))
        for start in range(0, len(samples), n_rows):
            chunk = as_float(samples[start : start + n_rows])
            with np.errstate(over="ignore", invalid="ignore"):  # a sample that overflows is an outlier
                z = self._mapped(chunk)
            yield z

    def columns_in_order(self, columns: Floats) -> Floats:
        """Reorder columns from row order to the order of `classes`."""
        order = self.in_order()[1]
        return columns if np.all(order[1:] > order[:-1]) else columns[:, order]

    def labels_of(self, rows: Rows) -> NDArray[Any]:
        """Return the labels of rows, in the dtype of the array of all classes."""
        if self._dtype is None:
            self._dtype = as_array(self.statistics.row_labels).dtype
        labels = self.statistics.row_labels
        named = np.array([labels[row] for row in rows.ravel().tolist()], dtype=self._dtype)
        return named.reshape(rows.shape)

    def answers(self, rows: Rows, accepted: NDArray[np.bool_] | bool, unknown_label: Any) -> NDArray[Any]:
        """Return the label of each accepted row, and the unknown label for the rest."""
        positions = np.where(accepted, np.arange(len(rows)), -1)
        return answers(self.labels_of(np.where(accepted, rows, -1)), positions, unknown_label)

    def refresh(self) -> None:
        """Compute now what the first search for float32 samples would otherwise compute."""
        self.index.prepare(np.float32)
        self.in_order()
        self.labels_of(np.empty(0, dtype=np.intp))

    # -- projecting ---------------------------------------------------------------------------------

    def _mapped(self, samples: Floats) -> Floats:
        """Apply the metric to samples that are already validated; a linear metric skips its own checks."""
        if getattr(type(self.metric), "transform", None) is LinearMetric.transform:
            folded, offset = self.metric.affine_[samples.dtype]
            return np.asarray(samples @ folded - offset)
        with config_context(assume_finite=True):
            return np.asarray(self.metric.transform(samples))

    def _project(self, means: Floats) -> NDArray[np.float64]:
        """Project class means, and raise an error if distances to them would overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            projected = np.asarray(self._mapped(means), dtype=np.float64)
        if not np.all(np.abs(projected) < _FARTHEST):
            raise ValueError(
                f"A class mean is {_FARTHEST:g} or more away from the starting classes, too far to compute "
                "distances. Check X for wrong values and for features that hardly vary."
            )
        return projected

    def _rows(self, labels: Iterable[Any]) -> Rows:
        return np.array([self.statistics.row(label) for label in labels], dtype=np.intp)

    def _labels_changed(self, added: Sequence[Hashable], removed: Sequence[Hashable]) -> None:
        """Drop the cached order of the classes, and their dtype if the changed labels may affect it."""
        dtype, self._sorted, self._dtype = self._dtype, None, None
        if dtype is None or (removed and as_array(removed).dtype == dtype and dtype.kind in "fSU"):
            return
        self._dtype = np.result_type(dtype, as_array(added).dtype) if added else dtype
