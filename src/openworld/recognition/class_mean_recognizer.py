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

from openworld.index import ExactIndex
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.growing_rows import GrowingRows
from openworld.recognition.labels import (
    answers,
    as_array,
    as_key,
    check_labels,
    check_unknown_label,
)
from openworld.recognition.learning import (
    as_float,
    check_announced,
    continue_training,
    start_training,
    unchanged_on_error,
)
from openworld.recognition.metric_learning import NCMMetric

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
    change, and searched in the order of their labels.
    """

    metric: Any
    unknown_label: Any
    metric_: Any
    statistics_: ClassStatistics
    # Whether far from all data, in every direction of the metric's space, the answer is unknown. With fewer
    # components than features some directions are lost before they get there (Theorem 2).
    accepts_bounded_region = True

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
            self.statistics_.check_combines(batch)
            if hasattr(self.metric_, "partial_fit"):
                self.metric_ = deepcopy(self.metric_).partial_fit(as_float(samples), labels)
                self.statistics_ = self.statistics_ + batch
                self._project_all()
            else:
                self._learn_batch(batch)
        return self

    def _learn_batch(self, batch: ClassStatistics) -> None:
        """Update the means of the batch's classes; the cost does not depend on how many others there are.

        The new means are projected before anything changes, so where that fails nothing has changed.
        """
        counts, sums = batch.counts.copy(), batch.sums.copy()
        known = [label in self.statistics_ for label in batch.labels]
        if any(known):
            rows = self._rows(label for label, is_known in zip(batch.labels, known, strict=True) if is_known)
            counts[known] += self.statistics_.counts[rows]
            sums[known] += self.statistics_.sums[rows]
        projected = self._project(sums / counts[:, np.newaxis])
        self.statistics_ += batch
        self._projected.extend(projected[~np.array(known)])
        self._projected.rows[self._rows(batch.labels)] = projected
        self._changed()

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
        self._projected.remove(row)
        self._changed()

    def rename_class(self, old: Any, new: Any) -> None:
        """Give a class another name that no class has yet."""
        check_is_fitted(self)
        self._check_new_label(new)
        self.statistics_.rename(old, new)
        self._changed()

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Make one class of several, with the mean of all their samples."""
        check_is_fitted(self)
        self._check_new_label(into)
        self.statistics_.merge(labels, into)
        self._project_all()

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
        empty._project_all()
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
        whole._project_all()
        return whole

    # -- recognizing ------------------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """The known classes, sorted."""
        check_is_fitted(self, "statistics_")
        return self._search()[0] if len(self.statistics_) else as_array([])

    def nearest_classes(self, X: ArrayLike, n: int = 5) -> tuple[NDArray[Any], Floats]:
        """Find the n nearest classes of each sample, whether or not they would be the answer.

        Returns
        -------
        labels : array of shape (n_samples, n)
        distances : array of shape (n_samples, n)
            Ascending, in the metric.
        """
        classes, _ = self._search()
        distances, positions = self._nearest(X, min(n, len(classes)))
        return classes[positions], distances

    def _nearest(self, X: ArrayLike, n: int = 1) -> tuple[Floats, NDArray[np.intp]]:
        """Return distances to and positions in `classes_` of the n nearest classes."""
        index = self._search()[1]
        found = [index.nearest(projected, n) for projected in self._projected_chunks(X)]
        return np.concatenate([d for d, _ in found]), np.concatenate([p for _, p in found])

    def _squared_distances(self, X: ArrayLike) -> Floats:
        """Return the squared distance of every sample to every class in `classes_`."""
        index = self._search()[1]
        return np.concatenate([index.squared_distances(chunk) for chunk in self._projected_chunks(X)])

    def _projected_chunks(self, X: ArrayLike) -> Iterator[Floats]:
        samples: NDArray[Any] = validate_data(self, X, reset=False, dtype="numeric")
        n_rows = int(np.clip(_CHUNK_DISTANCES // max(1, len(self.statistics_)), 16, _CHUNK_ROWS))
        for start in range(0, len(samples), n_rows):
            chunk = as_float(samples[start : start + n_rows])
            # What overflows is an outlier for all classes. X was found finite above: once is enough.
            with np.errstate(over="ignore", invalid="ignore"), config_context(assume_finite=True):
                projected = np.asarray(self.metric_.transform(chunk))
            yield projected

    def _search(self) -> tuple[NDArray[Any], ExactIndex]:
        """Return the sorted classes and the index of their means, made anew after a change.

        Sorted, so that the answer, ties included, does not depend on the order of learning.
        """
        check_is_fitted(self, "statistics_")
        if not len(self.statistics_):
            raise ValueError("This recognizer knows no class yet: teach it one with partial_fit.")
        if not self._cache:
            classes = as_array(self.statistics_.labels)
            order = np.argsort(classes, kind="stable")
            means = self._projected.rows
            in_order = bool(np.all(order[1:] > order[:-1]))
            self._cache.append((classes[order], ExactIndex(means.copy() if in_order else means[order])))
        return self._cache[0]

    def _rows(self, labels: Iterable[Any]) -> NDArray[np.intp]:
        return np.array([self.statistics_.row(label) for label in labels], dtype=np.intp)

    def _project(self, means: Floats) -> NDArray[np.float64]:
        """Project class means, and refuse those so far away that distances to them overflow."""
        projected = np.asarray(self.metric_.transform(means), dtype=np.float64)
        if not np.all(np.abs(projected) < _FARTHEST):
            raise ValueError(
                f"A class mean lies {_FARTHEST:g} or more away from the starting classes, too far to tell "
                "distances: look for wrong values in X, or for features that hardly vary."
            )
        return projected

    def _project_all(self) -> None:
        if len(self.statistics_):
            projected = self._project(self.statistics_.means)
        else:
            projected = self._project(np.zeros((1, self.n_features_in_)))[:0]
        self._projected = GrowingRows(projected)
        self._cache: list[tuple[NDArray[Any], ExactIndex]] = []

    def _restore(self, metric: Any, statistics: ClassStatistics, projected: NDArray[np.float64]) -> None:
        """Set what was learnt, as read from a model file."""
        self.metric_, self.statistics_ = metric, statistics
        self._projected, self._cache = GrowingRows(projected), []

    def _changed(self) -> None:
        self._cache.clear()

    def _answers(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        return answers(self._search()[0], positions, self.unknown_label_)

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
