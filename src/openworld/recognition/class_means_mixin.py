"""ClassMeansMixin: the methods that all recognizers based on class means share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from openworld.index import IndexKind
from openworld.index.growing_rows import Restorer
from openworld.recognition.class_means import ClassMeans
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.validation import (
    as_array,
    as_key,
    check_announced,
    check_labels,
    check_samples,
    check_unknown_label,
    continue_training,
)

Floats = NDArray[np.floating[Any]]


class ClassMeansMixin:
    """Methods to learn and correct classes, add models and search for the nearest classes.

    They operate on `class_means_`, the `ClassMeans` object that `fit` creates.
    """

    class_means_: ClassMeans
    unknown_label_: Any
    index: IndexKind
    calibrates_itself = False
    keeps_samples = False

    # -- learning ---------------------------------------------------------------------------------

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the starting classes."""

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn further samples, of known and of new classes, as `NearestNonOutlier` does."""
        check_announced(y, classes)
        if not hasattr(self, "class_means_"):
            return self.fit(X, y, sample_weight)
        samples, labels = continue_training(self, X, y, sample_weight)
        self.class_means_ = self.class_means_.learn(samples, labels)
        return self

    # -- correcting -------------------------------------------------------------------------------

    def forget_class(self, label: Any) -> None:
        """Forget a class. From then on its samples are unknown, or recognized as another class nearby."""
        check_is_fitted(self)
        self.class_means_.forget(label)

    def rename_class(self, old: Any, new: Any) -> None:
        """Rename a class. No other class may have the new name."""
        check_is_fitted(self)
        check_unknown_label(self.unknown_label_, check_labels([as_key(new)]))
        self.class_means_.rename(old, new)

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Merge several classes into one, whose mean is that of all their samples."""
        check_is_fitted(self)
        check_unknown_label(self.unknown_label_, check_labels([as_key(into)]))
        self.class_means_.merge(labels, into)

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes the next change to these classes exactly, to the last bit."""
        attributes = partial(vars(self).update, dict(vars(self)))
        return Restorer([attributes, self.class_means_.restorer(labels)])

    # -- adding models ----------------------------------------------------------------------------

    @property
    def metric_is_frozen(self) -> bool:
        """Whether the metric is fixed, so that learning only updates class means."""
        return not hasattr(self.class_means_.metric, "partial_fit")

    def learn_statistics(self, batch: ClassStatistics) -> None:
        """Learn the counts and sums of a batch, all or nothing. The metric must be fixed."""
        if len(batch):
            check_unknown_label(self.unknown_label_, as_array(batch.labels))
        self.class_means_.add(batch)

    def without_classes(self) -> Self:
        """Return a copy with the same metric and threshold but no classes.

        Such copies can learn on other machines. Adding them to this model gives the same model as learning
        everything in one place.
        """
        check_is_fitted(self)
        empty = copy(self)
        empty.class_means_ = self.class_means_.empty()
        return empty

    def __add__(self, other: Self) -> Self:
        if type(self) is not type(other):
            raise ValueError(
                "Only models of the same type can be added. Create the parts with without_classes()."
            )
        if len(other.statistics_):
            check_unknown_label(self.unknown_label_, other.classes_)
        whole = copy(self)
        whole.class_means_ = self.class_means_ + other.class_means_
        return whole

    # -- recognizing ------------------------------------------------------------------------------

    @property
    def metric_(self) -> Any:
        """The fitted metric. It can be replaced by one that maps every sample to the same point."""
        return self.class_means_.metric

    @metric_.setter
    def metric_(self, metric: Any) -> None:
        self.class_means_.metric = metric

    @property
    def statistics_(self) -> ClassStatistics:
        """Sample count and feature sum of each class."""
        return self.class_means_.statistics

    @property
    def classes_(self) -> NDArray[Any]:
        """The known classes, sorted."""
        check_is_fitted(self)
        return self.class_means_.classes

    def class_mean(self, label: Any) -> NDArray[np.float64]:
        """Return the mean of a class in feature space, shape (D,)."""
        check_is_fitted(self)
        return self.statistics_.mean(label)

    def nearest_classes(self, X: ArrayLike, n: int = 5) -> tuple[NDArray[Any], Floats]:
        """Find the n nearest classes of each sample, accepted or not.

        Returns
        -------
        labels : array of shape (n_samples, n)
        distances : array of shape (n_samples, n)
            Ascending, measured in the metric.
        """
        means = self._known()
        distances, rows = means.nearest(self._checked(X), n)
        return means.labels_of(rows), distances

    def optimize(self) -> Self:
        """Rebuild the index of the class means for the current number of classes.

        Learning only updates the index, which keeps it correct but not optimal. Call this offline after the
        number of classes has grown many times over; for a million classes it takes about two minutes.
        Predictions stay the same, except for the few cases in which approximate search misses the nearest
        class.
        """
        self._known().optimize(self.index)
        return self

    def refresh(self, like: Self | None = None) -> Self:
        """Compute now what the next prediction on float32 samples would otherwise compute first."""
        self._known().refresh()
        return self

    def _known(self) -> ClassMeans:
        check_is_fitted(self)
        if not len(self.class_means_.statistics):
            raise ValueError("This recognizer knows no classes yet. Learn some with partial_fit.")
        return self.class_means_

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        return check_samples(self, X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "class_means_")
