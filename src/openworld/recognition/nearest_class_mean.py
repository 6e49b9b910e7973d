"""Nearest class mean (NCM), the closed-set classifier that the paper extends, and its softmax threshold."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from openworld.index import IndexKind
from openworld.recognition.class_means import ClassMeans
from openworld.recognition.class_means_mixin import ClassMeansMixin
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.locking import thread_safe
from openworld.recognition.metric.likelihood import distance_logits
from openworld.recognition.metric.ncm import new_metric
from openworld.recognition.recognizer import Judgement
from openworld.recognition.threshold import (
    Calibration,
    CrossClassValidation,
    calibrator_of,
    check_tau,
    find_tau,
    fit_metric_and_tau,
    known_codes,
)
from openworld.recognition.validation import as_float, start_training, unchanged_on_error

Floats = NDArray[np.floating[Any]]


@thread_safe
class NearestClassMean(ClassMeansMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Nearest class mean in a metric (NCM). It always predicts the nearest class, never unknown.

    Parameters
    ----------
    metric : transformer, optional
        By default a new `NCMMetric`, learned on the starting classes.
    unknown_label : label, optional
        Never predicted, but no class can have this label. By default -1 for numeric labels and "unknown"
        for strings.
    index : {"auto", "exact", "approximate"}, default="auto"
        How to search for the nearest mean, as in `NearestNonOutlier`.

    Attributes
    ----------
    classes_ : array of shape (K,)
    metric_ : transformer
        The fitted metric.
    statistics_ : ClassStatistics
        Sample count and feature sum of each class.

    Examples
    --------
    >>> from openworld import EuclideanMetric, NearestClassMean
    >>> ncm = NearestClassMean(EuclideanMetric()).fit([[0.0], [1.0], [9.0]], ["a", "a", "b"])
    >>> ncm.predict([[2.0], [8.0]]).tolist()
    ['a', 'b']
    """

    accepts_bounded_region = False
    threshold_ = np.inf  # accepts any distance
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "metric": [HasMethods(["fit", "transform"]), None],
        "unknown_label": "no_validation",
        "index": [StrOptions({"auto", "exact", "approximate"})],
    }

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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric and the class means from the starting classes."""
        self._validate_params()
        with unchanged_on_error(self):
            samples, labels = start_training(self, X, y, sample_weight)
            metric = new_metric(self.metric).fit(as_float(samples), labels)
            self.class_means_ = ClassMeans(metric, ClassStatistics("none").add(samples, labels), self.index)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the nearest class of each sample."""
        means = self._known()
        return means.answers(means.nearest(self._checked(X))[1][:, 0], True, self.unknown_label_)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the exponents of Eq. 1, ``-d^2 / 2``, shape (n, K), columns as in `classes_`."""
        return np.asarray(self._known().squared_distances(self._checked(X)) / -2)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithm of Eq. 1, shape (n, K)."""
        return _log_proba(self._known(), self._checked(X))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return p(c|x) of Eq. 1, shape (n, K): it presumes that every sample is of a known class."""
        return np.exp(self.predict_log_proba(X))

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample.

        Every sample is accepted. The membership is p(c|x) of Eq. 1, which can be large far from all data.

        Parameters
        ----------
        X : array of shape (n_samples, D)
        n : int, default=5
        """
        means, samples = self._known(), self._checked(X)
        nearest, distances, memberships, rows = _nearest(means, samples, n, _log_proba(means, samples))
        return Judgement(
            means.answers(rows[:, 0], True, self.unknown_label_),
            np.ones(len(samples), dtype=bool),
            distances[:, 0] ** 2 / -2,
            memberships[:, 0],
            nearest,
            distances,
            memberships,
            self.threshold_,
        )

    def relax_threshold(self, X: ArrayLike, y: ArrayLike) -> None:
        """Do nothing, as no sample is rejected."""


@thread_safe
class SoftmaxThreshold(ClassMeansMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """NCM that predicts unknown when the largest softmax probability is small (OS-NCM-STH).

    The paper's supplement uses it to show that this fails: the softmax is normalized over the known classes,
    so far away from all of them the nearest class has a probability near 1.

    Parameters
    ----------
    metric : transformer, optional
        By default a new `NCMMetric`.
    tau : float or CrossClassValidation, optional
        The threshold on ``-ln p`` of the nearest class: a sample is accepted when ``p > exp(-tau)``.
        By default found by `CrossClassValidation`.
    unknown_label : label, optional
        By default -1 for numeric labels and "unknown" for strings.
    """

    calibration_: Calibration | None
    accepts_bounded_region = False
    index: IndexKind = "auto"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "metric": [HasMethods(["fit", "transform"]), None],
        "tau": [Interval(Real, 0, None, closed="neither"), HasMethods(["held_out", "find"]), None],
        "unknown_label": "no_validation",
    }

    def __init__(
        self,
        metric: TransformerMixin | None = None,
        tau: float | CrossClassValidation | None = None,
        *,
        unknown_label: Any = None,
    ) -> None:
        self.metric = metric
        self.tau = tau
        self.unknown_label = unknown_label

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric, the threshold and the class means from the starting classes."""
        self._validate_params()
        with unchanged_on_error(self):
            samples, labels = start_training(self, X, y, sample_weight)
            metric, self.tau_, self.calibration_ = fit_metric_and_tau(
                new_metric(self.metric), self.tau, samples, labels, _minus_log_p
            )
            self.class_means_ = ClassMeans(metric, ClassStatistics("none").add(samples, labels))
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the nearest class of each sample, or unknown if its probability is small."""
        return self._answers(self.decision_function(X))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return ``ln p(c|x) + tau``, shape (n, K), columns as in `classes_`; accepted where positive."""
        return np.asarray(self.predict_log_proba(X).astype(np.float64) + self.tau_)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithm of Eq. 1, shape (n, K)."""
        return _log_proba(self._known(), self._checked(X))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return p(c|x) of Eq. 1, shape (n, K): it presumes that every sample is of a known class."""
        return np.exp(self.predict_log_proba(X))

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample.

        The membership is p(c|x) of Eq. 1, which can be large far from all data.

        Parameters
        ----------
        X : array of shape (n_samples, D)
        n : int, default=5
        """
        means, samples = self._known(), self._checked(X)
        log_p = _log_proba(means, samples)
        decision = log_p.astype(np.float64) + self.tau_
        largest = decision.max(axis=1)
        nearest, distances, memberships, _ = _nearest(means, samples, n, log_p)
        return Judgement(
            self._answers(decision),
            largest > 0,
            largest,
            np.exp(log_p.max(axis=1).astype(np.float64)),
            nearest,
            distances,
            memberships,
            self.tau_,
        )

    def _answers(self, decision: Floats) -> NDArray[Any]:
        means = self._known()
        rows = means.in_order()[1][decision.argmax(axis=1)]
        return means.answers(rows, decision.max(axis=1) > 0, self.unknown_label_)

    @property
    def tau_(self) -> float:
        """The current threshold. It can be set at any time without fitting again."""
        return self._tau

    @tau_.setter
    def tau_(self, tau: float) -> None:
        self._tau = check_tau(tau)

    @property
    def threshold_(self) -> float:
        """The current threshold, `tau_`."""
        return self.tau_

    def recalibrate(
        self, X: ArrayLike, y: ArrayLike, calibration: CrossClassValidation | None = None
    ) -> Self:
        """Find tau again on labeled samples of known classes, as `NearestNonOutlier.recalibrate` does."""
        codes = known_codes(self.classes_, y, self.unknown_label_)
        squared = self._known().squared_distances(self._checked(X))
        calibrator = calibration or calibrator_of(self.tau) or CrossClassValidation()
        self.tau_, self.calibration_ = find_tau(calibrator, squared, codes, _minus_log_p)
        return self

    def relax_threshold(self, X: ArrayLike, y: ArrayLike, share: float = 0.1) -> None:
        """Increase tau toward samples of known classes that are still rejected."""
        own = known_codes(self.classes_, y)
        decisions = self.decision_function(X)[np.arange(len(own)), own]
        self.tau_ += share * float(np.maximum(-decisions, 0).sum())


def _minus_log_p(squared_distances: Floats) -> NDArray[np.float64]:
    return np.asarray(-log_softmax(squared_distances / -2, axis=-1), dtype=np.float64)


def _log_proba(means: ClassMeans, samples: NDArray[Any]) -> Floats:
    """Return the logarithm of Eq. 1, shape (n, K), columns as in `classes`."""
    projected = means.index.means
    logits = [distance_logits(z, projected) for z in means.projected(samples, len(projected))]
    return np.asarray(log_softmax(means.columns_in_order(np.concatenate(logits)), axis=-1))


def _nearest(
    means: ClassMeans, samples: NDArray[Any], n: int, log_p: Floats
) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Return labels, distances, probabilities and rows of the n nearest classes."""
    distances, rows = means.nearest(samples, n)
    labels = means.labels_of(rows)
    columns = np.searchsorted(means.classes, labels)
    memberships = np.exp(np.take_along_axis(log_p, columns, axis=1).astype(np.float64))
    return labels, distances.astype(np.float64), memberships, rows
