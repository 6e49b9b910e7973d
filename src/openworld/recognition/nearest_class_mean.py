"""Nearest class mean: the closed-set classifier the paper starts from, and its thresholded softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import validate_data

from openworld.index import IndexKind
from openworld.recognition.class_mean_recognizer import ClassMeanRecognizer
from openworld.recognition.metric.likelihood import distance_logits, log_softmax
from openworld.recognition.recognizer import Judgement
from openworld.recognition.threshold import CrossClassValidation
from openworld.recognition.thresholded import ThresholdMixin

Floats = NDArray[np.floating[Any]]


class NearestClassMean(ClassMeanRecognizer):
    """The nearest class mean in a metric (NCM). It names the nearest class and never answers unknown.

    Parameters
    ----------
    metric : transformer, optional
        By default a new `NCMMetric`, learnt on the starting classes.
    unknown_label : label, optional
        Never answered; it only may not be a class. By default -1 for numbers, "unknown" for text.
    index : {"auto", "exact", "approximate"}, default="auto"
        How the nearest mean is searched, as in `NearestNonOutlier`.

    Attributes
    ----------
    classes_ : array of shape (K,)
    metric_ : transformer
        The fitted metric.
    statistics_ : ClassStatistics
        Counts and sums of the classes in the space of the features.

    Examples
    --------
    >>> from openworld import EuclideanMetric, NearestClassMean
    >>> ncm = NearestClassMean(EuclideanMetric()).fit([[0.0], [1.0], [9.0]], ["a", "a", "b"])
    >>> ncm.predict([[2.0], [8.0]]).tolist()
    ['a', 'b']
    """

    accepts_bounded_region = False

    def __init__(
        self,
        metric: TransformerMixin | None = None,
        *,
        unknown_label: Any = None,
        index: IndexKind = "auto",
    ) -> None:
        self.metric = metric
        self.unknown_label = unknown_label
        self.index = index

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the nearest class of each sample."""
        return self._answers(self._nearest(X)[1][:, 0])

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the exponents of Eq. 1, ``-d^2 / 2``, shape (n, K), columns as in `classes_`."""
        return np.asarray(self._squared_distances(X) / -2)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithm of Eq. 1, shape (n, K)."""
        means = self._known_index().means
        chunks = self._projected_chunks(X, len(means))
        return log_softmax(self._in_order(np.concatenate([distance_logits(z, means) for z in chunks])))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return p(c|x) of Eq. 1, shape (n, K): it presumes that every sample is of a known class."""
        return np.exp(self.predict_log_proba(X))

    @property
    def threshold_(self) -> float:
        """Infinity: no distance is too far to be accepted."""
        return np.inf

    def relax_threshold(self, X: ArrayLike, y: ArrayLike) -> None:
        """Do nothing: no sample is rejected."""

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample, in one pass.

        The membership is p(c|x) of Eq. 1, which is large far from all data too.

        Parameters
        ----------
        X : array of shape (n_samples, D)
        n : int, default=5
        """
        samples: NDArray[Any] = validate_data(self, X, reset=False, dtype="numeric")
        decision, p = self.decision_function(samples), self.predict_proba(samples)
        labels, distances = self.nearest_classes(samples, n)
        best = decision.argmax(axis=1)
        rows = np.arange(len(best))
        answer = self.predict(samples)
        return Judgement(
            answer,
            answer != self.unknown_label_,
            decision[rows, best].astype(np.float64),
            p[rows, best].astype(np.float64),
            labels,
            distances.astype(np.float64),
            p[rows[:, np.newaxis], np.searchsorted(self.classes_, labels)].astype(np.float64),
            self.threshold_,
        )


class SoftmaxThreshold(ThresholdMixin, NearestClassMean):
    """NCM that answers unknown when the largest softmax probability is small (OS-NCM-STH).

    The paper's supplement has it to show that it fails: the softmax is normalized over the known
    classes, so far away from all of them the nearest one gets a probability near 1.

    Parameters
    ----------
    metric : transformer, optional
        By default a new `NCMMetric`.
    tau : float or CrossClassValidation, optional
        The threshold on ``-ln p`` of the nearest class: a sample is accepted when ``p > exp(-tau)``.
        By default found by `CrossClassValidation`.
    unknown_label : label, optional
        By default -1 for numbers, "unknown" for text.
    """

    def __init__(
        self,
        metric: TransformerMixin | None = None,
        tau: float | CrossClassValidation | None = None,
        *,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(metric, unknown_label=unknown_label)
        self.tau = tau

    def _outlyingness(self, squared_distances: Floats) -> NDArray[np.float64]:
        """Return ``-ln p`` of each class."""
        return np.asarray(-log_softmax(squared_distances / -2), dtype=np.float64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the nearest class of each sample, or answer unknown where its probability is small."""
        decision = self.decision_function(X)
        accepted = decision.max(axis=1) > 0
        rows = self._sorted()[1][decision.argmax(axis=1)]
        return self._answers(np.where(accepted, rows, -1))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return ``ln p(c|x) + tau``, shape (n, K), columns as in `classes_`: positive is accepted."""
        return np.asarray(self.predict_log_proba(X).astype(np.float64) + self.tau_)
