"""What all recognizers by class means share: learning, correcting, and finding the nearest means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from openworld.index import Index, IndexKind, Training, make_index
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.metric.ncm import LinearMetric, NCMMetric
from openworld.recognition.validation import (
    answers,
    as_array,
    as_float,
    as_key,
    check_announced,
    check_labels,
    check_unknown_label,
    continue_training,
    start_training,
    unchanged_on_error,
)

Floats = NDArray[np.floating[Any]]

# Samples are worked on in chunks of about this many distances, so memory does not grow with their number.
_CHUNK_DISTANCES = 1 << 22
_CHUNK_ROWS = 4096
# The square of a distance up to this one is a finite float32 in any number of dimensions in use.
_FARTHEST = 1e17


class ClassMeanRecognizer(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A metric, a set of class means, and the rule of a subclass for what to answer.

    What is learnt about the classes is kept as sums in the space of the features
    (`ClassStatistics`), so learning a class changes no other class's mean, and the order and the
    pieces in which samples come make no difference. The means are projected by the metric when they
    change and kept in an index, where a change of one does not touch the others. Of equally near classes
    the first in the order of their labels is taken, whatever the order in which they were learnt.
    """

    metric: Any
    unknown_label: Any
    index: IndexKind = "auto"
    metric_: Any
    statistics_: ClassStatistics
    # Whether far from all data, in every direction of the metric's space, the answer is unknown. With fewer
    # components than features some directions are lost before they get there (Theorem 2).
    accepts_bounded_region = True
    calibrates_itself = False

    # -- learning ---------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn metric, class means and whatever else the rule needs from the starting classes.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            Labels: integers, strings or booleans, none of them the unknown label.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            samples, labels = start_training(self, X, y)
            self._learn_parameters(samples, labels)
            self.statistics_ = ClassStatistics("none").add(samples, labels)
            self._project_all()
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn new samples, of known and of new classes alike, without touching the other classes.

        A metric that has no `partial_fit` of its own stays frozen, as in the paper. On a recognizer
        that was never fitted this is the same as `fit`: the samples are the starting classes.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
        classes : array, optional
            Not needed. Where it is given, as scikit-learn does, a label outside it is refused.

        Returns
        -------
        self
        """
        check_announced(y, classes)
        if not hasattr(self, "statistics_"):
            return self.fit(X, y)
        with unchanged_on_error(self):
            samples, labels = continue_training(self, X, y)
            batch = ClassStatistics("none").add(samples, labels)
            if self.metric_is_frozen:
                self.learn_statistics(batch)
            else:
                self.statistics_.check_combines(batch)
                self.metric_ = deepcopy(self.metric_).partial_fit(as_float(samples), labels)
                self.statistics_ = self.statistics_ + batch
                self._project_all()
        return self

    @property
    def metric_is_frozen(self) -> bool:
        """Whether the metric stays as it is, so that samples are learnt by their class means alone."""
        return not hasattr(self.metric_, "partial_fit")

    def learn_statistics(self, batch: ClassStatistics) -> None:
        """Learn samples of which counts and sums are given; the metric must be a frozen one.

        The cost does not depend on how many other classes there are. The new means are projected before
        anything changes, so where that fails nothing has changed.
        """
        if not len(batch):
            return
        check_unknown_label(self.unknown_label_, as_array(batch.labels))
        self.statistics_.check_combines(batch)
        counts, sums = batch.counts.copy(), batch.sums.copy()
        known = [label in self.statistics_ for label in batch.labels]
        if any(known):
            rows = self._rows(label for label, is_known in zip(batch.labels, known, strict=True) if is_known)
            counts[known] += self.statistics_.counts[rows]
            sums[known] += self.statistics_.sums[rows]
        projected = self._project(sums / counts[:, np.newaxis])
        self.statistics_ += batch
        if any(known):
            self._index.replace(rows, projected[known])
        self._index.add(projected[~np.array(known)])
        self._changed(batch.labels, [])

    def _learn_parameters(self, X: Floats, labels: NDArray[Any]) -> None:
        """Learn what stays fixed after the starting classes: here the metric."""
        self.metric_ = self._new_metric().fit(as_float(X), labels)

    def _new_metric(self) -> Any:
        return NCMMetric() if self.metric is None else clone(self.metric)

    # -- correcting -------------------------------------------------------------------------------

    def forget_class(self, label: Any) -> None:
        """Forget a class: from now on its samples are unknown, or belong to whatever else is near."""
        check_is_fitted(self)
        row = self.statistics_.row(label)
        if len(self.statistics_) == 1:
            raise ValueError(f"{as_key(label)!r} is the only class left; a recognizer needs at least one.")
        self.statistics_.forget(label)
        self._index.remove(row)
        self._changed([], [as_key(label)])

    def rename_class(self, old: Any, new: Any) -> None:
        """Give a class another name that no class has yet."""
        check_is_fitted(self)
        self._check_new_label(new)
        self.statistics_.rename(old, new)
        self._changed([as_key(new)], [as_key(old)])

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Make one class of several, with the mean of all their samples."""
        check_is_fitted(self)
        self._check_new_label(into)
        parts = list(dict.fromkeys(as_key(label) for label in labels))
        gone = [*parts, as_key(into)] if into in self.statistics_ and into not in parts else parts
        rows = self._rows(gone).tolist()
        self.statistics_.merge(parts, into)
        while rows:  # as in the statistics, the last row takes the place of the one that goes
            row, last = rows.pop(0), len(self._index) - 1
            self._index.remove(row)
            rows = [row if other == last else other for other in rows]
        self._index.add(self._project(self.statistics_.mean(into)[np.newaxis]))
        self._changed([as_key(into)], gone)

    def _check_new_label(self, label: Any) -> None:
        check_unknown_label(self.unknown_label_, check_labels([as_key(label)]))

    # -- adding models ----------------------------------------------------------------------------

    def without_classes(self) -> Self:
        """Return a copy with the same metric and threshold that knows no class yet.

        Such copies can learn on other machines; adding them to this model gives the model that would
        have learnt everything itself.
        """
        check_is_fitted(self)
        empty = deepcopy(self)
        empty.statistics_ = ClassStatistics("none")
        empty._project_all(self._index.origin)
        return empty

    def __add__(self, other: Self) -> Self:
        if type(self) is not type(other) or not _same_metric(self.metric_, other.metric_):
            raise ValueError(
                "Only models that share one metric can be added: make the parts with without_classes()."
            )
        if len(other.statistics_):
            check_unknown_label(self.unknown_label_, other.classes_)
        whole = deepcopy(self)
        whole.statistics_ += other.statistics_
        whole._project_all(self._index.origin)
        return whole

    # -- recognizing ------------------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """The known classes, sorted."""
        check_is_fitted(self, "statistics_")
        return self._sorted()[0]

    def class_mean(self, label: Any) -> NDArray[np.float64]:
        """Return the mean of a class in the space of the features, shape (D,)."""
        check_is_fitted(self, "statistics_")
        return self.statistics_.mean(label)

    def refresh(self) -> Self:
        """Compute now what the next prediction on float32 samples would compute first."""
        self._known_index().prepare(np.float32)
        self._sorted()
        self._labels_of(np.empty(0, dtype=np.intp))
        return self

    def nearest_classes(self, X: ArrayLike, n: int = 5) -> tuple[NDArray[Any], Floats]:
        """Find the n nearest classes of each sample, whether or not they would be the answer.

        Returns
        -------
        labels : array of shape (n_samples, n)
        distances : array of shape (n_samples, n)
            Ascending, in the metric.
        """
        distances, rows = self._nearest(X, n)
        return self._labels_of(rows), distances

    def optimize(self) -> Self:
        """Make the index of the class means anew, for as many classes as there are now.

        Learning never does so: after `fit` the index only takes up what changes, and stays right. Call this
        when the number of classes has grown many times over, where nobody waits for an answer: for a million
        classes it takes two minutes or so. Predictions before and after are the same, but for the few cases
        in which an approximate search misses the nearest class.
        """
        self._known_index()
        self._make_index(self._index.means, self._index.origin)
        return self

    def _nearest(
        self, X: ArrayLike, n: int = 1, boundary: float | None = None
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Return distances to and rows of the n nearest classes; those beyond the boundary do not count."""
        index = self._known_index()
        found = [index.nearest(projected, n, boundary) for projected in self._projected_chunks(X, 1)]
        return np.concatenate([d for d, _ in found]), np.concatenate([p for _, p in found])

    def _squared_distances(self, X: ArrayLike) -> Floats:
        """Return the squared distance of every sample to every class in `classes_`."""
        index = self._known_index()
        chunks = self._projected_chunks(X, len(index))
        return self._in_order(np.concatenate([index.squared_distances(chunk) for chunk in chunks]))

    def _projected_chunks(self, X: ArrayLike, n_columns: int) -> Iterator[Floats]:
        """Yield projected samples, as many at a time as leave room for so many numbers about each."""
        samples: NDArray[Any] = validate_data(self, X, reset=False, dtype="numeric")
        n_rows = int(np.clip(_CHUNK_DISTANCES // n_columns, 16, _CHUNK_ROWS))
        for start in range(0, len(samples), n_rows):
            chunk = as_float(samples[start : start + n_rows])
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is an outlier for all classes
                projected = self._mapped(chunk)
            yield projected

    def _mapped(self, samples: Floats) -> Floats:
        """Apply the metric to samples found sound before, which a linear one need not look at once more."""
        if getattr(type(self.metric_), "transform", None) is LinearMetric.transform:
            folded, offset = self.metric_._affine[samples.dtype]
            return np.asarray(samples @ folded - offset)
        with config_context(assume_finite=True):
            return np.asarray(self.metric_.transform(samples))

    # -- the index, by rows of the statistics -------------------------------------------------------

    def _known_index(self) -> Index:
        check_is_fitted(self, "statistics_")
        if not len(self.statistics_):
            raise ValueError("This recognizer knows no class yet: teach it one with partial_fit.")
        return self._index

    def _make_index(
        self,
        projected: NDArray[np.float64],
        origin: NDArray[np.float64] | None,
        training: Training | None = None,
    ) -> None:
        # A metric that moves with every batch moves all means: lists found for them would serve once.
        moving = self.index == "auto" and hasattr(self.metric_, "partial_fit")
        kind: IndexKind = "exact" if moving else self.index
        self._index = make_index(kind, projected, origin, self.statistics_._labels, training)
        self._cache: dict[str, Any] = {}

    def _sorted(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the classes in sorted order and their rows, found anew after a change."""
        if "sorted" not in self._cache:
            classes = as_array(self.statistics_.labels)
            order = np.argsort(classes, kind="stable")
            self._cache["sorted"] = classes[order], order
        found: tuple[NDArray[Any], NDArray[np.intp]] = self._cache["sorted"]
        return found

    def _in_order(self, columns: Floats) -> Floats:
        """Return columns that stand by row in the order of `classes_`."""
        order = self._sorted()[1]
        return columns if np.all(order[1:] > order[:-1]) else columns[:, order]

    def _labels_of(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Return the labels of rows in the type that all classes together have."""
        if "dtype" not in self._cache:
            self._cache["dtype"] = as_array(self.statistics_._labels).dtype
        labels = self.statistics_._labels
        named = np.array([labels[row] for row in rows.ravel().tolist()], dtype=self._cache["dtype"])
        return named.reshape(rows.shape)

    def _rows(self, labels: Iterable[Any]) -> NDArray[np.intp]:
        return np.array([self.statistics_.row(label) for label in labels], dtype=np.intp)

    def _project(self, means: Floats) -> NDArray[np.float64]:
        """Project class means, and refuse those so far away that distances to them overflow."""
        projected = np.asarray(self._mapped(means), dtype=np.float64)
        if not np.all(np.abs(projected) < _FARTHEST):
            raise ValueError(
                f"A class mean lies {_FARTHEST:g} or more away from the starting classes, too far to tell "
                "distances: look for wrong values in X, or for features that hardly vary."
            )
        return projected

    def _project_all(self, origin: NDArray[np.float64] | None = None) -> None:
        """Project all means, to be seen from an origin that stays; by default from their midst."""
        if len(self.statistics_):
            projected = self._project(self.statistics_.means)
        else:
            projected = self._project(np.zeros((1, self.n_features_in_)))[:0]
        self._make_index(projected, origin)

    def _restore(
        self,
        metric: Any,
        statistics: ClassStatistics,
        projected: NDArray[np.float64],
        origin: NDArray[np.float64] | None = None,
        training: Training | None = None,
    ) -> None:
        """Set what was learnt, as read from a model file."""
        self.metric_, self.statistics_ = metric, statistics
        self._make_index(projected, origin, training)

    def _changed(self, added: list[Any], removed: list[Any]) -> None:
        """Forget the order of the classes, and their type where labels that came or went may change it."""
        dtype = self._cache.get("dtype")
        self._cache = {}
        widest = bool(removed) and as_array(removed).dtype == dtype and dtype.kind in "fSU"
        if dtype is not None and not widest:
            self._cache["dtype"] = np.result_type(dtype, as_array(added).dtype) if added else dtype

    def _answers(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Turn rows into labels; row -1 becomes the unknown label."""
        return answers(
            self._labels_of(rows), np.where(rows < 0, -1, np.arange(len(rows))), self.unknown_label_
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")


def _same_metric(a: Any, b: Any) -> bool:
    left, right = list(_arrays(a)), list(_arrays(b))
    return type(a) is type(b) and len(left) == len(right) and all(map(np.array_equal, left, right))


def _arrays(part: Any) -> Iterator[NDArray[Any]]:
    """Yield every array learnt by an estimator and by the estimators inside it, as a pipeline has them."""
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _arrays(item)
    elif isinstance(part, dict | BaseEstimator):
        named = part if isinstance(part, dict) else vars(part)
        for name in sorted(named, key=str):  # a loaded estimator got its attributes in another order
            yield from _arrays(named[name])
