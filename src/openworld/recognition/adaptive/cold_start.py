"""ColdStartRecognizer: an OpenWorldRecognizer that starts from nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.index.growing_rows import Restorer
from openworld.recognition.adaptive.memory import ClassMemory, Derived
from openworld.recognition.adaptive.metric import AdaptiveMetric
from openworld.recognition.adaptive.recognizer import OpenWorldRecognizer
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.adaptive.scoring import ScoringModel
from openworld.recognition.adaptive.training import TrainingBatch
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.locking import thread_safe
from openworld.recognition.recognizer import Judgement
from openworld.recognition.validation import as_array, unchanged_on_error

Doubles = NDArray[np.float64]

FEWEST_CLASSES = 2
_NO_DECISION = -1.0  # no class accepts the sample


class StartingMemory(ClassMemory):
    """Every distinct sample of the first class, until a second class allows fitting a recognizer."""

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        reservoir = Reservoir(sys.maxsize, dtype=np.float64, most=sys.maxsize)
        nothing = ClassStatistics("none"), ClassStatistics("per_class")
        super().__init__(Representation(n_features), *nothing, reservoir)

    def batch(self) -> TrainingBatch:
        """Return everything that was learned, samples of shape (n, D)."""
        classes = as_array(self.statistics.labels)
        found, codes = self.reservoir.samples(classes, sys.maxsize)
        samples = np.asarray(found.reshape(-1, self.n_features), dtype=np.float64)
        return TrainingBatch(samples, classes[codes], self.reservoir.groups(classes), self.kept_unknowns())

    def add(self, batch: TrainingBatch) -> None:
        """Add labeled samples, and samples of no class."""
        samples, labels, groups, _ = batch
        if len(samples):
            names = list(dict.fromkeys([*self.statistics.labels, *np.unique(labels).tolist()]))
            self.reservoir.add(samples, labels, groups)
            self._count(names)
        super().add(batch._replace(samples=samples[:0], labels=labels[:0]))

    def forget(self, label: Any) -> None:
        """Forget a class."""
        self.statistics.row(label)  # which raises for a class that is not there
        self.reservoir.forget(label)
        self._count([name for name in self.statistics.labels if name != label])

    def rename(self, old: Any, new: Any) -> None:
        """Rename a class. No other class may have the new name."""
        self.statistics = deepcopy(self.statistics)
        self.statistics.rename(old, new)
        self.reservoir.rename(old, new)

    def merge(self, labels: Iterable[Any], into: Any) -> None:
        """Merge several classes into one."""
        parts = list(labels)
        self.statistics = deepcopy(self.statistics)
        self.statistics.merge(parts, into)
        self.reservoir.merge(parts, into)

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes the next change, even if it stopped halfway."""
        statistics = self.statistics  # replaced, not changed
        reservoir, unknowns = self.reservoir.copy(), self.unknowns.copy()

        def restore() -> None:
            self.statistics, self.reservoir, self.unknowns = statistics, reservoir, unknowns

        return Restorer([restore])

    def empty(self) -> ClassMemory:
        """Return a memory without classes."""
        return StartingMemory(self.n_features)

    def _count(self, names: list[Any]) -> None:
        """Compute the statistics from the samples."""
        statistics = ClassStatistics("none")
        for name in names:
            found, _ = self.reservoir.samples(np.array([name]), sys.maxsize)
            statistics.add(found, np.array([name] * len(found)))
        self.statistics = statistics


@thread_safe
class ColdStartRecognizer(OpenWorldRecognizer):
    """An `OpenWorldRecognizer` that starts from nothing: everything is unknown until it knows two classes.

    The samples of the first class are kept as they are. With the first sample of a second class it is
    fitted to all of them, and is an `OpenWorldRecognizer` from then on. Make one with `start`.

    The representation of features is that of `OpenWorldRecognizer.fit` with two classes. Choosing it again as
    classes come does not pay: see the figures in docs/results-recognition.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from openworld.recognition import ColdStartRecognizer
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ColdStartRecognizer(unknown_label=-1).start(64)
    >>> model.predict(X[:3]).tolist()
    [-1, -1, -1]
    >>> model.partial_fit(X[y == 3], y[y == 3]).predict(X[:3]).tolist()
    [-1, -1, -1]
    >>> model.partial_fit(X[y == 0], y[y == 0]).predict(X[:3]).tolist()
    [0, -1, -1]
    """

    def start(self, n_features: int) -> Self:
        """Start without classes; labels are strings unless `unknown_label` is of another kind."""
        self._validate_params()
        if n_features < 1:
            raise ValueError(f"A sample has at least 1 feature; got {n_features}.")
        self.n_features_in_ = n_features
        self.unknown_label_ = "unknown" if self.unknown_label is None else self.unknown_label
        self.metric_, self.memory_, self._derived = AdaptiveMetric(), StartingMemory(n_features), Derived()
        return self

    @property
    def is_starting(self) -> bool:
        """Whether there are too few classes to recognize anything."""
        return isinstance(getattr(self, "memory_", None), StartingMemory)

    def _learn(self, batch: TrainingBatch) -> Self:
        """Learn samples; the first samples of a second class fit the recognizer."""
        if not isinstance(self.memory_, StartingMemory):
            return super()._learn(batch)
        undo = self.memory_.restorer(np.unique(batch.labels))
        self.memory_.add(batch)
        if len(self.memory_.statistics) >= FEWEST_CLASSES:
            try:
                with unchanged_on_error(self):
                    self._learn_starting_classes(self.memory_.batch())
            except BaseException:
                undo()
                raise
        return self

    def forget_class(self, label: Any) -> None:
        """Forget a class; while starting, even the only one."""
        if not self.is_starting:
            super().forget_class(label)
            return
        self.memory_.forget(label)

    # -- recognizing while too little is known ----------------------------------------------------

    @property
    def threshold_(self) -> float:
        """The score from which a sample is accepted; 0 while starting."""
        return 0.0 if self.is_starting else super().threshold_

    def refresh(self, like: Self | None = None) -> Self:
        """Compute metric and threshold now, unless there are too few classes."""
        return self if self.is_starting else super().refresh(like)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of each sample, or unknown."""
        return self.judge(X).labels if self.is_starting else super().predict(X)

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return the judgement of samples; while starting, unknown without nearest classes."""
        if not self.is_starting:
            return super().judge(X, n)
        n_samples = len(self._checked(X))
        return Judgement(
            np.full(n_samples, self.unknown_label_),
            np.zeros(n_samples, dtype=bool),
            np.full(n_samples, _NO_DECISION),
            np.zeros(n_samples),
            np.empty((n_samples, 0), dtype=np.asarray(self.unknown_label_).dtype),
            np.empty((n_samples, 0)),
            np.empty((n_samples, 0)),
            self.threshold_,
        )

    def decision_function(self, X: ArrayLike) -> Doubles:
        """Return the decision value of every class, shape (n, K); negative while starting."""
        if not self.is_starting:
            return super().decision_function(X)
        return np.full((len(self._checked(X)), len(self.classes_)), _NO_DECISION)

    def membership(self, X: ArrayLike) -> Doubles:
        """Return the membership of each sample in each class, shape (n, K); 0 while starting."""
        if not self.is_starting:
            return super().membership(X)
        return np.zeros((len(self._checked(X)), len(self.classes_)))

    def _is_ready(self) -> bool:
        return self.is_starting or super()._is_ready()

    def _current(self) -> ScoringModel:
        if self.is_starting:
            raise ValueError(f"This recognizer knows fewer than {FEWEST_CLASSES} classes yet.")
        return super()._current()
